"""What must hold before anything is planned, and again before each write."""

from __future__ import annotations

import dataclasses

import pytest

from builders import CLUSTER_ID, move, partition, tp, view
from kafka_rebalance.errors import ClusterNotReadyError, StaleProposalError
from kafka_rebalance.execution.preconditions import (
    check_cluster_ready,
    check_policy_unchanged,
    check_unchanged,
    readiness_findings,
    topic_identities,
)
from kafka_rebalance.model.cluster import BrokerRegistration, Controller
from kafka_rebalance.model.partition import TopicIdentity

HEALTHY = {"t-0": partition([1, 2]), "t-1": partition([2, 3]), "u-0": partition([3, 1])}


def test_a_healthy_cluster_is_ready():
    check_cluster_ready(view(HEALTHY))
    check_cluster_ready(view(HEALTHY), expected_cluster_id=CLUSTER_ID)
    check_cluster_ready(view({}))


@pytest.mark.parametrize(
    ("wrong", "subject", "words"),
    [
        ({"cluster_id": "other"}, "cluster other", f"the connection expects cluster {CLUSTER_ID}"),
        ({"controller": None}, "/controller", "there is no controller"),
        ({"controller": Controller(9, 4)}, "controller 9", "not a registered broker"),
        ({"controller": Controller(3000, 4, kraft_epoch=0)}, "/controller", "a KRaft controller owns the cluster"),
        ({"reassignments": {}}, "/admin/reassign_partitions", "it is empty, and still blocks"),
        ({"reassignments": {tp("t-0"): (3, 4)}}, "/admin/reassign_partitions", "under way (t-0)"),
        ({"elections": frozenset()}, "/admin/preferred_replica_election", "it is empty"),
        ({"elections": frozenset({tp("t-1")})}, "/admin/preferred_replica_election", "under way (t-1)"),
        ({"deletions": frozenset({"old"})}, "/admin/delete_topics", "topics are being deleted (old)"),
    ],
)
def test_each_condition_that_forbids_a_plan_is_found(wrong, subject, words):
    (finding,) = readiness_findings(view(HEALTHY, **wrong), expected_cluster_id=CLUSTER_ID)
    assert finding.subject == subject
    assert words in finding.problem
    assert finding.remedy


@pytest.mark.parametrize(
    ("states", "subject", "words"),
    [
        ({"t-0": partition([4, 1, 2], [1, 2], adding=[4])}, "topic znodes", "being added or removed (t-0)"),
        ({"t-0": partition([1, 2], removing=[2])}, "topic znodes", "being added or removed (t-0)"),
        ({"t-0": partition([1, 2], leader=-1)}, "1 partition without a live leader", "t-0"),
        ({"t-0": partition([1, 2], leader=9)}, "1 partition without a live leader", "t-0"),
        ({"t-0": dataclasses.replace(partition([1]), state=None)}, "1 partition without a live leader", "t-0"),
        ({"t-0": partition([1, 9], [1])}, "broker 9", "not registered and holds 1 replica (t-0)"),
    ],
)
def test_each_condition_of_a_partition_that_forbids_a_plan_is_found(states, subject, words):
    (finding,) = readiness_findings(view(HEALTHY | states))
    assert finding.subject == subject
    assert words in finding.problem


def test_all_findings_are_told_at_once_with_what_to_do():
    wrong = view(HEALTHY | {"t-0": partition([1, 9], leader=-1)}, controller=None, reassigning={})
    with pytest.raises(ClusterNotReadyError) as refused:
        check_cluster_ready(wrong, expected_cluster_id="another")
    lines = str(refused.value).splitlines()
    assert "nothing was planned or written" in lines[0]
    assert [line.split(":")[0] for line in lines[1:]] == [
        f"- cluster {CLUSTER_ID}",
        "- /controller",
        "- /admin/reassign_partitions",
        "- 1 partition without a live leader",
        "- broker 9",
    ]


def test_many_partitions_are_counted_and_ten_are_named():
    states = {f"t-{n}": partition([1], leader=-1) for n in range(23)}
    (finding,) = readiness_findings(view(states))
    assert finding.subject == "23 partitions without a live leader"
    assert finding.problem == ", ".join(f"t-{n}" for n in range(10)) + " and 13 more"


@pytest.mark.parametrize(("may_be_down", "down"), [((), [8, 9]), ((9,), [8]), ((8, 9), []), ((8, 9, 4), [])])
def test_a_broker_may_be_down_only_if_it_is_to_be_emptied(may_be_down, down):
    states = HEALTHY | {"t-0": partition([1, 8], [1]), "t-1": partition([2, 9], [2])}
    findings = readiness_findings(view(states), may_be_down=may_be_down)
    assert [finding.subject for finding in findings] == [f"broker {broker}" for broker in down]


def test_other_topics_may_be_ill_if_only_some_are_asked_about():
    states = HEALTHY | {"u-0": partition([9], leader=-1)}
    ill = view(states, deletions=frozenset({"v"}))
    check_cluster_ready(ill, topics={"t"})
    assert len(readiness_findings(ill)) == 3
    assert len(readiness_findings(ill, topics={"u", "v"})) == 3


# --- unchanged since the approval ----------------------------------------------------------------------------------

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
