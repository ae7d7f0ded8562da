"""The actions of `kafka_rebalance_cancel`, and cancel.json: what an action would do, and to which run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.documents.json_files import CANCEL, JsonFile, Time, omitted
from kafka_rebalance.moves.cancel_plan import CancelPlan, Fate, Remaining
from kafka_rebalance.moves.stuck_request import ElectionPlan

STOP, CANCEL_NOW, ROLL_BACK, SET_THROTTLE, ELECT_CONTROLLER = ACTIONS = (
    "stop_after_batch",
    "cancel_now",
    "roll_back",
    "set_throttle",
    "elect_controller",
)
CONSENT = "i_consent_to"  # the field of an answer in which the approver consents; decision.json has the same


@dataclass(frozen=True, slots=True)
class StepShown:
    """What becomes of one partition. Lists are broker ids."""

    partition: str
    fate: Fate
    now: tuple[int, ...]
    in_sync: tuple[int, ...]
    original: tuple[int, ...]
    approved: tuple[int, ...]
    bytes_thrown_away: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """The request, the run that it is about, and what the action would do to that run."""

    action: str
    connection_id: str
    policy_digest: str | None
    requested_by: str | None
    reason: str
    observed_at: Time
    nonce: str
    cluster_id: str
    run: str  # of elect_controller: whoever holds the cluster; empty: nobody
    target_folder: str = omitted("")
    candidate_digest: str = omitted("")
    between_log_dirs: bool = omitted(False)  # the run is one of kafka_log_dirs
    cannot_restore: tuple[str, ...] = omitted(())
    remaining: Remaining | None = omitted()  # of stop_after_batch
    plan: Mapping[str, Any] | None = omitted()  # of cancel_now and elect_controller, in the form of its digest
    digest: str = omitted("")  # of what a person approves
    consent: str | None = omitted("")  # None: the plan needs none
    sizes_known: bool | None = omitted()
    steps: tuple[StepShown, ...] | None = omitted()
    deletions: tuple[str, ...] | None = omitted()  # topics whose deletion goes on with another controller
    bytes_per_second: int | None = omitted()  # of set_throttle
    approved_bytes_per_second: int | None = omitted()
    needs_approval: bool | None = omitted()  # a rate above the approved one
    partitions: int | None = omitted()  # of roll_back
    bytes: int | None = omitted()
    unchanged: int | None = omitted()
    left_out: tuple[str, ...] | None = omitted()
    conf: Mapping[str, Any] | None = omitted()  # of the run of kafka_rebalance that plans the way back

    @property
    def cancel_plan(self) -> CancelPlan:
        """Raises ArtifactError."""
        return CancelPlan.from_mapping(self.plan or {})

    @property
    def election_plan(self) -> ElectionPlan:
        """Raises ArtifactError."""
        return ElectionPlan.from_mapping(self.plan or {})

    @property
    def rate(self) -> int:
        assert self.bytes_per_second is not None  # of set_throttle
        return self.bytes_per_second


CANCEL_FILE = JsonFile(CANCEL, CancelRequest)
