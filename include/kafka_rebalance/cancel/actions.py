"""The actions of `kafka_rebalance_cancel`, and the field of an answer in which the approver consents."""

from __future__ import annotations

STOP, CANCEL_NOW, ROLL_BACK, SET_THROTTLE, ELECT_CONTROLLER = ACTIONS = (
    "stop_after_batch",
    "cancel_now",
    "roll_back",
    "set_throttle",
    "elect_controller",
)
CONSENT = "i_consent_to"  # decision.json has the same field
