"""Whether the partitions that move keep min.insync.replicas, now and with their approved lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.configs import ConfigsByBroker
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import TopicPartition

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def under_min_isr(
    moves: Iterable[Move],
    view: ClusterView,
    min_insync: Mapping[TopicPartition, int],
    leaving: Collection[int] = frozenset(),
) -> Iterable[Finding]:
    """Partitions to be moved that take no acks=all now: one failure more, and data is lost or unavailable.

    Those that lack only replicas on brokers that are to be emptied are moved to mend just that.
    """
    found = []
    for move in moves:
        partition = view.partitions.get(move.topic_partition)
        least = min_insync.get(move.topic_partition, 1)
        if partition is None or len(partition.isr) >= least:
            continue
        missing = set(partition.replicas) - set(partition.isr) - set(leaving)
        if missing:
            found.append((move.topic_partition, missing))
    if found:
        names = [f"{tp} lacks {sorted(missing)}" for tp, missing in sorted(found)]
        yield Finding(
            f"{len(found)} partition{'s' if len(found) > 1 else ''} below min.insync.replicas",
            some(names),
            "Bring those replicas back in sync (see the brokers' logs), then clear this task",
        )


def cut_below_min_isr(moves: Iterable[Move], min_insync: Mapping[TopicPartition, int]) -> Iterable[Finding]:
    """Lists that get shorter, and shorter than min.insync.replicas: no acks=all would be taken whoever is up."""
    cut = [
        (move, least)
        for move in moves
        if (least := min_insync.get(move.topic_partition, 0)) > len(move.after) < len(move.before)
    ]
    if cut:
        names = [
            f"{move.topic_partition} goes from {len(move.before)} to {len(move.after)} and is to have {least}"
            for move, least in sorted(cut, key=lambda one: one[0].topic_partition)
        ]
        yield Finding(
            f"{len(cut)} partition{'s' if len(cut) > 1 else ''} with fewer replicas than min.insync.replicas",
            some(names),
            "Producers with acks=all would be refused. Lower min.insync.replicas of the topic, then clear this task, "
            "or start a new Dag run with a higher replication factor",
        )


def min_insync_now(
    moves: Iterable[Move],
    view: ClusterView,
    topic_configs: Mapping[str, Mapping[str, str]],
    configs: ConfigsByBroker,
    recorded: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """`min.insync.replicas` of each partition that moves: its topic's own, else the highest that applies on the broker
    that leads it or on one that is to hold it; else what is `recorded`.
    """
    found = {}
    for move in moves:
        tp = move.topic_partition
        partition = view.partitions.get(tp)
        brokers = {*move.after, partition.leader} if partition else set(move.after)
        set_there = [configs.get(broker, {}).get(MIN_INSYNC_REPLICAS, (None, ""))[0] for broker in brokers]
        own = topic_configs.get(tp.topic, {}).get(MIN_INSYNC_REPLICAS)
        known = [int(text) for text in (set_there if own is None else [own]) if text is not None and text.isdecimal()]
        if known or tp in recorded:
            found[tp] = max(known, default=recorded.get(tp, 0))
    return found
