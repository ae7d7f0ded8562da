"""Whether every moved partition is where it was approved to be, complete and at rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import PartitionView, TopicIdentity
from kafka_rebalance.verification.check_result import Check, CheckName


def check_placement(moves: Sequence[Move], view: ClusterView) -> tuple[Check, ...]:
    """`replicas` and `in_sync` for each partition, `at_rest` for the znode."""
    checks = []
    for move in moves:
        subject, partition = str(move.topic_partition), view.partitions.get(move.topic_partition)
        checks.append(_replicas(move, subject, partition))
        checks.append(_in_sync(move, subject, partition))
    checks.append(_at_rest(moves, view))
    return tuple(checks)


def check_same_topics(moves: Sequence[Move], view: ClusterView, then: Mapping[str, TopicIdentity]) -> tuple[Check, ...]:
    """One failed result for each topic that was made again since the snapshot: what was approved is not there.

    A request that outlives a topic is carried out on the next one of that name when another controller reads it.
    """
    made_again = {}
    for move in moves:
        topic, partition = move.topic_partition.topic, view.partitions.get(move.topic_partition)
        before = then.get(topic)
        if partition is None or before is None or None in (before.czxid, partition.topic_czxid):
            continue
        if before.czxid != partition.topic_czxid:
            made_again[topic] = Check(
                CheckName.SAME_TOPIC,
                f"topic {topic}",
                "the topic of the snapshot",
                "it was deleted and created again, so nothing of what was approved is there",
                False,
            )
    return tuple(made_again[topic] for topic in sorted(made_again))


def check_not_deleted(moves: Sequence[Move], view: ClusterView) -> tuple[Check, ...]:
    """One failed result for each topic that is queued for deletion: 2.0 deletes it as soon as nothing of it moves."""
    queued = sorted({move.topic_partition.topic for move in moves} & view.deletions)
    finding = "it is queued for deletion in /admin/delete_topics, so nothing of what was moved will stay"
    return tuple(
        Check(CheckName.NOT_DELETED, f"topic {topic}", "a topic that stays", finding, False) for topic in queued
    )


def _replicas(move: Move, subject: str, partition: PartitionView | None) -> Check:
    expectation = f"replicas {list(move.after)} in this order, none being added or removed"
    if partition is None:
        return Check(CheckName.REPLICAS, subject, expectation, "the partition does not exist", False)
    finding = f"replicas {list(partition.replicas)}"
    if partition.replicas == move.before != move.after:
        finding += ", as before the run"
    if partition.in_motion:
        finding += f", adding {list(partition.adding)}, removing {list(partition.removing)}"
    at_rest = not partition.in_motion
    return Check(CheckName.REPLICAS, subject, expectation, finding, partition.replicas == move.after and at_rest)


def _in_sync(move: Move, subject: str, partition: PartitionView | None) -> Check:
    expectation = f"exactly {sorted(move.after)} in sync"
    isr = sorted(partition.isr) if partition else []
    missing, extra = sorted(set(move.after) - set(isr)), sorted(set(isr) - set(move.after))
    finding = f"{isr} in sync"
    if missing:
        finding += f", {missing} not"
    if extra:
        finding += f", {extra} should be gone"
    return Check(CheckName.IN_SYNC, subject, expectation, finding, not missing and not extra)


def _at_rest(moves: Sequence[Move], view: ClusterView) -> Check:
    """Somebody else's reassignment afterwards is no fault of this run, but worth knowing."""
    subject, expectation = "/admin/reassign_partitions", "absent"
    if view.reassignments is None:
        return Check(CheckName.AT_REST, subject, expectation, "absent", True)
    ours = sorted(move.topic_partition for move in moves if move.topic_partition in view.reassignments)
    if ours or not view.reassignments:
        finding = f"lists {some(ours)}" if ours else "there and empty: the controller takes up no further request"
        return Check(CheckName.AT_REST, subject, expectation, finding, False)
    finding = f"lists {some(sorted(view.reassignments))}, none of this run"
    return Check(CheckName.AT_REST, subject, expectation, finding, True, "warning")
