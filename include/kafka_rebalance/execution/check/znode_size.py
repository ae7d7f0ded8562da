"""What makes a write dangerous beyond what ZooKeeper's request queues show: brokers, sizes of znodes, other tools."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.replica_list import JUTE_MAXBUFFER_BYTES, JUTE_MAXBUFFER_PLACES

Configs = Mapping[int, Mapping[str, tuple[str | None, str]]]  # broker -> key -> (value, Kafka's name of its source)
ApiVersions = Mapping[int, Mapping[int, tuple[int, int]]]  # broker -> key of the request -> oldest and newest version

MIN_INSYNC_REPLICAS = "min.insync.replicas"
PROTOCOL = "inter.broker.protocol.version"
# Cruise Control's own names (CruiseControlMetricsReporterConfig, KafkaSampleStore) and Strimzi's.
CRUISE_CONTROL_TOPICS = ("__CruiseControlMetrics", "__KafkaCruiseControl", "strimzi.cruisecontrol.")
# Path, headers and the controller epoch's check take their part of the request.
ZNODE_BYTES = JUTE_MAXBUFFER_BYTES - 1024
FEWER = "Start a new Dag run with fewer partitions_per_batch"


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
    configs: Configs,
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


def mixed_versions(configs: Configs, apis: ApiVersions) -> Iterable[Finding]:
    """Brokers of different versions: a rolling upgrade is under way.

    In its first round `inter.broker.protocol.version` is the same on all, and only the software differs: that shows in
    the requests that brokers speak. Releases that speak the same look the same.
    """
    protocols: dict[str, list[int]] = {}
    for broker, values in sorted(configs.items()):
        if (version := values.get(PROTOCOL, (None, ""))[0]) is not None:
            protocols.setdefault(version, []).append(broker)
    remedy = "Wait until the rolling upgrade has ended, then clear this task"
    if len(protocols) > 1:
        said = "; ".join(f"{version} on broker {_listed(brokers)}" for version, brokers in sorted(protocols.items()))
        yield Finding("brokers", f"they run different {PROTOCOL}: {said}", remedy)
    speaking: dict[frozenset[tuple[int, tuple[int, int]]], list[int]] = {}
    for broker, spoken in sorted(apis.items()):
        speaking.setdefault(frozenset(spoken.items()), []).append(broker)
    if len(speaking) > 1:
        said = "; ".join(f"broker {_listed(brokers)}" for brokers in speaking.values())
        different = frozenset.union(*speaking) - frozenset.intersection(*speaking)
        yield Finding(
            "brokers",
            f"their software is of different versions: {said} speak {len({key for key, _ in different})} of Kafka's "
            "requests in different versions",
            remedy,
        )


def cruise_control(topics: Iterable[str], configs: Configs) -> Iterable[Finding]:
    """Signs of Cruise Control, which moves partitions by its own goals: its topics, and its reporter in the brokers."""
    signs = [f"topic {topic}" for topic in sorted(topics) if topic.startswith(CRUISE_CONTROL_TOPICS)]
    reporting = [
        broker
        for broker, values in sorted(configs.items())
        if "cruisecontrol" in (values.get("metric.reporters", (None, ""))[0] or "").lower()
    ]
    signs += [f"metric.reporters of broker {_listed(reporting)}"] if reporting else []
    if signs:
        yield Finding(
            "Cruise Control",
            f"it works on this cluster ({some(signs)}): two that move partitions undo each other's work",
            "Pause it, and set beside_cruise_control: true in the policy; or remove what it left behind",
        )


def too_large_znodes(batches: Iterable[Batch], view: ClusterView) -> Iterable[Finding]:
    """Requests, and topics in the midst of a batch, that ZooKeeper would not take: it closes the connection, and the
    controller tries for ever. `view` has every partition of the topics.
    """
    lists: dict[str, dict[str, list[int]]] = {}
    for tp, partition in view.partitions.items():
        lists.setdefault(tp.topic, {})[str(tp.partition)] = list(partition.replicas)
    for batch in batches:
        asked = [
            {"topic": m.topic_partition[0], "partition": m.topic_partition[1], "replicas": m.after} for m in batch.moves
        ]
        request = _length({"version": 1, "partitions": asked})
        if request > ZNODE_BYTES:
            yield Finding(f"batch {batch.number}", f"its request has {request:,} of {ZNODE_BYTES:,} bytes", FEWER)
        for topic in sorted({move.topic_partition.topic for move in batch.moves}):
            moving = [move for move in batch.moves if move.topic_partition.topic == topic]
            size = _length(_in_motion(lists.get(topic, {}), moving))
            if size > ZNODE_BYTES:
                yield Finding(
                    f"topic {topic}",
                    f"its znode grows to {size:,} of {ZNODE_BYTES:,} bytes in batch {batch.number}",
                    f"Start a new Dag run with the topic in topics_out. {JUTE_MAXBUFFER_PLACES}",
                )


def _in_motion(lists: Mapping[str, list[int]], moves: Iterable[Move]) -> dict[str, object]:
    """The topic's znode while these move, in its longest form: version 3 with a topic id (2.8+)."""
    now, adding, removing = dict(lists), {}, {}
    for move in moves:
        key = str(move.topic_partition.partition)
        now[key] = [*move.after, *move.removed]
        adding[key], removing[key] = list(move.added), list(move.removed)
    return {
        "version": 3,
        "topic_id": "x" * 22,
        "partitions": now,
        "adding_replicas": adding,
        "removing_replicas": removing,
    }


def _length(document: object) -> int:
    return len(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))
