"""Whether every moved partition is where it was approved to be, complete, at rest, and led as approved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import PartitionView, TopicAssignment, TopicIdentity, TopicPartition
from kafka_rebalance.model.settings import matches
from kafka_rebalance.run.check_result import Check, CheckName

# Whether every moved partition is where it was approved to be, complete and at rest.


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
        listing = f"Kafka lists {some(moving)}" if moving else "Kafka lists none of them"
        return Check(CheckName.AT_REST, "reassignments", "none of this run's partitions", listing, not moving)
    check = partial(Check, CheckName.AT_REST, "/admin/reassign_partitions", "absent")
    if view.reassignments is None:
        return check("absent", True)
    ours = sorted(move.topic_partition for move in moves if move.topic_partition in view.reassignments)
    if ours:
        return check(f"lists {some(ours)}", False)
    if not view.reassignments:
        return check("there and empty: the controller takes up no further request", False)
    return check(f"lists {some(sorted(view.reassignments))}, none of this run", True, "warning")


# Whether every moved partition is led by its preferred leader.


def check_leaders(moves: Sequence[Move], view: ClusterView) -> tuple[Check, ...]:
    """`leader` for each partition: the first of the approved replicas leads and is registered.

    A failed check says whether another preferred election would help. Kafka elects the preferred replica only if it is
    live and in sync, and skips the partition otherwise.
    """
    checks = []
    for move in moves:
        partition, preferred = view.partitions.get(move.topic_partition), move.after[0]
        leader = partition.leader if partition else -1
        live = preferred in view.brokers
        finding = f"broker {leader} leads" if leader >= 0 else "nobody leads"
        if not live:
            finding += f"; broker {preferred} is not registered"
        elif leader != preferred and partition and preferred in partition.isr:
            finding += "; elect again"
        elif leader != preferred:
            finding += f"; broker {preferred} is not in sync, so it cannot be elected yet"
        expectation, passed = f"broker {preferred} leads and is registered", leader == preferred and live
        checks.append(Check(CheckName.LEADER, str(move.topic_partition), expectation, finding, passed))
    return tuple(checks)


# Whether brokers that were to be emptied hold no replica of any topic any more.


def check_emptied(
    brokers: Iterable[int],
    assignments: Mapping[str, TopicAssignment],
    topics_in: Sequence[str],
    waits: Mapping[TopicPartition, Sequence[int]] = MappingProxyType({}),
) -> tuple[Check, ...]:
    """`emptied` for each of these brokers. `assignments` are of all topics of the cluster: internal topics, topics made
    meanwhile, and topics that the policy keeps out count too.

    A run for some topics alone (`topics_in`, globs) empties the broker of these: other topics are a warning. So is what
    the approved plan has left out because it waits for the broker itself (`waits`).
    """
    return tuple(_check(broker, assignments, topics_in, waits) for broker in sorted(brokers))


def _check(
    broker: int,
    assignments: Mapping[str, TopicAssignment],
    topics_in: Sequence[str],
    waits: Mapping[TopicPartition, Sequence[int]],
) -> Check:
    here = [
        TopicPartition(topic, partition)
        for topic, assignment in sorted(assignments.items())
        for partition, replicas in assignment.partitions.items()
        if broker in replicas
    ]
    lost = sorted(tp for tp in here if broker in waits.get(tp, ()))
    by_topic = Counter(tp.topic for tp in here if tp not in set(lost))
    wanted = {topic: count for topic, count in by_topic.items() if matches(topic, topics_in)}
    check = partial(Check, CheckName.EMPTIED, f"broker {broker}", "it holds no replica of any topic")
    if wanted:
        return check(f"it holds {_named(wanted)}", False)
    if lost:
        finding = f"it still holds {some(lost)}, lost unless it returns, which the plan has left out"
        return check(finding, True, "warning")
    if by_topic:
        return check(f"it still holds {_named(by_topic)}, which topics_in leaves out", True, "warning")
    return check("it holds no replica", True)


def _named(by_topic: Mapping[str, int]) -> str:
    return f"{sum(by_topic.values())} replicas of {some([f'{topic} ({count})' for topic, count in by_topic.items()])}"
