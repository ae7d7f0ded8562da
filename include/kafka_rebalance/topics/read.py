"""Reads a cluster for `kafka_topics`: partitions, sizes and configs, also while brokers are down."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.admin import configs as broker_configs
from kafka_rebalance.admin import log_dirs
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.json_files import TOPICS, JsonFile
from kafka_rebalance.errors import ClusterNotReadyError, ReadError, SettingsError
from kafka_rebalance.kafka.topics import BY_NAME, KafkasOwn
from kafka_rebalance.model.cluster_view import ClusterView, ConfigValue
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run import snapshot_reader
from kafka_rebalance.topics.rules import TopicRequest

log = logging.getLogger(__name__)

PROTOCOL_VERSION = "inter.broker.protocol.version"
MATCHING_SECONDS = 20.0  # 100,000 names take less than one second with any expression that does not go astray
_MATCH = """
import json, re, sys
expression, names = json.load(sys.stdin)
try:
    matches = re.compile(expression).fullmatch
    found = [name for name in names if matches(name)]
except (re.error, RecursionError, OverflowError, MemoryError) as bad:
    found = str(bad)
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True, slots=True)
class TopicCluster:
    """One cluster at one moment. Brokers that are down have no effective configs and no sizes."""

    view: ClusterView
    topic_configs: Mapping[str, Mapping[str, str]]  # of the requested topics
    effective: Mapping[int, Mapping[str, ConfigValue]]
    disks: log_dirs.BrokerDisks
    has_zookeeper: bool = True
    kafkas_own: KafkasOwn = BY_NAME

    @property
    def kafka_version(self) -> str | None:
        """The protocol version between controller and brokers, such as `2.8-IV1`. None: Kafka checks changes itself."""
        if not self.has_zookeeper:
            return None
        controller = self.view.controller
        version = self.effective.get(controller.broker, {}).get(PROTOCOL_VERSION) if controller else None
        if version is None or version.value is None:
            raise ReadError(
                f"The controller does not report {PROTOCOL_VERSION}, so it is unknown what this Kafka accepts. "
                "Check that the Kafka user may describe the configs of the cluster."
            )
        return version.value

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]]:
        """{partition: replicas} of the topic; empty if it does not exist."""
        return {tp.partition: p.replicas for tp, p in sorted(self.view.partitions.items()) if tp.topic == topic}

    def replicas(self) -> dict[int, int]:
        """{registered broker: replicas it holds}."""
        counts = Counter(broker for partition in self.view.partitions.values() for broker in partition.replicas)
        return {broker: counts[broker] for broker in self.view.brokers}


def read_topic_cluster(connection: ClusterConnection, request: TopicRequest) -> TopicCluster:
    """Reads the cluster and checks what every request needs. Later steps check whether the topic may change.

    Raises ReadError, and ClusterNotReadyError for an election storm or a KRaft migration.
    """
    with open_cluster(connection) as reader:
        if not request.is_read_only:
            reader.check_controller_stable(lambda: time.sleep(snapshot_reader.STORM_PAUSE_SECONDS))
        view = reader.read_view()
        topics = selected_topics(request, view) if request.is_read_only else [request.topic]
        topic_configs = reader.read_topic_configs(topics)
        reader.check_same_cluster(view)
        reader.check_is_whole(view)
        kafkas_own = BY_NAME if request.is_read_only else reader.read_kafkas_own(view)
    if connection.expected_cluster_id not in (None, view.cluster_id):
        raise ClusterNotReadyError(
            f"This is cluster {view.cluster_id}, but the connection expects {connection.expected_cluster_id}. "
            "Correct the address, or expected_cluster_id, of the connection."
        )
    brokers = sorted(view.brokers)
    return TopicCluster(
        view=view,
        topic_configs=topic_configs,
        effective=broker_configs.read_effective_configs(connection.kafka, brokers),
        disks=log_dirs.read_log_dirs(connection.kafka, brokers),
        has_zookeeper=connection.has_zookeeper,
        kafkas_own=kafkas_own,
    )


