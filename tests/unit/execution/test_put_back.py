"""The lease of a throttle: exactly the approved copies, what was there recorded once, nothing lifted too early."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.documents.cluster.throttle_lease import RateChange, ThrottleLease
from kafka_rebalance.errors import ArtifactError, LockHeldError, ThrottleError
from kafka_rebalance.execution.throttle.in_force import check_in_force, confirm, set_changes, with_rate
from kafka_rebalance.execution.throttle.put_back import release
from kafka_rebalance.execution.throttle.recorded_before import take_lease
from kafka_rebalance.execution.throttle.wanted import desired_throttle
from support.kafka.small_clusters import DIGEST, move, tp

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"

MOVES = [move("t-0", [1, 2], [2, 3]), move("t-1", [2, 1], [1, 2])]
RATE = 10_000_000
WANTED = {
    "topics/t": {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"},
    "brokers/1": {LEADER_RATE: "10000000"},
    "brokers/2": {LEADER_RATE: "10000000"},
    "brokers/3": {FOLLOWER_RATE: "10000000"},
}


def lease(current=None, moves=MOVES, rate=RATE):
    return take_lease("run-1", DIGEST, moves, rate, current or {})


def applied(configs, changes):
    """The configs after a merge of the changes, as the writer makes them."""
    after = {entity: dict(values) for entity, values in configs.items()}
    for entity, values in changes.items():
        for key, value in values.items():
            if value is None:
                after.get(entity, {}).pop(key, None)
            else:
                after.setdefault(entity, {})[key] = value
    return {entity: values for entity, values in after.items() if values}


def test_exactly_the_replicas_that_copy_and_the_brokers_they_sit_on_are_throttled():
    assert desired_throttle(MOVES, RATE) == WANTED


def test_a_broker_that_sends_and_receives_has_both_rates():
    wanted = desired_throttle([move("t-0", [1, 2], [2, 3]), move("u-0", [3], [1])], 5)
    assert wanted["brokers/1"] == {LEADER_RATE: "5", FOLLOWER_RATE: "5"}
    assert wanted["brokers/2"] == {LEADER_RATE: "5"}
    assert wanted["topics/u"] == {LEADERS: "0:3", FOLLOWERS: "0:1"}


def test_moves_that_copy_nothing_need_no_throttle():
    assert desired_throttle([move("t-0", [1, 2, 3], [3, 2]), move("t-1", [1, 2], [2, 1])], RATE) == {}


@pytest.mark.parametrize("rate", [0, -1, 1.5, True, "10", None])
def test_a_rate_that_lets_nothing_through_is_refused(rate):
    with pytest.raises(ThrottleError, match="Nothing was written"):
        desired_throttle(MOVES, rate)


def test_what_was_there_is_recorded_key_by_key():
    current = {"topics/t": {LEADERS: "9:1", "segment.bytes": "5"}, "brokers/1": {LEADER_RATE: "7"}}
    assert lease(current).prior == {
        "topics/t": {LEADERS: "9:1", FOLLOWERS: None},
        "brokers/1": {LEADER_RATE: "7"},
        "brokers/2": {LEADER_RATE: None},
        "brokers/3": {FOLLOWER_RATE: None},
    }


def test_a_second_try_keeps_what_the_first_one_recorded():
    first = lease({"brokers/1": {LEADER_RATE: "7"}})
    ours = applied({}, set_changes(first, {}))
    again = take_lease("run-1", DIGEST, MOVES, RATE, ours, existing=first)
    assert again.prior["brokers/1"] == {LEADER_RATE: "7"}
    assert again == first


@pytest.mark.parametrize("theirs", ["123", None])
def test_a_rate_that_others_set_after_it_was_put_back_is_what_comes_back_after_the_next_try(theirs):
    first = lease({"brokers/1": {LEADER_RATE: "7"}})
    ours = applied({}, set_changes(first, {}))
    partly = {**ours, "brokers/1": {} if theirs is None else {LEADER_RATE: theirs}}
    again = take_lease("run-1", DIGEST, MOVES, RATE, partly, existing=first)
    assert again.prior == {**first.prior, "brokers/1": {LEADER_RATE: theirs}}
    during = applied(partly, set_changes(again, partly))
    assert during["brokers/1"] == {LEADER_RATE: str(RATE)}
    assert release(again, during).changes["brokers/1"] == {LEADER_RATE: theirs}


def test_no_rate_of_a_lease_is_taken_for_what_was_there_before():
    first = lease({"brokers/1": {LEADER_RATE: "7"}})
    changed = with_rate(first, RateChange(2 * RATE, "uma", "2026-11-21T00:00:00+00:00"))
    for now in (RATE, 2 * RATE, 7):
        partly = {"brokers/1": {LEADER_RATE: str(now)}}
        assert take_lease("run-1", DIGEST, MOVES, RATE, partly, existing=changed).prior == changed.prior


@pytest.mark.parametrize(
    ("run", "digest", "rate"), [("run-2", DIGEST, RATE), ("run-1", "other", RATE), ("run-1", DIGEST, RATE + 1)]
)
def test_a_lease_that_is_not_this_runs_is_not_taken_over(run, digest, rate):
    with pytest.raises(LockHeldError if run == "run-2" else ThrottleError, match="Nothing was written"):
        take_lease(run, digest, MOVES, rate, {}, existing=lease())


def test_a_lease_of_a_run_of_that_name_in_another_airflow_is_not_taken_over():
    theirs = dataclasses.replace(lease(), owner="http://there")
    with pytest.raises(LockHeldError, match="Run run-1 of http://there holds a throttle"):
        take_lease("run-1", DIGEST, MOVES, RATE, {}, owner="http://here", existing=theirs)


def test_a_lease_covers_moves_that_were_left_out_since_and_none_that_were_added():
    both, one = [*MOVES, move("t-2", [1, 2], [1, 4])], MOVES
    assert take_lease("run-1", DIGEST, one, RATE, {}, existing=lease(moves=both)) == lease(moves=both)
    with pytest.raises(ThrottleError, match="for other replicas"):
        take_lease("run-1", DIGEST, both, RATE, {}, existing=lease(moves=one))


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
def test_lists_are_merged_with_what_somebody_else_has_there(there, written):
    current = {} if there is None else {"topics/t": {LEADERS: there}}
    assert set_changes(lease(current), current).get("topics/t", {}).get(LEADERS) == written


def test_a_foreign_rate_is_replaced_for_as_long_as_the_run_lasts():
    current = {"brokers/1": {LEADER_RATE: "7"}, "brokers/2": {LEADER_RATE: "99999999999"}}
    held = lease(current)
    during = applied(current, set_changes(held, current))
    assert during["brokers/1"][LEADER_RATE] == during["brokers/2"][LEADER_RATE] == str(RATE)
    assert applied(during, release(held, during).changes) == current


def test_confirm_names_each_key_that_is_not_in_force():
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


def test_release_takes_out_what_was_set_and_can_be_repeated():
    held = lease()
    during = applied({}, set_changes(held, {}))
    back = release(held, during)
    assert (back.kept, back.foreign, back.complete) == ((), (), True)
    assert applied(during, back.changes) == {}
    assert release(held, {}).changes == {}


def test_release_after_a_start_that_broke_off_half_way_touches_only_what_was_set():
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
def test_of_a_list_only_our_own_entries_are_taken_out(prior, now, back):
    held = lease({} if prior is None else {"topics/t": {LEADERS: prior}})
    current = {} if now is None else {"topics/t": {LEADERS: now}}
    assert applied(current, release(held, current).changes).get("topics/t", {}).get(LEADERS) == back


@pytest.mark.parametrize("now", ["5", None])
def test_a_rate_that_somebody_changed_meanwhile_is_left_alone(now):
    held = lease({"brokers/1": {LEADER_RATE: "7"}})
    during = applied({}, set_changes(held, {}))
    during["brokers/1"] = {} if now is None else {LEADER_RATE: now}
    back = release(held, during)
    assert "brokers/1" not in back.changes
    assert back.foreign == (f"brokers/1: {LEADER_RATE} is {now or 'gone'}, changed by somebody else",)


def test_a_list_that_cannot_be_read_is_left_alone_and_the_rest_goes_back():
    held = lease()
    during = applied({}, set_changes(held, {}))
    during["topics/t"][LEADERS] = "rubbish"
    back = release(held, during)
    assert LEADERS not in back.changes["topics/t"]
    assert back.changes["topics/t"][FOLLOWERS] is None
    assert back.changes["brokers/1"] == {LEADER_RATE: None}
    assert "rubbish" in back.foreign[0]


def test_nothing_is_lifted_from_a_partition_that_still_copies():
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


def test_a_lease_reads_back_as_written():
    held = lease({"topics/t": {LEADERS: "9:1"}})
    assert ThrottleLease.from_mapping(json.loads(json.dumps(held.to_mapping()))) == held


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run": ""}, "run is ''"),
        ({"candidate_digest": None}, "candidate_digest is None"),
        ({"bytes_per_second": 0}, "bytes_per_second is 0"),
        ({"bytes_per_second": True}, "bytes_per_second is True"),
        ({"wanted": []}, "wanted is not an object"),
        ({"prior": {"topics/t": []}}, "prior is not an object"),
        ({"wanted": {"users/u": {}}}, "neither topics/T nor brokers/N"),
        ({"wanted": {"brokers/x": {}}}, "neither topics/T nor brokers/N"),
        ({"wanted": {"brokers/1": {LEADER_RATE: "-5"}}}, "has leader.replication.throttled.rate = '-5'"),
        ({"wanted": {"brokers/1": {LEADERS: "0:1"}}}, "wanted of brokers/1"),
        ({"wanted": {"topics/t": {LEADERS: "*"}}}, "= '*'"),
        ({"wanted": {"topics/t": {"segment.bytes": "5"}}}, "segment.bytes"),
        ({"prior": {"topics/t": {LEADERS: 5}}}, "= 5"),
        ({"prior": {}}, "do not name the same keys"),
        (
            {"wanted": {"brokers/1": {LEADER_RATE: "7"}}, "prior": {"brokers/1": {LEADER_RATE: None}}},
            "which is no rate of this lease",
        ),
    ],
)
def test_a_lease_that_cannot_be_used_says_why(change, words):
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
def test_set_then_release_leaves_everything_as_it_was(moves, before):
    held = lease(before, moves)
    during = applied(before, set_changes(held, before))
    assert confirm(held, during) == ()
    assert applied(during, release(held, during).changes) == before


@given(PLANS, CONFIGS, st.data())
def test_release_in_any_number_of_steps_never_lifts_what_is_in_motion(moves, before, data):
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
        assert back.complete == (not set_changes(still, before))
    assert now == before


@given(PLANS, CONFIGS, CONFIGS)
def test_release_never_removes_a_foreign_entry(moves, before, meanwhile):
    held = lease(before, moves)
    now = applied(before, set_changes(held, before)) | meanwhile
    after = applied(now, release(held, now).changes)
    for entity, values in now.items():
        for key, value in values.items():
            if key in (LEADERS, FOLLOWERS):
                ours = set(held.own_entries(entity, key)) if entity in held.wanted else set()
                left = after.get(entity, {}).get(key, "").split(",")
                assert set(filter(None, value.split(","))) - ours <= set(left)
