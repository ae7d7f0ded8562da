"""A throttle is merged with what others have set, and each key that is not in force is named."""

from __future__ import annotations

import pytest

from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.execution.throttle.in_force import check_in_force, confirm, set_changes
from kafka_rebalance.execution.throttle.put_back import release
from support.kafka.small_throttles import FOLLOWER_RATE, FOLLOWERS, LEADER_RATE, LEADERS, RATE, applied, lease


@pytest.mark.parametrize(
    ("there", "written"),
    [
        (None, "0:1,0:2"),
        ("", "0:1,0:2"),
        ("9:1", "9:1,0:1,0:2"),
        ("9:1, 0:2", "9:1,0:2,0:1"),
        ("0:2,0:1", None),  # all of ours are there: nothing to write
        ("*", None),
    ],
)
def test_lists_are_merged_with_what_somebody_else_has_there(there: str | None, written: str | None) -> None:
    current = {} if there is None else {"topics/t": {LEADERS: there}}
    assert set_changes(lease(current), current).get("topics/t", {}).get(LEADERS) == written


def test_a_foreign_rate_is_replaced_for_as_long_as_the_run_lasts() -> None:
    current = {"brokers/1": {LEADER_RATE: "7"}, "brokers/2": {LEADER_RATE: "99999999999"}}
    held = lease(current)
    during = applied(current, set_changes(held, current))
    assert during["brokers/1"][LEADER_RATE] == during["brokers/2"][LEADER_RATE] == str(RATE)
    assert applied(during, release(held, during).changes) == current


def test_confirm_names_each_key_that_is_not_in_force() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    assert confirm(held, during) == ()
    check_in_force(held, during)
    during["brokers/1"][LEADER_RATE] = "1"
    during["topics/t"] = {LEADERS: "0:1", FOLLOWERS: "0:3,8:8"}  # more than ours is no difference
    del during["brokers/3"]
    assert confirm(held, during) == (
        f"topics/t: {LEADERS} is '0:1', it must be '0:1,0:2'",
        f"brokers/1: {LEADER_RATE} is '1', it must be '10000000'",
        f"brokers/3: {FOLLOWER_RATE} is not set, it must be '10000000'",
    )
    with pytest.raises(ThrottleError, match="No further move was requested"):
        check_in_force(held, during)
