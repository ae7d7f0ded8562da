"""What must still be as it was approved, before the first write and before each batch."""

from __future__ import annotations

import dataclasses

import pytest

from builders import move, partition, view
from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.execution.staleness import (
    check_policy_unchanged,
    check_unchanged,
    topic_identities,
)
from kafka_rebalance.model.cluster import BrokerRegistration
from kafka_rebalance.model.partition import TopicIdentity

MOVES = [
    move("t-0", [1, 2], [2, 3], batch=1),
    move("t-1", [1, 2], [3, 1], batch=2),
    move("u-0", [1, 2], [2, 4], batch=2),
]
THEN = {"t": TopicIdentity(1, 10), "u": TopicIdentity(1, 10)}
CZXID = {broker: 100 + broker for broker in (1, 2, 3, 4)}
OLD, MOVED, MOVING = partition([1, 2]), partition([2, 3], version=3), partition([2, 3, 1], [1, 2], 1, version=2)


def now(**states):
    return {"t-0": OLD, "t-1": OLD, "u-0": OLD} | {name.replace("_", "-"): state for name, state in states.items()}


def left(current, **others):
    given = {"snapshot_topics": THEN, "registered_czxid": CZXID} | others
    return [str(one.topic_partition) for one in check_unchanged(MOVES, current, **given)]


def test_an_unchanged_cluster_has_everything_left_to_do():
    assert left(view(now())) == ["t-0", "t-1", "u-0"]


def test_leaders_in_sync_replicas_and_epochs_may_differ():
    assert left(view(now(t_0=partition([1, 2], [2], 2)))) == ["t-0", "t-1", "u-0"]


@pytest.mark.parametrize(
    ("states", "others", "words"),
    [
        (
            {"t_0": partition([2, 1])},
            {},
            "t-0: replicas are now [2, 1], the approved proposal starts from [1, 2]",
        ),
        ({"t_0": partition([1, 2, 3])}, {}, "t-0: replicas are now [1, 2, 3]"),
        # done by somebody else: this run has not requested it yet
        ({"t_0": partition([2, 3])}, {}, "t-0: replicas are now [2, 3]"),
        ({}, {"reassigning": {"t-0": [2, 3]}}, "t-0: it is being moved to [2, 3] by somebody else"),
        (
            {"t_0": partition([4, 1, 2], [1, 2], adding=[4], removing=[2])},
            {},
            "t-0: it is being moved to [4, 1] by somebody else",
        ),
        ({"u_0": partition([1, 2], version=2)}, {}, "topic u: its znode is at version 2, the snapshot read 1"),
        ({"u_0": partition([1, 2], czxid=11)}, {}, "topic u: it was deleted and made again (creation zxid 11"),
        ({}, {"deletions": frozenset({"u"})}, "topic u: it is being deleted"),
        ({}, {"brokers": (1, 2, 3)}, "broker 4: it is to receive replicas and is not registered"),
    ],
)
def test_before_the_first_write_each_difference_is_named(states, others, words):
    with pytest.raises(StaleProposalError) as stale:
        left(view(now(**states), **others))
    assert f"- {words}" in str(stale.value)
    assert "Nothing was written. Start a new Dag run" in str(stale.value)


def test_all_differences_are_named_at_once():
    with pytest.raises(StaleProposalError) as stale:
        left(view(now(t_0=partition([4]), u_0=partition([1, 2], czxid=5)), brokers=(1, 2, 4)))
    assert [line.split(":")[0] for line in str(stale.value).splitlines()[1:]] == ["- t-0", "- topic u", "- broker 3"]


def test_a_topic_that_is_gone_is_named():
    with pytest.raises(StaleProposalError, match="topic u: it was deleted"):
        left(view({"t-0": OLD, "t-1": OLD}))


def test_a_topic_made_again_with_the_same_replicas_is_told_by_its_id():
    then = THEN | {"u": TopicIdentity(None, None, "abc")}
    assert left(view(now(u_0=partition([1, 2], topic_id="abc"))), snapshot_topics=then)
    with pytest.raises(
        StaleProposalError, match=r"topic u: it was deleted and made again \(topic id xyz, approved abc"
    ):
        left(view(now(u_0=partition([1, 2], topic_id="xyz"))), snapshot_topics=then)


def test_a_topic_that_the_snapshot_does_not_know_is_refused():
    with pytest.raises(StaleProposalError, match="topic u: the snapshot does not know it"):
        left(view(now()), snapshot_topics={"t": THEN["t"]})


def test_a_snapshot_without_versions_and_ids_still_compares_lists():
    nothing = TopicIdentity(None, None)
    assert left(view(now()), snapshot_topics={"t": nothing, "u": nothing}, registered_czxid={}) == ["t-0", "t-1", "u-0"]


