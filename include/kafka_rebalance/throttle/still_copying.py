"""Which partitions of a lease may still be copied, and which other replicas its throttle slows."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.kafka.throttles import FOLLOWER_REPLICAS
from kafka_rebalance.model.cluster_view import AnyView, ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.moves.move_stage import marks_moves, may_be_between
from kafka_rebalance.throttle.throttle_lease import ThrottleLease
from kafka_rebalance.throttle.wanted import each_entry


def copying_of(lease: ThrottleLease, view: AnyView) -> frozenset[TopicPartition]:
    """The lease's partitions on which a copy of ours may still run: nobody lifts their throttle.

    A partition counts while it is on its way to a list with a broker that the lease lets receive, whoever asked for
    that list: if others send it elsewhere in mid-copy, our copies that are also in their list go on. It also counts
    while such a broker is outside the ISR. The lease alone decides, since the plan of a run may be gone. A partition
    that the view does not have no longer exists.

    A broker that is not registered copies nothing. It still counts until its copy has ended: the copy would go on
    without a throttle when the broker returns, hours later, with nobody there. Once its copy has ended the broker does
    not count: it may be gone for good, and would keep its cluster from every other run. If it returns later, it
    catches up without a throttle, as any restarted broker does; with an empty disk it copies everything like that.
    `absent_receivers` says so to people.
    """
    found = set()
    for topic_partition, (sending, receiving) in _listed(lease).items():
        partition = view.partitions.get(topic_partition)
        if partition is None:
            continue
        ours = receiving & {*partition.replicas, *(view.reassignments or {}).get(topic_partition, ())}
        behind = ours - set(partition.isr)
        if topic_partition in view.moving:
            behind = ours
        elif _has_ended(partition, sending | receiving):
            behind &= frozenset(view.brokers)
        if behind:
            found.add(topic_partition)
    return frozenset(found)


def _has_ended(partition: PartitionView, union: Collection[int]) -> bool:
    """Whether the copies to a partition that nobody asks to move have all been in sync.

    The controller takes an old replica out of the list only after that. While no replica is out, the list may be the
    interim one: below 2.4 a move goes on after somebody has deleted its request.
    """
    return not may_be_between(union, partition, marks_moves(partition))


def absent_receivers(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """What to say of each broker that lacks a copy of ours and is not registered."""
    copying = copying_of(lease, view)
    absent: dict[int, list[TopicPartition]] = {}
    for topic_partition, (_, receiving) in sorted(_listed(lease).items()):
        partition = view.partitions.get(topic_partition)
        asked = (view.reassignments or {}).get(topic_partition, ())
        for broker in receiving & {*partition.replicas, *asked} - set(partition.isr) if partition else ():
            if broker not in view.brokers:
                absent.setdefault(broker, []).append(topic_partition)
    found = []
    for broker, lacking in sorted(absent.items()):
        waiting = [topic_partition for topic_partition in lacking if topic_partition in copying]
        ended = [topic_partition for topic_partition in lacking if topic_partition not in copying]
        if waiting:
            found.append(
                f"Broker {broker} is not registered, and copies to it cannot end: {some(waiting)}. Start it. If it is "
                "gone for good, cancel the request with kafka_rebalance_cancel, and give the partitions that do not "
                "move a list without this broker with kafka-reassign-partitions."
            )
        if ended:
            found.append(
                f"Broker {broker} is not registered. The copies to it had ended ({some(ended)}), so no throttle is "
                "kept for it. When it returns, it copies what it has missed without a throttle. If its disk is empty "
                "then, throttle the broker with kafka-configs before you start it."
            )
    return tuple(found)


def slowed_catch_up(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """Replicas that catch up under our throttle and are none of our copies: their brokers were restarted.

    A follower outside the ISR fetches at the leader's throttled rate where the leader's replica is listed.
    """
    return tuple(
        f"{topic_partition}: replica {broker} is outside the ISR and catches up under this run's throttle of "
        f"{lease.bytes_per_second} bytes/s. Raise the rate if it takes too long."
        for topic_partition, (_, receiving) in sorted(_listed(lease).items())
        if (partition := view.partitions.get(topic_partition)) is not None
        for broker in partition.replicas
        if broker not in partition.isr and broker not in receiving and broker in view.brokers
    )


def _listed(lease: ThrottleLease) -> dict[TopicPartition, tuple[set[int], set[int]]]:
    """The brokers that send, and those that receive, a copy of each listed partition: old replicas and new ones."""
    found: dict[TopicPartition, tuple[set[int], set[int]]] = {}
    for entry in each_entry(lease.wanted):
        sides = found.setdefault(entry.topic_partition, (set(), set()))
        sides[entry.key == FOLLOWER_REPLICAS].add(entry.broker)
    return found
