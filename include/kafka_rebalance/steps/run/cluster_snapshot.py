"""Reads one cluster into the tables and documents that everything later starts from. Writes nothing to the cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_rebalance.admin import effective_configs as broker_configs
from kafka_rebalance.admin import offsets as metadata
from kafka_rebalance.admin import replica_sizes as sizes
from kafka_rebalance.errors import KafkaRuleError, ReadError, SettingsError
from kafka_rebalance.execution.check.cluster_ready import check_cluster_ready
from kafka_rebalance.execution.nightly.brokers_away import Away, without_away
from kafka_rebalance.kafka.topics import INTERNAL_TOPICS
from kafka_rebalance.model.cluster_view import ClusterView, SettledController
from kafka_rebalance.model.configs import ConfigValue
from kafka_rebalance.model.connection import BrokerCapacity, ClusterConnection
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.steps.run.same_cluster import check_same_cluster
from kafka_rebalance.verification.segments.cluster_configs import ClusterConfigs
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import (
    read_broker_configs,
    read_cluster_view,
    read_topic_configs,
)
from kafka_rebalance.zookeeper.settled_controller import check_controller_stable

log = logging.getLogger(__name__)

STORM_PAUSE_SECONDS = 2.0  # a storm makes dozens of controllers a second (facts of 2.0.1 and 2.8.2)


@dataclass(frozen=True, slots=True)
class Unread:
    """What a snapshot of the rest does without: brokers that are registered and do not tell their log dirs or configs,
    partitions whose size no replica in sync tells, partitions whose leader does not tell its offsets.
    """

    log_dirs: tuple[int, ...] = ()
    configs: tuple[int, ...] = ()
    sizes: tuple[TopicPartition, ...] = ()
    offsets: tuple[TopicPartition, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.log_dirs or self.configs or self.sizes or self.offsets)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One cluster at one moment: the rows of the two tables, and the configs that verification compares with."""

    view: ClusterView
    controller: SettledController
    brokers: tuple[dict[str, Any], ...]
    partitions: tuple[dict[str, Any], ...]
    configs: dict[str, Any]
    end_offsets: Mapping[TopicPartition, int]
    start_offsets: Mapping[TopicPartition, int]
    away: Away = field(default_factory=Away)  # left out of all that is above
    unread: Unread = field(default_factory=Unread)

    @property
    def cluster_bytes(self) -> int:
        """Bytes of all replicas together, as the partition sizes say."""
        return sum(row["size_bytes"] * len(row["replicas"]) for row in self.partitions)


def read_snapshot(
    connection: ClusterConnection, settings: Settings, *, internal_topics: bool = False, of_the_rest: bool = False
) -> Snapshot:
    """Reads ZooKeeper and the brokers behind the guards. `of_the_rest`: brokers that are away are left out, with what
    they hold; so are partitions that nobody leads and topics that are being deleted. What registered brokers do not
    tell is `unread`, and the sizes of what they lead are those of the largest replica in sync. Such a snapshot is to be
    measured, not to be planned on.

    Raises ClusterNotReadyError where the cluster is in a condition in which nobody should plan, ReadError where
    something could not be read, SettingsError where the settings name brokers or topics that are not there.
    """
    with open_client(connection.zookeeper) as client:
        controller = check_controller_stable(client, lambda: time.sleep(STORM_PAUSE_SECONDS))
        view = read_cluster_view(client)
        view, away = without_away(view) if of_the_rest else (view, Away())
        log.info("%s: %d brokers, %d partitions", view.cluster_id, len(view.brokers), len(view.partitions))
        check_cluster_ready(
            view,
            expected_cluster_id=connection.expected_cluster_id,
            may_be_down=settings.leaving,
            topics={tp.topic for tp in view.partitions} if away.deletions else None,
        )
        check_names(settings, view)
        topics = sorted({tp.topic for tp in view.partitions})
        topic_configs = read_topic_configs(client, topics)
        dynamic = read_broker_configs(client, sorted(view.brokers))
        holder = cluster_lock.read(client)
    check_same_cluster(connection, view)
    # First offsets before sizes: they wait for leaders that ZooKeeper has and brokers do not know yet, without a log
    # until then. End offsets after sizes: more records than the bytes are of make an append look small, not large.
    first_offsets = metadata.read_start_offsets(connection.kafka, sorted(view.partitions), of_the_rest=of_the_rest)
    disks = sizes.read_log_dirs(connection.kafka, sorted(view.brokers), of_the_rest=of_the_rest)
    offsets = metadata.read_end_offsets(connection.kafka, sorted(view.partitions), of_the_rest=of_the_rest)
    effective = broker_configs.read_effective_configs(connection.kafka, sorted(view.brokers), of_the_rest=of_the_rest)
    partitions = partition_rows(view, disks, topic_configs, effective, internal_topics=internal_topics)
    if of_the_rest:
        partitions = [_with_size_in_sync(row, disks) for row in partitions]
    else:
        check_sizes(partitions)
    return Snapshot(
        view=view,
        controller=controller,
        brokers=tuple(broker_rows(view, disks, connection.capacities, settings)),
        partitions=tuple(partitions),
        configs={
            "topics": topic_configs,
            "brokers": {
                str(broker): {name: list(value) for name, value in sorted(values.items())}
                for broker, values in sorted(effective.items())
            },
            "broker_dynamic": {str(broker): values for broker, values in sorted(dynamic.items())},
            "append_bytes": append_bytes(partitions, offsets),
            "lock_holder": holder.run if holder else None,
        },
        end_offsets=offsets,
        start_offsets=first_offsets,
        away=away,
        unread=Unread(
            log_dirs=tuple(sorted(view.brokers.keys() - disks.log_dirs.keys())),
            configs=tuple(sorted(view.brokers.keys() - effective.keys())),
            sizes=_without_size(partitions),
            offsets=tuple(sorted(view.partitions.keys() - (offsets.keys() & first_offsets.keys()))),
        ),
    )