def selected_topics(request: TopicRequest, view: ClusterView) -> list[str]:
    """The topics for list and describe: all, or those whose whole name the regular expression matches.

    As in Kafka's tool, a comma means `|` (TopicFilter.Whitelist).
    """
    names = sorted({tp.topic for tp in view.partitions} | view.deletions)
    if not request.topic:
        return names
    return _matching(request.topic.strip().replace(",", "|"), names)


def _matching(expression: str, names: Sequence[str]) -> list[str]:
    """The names that it matches as a whole. Raises SettingsError if it is none, or takes too long.

    Some expressions try every way to divide a name, and nothing stops `re`. So another process does it.
    """
    wrong = f"'topic' {expression[:200]!r} cannot be used as a regular expression"
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _MATCH],
            input=json.dumps([expression, names]).encode(),
            capture_output=True,
            check=True,
            timeout=MATCHING_SECONDS,
        )
    except subprocess.TimeoutExpired as slow:
        raise SettingsError(
            f"{wrong}: it has not been compared with {len(names)} names within {MATCHING_SECONDS:g} s. Nothing was "
            "written. Leave out repetitions of repetitions, as in (a+)+."
        ) from slow
    except subprocess.CalledProcessError as failed:
        why = failed.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["its process was ended"]
        raise SettingsError(f"{wrong} ({why[0]}). Nothing was written. Give a simpler one.") from failed
    matching: list[str] | str = json.loads(ended.stdout)
    if isinstance(matching, str):
        raise SettingsError(f"{wrong} ({matching}). Nothing was written. Correct it.")
    return matching


# topics.json: what list and describe found.


@dataclass(frozen=True, slots=True)
class PartitionFound:
    """`size_bytes` is that of the leader's replica. None: there is no leader, or it does not tell."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    size_bytes: int | None
    under_replicated: bool
    unavailable: bool


@dataclass(frozen=True, slots=True)
class TopicFound:
    """The figures are of all its partitions, also if `partitions` are only those that were asked for."""

    topic: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]
    marked_for_deletion: bool
    size_bytes: int | None
    under_replicated: int
    unavailable: int
    partitions: tuple[PartitionFound, ...]


@dataclass(frozen=True, slots=True)
class TopicsFound:
    cluster_id: str
    topics: tuple[TopicFound, ...]


TOPICS_FILE = JsonFile(TOPICS, TopicsFound)


def describe(cluster: TopicCluster, request: TopicRequest) -> tuple[TopicFound, ...]:
    by_topic: dict[str, list[PartitionFound]] = {}
    for tp in sorted(cluster.view.partitions):
        by_topic.setdefault(tp.topic, []).append(_partition(cluster, tp))
    described = []
    for topic in selected_topics(request, cluster.view):
        partitions = by_topic.get(topic, [])
        configs = dict(sorted(cluster.topic_configs.get(topic, {}).items()))
        chosen = partitions
        if request.only in ("under_replicated", "unavailable"):
            chosen = [partition for partition in partitions if getattr(partition, request.only)]
            if not chosen:
                continue
        elif request.only == "with_overrides" and not configs:
            continue
        sizes_known = [partition.size_bytes for partition in partitions if partition.size_bytes is not None]
        described.append(
            TopicFound(
                topic=topic,
                partition_count=len(partitions),
                replication_factor=len(partitions[0].replicas) if partitions else 0,
                configs=configs,
                marked_for_deletion=topic in cluster.view.deletions,
                size_bytes=sum(sizes_known) if len(sizes_known) == len(partitions) else None,
                under_replicated=sum(partition.under_replicated for partition in partitions),
                unavailable=sum(partition.unavailable for partition in partitions),
                partitions=tuple(chosen),
            )
        )
    return tuple(described)


def _partition(cluster: TopicCluster, tp: TopicPartition) -> PartitionFound:
    view = cluster.view.partitions[tp]
    return PartitionFound(
        partition=tp.partition,
        leader=view.leader if view.leader >= 0 else None,
        replicas=view.replicas,
        isr=view.isr,
        adding=view.adding,
        removing=view.removing,
        size_bytes=cluster.disks.replicas.get(tp, {}).get(view.leader),
        under_replicated=len(view.isr) < len(view.replicas),
        # TopicCommand (2.0): no leader, or one that is not registered.
        unavailable=view.leader not in cluster.view.brokers,
    )
