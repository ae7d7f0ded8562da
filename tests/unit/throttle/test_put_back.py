"""What a throttle set is put back, and nothing else is touched."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.documents.throttle_lease import LeftBehind, ThrottleLease
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.throttle.in_force import confirm, desired_log_dir_rate, set_changes
from kafka_rebalance.throttle.put_back import left_changes, release, take_lease_for
from support.kafka.small_clusters import DIGEST, move, tp
from support.kafka.small_throttles import FOLLOWER_RATE, FOLLOWERS, LEADER_RATE, LEADERS, RATE, applied, lease


def test_release_takes_out_what_was_set_and_can_be_repeated() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    back = release(held, during)
    assert (back.kept, back.foreign, back.complete) == ((), (), True)
    assert applied(during, back.changes) == {}
    assert release(held, {}).changes == {}


def test_release_after_a_start_that_broke_off_half_way_touches_only_what_was_set() -> None:
    held = lease({"brokers/1": {LEADER_RATE: "7"}})
    half = {"brokers/1": {LEADER_RATE: "7"}, "brokers/2": {LEADER_RATE: str(RATE)}}
    assert release(held, half).changes == {"brokers/2": {LEADER_RATE: None}}


@pytest.mark.parametrize(
    ("prior", "now", "back"),
    [
        (None, "0:1,0:2", None),
        ("", "0:1,0:2", ""),
        (" 9:1 , 8:1", "9:1,8:1,0:1,0:2", " 9:1 , 8:1"),  # back to the letter
        ("9:1", "9:1,0:1,0:2,7:7", "9:1,7:7"),  # somebody added one meanwhile
        ("9:1", "0:1,0:2", None),  # somebody took theirs out meanwhile
        ("9:1,0:1", "9:1,0:1,0:2", "9:1,0:1"),  # 0:1 was theirs before
        ("*", "*", "*"),
        (None, "*", "*"),  # somebody throttles everything now
        (None, None, None),
        (None, "5:5", "5:5"),
    ],
)
def test_of_a_list_only_our_own_entries_are_taken_out(prior: str | None, now: str | None, back: str | None) -> None:
    held = lease({} if prior is None else {"topics/t": {LEADERS: prior}})
    current = {} if now is None else {"topics/t": {LEADERS: now}}
    assert applied(current, release(held, current).changes).get("topics/t", {}).get(LEADERS) == back


@pytest.mark.parametrize("now", ["5", None])
def test_a_rate_that_somebody_changed_meanwhile_is_left_alone(now: str | None) -> None:
    held = lease({"brokers/1": {LEADER_RATE: "7"}})
    during = applied({}, set_changes(held, {}))
    during["brokers/1"] = {} if now is None else {LEADER_RATE: now}
    back = release(held, during)
    assert "brokers/1" not in back.changes
    assert back.foreign == (f"brokers/1: {LEADER_RATE} is {now or 'gone'}, changed by somebody else",)


def test_a_list_that_cannot_be_read_is_left_alone_and_the_rest_goes_back() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    during["topics/t"][LEADERS] = "rubbish"
    back = release(held, during)
    assert LEADERS not in back.changes["topics/t"]
    assert back.changes["topics/t"][FOLLOWERS] is None
    assert back.changes["brokers/1"] == {LEADER_RATE: None}
    assert "rubbish" in back.foreign[0]


def test_nothing_is_lifted_from_a_partition_that_still_copies() -> None:
    moves = [move("t-0", [1], [2]), move("t-1", [3], [4])]
    held = lease(moves=moves)
    during = applied({}, set_changes(held, {}))
    back = release(held, during, {tp("t-0")})
    assert applied(during, back.changes) == {
        "topics/t": {LEADERS: "0:1", FOLLOWERS: "0:2"},
        "brokers/1": {LEADER_RATE: str(RATE)},
        "brokers/2": {FOLLOWER_RATE: str(RATE)},
    }
    assert not back.complete
    assert f"topics/t: {LEADERS} keeps 0:1" in back.kept


def test_a_lease_reads_back_as_written() -> None:
    held = lease({"topics/t": {LEADERS: "9:1"}})
    assert ThrottleLease.from_mapping(json.loads(json.dumps(held.to_mapping()))) == held


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run": ""}, "run is empty"),
        ({"candidate_digest": None}, "candidate_digest: Expected str, got null"),
        ({"bytes_per_second": 0}, "bytes_per_second is 0"),
        ({"bytes_per_second": True}, "bytes_per_second: Expected int, got bool"),
        ({"wanted": []}, "wanted: Expected object, got array"),
        ({"prior": {"topics/t": []}}, "prior[...]: Expected object, got array"),
        ({"wanted": {"users/u": {}}}, "neither topics/T nor brokers/N"),
        ({"wanted": {"brokers/x": {}}}, "neither topics/T nor brokers/N"),
        ({"wanted": {"brokers/1": {LEADER_RATE: "-5"}}}, "has leader.replication.throttled.rate = '-5'"),
        ({"wanted": {"brokers/1": {LEADERS: "0:1"}}}, "wanted of brokers/1"),
        ({"wanted": {"topics/t": {LEADERS: "*"}}}, "= '*'"),
        ({"wanted": {"topics/t": {"segment.bytes": "5"}}}, "segment.bytes"),
        ({"prior": {"topics/t": {LEADERS: 5}}}, "prior[...][...]: Expected str | null, got int"),
        ({"prior": {}}, "do not name the same keys"),
        (
            {"wanted": {"brokers/1": {LEADER_RATE: "7"}}, "prior": {"brokers/1": {LEADER_RATE: None}}},
            "wanted of brokers/1 has leader.replication.throttled.rate = '7'",
        ),
    ],
)
def test_a_lease_that_cannot_be_used_says_why(change: Any, words: str) -> None:
    with pytest.raises(ArtifactError, match="No throttle was changed") as refused:
        ThrottleLease.from_mapping(lease().to_mapping() | change)
    assert words in str(refused.value)


BROKERS = st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True)
PLANS = st.dictionaries(
    st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 3)), st.tuples(BROKERS, BROKERS), max_size=5
).map(lambda plan: [move(f"{topic}-{p}", *lists) for (topic, p), lists in plan.items()])
ENTRIES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), max_size=4, unique=True).map(
    lambda pairs: ",".join(f"{p}:{b}" for p, b in pairs)
)
LIST_VALUES = ENTRIES | st.just("*")
CONFIGS = st.dictionaries(
    st.sampled_from(["topics/t", "topics/u"]),
    st.dictionaries(st.sampled_from([LEADERS, FOLLOWERS]), LIST_VALUES, min_size=1),
).flatmap(
    lambda topics: st.dictionaries(
        st.sampled_from([f"brokers/{n}" for n in range(1, 6)]),
        st.dictionaries(st.sampled_from([LEADER_RATE, FOLLOWER_RATE]), st.sampled_from(["1", str(RATE)]), min_size=1),
    ).map(lambda brokers: topics | brokers)
)


@given(PLANS, CONFIGS)
def test_set_then_release_leaves_everything_as_it_was(moves: Any, before: Any) -> None:
    held = lease(before, moves)
    during = applied(before, set_changes(held, before))
    assert confirm(held, during) == ()
    assert applied(during, release(held, during).changes) == before


@given(PLANS, CONFIGS, st.data())
def test_release_in_any_number_of_steps_never_lifts_what_is_in_motion(moves: Any, before: Any, data: Any) -> None:
    held = lease(before, moves)
    now = applied(before, set_changes(held, before))
    moving = {one.topic_partition for one in moves}
    while True:
        moving = data.draw(st.sets(st.sampled_from(sorted(moving)))) if moving else set()
        back = release(held, now, moving)
        now = applied(now, back.changes)
        still = lease(before, [one for one in moves if one.topic_partition in moving])
        assert confirm(still, now) == ()
        if not moving:
            break
        assert not (back.complete and set_changes(still, before))
        assert all(text.partition(":")[0] in still.wanted for text in back.kept), "a rate of a broker that still copies"
    assert now == before


@pytest.mark.slow
@given(PLANS, CONFIGS, CONFIGS)
def test_release_never_removes_a_foreign_entry(moves: Any, before: Any, meanwhile: Any) -> None:
    held = lease(before, moves)
    now = applied(before, set_changes(held, before)) | meanwhile
    after = applied(now, release(held, now).changes)
    for entity, values in now.items():
        for key, value in values.items():
            if key in (LEADERS, FOLLOWERS):
                ours = set(held.own_entries(entity, key)) if entity in held.wanted else set()
                left = after.get(entity, {}).get(key, "").split(",")
                assert set(filter(None, value.split(","))) - ours <= set(left)


def test_a_list_that_somebody_has_set_for_every_replica_is_told_and_left_alone() -> None:
    held = lease()
    back = release(held, {"topics/t": {LEADERS: "*"}})
    assert back.foreign[0] == f"topics/t: {LEADERS} is now '*', set by somebody else"
    assert "topics/t" not in back.changes
    before = lease({"topics/t": {LEADERS: "*"}})
    assert not [one for one in release(before, {"topics/t": {LEADERS: "*"}}).foreign if LEADERS in one]


def test_what_comes_after_a_rate_of_somebody_else_is_put_back_all_the_same() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    during["brokers/1"] = {LEADER_RATE: "5"}
    back = release(held, during)
    assert back.foreign == (f"brokers/1: {LEADER_RATE} is 5, changed by somebody else",)
    assert back.changes["brokers/2"] == {LEADER_RATE: None}
    assert back.changes["brokers/3"] == {FOLLOWER_RATE: None}


def test_what_stays_for_a_copy_is_told_key_by_key() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    assert release(held, during, {tp("t-0")}).kept == (
        f"topics/t: {LEADERS} keeps 0:1,0:2",
        f"topics/t: {FOLLOWERS} keeps 0:3",
        f"brokers/1: {LEADER_RATE} stays {RATE}",
        f"brokers/2: {LEADER_RATE} stays {RATE}",
        f"brokers/3: {FOLLOWER_RATE} stays {RATE}",
    )


def test_a_list_that_cannot_be_read_is_named_with_its_key() -> None:
    (told,) = release(lease(), {"topics/t": {FOLLOWERS: "by hand"}}).foreign[:1]
    assert told.startswith(f"topics/t: {FOLLOWERS} is left alone: Invalid value by hand for configuration {FOLLOWERS}:")


def log_dir_lease(current: Any = None) -> ThrottleLease:
    return take_lease_for(
        lambda rate: desired_log_dir_rate([1, 2], rate), "run-1", DIGEST, RATE, current or {}, owner="", existing=None
    )


def test_the_rate_between_log_dirs_stays_on_the_brokers_that_still_copy() -> None:
    held = log_dir_lease({"brokers/1": {LOG_DIR_RATE: "7"}})
    during = applied({"brokers/1": {LOG_DIR_RATE: "7"}}, set_changes(held, {"brokers/1": {LOG_DIR_RATE: "7"}}))
    assert during == {"brokers/1": {LOG_DIR_RATE: str(RATE)}, "brokers/2": {LOG_DIR_RATE: str(RATE)}}
    some = release(held, during, copying_within={1})
    assert not some.complete
    assert some.changes == {"brokers/2": {LOG_DIR_RATE: None}}
    assert release(held, during).changes == {"brokers/1": {LOG_DIR_RATE: "7"}, "brokers/2": {LOG_DIR_RATE: None}}


def test_copies_between_log_dirs_keep_no_rate_of_moves_between_brokers() -> None:
    held = lease()
    during = applied({}, set_changes(held, {}))
    assert release(held, during, copying_within={1, 2, 3}).complete


def test_a_lease_of_the_rate_between_log_dirs_is_read_as_it_was_written() -> None:
    held = replace(log_dir_lease(), connection_id="c", cluster_id="c", run_folder="f", owner="o", taken_at="t")
    assert ThrottleLease.from_mapping(json.loads(json.dumps(held.to_mapping()))) == held


LEFT = LeftBehind("run-1", (5, 7), {"brokers/2": {LOG_DIR_RATE: None}, "brokers/3": {LOG_DIR_RATE: "9"}})


def test_what_was_left_on_brokers_is_put_back_where_it_is_still_there() -> None:
    now = {"brokers/2": {LOG_DIR_RATE: "7", LEADER_RATE: "7"}, "brokers/3": {LOG_DIR_RATE: "5"}}
    assert left_changes([LEFT], now) == {"brokers/2": {LOG_DIR_RATE: None}, "brokers/3": {LOG_DIR_RATE: "9"}}
    assert left_changes([LEFT], {"brokers/2": {LOG_DIR_RATE: "6"}, "brokers/3": {}}) == {}, "somebody else's"
    assert left_changes([LEFT], {"brokers/2": {LOG_DIR_RATE: "7"}}) == {"brokers/2": {LOG_DIR_RATE: None}}


def test_of_two_runs_that_left_a_rate_the_value_from_before_the_first_comes_back() -> None:
    later = LeftBehind("run-2", (8,), {"brokers/3": {LOG_DIR_RATE: "7"}})
    assert left_changes([LEFT, later], {"brokers/3": {LOG_DIR_RATE: "8"}}) == {"brokers/3": {LOG_DIR_RATE: "9"}}


def test_a_lease_keeps_what_leases_before_it_have_left_until_it_is_put_back() -> None:
    held = replace(log_dir_lease(), left_before=(LEFT,), left_behind={"brokers/2": {LOG_DIR_RATE: "1"}})
    assert ThrottleLease.from_mapping(json.loads(json.dumps(held.to_mapping()))) == held
    assert held.all_left == (LEFT, LeftBehind("run-1", (RATE,), {"brokers/2": {LOG_DIR_RATE: "1"}}))
    less = held.without_left({"brokers/2"})
    assert less.all_left == (LeftBehind("run-1", (5, 7), {"brokers/3": {LOG_DIR_RATE: "9"}}),)
    assert less.without_left({"brokers/3"}).all_left == ()


@pytest.mark.parametrize("entity", ["topics/t", "brokers/x"])
def test_a_lease_that_has_left_something_on_no_broker_is_not_read(entity: str) -> None:
    held = replace(log_dir_lease(), left_before=(LeftBehind("run-0", (5,), {entity: {LOG_DIR_RATE: None}}),))
    with pytest.raises(ArtifactError, match=f"left_behind has '{entity}'"):
        ThrottleLease.from_mapping(held.to_mapping())