def again(broker, czxid=999):
    """Brokers 1 to 4, one of which registered again."""
    return {n: BrokerRegistration(n, (), czxid=czxid if n == broker else 100 + n) for n in (1, 2, 3, 4)}


def test_before_the_first_write_a_target_that_registered_again_is_named():
    current = dataclasses.replace(view(now()), brokers=again(3))
    with pytest.raises(StaleProposalError, match="broker 3: it has registered again since the snapshot"):
        left(current)


def test_a_broker_that_registered_again_but_receives_nothing_does_not_matter():
    moves = [move("t-0", [1, 2], [2, 3])]
    current = dataclasses.replace(view(now()), brokers=again(4))
    assert len(check_unchanged(moves, current, snapshot_topics=THEN, registered_czxid=CZXID)) == 1


def test_between_batches_a_target_that_came_back_with_its_data_is_accepted():
    current = dataclasses.replace(view(now(t_0=MOVED, t_1=partition([1, 2], version=3))), brokers=again(3))
    assert left(current, batches_touched={1}) == ["t-1", "u-0"]


def test_between_batches_a_target_that_came_back_and_is_not_in_sync_is_named():
    lagging = partition([2, 3], [2], version=3)
    current = dataclasses.replace(view(now(t_0=lagging, t_1=partition([1, 2], version=3))), brokers=again(3))
    with pytest.raises(StaleProposalError) as stale:
        left(current, batches_touched={1})
    assert (
        "broker 3: it has registered again since the snapshot and may have come back empty; not in sync on t-0"
        in str(stale.value)
    )
    assert "No further move was requested" in str(stale.value)


@pytest.mark.parametrize(
    ("t_0", "reassigning", "expected"),
    [
        (MOVED, None, ["t-1", "u-0"]),
        (MOVING, {"t-0": [2, 3]}, ["t-1", "u-0"]),
        (MOVING, None, ["t-1", "u-0"]),
        (partition([2, 3, 1], [1, 2], adding=[3], removing=[1]), None, ["t-1", "u-0"]),
        (OLD, {"t-0": [2, 3]}, ["t-1", "u-0"]),  # requested, not taken up yet
        (OLD, None, ["t-0", "t-1", "u-0"]),  # requested and dropped by the controller
    ],
)
def test_what_this_run_has_moved_is_not_held_against_it(t_0, reassigning, expected):
    current = view(now(t_0=t_0, t_1=partition([1, 2], version=3)), reassigning=reassigning)
    assert left(current, batches_touched={1}) == expected


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ({"t_0": partition([3, 2])}, "t-0: replicas are now [3, 2]"),  # changed again after our move
        ({"t_0": MOVED, "t_1": partition([3, 1])}, "t-1: replicas are now [3, 1]"),  # not requested yet
        ({"t_0": MOVED, "u_0": partition([1, 2], version=2)}, "topic u: its znode is at version 2"),  # not ours yet
        ({"t_0": partition([2, 3], czxid=12), "t_1": partition([1, 2], czxid=12)}, "topic t: it was deleted and made"),
    ],
)
def test_between_batches_everything_else_must_still_hold(states, words):
    with pytest.raises(StaleProposalError) as stale:
        left(view(now(**states)), batches_touched={1})
    assert f"- {words}" in str(stale.value)


@pytest.mark.parametrize("after", [(), (2, 2), (-1,)])
def test_a_list_that_must_never_reach_kafka_is_refused(after):
    bad = move("t-0", [1, 2], after)
    with pytest.raises(StaleProposalError, match="must not reach Kafka"):
        check_unchanged([bad], view(now()), snapshot_topics=THEN, registered_czxid=CZXID)


def test_identities_are_those_of_the_topics_znodes():
    states = {
        "t-0": partition([1], version=4, czxid=7, topic_id="x"),
        "t-1": partition([1], version=4, czxid=7, topic_id="x"),
    }
    assert topic_identities(view(states).partitions) == {"t": TopicIdentity(4, 7, "x")}


def test_the_policy_must_be_the_approved_one():
    check_policy_unchanged("a" * 64, "a" * 64)
    with pytest.raises(StaleProposalError, match=r"aaaaaaaa was approved, it is bbbbbbbb now\. Nothing"):
        check_policy_unchanged("a" * 64, "b" * 64)


@pytest.mark.parametrize(("approved", "current"), [(None, "a"), ("a", None), (None, None)])
def test_without_a_policy_nothing_is_written(approved, current):
    with pytest.raises(StaleProposalError, match=r"read-only\. Nothing was written"):
        check_policy_unchanged(approved, current)
