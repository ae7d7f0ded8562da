"""What nobody can copy, or delete, unless brokers that are away come back."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition


def waiting_for(view: ClusterView, may_be_down: Collection[int]) -> dict[TopicPartition, tuple[int, ...]]:
    """Partitions that nobody can copy unless these brokers come back, all of which may be down.

    No replica in sync is alive, so nobody leads them. Or their topic is being deleted, which waits for these brokers.
    """
    deleted: dict[str, set[int]] = {}
    for tp, partition in view.partitions.items():
        if tp.topic in view.deletions:
            deleted.setdefault(tp.topic, set()).update(set(partition.replicas) - view.brokers.keys())
    found = {}
    for tp, partition in view.partitions.items():
        away = deleted.get(tp.topic, set())
        if tp.topic not in deleted and partition.leader not in view.brokers:
            is_stuck = view.brokers.keys().isdisjoint(partition.isr)  # else a leader is about to be elected
            away = set(partition.isr or partition.replicas) - view.brokers.keys() if is_stuck else set()
        if away and away.issubset(may_be_down):
            found[tp] = tuple(sorted(away))
    return found
