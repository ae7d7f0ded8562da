"""Named results of the verification: what was looked at, what should be there, what is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka_rebalance.verification.segments.segment_finding import Severity


@dataclass(frozen=True, slots=True)
class Check:
    """One result. A warning passes: its finding says what to look at, but the end is still the approved one."""

    name: str
    subject: str
    expectation: str
    finding: str
    passed: bool
    severity: Severity = "error"

    @property
    def warns(self) -> bool:
        return self.passed and self.severity == "warning"

    def to_mapping(self) -> dict[str, str | bool]:
        """Plain JSON values for verification.json."""
        return {
            "name": self.name,
            "subject": self.subject,
            "expectation": self.expectation,
            "finding": self.finding,
            "passed": self.passed,
            "severity": self.severity,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """All checks in short; `counts` is {name: (passed, all)} in the order in which the names first came."""

    passed: bool
    failed: tuple[Check, ...]
    warnings: tuple[Check, ...]
    counts: dict[str, tuple[int, int]]

    def lines(self) -> tuple[str, ...]:
        """For a log or an error: what failed first, then warnings, then one count a name."""
        return (
            *(
                f"FAILED {check.name}, {check.subject}: {check.finding} (must be: {check.expectation})"
                for check in self.failed
            ),
            *(f"warning {check.name}, {check.subject}: {check.finding}" for check in self.warnings),
            *(f"{name}: {passed} of {total} passed" for name, (passed, total) in self.counts.items()),
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
    """Whether nothing failed but that replicas are not in sync now, and the leaders that follow from that."""
    failed = {check.name for check in summary.failed}
    return "in_sync" in failed and failed <= {"in_sync", "leader"}


def in_order(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Failed, then warnings, then the others, each in the order given: how a person reads them."""
    return tuple(sorted(checks, key=lambda check: (check.passed, not check.warns)))


def document(checks: Sequence[Check]) -> dict[str, object]:
    """The content of verification.json."""
    return {"passed": summarise(checks).passed, "checks": [check.to_mapping() for check in in_order(checks)]}
