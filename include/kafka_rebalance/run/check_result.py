"""Named results of the verification: what was checked, what should be there, what is there. And verification.json."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.documents.json_files import VERIFICATION, JsonFile, Time, omitted
from kafka_rebalance.documents.segments import Severity
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import VerificationError

log = logging.getLogger(__name__)


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
    """One result. A warning passes: a person should look at its finding, but the end is the approved one."""

    name: str  # of CheckName; in a file perhaps one of a later version
    subject: str
    expectation: str
    finding: str
    passed: bool
    severity: Severity = "error"

    @property
    def warns(self) -> bool:
        return self.passed and self.severity == "warning"


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
                f"FAILED {check.name}, {check.subject}: {check.finding} (must be: {check.expectation})"
                for check in self.failed
            ),
            *(f"warning {check.name}, {check.subject}: {check.finding}" for check in self.warnings),
            *(f"{name}: {passed} of {total} passed" for name, (passed, total) in self.counts.items()),
        )

    def failure(self) -> str:
        first, total = self.failed[0], sum(of for _, of in self.counts.values())
        return (
            f"{len(self.failed)} of {total} checks failed; first {first.name} of {first.subject}: {first.finding}, "
            f"must be {first.expectation}."
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


def checks_in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Failed, then warnings, then the others, each in the order given."""
    return tuple(sorted(checks, key=lambda check: (check.passed, not check.warns)))


# verification.json: what was verified, what should be there, and what is there.


@dataclass(frozen=True, slots=True)
class NotMoved:
    """Approved partitions that the run did not move because it was stopped, and why."""

    why: str = ""
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks: failed ones first, then those that warn. Of a cancel it has `ends`."""

    passed: bool
    checks: tuple[Check, ...]
    verified_at: Time | None = omitted()
    again: bool | None = omitted()  # it failed only because a replica is out of sync now; the next try may pass
    not_moved: NotMoved | None = omitted(NotMoved())  # None: the run was not stopped
    ends: Mapping[str, tuple[str, ...]] | None = omitted()  # partitions by their end


VERIFICATION_FILE = JsonFile(VERIFICATION, Verification)


def write_checks(folder: Folder, checks: tuple[Check, ...], source_digest: str, **more: Any) -> Summary:
    """Writes and logs them; `more` are further fields of `Verification`."""
    summary, now = summarise(checks), clock.utc_second()
    written = Verification(summary.passed, checks_in_order(checks), now, **more)
    VERIFICATION_FILE.write(folder, written, source_digest=source_digest)
    for line in summary.lines():
        log.info("%s", line)
    return summary


def check_passed(summary: Summary) -> None:
    if not summary.passed:
        raise VerificationError(f"{summary.failure()} Nothing more was written. Clear this task to look again.")


# Checks after a change, repeated until all pass or the time is up.


LOOK_SECONDS = 0.5


def settled(look: Callable[[], tuple[Check, ...]], seconds: float) -> tuple[Check, ...]:
    """The results of the last look."""
    told, checks = "", tuple[Check, ...]()
    for _ in clock.looks(seconds, LOOK_SECONDS):
        checks = look()
        failed = summarise(checks).failed
        if not failed:
            break
        if failed[0].finding != told:
            told = failed[0].finding
            log.info("%d of %d checks to go: %s, %s", len(failed), len(checks), failed[0].subject, told)
    return checks
