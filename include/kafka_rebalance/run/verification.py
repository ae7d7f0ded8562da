"""verification.json: what was verified, what should be there, and what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_files import VERIFICATION, JsonFile, Time, omitted


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    subject: str
    expectation: str
    finding: str
    passed: bool
    severity: str = "error"  # or warning

    @property
    def warns(self) -> bool:
        return self.passed and self.severity == "warning"


@dataclass(frozen=True, slots=True)
class NotMoved:
    """Approved partitions that the run did not move because it was stopped, and why."""

    why: str = ""
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks: failed ones first, then those that warn. Of a cancel it has `ends`."""

    passed: bool
    checks: tuple[CheckResult, ...]
    verified_at: Time | None = omitted()
    again: bool | None = omitted()  # it failed only because a replica is out of sync now; the next try may pass
    not_moved: NotMoved | None = omitted(NotMoved())  # None: the run was not stopped
    ends: Mapping[str, tuple[str, ...]] | None = omitted()  # partitions by their end


VERIFICATION_FILE = JsonFile(VERIFICATION, Verification)
