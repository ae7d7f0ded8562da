"""verification.json: what the verification looked at, what should be there, and what is there."""

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
class Verification:
    """The checks, failed ones first, then those that warn. A run that was cancelled has `ends` and `not_moved`."""

    passed: bool
    checks: tuple[CheckResult, ...]
    verified_at: Time | None = omitted()
    again: bool | None = omitted()  # it failed only since a replica is not in sync now, which the next try may not find
    not_moved: str | None = omitted("")
    ends: Mapping[str, tuple[str, ...]] | None = omitted()  # partitions, by where they ended


VERIFICATION_FILE = JsonFile(VERIFICATION, Verification)
