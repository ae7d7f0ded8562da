"""What the verification found wrong, in figures, the worst first."""

from __future__ import annotations

from kafka_rebalance.pages.units import format_count
from kafka_rebalance.run.check_result import CheckName
from kafka_rebalance.run.verification import Verification

# The worst first: (one, several, what is said of them). Checks without a line here come last, under their name.
_SAID: dict[str, tuple[str, str, str]] = {
    CheckName.REPLICAS: ("move", "moves", "not in place"),
    CheckName.LOG_DIR: ("replica", "replicas", "not in the approved log dir"),
    CheckName.SAME_TOPIC: ("moved topic", "moved topics", "deleted and created again"),
    CheckName.NOT_DELETED: ("moved topic", "moved topics", "queued for deletion"),
    CheckName.EMPTIED: ("broker", "brokers", "not emptied"),
    CheckName.AT_REST: ("request", "requests", "still open in Kafka"),
    CheckName.IN_SYNC: ("partition", "partitions", "not in sync as approved"),
    CheckName.LEADER: ("partition", "partitions", "not led by the preferred leader"),
    CheckName.THROTTLE: ("throttle", "throttles", "not as before the run"),
}


def what_failed(verification: Verification) -> tuple[str, ...]:
    """One for each name of failed checks: `17 of 34 moves are not in place`."""
    failed: dict[str, int] = {}
    counts: dict[str, int] = {}
    for check in verification.checks:
        counts[check.name] = counts.get(check.name, 0) + 1
        if not check.passed:
            failed[check.name] = failed.get(check.name, 0) + 1
    order = [*map(str, _SAID), *counts]
    return tuple(_words(name, failed[name], counts[name]) for name in dict.fromkeys(order) if name in failed)


def _words(name: str, failed: int, total: int) -> str:
    """Some checks are noted only where they fail, as of topics made again. Then a total says nothing."""
    if name not in _SAID:
        return f"{format_count(failed)} of {format_count(total, 'check', 'checks')} of {name} failed"
    one, several, said = _SAID[name]
    counted = format_count(total, one, several)
    which = counted if failed == total else f"{format_count(failed)} of {counted}"
    return f"{which} {'is' if failed == 1 else 'are'} {said}"
