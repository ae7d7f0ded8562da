"""Replication throttles: Kafka's config keys, the form of its lists, and the replicas that its own tool throttles.

A throttle has two parts that work only together: a rate on a broker, and a list of replicas on a topic. It holds back
listed replicas that are *not* in the ISR. No controller ever sets or removes it (KIP-73).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.versions import behaviour

LEADER_REPLICAS = "leader.replication.throttled.replicas"  # of a topic: P:B, the replicas that send
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"  # of a topic: P:B, the replicas that receive
LEADER_RATE = "leader.replication.throttled.rate"  # of a broker: bytes per second
FOLLOWER_RATE = "follower.replication.throttled.rate"
LIST_KEYS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATE_KEYS = (LEADER_RATE, FOLLOWER_RATE)
THROTTLE_KEYS = LIST_KEYS + RATE_KEYS

EVERY_REPLICA = "*"
_ENTRY = re.compile(r"[0-9]+:[0-9]+")


def throttled_replicas(
    current: Mapping[tuple[str, int], Sequence[int]],
    target: Mapping[tuple[str, int], Sequence[int]],
    *,
    version: str = "2.0",
) -> dict[str, dict[str, list[str]]]:
    """What kafka-reassign-partitions of that version throttles: {topic: {"leader": ["0:100"], "follower": [...]}}.

    Leader: every existing replica of a partition that gains a broker, because any of them may lead. Follower: the new
    brokers. The result has every topic of `target`. Its lists are empty if partitions only shrink or change their
    order. From 2.6 on, every planned partition is leader-throttled, even if nothing is added, and the lists are sorted
    as text. For a partition that is moving already, `current` is its original list (2.6+). 2.0 leaves the order to a
    hash map; here, it is partition, then position. Raises KafkaRuleError for a partition that `current` does not have.
    Source: ReassignPartitionsCommand.assignThrottledReplicas (2.0), calculateLeaderThrottles (2.6).
    """
    unknown = sorted(f"{topic}-{partition}" for topic, partition in target if (topic, partition) not in current)
    if unknown:
        raise KafkaRuleError(
            f"The proposed assignment contains non-existent partitions: {', '.join(unknown)}",
            "Nothing was written. Take them out, or create them first.",
        )
    every_partition = behaviour(version).throttles_every_planned_partition
    throttled: dict[str, dict[str, list[str]]] = {}
    for topic, partition in sorted(target):
        lists = throttled.setdefault(topic, {"leader": [], "follower": []})
        existing, proposed = current[topic, partition], target[topic, partition]
        added = [broker for broker in dict.fromkeys(proposed) if broker not in existing]
        if added or every_partition:
            lists["leader"] += [f"{partition}:{broker}" for broker in dict.fromkeys(existing)]
        lists["follower"] += [f"{partition}:{broker}" for broker in added]
    if every_partition:
        for lists in throttled.values():
            lists["leader"].sort()
            lists["follower"].sort()
    return throttled


def parse_throttled_replicas(value: str, key: str = LEADER_REPLICAS) -> tuple[str, ...]:
    """The entries of a list: ("*",) for every replica, () for an empty list.

    If `*` is the first entry, it means all, whatever follows (ThrottledReplicaListValidator, 2.0).
    Raises KafkaRuleError with Kafka's message.
    """
    entries = tuple(entry.strip() for entry in value.split(","))
    if entries[0] == EVERY_REPLICA:
        return (EVERY_REPLICA,)
    if not all(entry == "" or _ENTRY.fullmatch(entry) for entry in entries):
        raise KafkaRuleError(
            f"Invalid value {value} for configuration {key}: {key} must be the literal '*' or a list of replicas in "
            "the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            "Brokers cannot load it. Correct it with kafka-configs.",
        )
    return tuple(dict.fromkeys(entry for entry in entries if entry))


def format_throttled_replicas(entries: Iterable[str]) -> str:
    return ",".join(entries)


def split_entry(entry: str) -> tuple[int, int]:
    """(partition, broker) of `0:101`."""
    partition, _, broker = entry.partition(":")
    return int(partition), int(broker)