def metric_rows(taken: Snapshot) -> list[dict[str, Any]]:
    """Rows of the ledger's table `metrics`; rates come from two samples, so no row has one. None of unknown sizes."""
    rows = []
    for row in taken.partitions:
        if row["size_bytes"] is None:
            continue
        topic_partition = TopicPartition(row["topic"], row["partition"])
        rows.append(
            {
                "topic": row["topic"],
                "partition": row["partition"],
                "size_bytes": row["size_bytes"],
                "end_offset": taken.end_offsets.get(topic_partition),
                "start_offset": taken.start_offsets.get(topic_partition),
                "topic_czxid": row["topic_czxid"],
            }
        )
    return rows


def append_bytes(partitions: Collection[Mapping[str, Any]], offsets: Mapping[TopicPartition, int]) -> dict[str, int]:
    """The least bytes that an ordinary append to each topic has; topics of which that is not known are absent.

    An append is a record at least, and of all records ever written, which the end offset counts, some may be gone.
    """
    found: dict[str, int] = {}
    for row in partitions:
        records = offsets.get(TopicPartition(row["topic"], row["partition"]), 0)
        if records and row["size_bytes"]:
            size = row["size_bytes"] // records
            found[row["topic"]] = min(size, found.get(row["topic"], size))
    return found


def check_names(settings: Settings, view: ClusterView) -> None:
    """Raises SettingsError for brokers and topic globs that match nothing: a typo must not become an empty plan."""
    held = {broker for partition in view.partitions.values() for broker in partition.replicas}
    existing = set(view.brokers) | held
    problems = []
    for name, named in (
        ("drain", settings.drain),
        ("replace", tuple(settings.replace)),
        ("brokers_out", settings.brokers_out),
    ):
        unknown = sorted(set(named) - existing)
        if unknown:
            problems.append(f"{name} names broker {_listed(unknown)}, which does not exist")
    unregistered = sorted(set(settings.replace.values()) - set(view.brokers))
    if unregistered:
        problems.append(f"replace puts replicas on broker {_listed(unregistered)}, which is not registered")
    topics = {tp.topic for tp in view.partitions}
    if not any(settings.selects(topic) for topic in topics):
        problems.append(
            f"topics_in {list(settings.topics_in)} less topics_out {list(settings.topics_out)} matches none of "
            f"{len(topics)} topics"
        )
    factor = settings.replication_factor
    if factor is not None:
        stay = {broker: rack for broker, rack in view.racks.items() if broker not in settings.leaving}
        racks = {rack for rack in stay.values() if rack is not None}
        if factor > len(stay):
            problems.append(f"replication_factor {factor} is larger than the {len(stay)} brokers that stay")
        elif racks and None not in stay.values() and factor > len(racks):
            problems.append(f"replication_factor {factor} is larger than the {len(racks)} racks")
    if problems:
        raise SettingsError(
            f"The settings do not fit this cluster: {'; '.join(problems)}. Brokers are {_listed(sorted(existing))}. "
            "Nothing was written to the cluster. Correct the params and start again."
        )


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, numbers))


