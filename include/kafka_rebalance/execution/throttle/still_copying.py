"""Which partitions of a lease may still be copied, and whom its throttle slows besides."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.execution.move_stage import may_be_between, traits_of
from kafka_rebalance.kafka.throttles import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    split_entry,
)
from kafka_rebalance.model.cluster_view import AnyView, ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import PartitionView, TopicPartition


def copying_of(lease: ThrottleLease, view: AnyView) -> frozenset[TopicPartition]:
    """The lease's partitions on which a copy of ours may still run: what nobody lifts their throttle from.

    Those that are on their way to a list with a broker that the lease lets receive, whoever asked for that list: where
    others send a partition elsewhere in mid-copy, our copies that are in their list too go on. And those of which such
    a broker is outside the ISR. From the lease alone, since the plan of a run may be gone; what the view does not have
    no longer exists.

    A broker that is not registered copies nothing. It counts nevertheless while its copy has not ended: the copy would
    go on without throttle when the broker returns, hours later, with nobody there. Where it had ended, the broker was
    whole, and does not count: it may be gone for good, and would keep its cluster from every other run. Should it
    return after that, it catches up without throttle, as any broker that was restarted; one that comes back with an
    empty disk copies all of it so. `absent_receivers` says that to people.
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

    The controller takes an old replica out of the list only after that. While none is out the list may be the one in
    between, where somebody has deleted the request, which below 2.4 ends nothing.
    """
    return not may_be_between(union, partition, traits_of(partition))


def absent_receivers(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """Of each broker that lacks a copy of ours and is not registered: what waits for it, and what no longer does."""
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
                "gone for good: cancel what is requested with kafka_rebalance_cancel, and give partitions that are not "
                "being moved a list without it with kafka-reassign-partitions."
            )
        if ended:
            found.append(
                f"Broker {broker} is not registered. What was copied to it had ended ({some(ended)}), and "
                "no throttle is kept for it: what it has missed it copies without one when it returns. If its disk is "
                "empty then, throttle it with kafka-configs before it is started."
            )
    return tuple(found)


def slowed_catch_up(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """Replicas that catch up under our throttle and are none of our copies: of brokers that were restarted.

    A follower outside the ISR fetches at the leader's throttled rate where the leader's replica is listed.
    """
    found = []
    for topic_partition, (_, receiving) in sorted(_listed(lease).items()):
        partition = view.partitions.get(topic_partition)
        if partition is None:
            continue
        behind = [
            broker
            for broker in partition.replicas
            if broker not in partition.isr and broker not in receiving and broker in view.brokers
        ]
        found += [
            f"{topic_partition}: replica {broker} is outside the ISR and catches up under this run's throttle of "
            f"{lease.bytes_per_second} bytes/s. Raise the rate if it takes too long."
            for broker in behind
        ]
    return tuple(found)


def _listed(lease: ThrottleLease) -> dict[TopicPartition, tuple[frozenset[int], frozenset[int]]]:
    """The brokers that send, and those that receive, a copy of each listed partition: old replicas and new ones."""
    found: dict[TopicPartition, tuple[set[int], set[int]]] = {}
    for entity, values in lease.wanted.items():
        topic = entity.partition("/")[2]
        for side, key in enumerate((LEADER_REPLICAS, FOLLOWER_REPLICAS)):
            for entry in list_entries(values.get(key), key):
                partition, broker = split_entry(entry)
                found.setdefault(TopicPartition(topic, partition), (set(), set()))[side].add(broker)
    return {tp: (frozenset(sending), frozenset(receiving)) for tp, (sending, receiving) in found.items()}
