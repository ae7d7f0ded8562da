"""A person approves cancel.json: to cancel now, elect a controller, or set a rate above the approved one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.cancel import cancel_words, election_words
from kafka_rebalance.cancel.actions import CANCEL_NOW, CONSENT, ELECT_CONTROLLER, SET_THROTTLE
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.moves.cancel_fates import CancelPlan, check_consent
from kafka_rebalance.moves.stuck_request import ElectionPlan
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks
from kafka_rebalance.run.approval_rules import REJECT, Answer, Question
from kafka_rebalance.run.run_folder import RunFolder


class CancelApproval(Approval):
    """If the action deletes the controller's znodes, the approver must repeat a sentence that names them."""

    behind = ("cancel", "verify", "raise_throttle", "elect_controller")  # those of other actions are skipped
    shown = (json_files.CANCEL,)

    def offer(self, folder: RunFolder) -> Offer:
        written = json_files.read_json(folder, json_files.CANCEL)
        plan = _plan(written)
        return Offer(
            connection_id=written["connection_id"],
            policy_digest=written["policy_digest"],
            digests={written["action"]: written["digest"] if plan is None else plan.digest},
            source_digest=digest_of(written),
            asked=written,
        )

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        written = json_files.read_json(folder, json_files.CANCEL)
        if written["action"] == SET_THROTTLE:
            return cancel_words.rate_subject(written), cancel_words.rate_body(written)
        words = election_words if written["action"] == ELECT_CONTROLLER else cancel_words
        return words.approval_subject(written), words.approval_body(written)

    def questions(self, folder: RunFolder, offer: Offer, policy: Policy) -> tuple[Question, ...]:
        plan = _plan(offer.asked)
        if plan is None or plan.consent is None:
            return ()
        return (Question(CONSENT, "I consent to", f"To go on, repeat word for word: {plan.consent}"),)

    def asking_approves(self, offer: Offer) -> bool:
        """What takes back moves in flight. A higher rate and another controller need a second person."""
        return bool(offer.asked["action"] == CANCEL_NOW)

    def details(self, folder: RunFolder, choice: str, answer: Answer) -> Mapping[str, Any]:
        plan = _plan(json_files.read_json(folder, json_files.CANCEL))
        if plan is None:
            return {}
        if choice != REJECT:
            check_consent(plan.consent, answer.consent)
        return {CONSENT: answer.consent}


def _plan(written: Mapping[str, Any]) -> CancelPlan | ElectionPlan | None:
    """None for a rate: its digest is in cancel.json."""
    if written["action"] == SET_THROTTLE:
        return None
    return (ElectionPlan if written["action"] == ELECT_CONTROLLER else CancelPlan).from_mapping(written["plan"])