def broker_rows(
    view: ClusterView,
    disks: sizes.BrokerDisks,
    capacities: Mapping[int, BrokerCapacity],
    settings: Settings,
) -> list[dict[str, Any]]:
    """The table `brokers`: registered ones, and those that are down but still hold replicas (allowed when leaving)."""
    held = {broker for partition in view.partitions.values() for broker in partition.replicas}
    rows = []
    for broker in sorted(set(view.brokers) | held):
        registration = view.brokers.get(broker)
        log_dirs = disks.log_dirs.get(broker, ())
        stated = capacities.get(broker, BrokerCapacity())
        # Where a broker tells the sizes of some, a dir without is offline, and takes nothing.
        sized = [log_dir for log_dir in log_dirs if log_dir.total_bytes is not None]
        usable = [log_dir.usable_bytes for log_dir in sized]
        reported = sum(log_dir.total_bytes or 0 for log_dir in sized) if sized else None
        state = "drain" if broker in settings.leaving else "keep" if broker in held else "new"
        rows.append(
            {
                "broker": broker,
                "rack": registration.rack if registration else None,
                "state": state,
                "disk_capacity_bytes": stated.disk_bytes if stated.disk_bytes is not None else reported,
                "disk_used_bytes": None
                if reported is None or None in usable
                else reported - sum(free for free in usable if free is not None),
                "log_dirs": [
                    {"path": d.path, "total_bytes": d.total_bytes, "usable_bytes": d.usable_bytes} for d in log_dirs
                ],
                "nic_in_bytes_per_second": stated.nic_in_bytes_per_second,
                "nic_out_bytes_per_second": stated.nic_out_bytes_per_second,
                "registration_czxid": registration.czxid if registration else None,
            }
        )
    return rows


def partition_rows(
    view: ClusterView,
    disks: sizes.BrokerDisks,
    topic_configs: Mapping[str, Mapping[str, str]],
    effective: Mapping[int, Mapping[str, ConfigValue]],
    *,
    internal_topics: bool,
) -> list[dict[str, Any]]:
    """The table `partitions`, by topic and partition; a size is None where the leader does not tell it."""
    configs = ClusterConfigs(topic_configs, effective)
    rows = []
    for tp, partition in sorted(view.partitions.items()):
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "replicas": list(partition.replicas),
                "log_dirs": [disks.paths.get(tp, {}).get(broker) for broker in partition.replicas],
                "size_bytes": disks.replicas.get(tp, {}).get(partition.leader),
                "isr": list(partition.isr),
                "leader": partition.leader,
                "leader_epoch": partition.state.leader_epoch if partition.state else None,
                "topic_znode_version": partition.topic_znode_version,
                "topic_czxid": partition.topic_czxid,
                "topic_id": partition.topic_id,
                "min_insync_replicas": _min_insync_replicas(partition, topic_configs.get(tp.topic, {}), effective),
                "excluded": tp.topic in INTERNAL_TOPICS and not internal_topics,
                **_retention(configs, tp.topic, partition.leader),
            }
        )
    return rows


def check_sizes(partitions: Iterable[Mapping[str, Any]]) -> None:
    """Raises ReadError where a leader's size is not known: what is not known must not be planned as nothing."""
    unknown = _without_size(partitions)
    if unknown:
        raise ReadError(
            f"The leaders of {len(unknown)} partitions report no size, first {', '.join(map(str, unknown[:5]))}: their "
            "log directory may be offline. Nothing was written. Repair the directory, or wait for the topic to settle."
        )


def _without_size(partitions: Iterable[Mapping[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(row["topic"], row["partition"]) for row in partitions if row["size_bytes"] is None)


def _with_size_in_sync(row: dict[str, Any], disks: sizes.BrokerDisks) -> dict[str, Any]:
    """Where the leader does not tell the size, that of the largest replica in sync; None where none of them tells."""
    if row["size_bytes"] is not None:
        return row
    told = disks.replicas.get(TopicPartition(row["topic"], row["partition"]), {})
    return {**row, "size_bytes": max((told[broker] for broker in row["isr"] if broker in told), default=None)}


def _retention(configs: ClusterConfigs, topic: str, leader: int) -> dict[str, Any]:
    """Until when the leader keeps a topic's records; `retention_ms` None: without end.

    All None where it cannot be told: the planner then counts on every byte, and the audit of segment settings says why.
    """
    try:
        values = configs.roll_settings(topic, leader)
    except (KafkaRuleError, ReadError):
        return {"cleanup_policy": None, "retention_ms": None, "segment_bytes": None}
    return {
        "cleanup_policy": ",".join(values.cleanup_policy),
        "retention_ms": values.retention_ms if values.deletes and values.retention_ms >= 0 else None,
        "segment_bytes": values.segment_bytes,
    }


def _min_insync_replicas(
    partition: PartitionView,
    overrides: Mapping[str, str],
    effective: Mapping[int, Mapping[str, ConfigValue]],
) -> int | None:
    """The topic's value, else what its leader uses."""
    text = overrides.get("min.insync.replicas")
    if text is None:
        value = effective.get(partition.leader, {}).get("min.insync.replicas")
        text = value.value if value else None
    return int(text) if text is not None and text.isdecimal() else None
