"""What must still be as it was approved, before the first write and before each batch."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_rebalance.errors import ApprovalError, ReadError, StaleProposalError
from kafka_rebalance.execution.approval_rules import check_approval_fresh, check_policy_unchanged
from kafka_rebalance.execution.check.drift import (
    Baseline,
    BrokerThen,
    Drift,
    PartitionThen,
    check_growth,
    check_no_conflict,
    drifts,
)
from kafka_rebalance.model.cluster_view import BrokerRegistration
from kafka_rebalance.model.partition import TopicIdentity, topic_identities
from support.kafka.small_clusters import move, partition, tp, view

MOVES = [
    move("t-0", [1, 2], [2, 3], batch=1),
    move("t-1", [1, 2], [3, 1], batch=2),
    move("u-0", [1, 2], [2, 4], batch=2),
]
THEN = {"t": TopicIdentity(1, 10), "u": TopicIdentity(1, 10)}
CZXID = {broker: 100 + broker for broker in (1, 2, 3, 4)}
OLD, MOVED, MOVING = partition([1, 2]), partition([2, 3], version=3), partition([2, 3, 1], [1, 2], 1, version=2)


def now(**states: Any) -> Any:
    return {"t-0": OLD, "t-1": OLD, "u-0": OLD} | {name.replace("_", "-"): state for name, state in states.items()}


def then(topics: Any = THEN, czxid: Any = CZXID, empty: Any = ()) -> Any:
    """The snapshot: brokers of no rack, every partition with replicas 1 and 2, in sync and led by 1."""
    return Baseline(
        topics=topics,
        brokers={broker: BrokerThen(known, None, broker not in empty) for broker, known in czxid.items()},
        partitions={one.topic_partition: PartitionThen((1, 2), frozenset({1, 2}), 1) for one in MOVES},
    )


def found(current: Any, moves: Any = MOVES, baseline: Any = None, **others: Any) -> Any:
    return drifts(moves, current, baseline or then(), **others)


def left(current: Any, **others: Any) -> Any:
    """The moves still to do; raises where there is a conflict."""
    drifted = found(current, **others)
    check_no_conflict(drifted, begun=bool(others.get("batches_touched")))
    return [str(one.move.topic_partition) for one in drifted if one.left]


def of(drifted: Any, drift: Any) -> Any:
    return [str(one.move.topic_partition) for one in drifted if one.drift is drift]


def test_an_unchanged_cluster_has_everything_left_to_do() -> None:
    assert left(view(now())) == ["t-0", "t-1", "u-0"]


def test_leaders_in_sync_replicas_and_epochs_may_differ() -> None:
    assert left(view(now(t_0=partition([1, 2], [2], 2)))) == ["t-0", "t-1", "u-0"]


@pytest.mark.parametrize(
    ("states", "others", "words"),
    [
        (
            {"t_0": partition([2, 1])},
            {},
            "t-0: replicas are now [2, 1], the approved proposal starts from [1, 2]",
        ),
        ({"t_0": partition([1, 2, 3])}, {}, "t-0: replicas are now [1, 2, 3] (replication factor 3, was 2)"),
        # done by somebody else: this run has not requested it yet
        ({"t_0": partition([2, 3])}, {}, "t-0: replicas are now [2, 3]"),
        ({}, {"reassigning": {"t-0": [2, 3]}}, "t-0: it is being moved to [2, 3] by somebody else"),
        (
            {"t_0": partition([4, 1, 2], [1, 2], adding=[4], removing=[2])},
            {},
            "t-0: it is being moved to [4, 1] by somebody else",
        ),
        ({"t_1": partition([1])}, {}, "t-1: replicas are now [1] (replication factor 1, was 2)"),
        ({"u_0": partition([1, 2], czxid=11)}, {}, "topic u: it was deleted and made again (creation zxid 11"),
        ({}, {"deletions": frozenset({"u"})}, "topic u: it is being deleted"),
        ({}, {"brokers": (1, 2, 3)}, "broker 4: it is to receive replicas and is not registered"),
    ],
)
def test_before_the_first_write_each_difference_is_named(states: Any, others: Any, words: str) -> None:
    with pytest.raises(StaleProposalError) as stale:
        left(view(now(**states), **others))
    assert f"- {words}" in str(stale.value)
    assert "Nothing was written. Start a new Dag run" in str(stale.value)


@pytest.mark.parametrize(
    ("approved", "current", "words"),
    [
        ("x", "x", None),
        ("x", "y", "topic u: it was deleted and made again (topic id y, approved x) (u-0)"),
        (None, "y", "topic u: nothing tells whether it is still the approved one (u-0)"),
    ],
)
def test_after_a_migration_off_zookeeper_a_topic_is_known_by_its_id(
    approved: str | None, current: str, words: str | None
) -> None:
    """The Admin API tells no zxid and no version of a znode."""
    baseline = then(topics={"u": TopicIdentity(1, 10, approved)})
    migrated = view({"u-0": partition([1, 2], czxid=None, version=None, topic_id=current)})
    (drifted,) = found(migrated, MOVES[-1:], baseline)
    if words is None:
        assert (drifted.drift, drifted.left) == (Drift.UNCHANGED, True)
        return
    with pytest.raises(StaleProposalError) as stale:
        check_no_conflict([drifted], begun=False)
    assert str(stale.value).splitlines()[1:] == [f"- {words}"]


def test_all_differences_are_named_at_once() -> None:
    with pytest.raises(StaleProposalError) as stale:
        left(view(now(t_0=partition([4]), u_0=partition([1, 2], czxid=5)), brokers=(1, 2, 4)))
    lines = str(stale.value).splitlines()[1:]
    assert [line.split(":")[0] for line in lines] == ["- t-0", "- broker 3", "- topic u"]
    assert lines[1].endswith("(t-1)")
    assert lines[2].endswith("(u-0)")


def test_a_topic_that_is_gone_is_named() -> None:
    with pytest.raises(StaleProposalError, match="topic u: it was deleted"):
        left(view({"t-0": OLD, "t-1": OLD}))


def test_a_topic_made_again_with_the_same_replicas_is_told_by_its_id() -> None:
    baseline = then(THEN | {"u": TopicIdentity(None, None, "abc")})
    assert left(view(now(u_0=partition([1, 2], topic_id="abc"))), baseline=baseline)
    with pytest.raises(
        StaleProposalError, match=r"topic u: it was deleted and made again \(topic id xyz, approved abc"
    ):
        left(view(now(u_0=partition([1, 2], topic_id="xyz"))), baseline=baseline)


def test_a_topic_that_the_snapshot_does_not_know_is_refused() -> None:
    with pytest.raises(StaleProposalError, match="topic u: the snapshot does not know it"):
        left(view(now()), baseline=then({"t": THEN["t"]}))


def test_a_snapshot_without_versions_and_ids_still_compares_lists() -> None:
    nothing = TopicIdentity(None, None)
    baseline = then({"t": nothing, "u": nothing}, {})
    assert left(view(now()), baseline=baseline) == ["t-0", "t-1", "u-0"]
    assert of(found(view(now()), baseline=baseline), Drift.UNCHANGED) == ["t-0", "t-1", "u-0"]


# --- harmless drift ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (
            {"u_0": partition([1, 2], [2], 2)},
            ["u-0: replicas [2] are in sync, [1, 2] were", "u-0: broker 2 leads, it was 1"],
        ),
        ({"u_0": partition([1, 2], [2, 1], 2)}, ["u-0: broker 2 leads, it was 1"]),
        (
            {"u_0": partition([1, 2], version=2), "u_1": partition([3, 4], version=2)},
            ["topic u: its znode is at version 2, the snapshot read 1: 1 partition added (u-1)"],
        ),
        (
            {"u_0": partition([1, 2], version=5)},
            ["topic u: its znode is at version 5, the snapshot read 1: its lists are the same"],
        ),
    ],
)
def test_what_changes_by_itself_or_beside_the_move_is_harmless(states: Any, words: Any) -> None:
    drifted = found(view(now(**states)))
    assert of(drifted, Drift.CONFLICT) == []
    assert of(drifted, Drift.HARMLESS) == ["u-0"]
    assert [str(why) for one in drifted for why in one.why] == words
    assert left(view(now(**states))) == ["t-0", "t-1", "u-0"]


def test_lists_of_other_partitions_that_somebody_rewrote_are_named_and_harmless() -> None:
    known = dataclasses.replace(then(), partitions={tp("u-0"): PartitionThen((1, 2)), tp("u-1"): PartitionThen((1, 2))})
    current = view({"u-0": partition([1, 2], version=3), "u-1": partition([3], version=3)})
    (one,) = found(current, [move("u-0", [1, 2], [2, 4])], known)
    assert one.drift is Drift.HARMLESS
    assert "lists of other partitions rewritten (u-1)" in str(one.why[0])


def test_the_version_of_a_topic_that_this_run_changed_tells_nothing() -> None:
    drifted = found(view(now(t_0=MOVED, t_1=partition([1, 2], version=3))), batches_touched={1})
    assert of(drifted, Drift.UNCHANGED) == ["t-0", "t-1", "u-0"]


# --- brokers that registered again ---------------------------------------------------------------------------------


def again(broker: Any, czxid: Any = 999, rack: Any = None) -> Any:
    """Brokers 1 to 4, one of which registered again."""
    return {
        n: BrokerRegistration(n, (), rack if n == broker else None, czxid=czxid if n == broker else 100 + n)
        for n in (1, 2, 3, 4)
    }


def test_a_target_that_came_back_empty_is_a_conflict_of_each_partition_that_it_receives() -> None:
    current = dataclasses.replace(view(now()), brokers=again(3))
    drifted = found(current, came_back_empty={3})
    assert of(drifted, Drift.CONFLICT) == ["t-0", "t-1"]
    with pytest.raises(StaleProposalError) as stale:
        check_no_conflict(drifted, begun=False)
    assert (
        "- broker 3: it has registered again since the snapshot and may have come back empty: its disks hold nothing "
        "of what they held (t-0, t-1)" in str(stale.value)
    )


def test_a_target_that_was_restarted_and_has_its_data_is_harmless() -> None:
    current = dataclasses.replace(view(now()), brokers=again(2))
    drifted = found(current)
    assert of(drifted, Drift.HARMLESS) == ["t-0", "u-0"]
    assert str(drifted[0].why[0]) == "broker 2: it has registered again since the snapshot, with its data"
    drifted = found(dataclasses.replace(view(now()), brokers=again(4)), baseline=then(empty=[4]))
    assert str(drifted[2].why[0]).endswith("as empty as it was")


def test_a_target_that_came_back_in_another_rack_is_a_conflict() -> None:
    current = dataclasses.replace(view(now()), brokers=again(3, rack="r2"))
    drifted = found(current)
    assert of(drifted, Drift.CONFLICT) == ["t-0", "t-1"]
    assert "its rack is r2, was unset" in str(drifted[0].why[0])


def test_a_broker_that_registered_again_but_receives_nothing_does_not_matter() -> None:
    moves = [move("t-0", [1, 2], [2, 3])]
    current = dataclasses.replace(view(now()), brokers=again(4))
    assert of(found(current, moves, came_back_empty={4}), Drift.UNCHANGED) == ["t-0"]


def test_between_batches_a_target_that_came_back_with_its_data_is_accepted() -> None:
    current = dataclasses.replace(view(now(t_0=MOVED, t_1=partition([1, 2], version=3))), brokers=again(3))
    assert left(current, batches_touched={1}) == ["t-1", "u-0"]


def test_between_batches_a_target_that_came_back_and_is_not_in_sync_is_named() -> None:
    lagging = partition([2, 3], [2], version=3)
    current = dataclasses.replace(view(now(t_0=lagging, t_1=partition([1, 2], version=3))), brokers=again(3))
    with pytest.raises(StaleProposalError) as stale:
        left(current, batches_touched={1})
    assert (
        "broker 3: it has registered again since the snapshot and may have come back empty: not in sync on t-0 (t-1)"
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
def test_what_this_run_has_moved_is_not_held_against_it(t_0: Any, reassigning: Any, expected: Any) -> None:
    current = view(now(t_0=t_0, t_1=partition([1, 2], version=3)), reassigning=reassigning)
    assert left(current, batches_touched={1}) == expected


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ({"t_0": partition([3, 2])}, "t-0: replicas are now [3, 2]"),  # changed again after our move
        ({"t_0": MOVED, "t_1": partition([3, 1])}, "t-1: replicas are now [3, 1]"),  # not requested yet
        ({"t_0": MOVED, "u_0": partition([2, 4], version=2)}, "u-0: replicas are now [2, 4]"),  # not ours yet
        ({"t_0": partition([2, 3], czxid=12), "t_1": partition([1, 2], czxid=12)}, "topic t: it was deleted and made"),
    ],
)
def test_between_batches_everything_else_must_still_hold(states: Any, words: str) -> None:
    with pytest.raises(StaleProposalError) as stale:
        left(view(now(**states)), batches_touched={1})
    assert f"- {words}" in str(stale.value)


@pytest.mark.parametrize("after", [(), (2, 2), (-1,)])
def test_a_list_that_must_never_reach_kafka_is_refused(after: Any) -> None:
    bad = move("t-0", [1, 2], after)
    with pytest.raises(StaleProposalError, match="must not reach Kafka"):
        check_no_conflict(found(view(now()), [bad]), begun=False)


def test_identities_are_those_of_the_topics_znodes() -> None:
    states = {
        "t-0": partition([1], version=4, czxid=7, topic_id="x"),
        "t-1": partition([1], version=4, czxid=7, topic_id="x"),
    }
    assert topic_identities(view(states).partitions) == {"t": TopicIdentity(4, 7, "x")}


def test_the_policy_must_be_the_approved_one() -> None:
    check_policy_unchanged("a" * 64, "a" * 64)
    with pytest.raises(StaleProposalError, match=r"aaaaaaaa at the approval and is bbbbbbbb now\. Nothing"):
        check_policy_unchanged("a" * 64, "b" * 64)


@pytest.mark.parametrize(("approved", "current"), [(None, "a"), ("a", None), (None, None)])
def test_without_a_policy_nothing_is_written(approved: str | None, current: str | None) -> None:
    with pytest.raises(StaleProposalError, match=r"read-only\. Nothing was written"):
        check_policy_unchanged(approved, current)


# --- growth and age ------------------------------------------------------------------------------------------------

GB = 1_000_000_000
COPIED = [
    move("t-0", [1, 2], [2, 3], size=GB),
    move("t-1", [1, 2], [3, 4], size=GB),
    move("u-0", [1, 2], [2, 1], size=9 * GB),
]


@pytest.mark.parametrize(
    ("t_0", "t_1", "limit", "asks_again"),
    [
        (GB, GB, 0.25, False),
        (GB + 750_000_000, GB, 0.25, False),  # exactly a quarter of 3 GB
        (GB + 750_000_001, GB, 0.25, True),
        (GB, GB + 400_000_000, 0.25, True),  # counts twice: two copies
        (2 * GB, 0, 0.25, False),  # retention has taken as much elsewhere
        (0, 0, 0.0, False),
        (GB + 1_000_001, GB, 0.0, True),
        (GB + 1_000_000, GB, 0.0, False),  # less than is worth a second look
    ],
)
def test_much_more_to_copy_than_was_approved_must_be_asked_again(
    t_0: Any, t_1: Any, limit: float, asks_again: bool
) -> None:
    sizes = {tp("t-0"): t_0, tp("t-1"): t_1}  # what is only re-ordered copies nothing
    if not asks_again:
        check_growth(COPIED, sizes, limit)
        return
    with pytest.raises(
        StaleProposalError, match=r"growth_limit is .*The largest growth: t-.* Nothing was written\. Start a new"
    ):
        check_growth(COPIED, sizes, limit)


def test_sizes_that_cannot_be_read_have_not_stayed_the_same() -> None:
    with pytest.raises(ReadError, match=r"leaders of 1 partitions report no size \(t-1\)"):
        check_growth(COPIED, {tp("t-0"): GB, tp("t-1"): None}, 0.25)


def test_an_approval_expires_from_the_time_before_which_nothing_may_begin() -> None:
    noon, given = datetime(2026, 3, 1, 12, tzinfo=UTC), "2026-02-27T12:00:00+00:00"
    check_approval_fresh(given, 3600, noon, not_before=datetime(2026, 3, 1, 11, 30, tzinfo=UTC))
    with pytest.raises(ApprovalError, match="counts from not_before, 2026-03-01 10:30"):
        check_approval_fresh(given, 3600, noon, not_before=datetime(2026, 3, 1, 10, 30, tzinfo=UTC))
    check_approval_fresh("2026-03-01T11:30:00+00:00", 3600, noon, not_before=datetime(2026, 2, 1, tzinfo=UTC))


def test_an_approval_of_a_time_to_come_is_refused_since_its_age_cannot_be_told() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    check_approval_fresh("2026-03-01T12:04:00+00:00", 3600, noon)
    with pytest.raises(ApprovalError, match="cannot tell whether the approval has expired"):
        check_approval_fresh("2026-03-02T12:00:00+00:00", 3600, noon)
    with pytest.raises(ApprovalError, match="has expired"):
        check_approval_fresh("2026-02-28T12:00:00+00:00", 3600, noon)


def test_an_approval_that_is_too_old_before_the_first_write_must_be_asked_again() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    check_approval_fresh("2026-03-01T11:00:00+00:00", 3600, noon)
    check_approval_fresh("2026-03-01T13:00:00+01:00", 3600, noon)
    with pytest.raises(ApprovalError, match=r"approval of 2026-03-01 10:59 UTC has expired.*ask for an approval"):
        check_approval_fresh("2026-03-01T10:59:59+00:00", 3600, noon)
