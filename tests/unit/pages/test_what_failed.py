"""The verification's result in figures."""

from __future__ import annotations

import pytest

from kafka_rebalance.pages.progress import what_failed
from kafka_rebalance.run.check_result import Check, CheckName, Verification


def verified(*checks: tuple[str, bool]) -> Verification:
    return Verification(False, tuple(Check(name, "orders-0", "this", "that", passed) for name, passed in checks))


def test_what_failed_is_counted_and_the_worst_comes_first() -> None:
    found = verified(
        *[("throttle", False), ("throttle", True)],
        *[("leader", False)] * 3,
        *[("in_sync", True)] * 3,
        *[("replicas", False)] * 2,
        ("replicas", True),
    )
    assert what_failed(found) == (
        "2 of 3 moves are not in place",
        "3 partitions are not led by the preferred leader",
        "1 of 2 throttles is not as before the run",
    )


def test_replicas_in_another_log_dir_are_told_before_rates() -> None:
    found = verified(("throttle", False), *[("log_dir", False)] * 6, *[("log_dir", True)] * 4)
    assert what_failed(found)[0] == "6 of 10 replicas are not in the approved log dir"


@pytest.mark.parametrize("name", CheckName)
def test_a_failed_check_of_any_name_is_told(name: CheckName) -> None:
    assert len(what_failed(verified((name, False)))) == 1


def test_a_check_of_a_later_version_is_told_by_its_name() -> None:
    assert what_failed(verified(("moon_phase", False), ("moon_phase", True))) == ("1 of 2 checks of moon_phase failed",)
    assert what_failed(verified(("replicas", True))) == ()
