"""decision.json: a person's answer to a request. Other tasks hold it against the digest that went through XCom."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import DECISION, JsonFile, Time, omitted

REJECT = "Reject"  # the choice that approves nothing


@dataclass(frozen=True, slots=True)
class Person:
    """By Airflow's auth manager."""

    id: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """`choice` is None for a request that ended without an answer; nothing else is known then.

    `approved_by` is None too where the policy lets a topic be created without an approval.
    """

    choice: str | None = None
    digest: str | None = None  # of what was chosen; None: nothing was
    policy_digest: str | None = None
    approved_by: Person | None = None
    approved_at: Time | None = None
    note: str | None = None
    throttle_bytes_per_second: int | None = omitted()  # of one broker
    snapshot_digest: str | None = omitted()
    expired: bool | None = omitted()
    i_consent_to: str | None = omitted("")  # of a cancel

    def __post_init__(self) -> None:
        if self.is_approval and self.digest is None:
            raise ValueError("Expected a digest with an approval")

    @property
    def is_approval(self) -> bool:
        return self.choice not in (None, REJECT)

    @property
    def by(self) -> str | None:
        """Who decided, by name, since an id may be a number."""
        who = self.approved_by
        return None if who is None else who.name or who.id


DECISION_FILE = JsonFile(DECISION, Decision)
