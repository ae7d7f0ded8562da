"""Before a batch, the lists hold its entries alone, and the rates of the whole run stay."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.throttle.in_force import set_changes
from kafka_rebalance.throttle.put_back import batch_changes, listed_over, only_for
from support.kafka.small_clusters import move, tp
from support.kafka.small_throttles import FOLLOWER_RATE, FOLLOWERS, LEADER_RATE, LEADERS, RATE, applied, lease

FIRST, SECOND, OTHER = tp("t-0"), tp("t-1"), tp("u-0")
MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 4], [4, 1], batch=2), move("u-0", [4], [3], batch=2)]
RATES = {
    "brokers/1": {LEADER_RATE: str(RATE), FOLLOWER_RATE: str(RATE)},
    "brokers/2": {LEADER_RATE: str(RATE)},
    "brokers/3": {FOLLOWER_RATE: str(RATE)},
    "brokers/4": {LEADER_RATE: str(RATE)},
}
ALL = {
    **RATES,
    "topics/t": {LEADERS: "0:1,0:2,1:2,1:4", FOLLOWERS: "0:3,1:1"},
    "topics/u": {LEADERS: "0:4", FOLLOWERS: "0:3"},
}


def held(current: Any = None) -> Any:
    return lease(current, MOVES)


def test_a_batch_needs_all_rates_and_its_own_entries_alone() -> None:
    wanted = only_for(held(), {FIRST}).wanted
    assert wanted == {**RATES, "topics/t": {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}}
    assert only_for(held(), {FIRST, SECOND, OTHER}).wanted == ALL
    assert only_for(held(), ()).wanted == RATES


def test_the_lease_stays_as_it_was_recorded() -> None:
    mine = held({"brokers/1": {LEADER_RATE: "7"}})
    assert only_for(mine, {FIRST}).prior == mine.prior


def test_the_first_batch_adds_its_entries_and_every_rate() -> None:
    changes = batch_changes(held(), {}, {FIRST})
    assert applied({}, changes) == {**RATES, "topics/t": {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}}


def test_the_next_batch_takes_out_the_entries_of_the_one_before() -> None:
    first = applied({}, batch_changes(held(), {}, {FIRST}))
    changes = batch_changes(held(), first, {SECOND, OTHER})
    assert changes == {
        "topics/t": {LEADERS: "1:2,1:4", FOLLOWERS: "1:1"},
        "topics/u": {LEADERS: "0:4", FOLLOWERS: "0:3"},
    }


def test_a_topic_without_a_move_in_the_batch_loses_its_lists() -> None:
    everything = applied({}, set_changes(held(), {}))
    assert batch_changes(held(), everything, {FIRST})["topics/u"] == {LEADERS: None, FOLLOWERS: None}


def test_nothing_is_written_where_the_lists_are_right_already() -> None:
    second = applied({}, batch_changes(held(), {}, {SECOND, OTHER}))
    assert batch_changes(held(), second, {SECOND, OTHER}) == {}


def test_entries_that_were_there_before_the_run_stay_in_every_batch() -> None:
    before = {"topics/t": {LEADERS: "9:9,0:1"}, "topics/x": {LEADERS: "0:1"}}
    mine = held(before)
    first = applied(before, batch_changes(mine, before, {FIRST}))
    assert first["topics/t"] == {LEADERS: "9:9,0:1,0:2", FOLLOWERS: "0:3"}
    second = applied(first, batch_changes(mine, first, {SECOND}))
    assert second["topics/t"] == {LEADERS: "9:9,0:1,1:2,1:4", FOLLOWERS: "1:1"}
    assert second["topics/x"] == before["topics/x"]


def test_a_rate_that_somebody_has_changed_is_set_again_with_the_batch() -> None:
    first = applied({}, batch_changes(held(), {}, {FIRST}))
    first["brokers/2"] = {LEADER_RATE: "5"}
    assert batch_changes(held(), first, {FIRST}) == {"brokers/2": {LEADER_RATE: str(RATE)}}


def test_a_config_that_is_no_throttle_is_not_touched() -> None:
    current = {"topics/t": {"retention.ms": "5"}}
    assert applied(current, batch_changes(held(current), current, {FIRST}))["topics/t"]["retention.ms"] == "5"
    assert "retention.ms" not in batch_changes(held(current), current, {FIRST})["topics/t"]


def test_partitions_of_earlier_batches_that_are_still_listed_are_told() -> None:
    everything = applied({}, set_changes(held(), {}))
    assert listed_over(held(), everything, {FIRST}) == {SECOND, OTHER}
    assert listed_over(held(), everything, {FIRST, SECOND, OTHER}) == set()
    assert listed_over(held(), {}, {FIRST}) == set()


def test_one_entry_is_enough_to_be_listed() -> None:
    assert listed_over(held(), {"topics/t": {FOLLOWERS: "1:1"}}, {FIRST}) == {SECOND}
    assert listed_over(held(), {"topics/t": {LEADERS: "1:4"}}, ()) == {SECOND}


def test_entries_of_others_do_not_count_as_listed() -> None:
    """Partition 1 was listed before the run, on one broker; on another it is by us."""
    before = {"topics/t": {LEADERS: "1:2"}}
    assert listed_over(held(before), before, ()) == set()
    assert listed_over(held(before), {"topics/t": {LEADERS: "1:2,1:4"}}, ()) == {SECOND}
    assert listed_over(held(), {"topics/t": {LEADERS: "7:7"}}, ()) == set()


def test_a_change_of_lists_that_broke_off_half_way_is_brought_to_its_end() -> None:
    """The leaders' list has the next batch's entries beside those of the batch before. The followers' list has not."""
    half = {**RATES, "topics/t": {LEADERS: "0:1,0:2,1:2,1:4", FOLLOWERS: "0:3"}}
    assert batch_changes(held(), half, {SECOND}) == {"topics/t": {LEADERS: "1:2,1:4", FOLLOWERS: "1:1"}}
