"""Whether every moved partition is where it was approved to be, complete and at rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import PartitionView, TopicIdentity
from kafka_rebalance.run.check_result import Check, CheckName


def check_placement(moves: Sequence[Move], view: ClusterView) -> tuple[Check, ...]:
    """`replicas` and `in_sync` for each partition, `at_rest` for the znode."""
    checks = []
    for move in moves:
        partition = view.partitions.get(move.topic_partition)
        checks += [_replicas(move, partition), _in_sync(move, partition)]
    return (*checks, _at_rest(moves, view))


def check_same_topics(moves: Sequence[Move], view: ClusterView, then: Mapping[str, TopicIdentity]) -> tuple[Check, ...]:
    """One failed result for each topic that was made again since the snapshot: what was approved is not there.

    If a topic is deleted and its request stays, the next controller moves the next topic of that name by this request.
    """
    made_again = {
        topic
        for move in moves
        if (before := then.get(topic := move.topic_partition.topic)) is not None
        and (partition := view.partitions.get(move.topic_partition)) is not None
        and before.is_other(partition)
    }
    finding = "it was deleted and created again, so nothing of what was approved is there"
    return tuple(
        Check(CheckName.SAME_TOPIC, f"topic {topic}", "the topic of the snapshot", finding, False)
        for topic in sorted(made_again)
    )


def check_not_deleted(moves: Sequence[Move], view: ClusterView) -> tuple[Check, ...]:
    """One failed result for each topic that is queued for deletion: 2.0 deletes it as soon as nothing of it moves."""
    queued = sorted({move.topic_partition.topic for move in moves} & view.deletions)
    finding = "it is queued for deletion in /admin/delete_topics, so nothing that was moved will stay"
    return tuple(
        Check(CheckName.NOT_DELETED, f"topic {topic}", "a topic that stays", finding, False) for topic in queued
    )


def _replicas(move: Move, partition: PartitionView | None) -> Check:
    subject = str(move.topic_partition)
    expectation = f"replicas {list(move.after)} in this order, none being added or removed"
    if partition is None:
        return Check(CheckName.REPLICAS, subject, expectation, "the partition does not exist", False)
    finding = f"replicas {list(partition.replicas)}"
    if partition.replicas == move.before != move.after:
        finding += ", as before the run"
    if partition.in_motion:
        finding += f", adding {list(partition.adding)}, removing {list(partition.removing)}"
    passed = partition.replicas == move.after and not partition.in_motion
    return Check(CheckName.REPLICAS, subject, expectation, finding, passed)


def _in_sync(move: Move, partition: PartitionView | None) -> Check:
    expectation = f"exactly {sorted(move.after)} in sync"
    isr = sorted(partition.isr) if partition else []
    missing, extra = sorted(set(move.after) - set(isr)), sorted(set(isr) - set(move.after))
    finding = f"{isr} in sync"
    if missing:
        finding += f", {missing} not"
    if extra:
        finding += f", {extra} should be gone"
    return Check(CheckName.IN_SYNC, str(move.topic_partition), expectation, finding, not missing and not extra)


def _at_rest(moves: Sequence[Move], view: ClusterView) -> Check:
    """Somebody else's reassignment afterwards is no fault of this run, but worth knowing."""
    if not view.traits.has_request_znode:
        moving = sorted(view.moving & {move.topic_partition for move in moves})
        found = f"Kafka lists {some(moving)}" if moving else "Kafka lists none of them"
        return Check(CheckName.AT_REST, "reassignments", "none of this run's partitions", found, not moving)
    check = partial(Check, CheckName.AT_REST, "/admin/reassign_partitions", "absent")
    if view.reassignments is None:
        return check("absent", True)
    ours = sorted(move.topic_partition for move in moves if move.topic_partition in view.reassignments)
    if ours:
        return check(f"lists {some(ours)}", False)
    if not view.reassignments:
        return check("there and empty: the controller takes up no further request", False)
    return check(f"lists {some(sorted(view.reassignments))}, none of this run", True, "warning")
