"""A throttle is merged with what others have set, and each key that is not in force is named."""

from __future__ import annotations

import dataclasses

import pytest

from kafka_rebalance.documents.throttle_lease import RateChange
from kafka_rebalance.errors import KafkaRuleError, ThrottleError
from kafka_rebalance.throttle.in_force import check_in_force, confirm, rate_changes, set_changes, set_now, with_rate
from kafka_rebalance.throttle.put_back import release
from support.kafka.small_clusters import move
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


MIB = 2**20
CHANGED = RateChange(MIB, "uma", "2026-11-21T00:00:00+00:00")


def test_another_rate_keeps_the_lists_and_what_was_approved() -> None:
    before = lease({"brokers/1": {LEADER_RATE: "7"}})
    now = with_rate(before, CHANGED)
    assert (now.bytes_per_second, now.taken_at_rate, now.rate_changes) == (MIB, RATE, (CHANGED,))
    assert now.wanted == {
        "topics/t": {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"},
        "brokers/1": {LEADER_RATE: str(MIB)},
        "brokers/2": {LEADER_RATE: str(MIB)},
        "brokers/3": {FOLLOWER_RATE: str(MIB)},
    }
    assert now.prior == before.prior
    again = with_rate(now, RateChange(5, "olive", "2026-11-21T01:00:00+00:00"))
    assert (again.taken_at_rate, [one.by for one in again.rate_changes]) == (RATE, ["uma", "olive"])


def test_a_changed_rate_is_written_where_one_of_ours_is_and_nowhere_else() -> None:
    now = with_rate(lease(), CHANGED)
    current = {
        "topics/t": {LEADERS: "9:9"},
        "brokers/1": {LEADER_RATE: str(RATE)},
        "brokers/2": {LEADER_RATE: "7"},  # somebody else's
        "brokers/3": {FOLLOWER_RATE: str(MIB)},  # written already
    }
    assert rate_changes(now, current) == {"brokers/1": {LEADER_RATE: str(MIB)}}
    assert rate_changes(now, {}) == {}
    both = {"brokers/1": {LEADER_RATE: str(RATE)}, "brokers/3": {FOLLOWER_RATE: str(RATE)}}
    assert rate_changes(now, both) == {"brokers/1": {LEADER_RATE: str(MIB)}, "brokers/3": {FOLLOWER_RATE: str(MIB)}}


def test_a_rate_is_written_beside_another_of_the_same_broker() -> None:
    both_ways = lease(moves=[move("t-0", [1, 2], [2, 3]), move("u-0", [3], [1])])
    assert set_changes(both_ways, {})["brokers/1"] == {LEADER_RATE: str(RATE), FOLLOWER_RATE: str(RATE)}
    now = with_rate(both_ways, CHANGED)
    current = {"brokers/1": {LEADER_RATE: str(RATE), FOLLOWER_RATE: str(RATE)}}
    assert rate_changes(now, current)["brokers/1"] == {LEADER_RATE: str(MIB), FOLLOWER_RATE: str(MIB)}


def test_what_is_set_now_is_told_by_entry_and_rate() -> None:
    wanted = lease().wanted
    assert set_now(wanted, {}) == ()
    current = {
        "topics/t": {LEADERS: "9:9,0:2", FOLLOWERS: "by hand"},
        "brokers/1": {LEADER_RATE: str(RATE)},
        "brokers/2": {LEADER_RATE: "7"},
    }
    assert set_now(wanted, current) == (("topics/t", LEADERS, "0:2"), ("brokers/1", LEADER_RATE, str(RATE)))
    everything = applied({}, set_changes(lease(), {}))
    assert dict.fromkeys(set_now(wanted, everything)) == dict.fromkeys(
        (entity, key, value) for entity, values in wanted.items() for key, value in values.items()
    )


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, "; and 1 more"), (12, "; and 2 more")])
def test_an_error_names_ten_differences_and_counts_the_rest(count: int, more: str) -> None:
    wanted = {f"topics/t{number}": {LEADERS: "0:1"} for number in range(count)}
    nothing = {entity: dict.fromkeys(values) for entity, values in wanted.items()}
    held = dataclasses.replace(lease(), wanted=wanted, prior=nothing)
    with pytest.raises(ThrottleError) as refused:
        check_in_force(held, {})
    shown = [f"topics/t{number}: {LEADERS} is not set, it must be '0:1'" for number in range(10)]
    assert str(refused.value).startswith(
        f"The throttle of run run-1 is not in force: {'; '.join(shown)}{more}. No further move was requested."
    )


def test_a_list_that_cannot_be_read_is_refused_with_its_key() -> None:
    with pytest.raises(KafkaRuleError, match=f"Invalid value by hand for configuration {FOLLOWERS}:"):
        set_changes(lease(), {"topics/t": {FOLLOWERS: "by hand"}})
