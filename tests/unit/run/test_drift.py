"""What must still be as it was approved, before the first write and before each batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafka_rebalance.errors import ReadError, SettingsError, StaleProposalError
from kafka_rebalance.kafka.who_may_receive import Shut, shut_in_words
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import BrokerRegistration
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition, topic_identities
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.checks.drift import (
    Baseline,
    BrokerThen,
    Drift,
    PartitionThen,
    check_growth,
    check_no_conflict,
    check_only_receivers,
    drifts,
    registered_again,
)
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
    assert "No move was requested. Start a new Dag run" in str(stale.value)


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
    assert "was approved. No further move was requested. Start" in str(stale.value)


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


def test_a_broker_has_registered_again_if_its_registration_is_another_one() -> None:
    current = dataclasses.replace(view(now()), brokers=again(3))
    assert registered_again(current, then()) == {3}
    assert registered_again(current, then(czxid={1: 101})) == set(), "the snapshot does not know it"
    assert registered_again(current, then(czxid={**CZXID, 3: None})) == set(), "nobody can tell"
    assert registered_again(dataclasses.replace(view(now()), brokers=again(3, czxid=None)), then()) == set()


def without_epochs(broker: int, rack: Any = None) -> Any:
    """A cluster that does not tell when its brokers registered: another rack or empty disks alone tell."""
    current = dataclasses.replace(view(now()), brokers=again(broker, rack=rack))
    return dataclasses.replace(current, traits=dataclasses.replace(current.traits, has_broker_epochs=False))


def test_without_registrations_a_target_is_the_same_if_its_rack_and_its_data_are() -> None:
    assert of(found(without_epochs(3)), Drift.UNCHANGED) == ["t-0", "t-1", "u-0"]


@pytest.mark.parametrize(
    ("rack", "empty", "words"),
    [
        ("r2", (), "broker 3: it is not as in the snapshot, and its rack is r2, was unset: the approved lists keep to"),
        (None, (3,), "broker 3: it is not as in the snapshot and may have come back empty: its disks hold nothing"),
    ],
)
def test_without_registrations_another_rack_or_empty_disks_are_a_conflict(rack: Any, empty: Any, words: str) -> None:
    drifted = found(without_epochs(3, rack), came_back_empty=set(empty))
    assert of(drifted, Drift.CONFLICT) == ["t-0", "t-1"]
    assert str(drifted[0].why[0]).startswith(words)


def test_a_target_without_a_rack_that_had_one_is_a_conflict() -> None:
    known = dataclasses.replace(then(), brokers={3: BrokerThen(103, "r1")})
    drifted = found(dataclasses.replace(view(now()), brokers=again(3)), baseline=known)
    assert "its rack is unset, was r1" in str(drifted[0].why[0])
    assert drifted[0].why[0].subject == "broker 3"


def test_a_partition_that_is_gone_while_its_topic_is_there_is_a_conflict() -> None:
    states = {name: state for name, state in now().items() if name != "t-1"}
    drifted = found(view(states))
    assert [str(why) for one in drifted for why in one.why if one.drift is Drift.CONFLICT] == [
        "t-1: it no longer exists"
    ]
    assert [one.left for one in drifted] == [True, False, True]


def test_a_conflict_of_a_target_alone_leaves_the_move_to_do_and_one_of_the_partition_does_not() -> None:
    drifted = found(view(now(u_0=partition([4])), brokers=(1, 2, 4)))
    assert [(str(one.move.topic_partition), one.left) for one in drifted if one.drift is Drift.CONFLICT] == [
        ("t-0", True),
        ("t-1", True),
        ("u-0", False),
    ]


def test_a_topic_that_is_gone_is_told_once_and_not_partition_by_partition() -> None:
    (drifted,) = found(view({}), MOVES[:1])
    assert [str(why) for why in drifted.why] == ["topic t: it was deleted"]


def test_a_difference_of_the_partition_itself_is_named_without_naming_it_again() -> None:
    with pytest.raises(StaleProposalError) as stale:
        left(view(now(t_0=partition([4]))))
    assert str(stale.value).splitlines()[1:] == [
        "- t-0: replicas are now [4] (replication factor 1, was 2), the approved proposal starts from [1, 2]"
    ]


def test_partitions_added_and_lists_rewritten_are_told_together() -> None:
    known = dataclasses.replace(then(), partitions={tp(f"u-{n}"): PartitionThen((1, 2)) for n in (0, 1)})
    states = {"u-0": [1, 2], "u-1": [3], "u-2": [1], "u-3": [1]}
    current = view({name: partition(replicas, version=3) for name, replicas in states.items()})
    (one,) = found(current, [move("u-0", [1, 2], [2, 4])], known)
    assert one.drift is Drift.HARMLESS
    assert str(one.why[0]).endswith(": 2 partitions added (u-2, u-3) and lists of other partitions rewritten (u-1)")


def test_an_election_that_somebody_else_has_made_is_what_was_approved() -> None:
    """The list is the approved one already, so nothing is left to do, and nothing is in the way."""
    elect = move("t-0", [1, 2], [1, 2])
    led = found(view({"t-0": partition([1, 2])}), [elect])
    assert (led[0].drift, led[0].why) == (Drift.UNCHANGED, ())
    to_do = found(view({"t-0": partition([1, 2], leader=2)}), [elect])
    assert to_do[0].drift is Drift.HARMLESS


def test_a_request_of_somebody_else_is_named_before_what_runs() -> None:
    running = partition([4, 1, 2], [1, 2], adding=[4], removing=[2])
    with pytest.raises(StaleProposalError, match=r"t-0: it is being moved to \[4, 3\] by somebody else"):
        left(view(now(t_0=running), reassigning={"t-0": [4, 3]}))


# Brokers that Kafka gives no new replica any more, and the approved moves that would bring them some.


def test_a_broker_that_was_cordoned_since_conflicts_with_what_it_would_receive() -> None:
    drifted = found(view(now()), shut={4: Shut.CORDONED, 1: Shut.OFFLINE})
    assert of(drifted, Drift.CONFLICT) == ["u-0"]  # t-1 keeps a replica on broker 1, and puts none there
    with pytest.raises(StaleProposalError, match=r"broker 4: it is to receive replicas and is cordoned .*\(u-0\)"):
        check_no_conflict(drifted, begun=False)


def test_a_new_list_conflicts_with_a_cordoned_broker_where_a_replica_lies_already() -> None:
    drifted = found(view(now()), shut={1: Shut.CORDONED})
    assert of(drifted, Drift.CONFLICT) == ["t-1"]
    with pytest.raises(StaleProposalError, match="broker 1: new lists name it and it is cordoned"):
        check_no_conflict(drifted, begun=False)
    elects = found(view(now(t_0=partition([1, 2], leader=2))), [move("t-0", [1, 2], [1, 2])], shut={1: Shut.CORDONED})
    assert of(elects, Drift.CONFLICT) == []


def test_what_is_on_its_way_there_goes_on() -> None:
    moving = view(now(t_0=partition([2, 3, 1], [1, 2], 1, version=2, adding=[3], removing=[1])))
    assert of(found(moving, batches_touched={1}, shut={3: Shut.CORDONED}), Drift.CONFLICT) == ["t-1"]


@pytest.mark.parametrize("why", Shut)
def test_every_reason_why_a_broker_receives_nothing_is_told_in_words(why: Shut) -> None:
    (conflict,) = [one for one in found(view(now()), shut={4: why}) if one.drift is Drift.CONFLICT]
    assert str(conflict.why[0]) == f"broker 4: it is to receive replicas and {shut_in_words(why)}"


# Before the first write: approved moves against the settings that say who alone receives replicas.


RECEIVERS = {1: BrokerThen(1), 2: BrokerThen(2), 3: BrokerThen(3), 4: BrokerThen(4, held_replicas=False)}
COPIES = (
    Move(TopicPartition("orders", 0), (1, 2), (4, 2), 1),
    Move(TopicPartition("orders", 1), (1, 2), (2, 1), 1),  # only the order changes
    Move(TopicPartition("orders", 2), (1, 2), (1, 3), 1),
)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"brokers_in": [4]}, "orders-2 to broker 3, but by brokers_in only broker 4 may"),
        ({"brokers_in": [3]}, "orders-0 to broker 4, but by brokers_in only broker 3 may"),
        ({"brokers_in": "new"}, "orders-2 to broker 3, but by brokers_in only broker 4 may"),
    ],
)
def test_a_copy_to_another_broker_is_refused_with_the_setting(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_only_receivers(COPIES, Settings.from_mapping(asked), RECEIVERS)
    assert words in str(refused.value)
    assert "Do not trust the plan's files" in str(refused.value)


@pytest.mark.parametrize("asked", [{}, {"brokers_out": [3]}, {"brokers_in": [3, 4]}])
def test_what_the_settings_allow_passes(asked: dict[str, Any]) -> None:
    check_only_receivers(COPIES, Settings.from_mapping(asked), RECEIVERS)


def test_new_orders_and_copies_to_empty_brokers_pass_where_new_brokers_receive() -> None:
    check_only_receivers(COPIES[:2], Settings(brokers_in="new"), RECEIVERS)


# Growth, the policy and the age of an approval: what has to be asked again before the first write.


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
    with pytest.raises(StaleProposalError, match=r"growth_limit is .*The largest growth: t-.* Start a new"):
        check_growth(COPIED, sizes, limit)


def test_sizes_that_cannot_be_read_have_not_stayed_the_same() -> None:
    with pytest.raises(ReadError, match=r"leaders of 1 partitions report no size \(t-1\)"):
        check_growth(COPIED, {tp("t-0"): GB, tp("t-1"): None}, 0.25)


@pytest.mark.parametrize(
    ("grown", "named"),
    [
        ([number * GB for number in range(8)], ["t-7", "t-6", "t-5", "t-4", "t-3"]),  # the largest first, and five
        ([4 * GB, 0, 1], ["t-0", "t-2"]),  # one has not grown
    ],
)
def test_the_partitions_that_have_grown_most_are_named(grown: list[int], named: list[str]) -> None:
    moves = [move(f"t-{number}", [1, 2], [2, 3], size=GB) for number in range(len(grown))]
    with pytest.raises(StaleProposalError) as stale:
        check_growth(moves, {tp(f"t-{number}"): GB + more for number, more in enumerate(grown)}, 0.1)
    largest = str(stale.value).partition("The largest growth: ")[2].partition(". Start")[0]
    assert [partition.split(" by ")[0] for partition in largest.split(", ")] == named


def test_a_partition_that_is_empty_now_counts_as_nothing() -> None:
    check_growth(COPIED, {tp("t-0"): 3 * GB + 750_000_000, tp("t-1"): 0}, 0.25)
    with pytest.raises(StaleProposalError):
        check_growth(COPIED, {tp("t-0"): 3 * GB + 750_000_001, tp("t-1"): 0}, 0.25)
