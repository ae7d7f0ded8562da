"""Named results of the verification: what was checked, what should be there, what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kafka_rebalance.documents.json_files import VERIFICATION, JsonFile, Time, omitted
from kafka_rebalance.documents.segments import Severity

# verification.json: what was verified, what should be there, and what is there.


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


AnyCheck = TypeVar("AnyCheck", "Check", CheckResult)


class CheckName(StrEnum):
    REPLICAS = "replicas"
    IN_SYNC = "in_sync"
    AT_REST = "at_rest"
    LEADER = "leader"
    SAME_TOPIC = "same_topic"
    NOT_DELETED = "not_deleted"
    EMPTIED = "emptied"
    THROTTLE = "throttle"
    THROTTLE_LEFT = "throttle_left"
    SEGMENT_SETTINGS_SOUND = "segment_settings_sound"
    SEGMENT_SETTINGS_UNCHANGED = "segment_settings_unchanged"
    SEGMENT_SETTINGS_SAME_ON_NEW_BROKER = "segment_settings_same_on_new_broker"
    PARTITION_COUNT = "partition_count"
    NEW_PARTITION = "new_partition"
    CONFIG = "config"
    DELETED = "deleted"
    LEFT_OUT = "left_out"
    LOCK = "lock"
    LOG_DIR = "log_dir"


@dataclass(frozen=True, slots=True)
class Check:
    """One result. A warning passes: a person should look at its finding, but the end is the approved one.

    `was_shown`: the approver saw the same before the approval. `about`: the entity and the key of a throttle.
    """

    name: CheckName
    subject: str
    expectation: str
    finding: str
    passed: bool
    severity: Severity = "error"
    was_shown: bool = False
    about: tuple[str, str] | None = None

    @property
    def words(self) -> str:
        return f"as shown before the approval: {self.finding}" if self.was_shown else self.finding

    @property
    def warns(self) -> bool:
        return self.passed and self.severity == "warning"

    @property
    def result(self) -> CheckResult:
        return CheckResult(str(self.name), self.subject, self.expectation, self.words, self.passed, self.severity)


@dataclass(frozen=True, slots=True)
class Summary:
    """All checks in short; `counts` is {name: (passed, all)} in the order in which the names first came."""

    passed: bool
    failed: tuple[Check, ...]
    warnings: tuple[Check, ...]
    counts: dict[str, tuple[int, int]]

    def lines(self) -> tuple[str, ...]:
        """For a log or an error: failed checks, then warnings, then one count for each name."""
        return (
            *(
                f"FAILED {check.name}, {check.subject}: {check.words} (must be: {check.expectation})"
                for check in self.failed
            ),
            *(f"warning {check.name}, {check.subject}: {check.words}" for check in self.warnings),
            *(f"{name}: {passed} of {total} passed" for name, (passed, total) in self.counts.items()),
        )

    def failure(self) -> str:
        first, total = self.failed[0], sum(of for _, of in self.counts.values())
        return (
            f"{len(self.failed)} of {total} checks failed; first {first.name} of {first.subject}: {first.words}, must "
            f"be {first.expectation}."
        )


def summarise(checks: Sequence[Check]) -> Summary:
    """Failed first, then warnings, then counts. No checks at all is not a pass: nothing was verified."""
    counts: dict[str, tuple[int, int]] = {}
    for check in checks:
        passed, total = counts.get(check.name, (0, 0))
        counts[check.name] = (passed + check.passed, total + 1)
    failed = tuple(check for check in checks if not check.passed)
    return Summary(bool(checks) and not failed, failed, tuple(check for check in checks if check.warns), counts)


def only_behind(summary: Summary) -> bool:
    """Whether the only failures are replicas that are not in sync now, and leaders that follow from that."""
    failed = {check.name for check in summary.failed}
    return CheckName.IN_SYNC in failed and failed <= {CheckName.IN_SYNC, CheckName.LEADER}


def checks_in_order(checks: Iterable[AnyCheck]) -> tuple[AnyCheck, ...]:
    """Failed, then warnings, then the others, each in the order given."""
    return tuple(sorted(checks, key=lambda check: (check.passed, not check.warns)))


def document(checks: Sequence[Check]) -> dict[str, object]:
    """The content of verification.json."""
    return {"passed": summarise(checks).passed, "checks": [check.result for check in checks_in_order(checks)]}
