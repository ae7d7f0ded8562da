"""decision.json: a person's answer to a request. Later tasks compare it with the digest that went through XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_files import DECISION, JsonFile, Time, omitted

REJECT = "Reject"  # the choice that approves nothing


@dataclass(frozen=True, slots=True)
class Person:
    """A user, as Airflow's auth manager knows them."""

    id: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """If the request ended without an answer, `choice` is None and nothing else is known.

    `approved_by` is also None if the policy lets people create a topic without an approval.
    """

    choice: str | None = None
    digest: str | None = None  # of what was chosen; None: nothing was chosen
    policy_digest: str | None = None
    approved_by: Person | None = None
    approved_at: Time | None = None
    note: str | None = None
    throttle_bytes_per_second: int | None = omitted()  # for each broker
    snapshot_digest: str | None = omitted()  # of the snapshot's two tables
    request_digest: str | None = omitted()  # of the document of the run's first task; earlier versions lack it
    shown_files: Mapping[str, str] | None = omitted()  # digests of the files that the answer is about
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
        """The name of the person who decided, because an id may be a number."""
        who = self.approved_by
        return None if who is None else who.name or who.id


DECISION_FILE = JsonFile(DECISION, Decision)
