"""Replication throttles: Kafka's config keys, the form of its lists, and the replicas that its own tool throttles.

A throttle has two parts that work only together: a rate on a broker, and a list of replicas on a topic. It holds back
listed replicas that are *not* in the ISR. No controller ever sets or removes it (KIP-73).
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.given_json import INT_MAX, LONG_MAX
from kafka_rebalance.kafka.versions import behaviour

LEADER_REPLICAS = "leader.replication.throttled.replicas"  # of a topic: P:B, the replicas that send
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"  # of a topic: P:B, the replicas that receive
LEADER_RATE = "leader.replication.throttled.rate"  # of a broker: bytes per second
FOLLOWER_RATE = "follower.replication.throttled.rate"
# Of a broker: bytes per second, of all copies between its log dirs together (KIP-113). It needs no list.
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LIST_KEYS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATE_KEYS = (LEADER_RATE, FOLLOWER_RATE)
THROTTLE_KEYS = LIST_KEYS + RATE_KEYS
BROKER_KEYS = (*RATE_KEYS, LOG_DIR_RATE)
# Of a broker: its log dirs that get no new replica (KIP-1066, Kafka 4.3 and later). No throttle, but a run that cordons
# the brokers that it empties records and puts it back as one.
CORDON = "cordoned.log.dirs"
EVERY_LOG_DIR = "*"

EVERY_REPLICA = "*"
_ENTRY = re.compile(r"[0-9]+:[0-9]+")
_BROKER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}", re.ASCII)
_RATE = re.compile(r"[0-9]{1,19}", re.ASCII)
_LOG_DIRS = re.compile(r"[^\x00-\x1f\x7f]{1,10000}")  # a path may have any letter
# ThrottledReplicaListValidator: `*`, or partition:broker pairs, or nothing.
_REPLICA_LIST = re.compile(r"\*|(?:[0-9]{1,10}:[0-9]{1,10}(?:\s*,\s*[0-9]{1,10}:[0-9]{1,10})*)?", re.ASCII)


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


def throttle_problem(entity: str, changes: Mapping[str, str | None]) -> str | None:
    """Why these changes must not be written, or None. A rebalance writes only throttle keys, and cordons.

    `entity` is `brokers/N` or `topics/T`. A value of None removes the key. Rates are whole bytes a second
    (DynamicConfig.Broker); replica lists are `partition:broker` pairs or `*` (ThrottledReplicaListValidator).
    """
    kind, _, name = entity.partition("/")
    if kind == "brokers" and _BROKER.fullmatch(name) and int(name) <= INT_MAX:
        allowed: tuple[str, ...] = (*BROKER_KEYS, CORDON)
    elif kind == "topics" and _TOPIC.fullmatch(name):
        allowed = LIST_KEYS
    else:
        return f"{reprlib.repr(entity)} is neither brokers/ID nor topics/NAME"
    for key, value in changes.items():
        if key not in allowed:
            return f"{reprlib.repr(key)} is not a throttle key of {kind}; these are {', '.join(sorted(allowed))}"
        must_be = None if value is None else _must_be(key, value)
        if must_be is not None:
            return f"{key} must be {must_be}, not {reprlib.repr(value)}"
    return None


def _must_be(key: str, value: object) -> str | None:
    """What a value of this key has to be, or None if it is that."""
    if not isinstance(value, str):
        return "a text"
    if key in BROKER_KEYS and not (_RATE.fullmatch(value) and int(value) <= LONG_MAX):
        return "whole bytes a second"
    if key == CORDON and not _LOG_DIRS.fullmatch(value):
        return "* or paths of log directories"
    if key in LIST_KEYS and not _REPLICA_LIST.fullmatch(value):
        return "partition:broker pairs or *"
    return None
