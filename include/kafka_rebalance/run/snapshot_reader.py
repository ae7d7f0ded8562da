"""The cluster as a run finds it, written into the snapshot's tables and read from them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

from kafka_rebalance.admin import configs as broker_configs
from kafka_rebalance.admin import groups
from kafka_rebalance.admin import log_dirs as sizes
from kafka_rebalance.admin import offsets as metadata
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.snapshot import ClusterConfigs
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ApprovalError, KafkaRuleError, ReadError
from kafka_rebalance.kafka.segment_roll import is_tiered
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.metrics_server import read_hourly_rates
from kafka_rebalance.model.cluster_view import ClusterView, ConfigsByBroker, SettledController
from kafka_rebalance.model.connection import BrokerCapacity, ClusterConnection, KafkaConnection
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables import history
from kafka_rebalance.planning.tables.history import DAYS
from kafka_rebalance.planning.tables.parquet_files import read_parquet, rows_of
from kafka_rebalance.planning.tables.read_problem import BROKERS, PARTITIONS, SNAPSHOT_SCHEMAS
from kafka_rebalance.run.checks.cluster_ready import Away, readiness_findings, refuse, waiting_for, without_away
from kafka_rebalance.run.checks.drift import Baseline, BrokerThen, PartitionThen
from kafka_rebalance.run.checks.in_sync import MIN_INSYNC_REPLICAS
from kafka_rebalance.run.checks.limits import check_names, held_replicas
from kafka_rebalance.run.run_folder import RunFolder

log = logging.getLogger(__name__)


# Reads one cluster into the tables and documents that a plan starts from.
#
# Nothing is written to the cluster but what the lock needs there, where a run is to be executed.


STORM_PAUSE_SECONDS = 2.0  # a storm makes dozens of controllers a second (facts of 2.0.1 and 2.8.2)


@dataclass(frozen=True, slots=True)
class Unread:
    """What a snapshot of the rest lacks: log dirs and configs of registered brokers that do not tell them, partitions
    whose size no replica in sync tells, partitions whose leader does not tell its offsets.
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
    """One cluster at one moment: the rows of the two tables, and the configs that the verification compares with."""

    view: ClusterView
    controller: SettledController
    brokers: tuple[dict[str, Any], ...]
    partitions: tuple[dict[str, Any], ...]
    configs: ClusterConfigs
    end_offsets: Mapping[TopicPartition, int]
    start_offsets: Mapping[TopicPartition, int]
    local_starts: metadata.LocalStarts  # of tiered partitions
    committed: Mapping[TopicPartition, Mapping[str, int]] | None  # the offset of each consumer group; None: unread
    away: Away = field(default_factory=Away)  # in none of the fields above
    unread: Unread = field(default_factory=Unread)
    missing_rights: tuple[Finding, ...] = ()  # what a rebalance has to write and this connection may not

    @property
    def cluster_bytes(self) -> int:
        return sum((row["size_bytes"] or 0) * len(row["replicas"]) for row in self.partitions)


def read_snapshot(
    connection: ClusterConnection,
    settings: Settings,
    *,
    internal_topics: bool = False,
    of_the_rest: bool = False,
    to_execute: bool = False,
    make_lock_ready: bool = False,
) -> Snapshot:
    """Reads the cluster and its brokers, after the guards have passed. These look at the topics that may be changed.

    Partitions that wait for a broker which is to be emptied and is away are `excluded`, and `waits_for` names it.

    `of_the_rest`: without brokers that are away and what they hold, partitions without a leader, and topics that are
    being deleted. What registered brokers do not tell is `unread`. If a leader does not tell a partition's size, the
    largest replica in sync counts. Measure such a snapshot, but do not plan on it. `to_execute`: with what this
    connection may not write. `make_lock_ready`: once the guards have passed, and only if the connection may write all
    that a rebalance needs, what its lock needs is made in the cluster. So the snapshot has all that the run makes.

    Raises ClusterNotReadyError if nobody should plan on the cluster now, ReadError, and SettingsError if the settings
    name brokers or topics that do not exist.
    """
    with open_cluster(connection) as reader:
        controller = reader.check_controller_stable(lambda: time.sleep(STORM_PAUSE_SECONDS))
        view = reader.read_view()
        reader.check_is_whole(view)
        view, away = without_away(view) if of_the_rest else (view, Away())
        log.info("%s: %d brokers, %d partitions", view.cluster_id, len(view.brokers), len(view.partitions))
        chosen = {tp.topic for tp in view.partitions if of_the_rest or settings.selects(tp.topic)}
        refuse(
            readiness_findings(
                view,
                expected_cluster_id=connection.expected_cluster_id,
                may_be_down=settings.leaving,
                topics=chosen,
                who_moves=reader.read_movers,
            )
        )
        check_names(settings, view)
        missing_rights = reader.read_missing_rights(view) if to_execute else ()
        if make_lock_ready and not missing_rights:
            leaving = {*settings.leaving, *settings.brokers_out}
            if reader.lock.make_ready(leaving):
                view = reader.read_view()
                missing_rights = reader.read_missing_rights(view)
        chosen = {tp.topic for tp in view.partitions if of_the_rest or settings.selects(tp.topic)}
        waits = {} if of_the_rest else waiting_for(view, settings.leaving)
        topics = sorted({tp.topic for tp in view.partitions})
        topic_configs = reader.read_topic_configs(topics)
        dynamic = reader.read_broker_configs(sorted(view.brokers))
        holder = reader.lock.read()
        kafkas_own = reader.read_kafkas_own(view)
        reader.check_same_cluster(view)
        # Start offsets before sizes: this request waits for leaders that the view has but brokers do not know yet, and
        # which have no log until then. End offsets after sizes: too many records make an append look small, never
        # large.
        kafka, ids = connection.kafka, sorted(view.brokers)
        chosen_partitions = sorted(tp for tp in view.partitions if tp.topic in chosen and tp not in waits)
        others = sorted(
            tp for tp, partition in view.partitions.items() if tp.topic not in chosen and partition.leader in ids
        )
        first_offsets = _offsets(metadata.read_start_offsets, kafka, chosen_partitions, others, of_the_rest=of_the_rest)
        local = metadata.read_local_starts(kafka, _tiered_leaders(view, topic_configs, first_offsets))
        disks = sizes.read_log_dirs(kafka, ids, of_the_rest=of_the_rest)
        offsets = _offsets(metadata.read_end_offsets, kafka, chosen_partitions, others, of_the_rest=of_the_rest)
        committed = _read_committed(kafka, ids)
        effective = broker_configs.read_effective_configs(kafka, ids, of_the_rest=of_the_rest)
    partitions = partition_rows(
        view, disks, topic_configs, effective, kafkas_own, internal_topics=internal_topics, waits=waits
    )
    must_tell = frozenset(chosen_partitions)
    if not of_the_rest:
        _check_sizes(row for row in partitions if partition_of(row) in must_tell)
    on_disk = _first_on_disk(first_offsets, local)
    partitions = [
        {**_with_size_in_sync(row, disks), **_tiers(row, first_offsets, on_disk, offsets)} for row in partitions
    ]
    return Snapshot(
        view=view,
        controller=controller,
        brokers=tuple(broker_rows(view, disks, connection.capacities, settings)),
        partitions=tuple(partitions),
        configs=ClusterConfigs(
            topic_configs,
            effective,
            dynamic,
            append_bytes(partitions, on_disk, offsets),
            holder.run if holder else None,
        ),
        end_offsets=offsets,
        start_offsets=first_offsets,
        local_starts=local,
        committed=committed,
        away=away,
        missing_rights=missing_rights,
        unread=Unread(
            log_dirs=tuple(sorted(view.brokers.keys() - disks.log_dirs.keys())),
            configs=tuple(sorted(view.brokers.keys() - effective.keys())),
            sizes=_without_size(partitions),
            offsets=tuple(sorted(view.partitions.keys() - (offsets.keys() & on_disk.keys()))),
        ),
    )


def _offsets(
    read: Callable[..., dict[TopicPartition, int]],
    kafka: KafkaConnection,
    chosen: Sequence[TopicPartition],
    others: Sequence[TopicPartition],
    *,
    of_the_rest: bool,
) -> dict[TopicPartition, int]:
    """Of `others`, which no plan changes, as far as their leaders tell."""
    offsets = read(kafka, chosen, of_the_rest=of_the_rest)
    return {**offsets, **read(kafka, others, of_the_rest=True)} if others else offsets


def _tiered_leaders(
    view: ClusterView, topic_configs: Mapping[str, Mapping[str, str]], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    return {tp: view.partitions[tp].leader for tp in partitions if is_tiered(topic_configs.get(tp.topic, {}))}


def _first_on_disk(starts: Mapping[TopicPartition, int], local: metadata.LocalStarts) -> dict[TopicPartition, int]:
    """The offset of the first record on the leader's disk, where that is known: its size is that of these records."""
    return {tp: local.offsets.get(tp, start) for tp, start in starts.items() if tp not in local.untold}


def _tiers(
    row: Mapping[str, Any],
    starts: Mapping[TopicPartition, int],
    on_disk: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[str, Any]:
    """How many records of a tiered partition are on its brokers' disks, and how many are in remote storage alone."""
    tp = partition_of(row)
    if not row["tiered"] or tp not in on_disk or tp not in ends:
        return {}
    return {"remote_records": max(0, on_disk[tp] - starts[tp]), "local_records": max(0, ends[tp] - on_disk[tp])}


def _read_committed(kafka: KafkaConnection, brokers: Collection[int]) -> dict[TopicPartition, dict[str, int]] | None:
    """None if any group cannot be read. No plan depends on it: consumers then count as reading everything once."""
    try:
        return groups.read_committed_offsets(kafka, brokers)
    except ReadError as failed:
        log.warning("%s Until then, no sample measures what consumers read.", failed)
        return None


def append_bytes(
    partitions: Collection[Mapping[str, Any]],
    on_disk: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[str, int]:
    """The fewest bytes of an ordinary append to each topic, where that is known.

    An append has at least one record. `on_disk` are the first offsets on disk; of the records since, some may be gone.
    """
    fewest: dict[str, int] = {}
    for row in partitions:
        tp = partition_of(row)
        records = ends[tp] - on_disk[tp] if tp in ends and tp in on_disk else 0
        if records > 0 and row["size_bytes"]:
            size = row["size_bytes"] // records
            fewest[row["topic"]] = min(size, fewest.get(row["topic"], size))
    return fewest


def broker_rows(
    view: ClusterView,
    disks: sizes.BrokerDisks,
    capacities: Mapping[int, BrokerCapacity],
    settings: Settings,
) -> list[dict[str, Any]]:
    """The table `brokers`: registered brokers, and those that are down, hold replicas and leave.

    Another one that is down has no row, so no plan gives it anything: it holds only topics that are not selected.
    """
    holding = {broker for partition in view.partitions.values() for broker in partition.replicas}
    rows = []
    for broker in sorted(set(view.brokers) | (holding & settings.leaving)):
        registration = view.brokers.get(broker)
        log_dirs = disks.log_dirs.get(broker, ())
        stated = capacities.get(broker, BrokerCapacity())
        # If a broker tells the sizes of some log dirs, the others are offline and take nothing.
        sized = [log_dir for log_dir in log_dirs if log_dir.total_bytes is not None]
        usable = [log_dir.usable_bytes for log_dir in sized]
        reported = sum(log_dir.total_bytes or 0 for log_dir in sized) if sized else None
        state = "drain" if broker in settings.leaving else "keep" if broker in holding else "new"
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
                "offline_log_dirs": [log_dir.path for log_dir in log_dirs if not log_dir.online],
                "cordoned_log_dirs": [log_dir.path for log_dir in log_dirs if log_dir.cordoned],
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
    effective: ConfigsByBroker,
    kafkas_own: KafkasOwn,
    *,
    internal_topics: bool,
    waits: Mapping[TopicPartition, Sequence[int]] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """The table `partitions`, by topic and partition; a size is None if the leader does not tell it.

    `waits`: see `waiting_for`.
    """
    configs = ClusterConfigs(topic_configs, effective)
    return [
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
            "min_insync_replicas": _min_insync_replicas(partition.leader, configs, tp.topic),
            "excluded": tp in waits or (kafkas_own.holds_back(tp.topic) and not internal_topics),
            "kafkas_own": kafkas_own.is_told_alone(tp.topic) or None,
            "waits_for": list(waits.get(tp, ())),
            "being_deleted": tp in waits and tp.topic in view.deletions,
            "tiered": is_tiered(topic_configs.get(tp.topic, {})) or None,
            **_retention(configs, tp.topic, partition.leader),
        }
        for tp, partition in sorted(view.partitions.items())
    ]


def _check_sizes(partitions: Iterable[Mapping[str, Any]]) -> None:
    """Raises ReadError if a leader's size is unknown: it must not be planned as 0."""
    unknown = _without_size(partitions)
    if unknown:
        raise ReadError(
            f"The leaders of {len(unknown)} partitions report no size, first {', '.join(map(str, unknown[:5]))}. Their "
            "log directory may be offline. Repair the directory, or wait for the topic to settle."
        )


def _without_size(partitions: Iterable[Mapping[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple(partition_of(row) for row in partitions if row["size_bytes"] is None)


def _with_size_in_sync(row: dict[str, Any], disks: sizes.BrokerDisks) -> dict[str, Any]:
    """With the size of the largest replica in sync if the leader does not tell; None if no replica tells."""
    if row["size_bytes"] is not None:
        return row
    told = disks.replicas.get(partition_of(row), {})
    return {**row, "size_bytes": max((told[broker] for broker in row["isr"] if broker in told), default=None)}


def _retention(configs: ClusterConfigs, topic: str, leader: int) -> dict[str, Any]:
    """How long the leader keeps a topic's records on its disk; `retention_ms` None: for ever.

    All None if that is unknown. Then the planner counts every byte, and the audit of segment settings says why.
    """
    try:
        values = configs.roll_settings(topic, leader)
    except (KafkaRuleError, ReadError):
        return {"cleanup_policy": None, "retention_ms": None, "segment_bytes": None}
    return {
        "cleanup_policy": ",".join(values.cleanup_policy),
        "retention_ms": values.on_disk_ms if values.deletes and values.on_disk_ms >= 0 else None,
        "segment_bytes": values.segment_bytes,
    }


def _min_insync_replicas(leader: int, configs: ClusterConfigs, topic: str) -> int | None:
    """The topic's value, else the one that its leader applies."""
    text = configs.topics.get(topic, {}).get(MIN_INSYNC_REPLICAS)
    if text is None:
        text = configs.brokers.get(leader, {}).get(MIN_INSYNC_REPLICAS, (None, ""))[0]
    return int(text) if text is not None and text.isdecimal() else None


# The snapshot's two tables, as the checks before a write need them.


@dataclass(frozen=True, slots=True)
class DiskThen:
    """A broker's disks in the snapshot; `other_bytes` belong to no replica. None: unknown."""

    capacity_bytes: int | None
    other_bytes: int | None


class SnapshotTables:
    """The snapshot of these topics. Each part is read once, because the files do not change.

    With the approved `digest` of the tables, the first look at them raises ApprovalError if somebody has changed one.
    """

    def __init__(self, folder: RunFolder, topics: Collection[str], digest: str | None = None) -> None:
        self._folder, self._topics, self._digest = folder / json_files.SNAPSHOT_FOLDER, topics, digest

    @cached_property
    def baseline(self) -> Baseline:
        rows = self._rows("replicas", "isr", "leader", "topic_znode_version", "topic_czxid", "topic_id")
        return Baseline(
            topics={
                row["topic"]: TopicIdentity(row["topic_znode_version"], row["topic_czxid"], row["topic_id"])
                for row in rows
            },
            brokers={
                row["broker"]: BrokerThen(row["registration_czxid"], row["rack"], row["state"] != "new")
                for row in self._all_rows(BROKERS, "broker", "registration_czxid", "rack", "state")
            },
            partitions={
                partition_of(row): PartitionThen(
                    replicas=tuple(row["replicas"]),
                    isr=None if row["isr"] is None else frozenset(row["isr"]),
                    leader=row["leader"],
                )
                for row in rows
            },
        )

    @cached_property
    def min_insync(self) -> dict[TopicPartition, int]:
        """`min.insync.replicas`, where the snapshot knows it."""
        known = {partition_of(row): row["min_insync_replicas"] for row in self._rows("min_insync_replicas")}
        return {tp: least for tp, least in known.items() if least is not None}

    @cached_property
    def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of one replica of each partition."""
        return {partition_of(row): row["size_bytes"] or 0 for row in self._rows("size_bytes")}

    @cached_property
    def disks(self) -> dict[int, DiskThen]:
        replica_bytes: Counter[int] = Counter()
        for row in self._all_rows(PARTITIONS, "replicas", "size_bytes"):
            replica_bytes.update(dict.fromkeys(row["replicas"], row["size_bytes"] or 0))
        return {
            row["broker"]: DiskThen(
                row["disk_capacity_bytes"],
                None
                if row["disk_used_bytes"] is None
                else max(0, row["disk_used_bytes"] - replica_bytes[row["broker"]]),
            )
            for row in self._all_rows(BROKERS, "broker", "disk_capacity_bytes", "disk_used_bytes")
        }

    @cached_property
    def held(self) -> dict[TopicPartition, tuple[frozenset[int], int]]:
        """The brokers of each partition's replicas, and the bytes of one of them, in all topics."""
        rows = self._all_rows(PARTITIONS, "topic", "partition", "replicas", "size_bytes")
        return {partition_of(row): (frozenset(row["replicas"]), row["size_bytes"] or 0) for row in rows}

    @cached_property
    def waits_for(self) -> dict[TopicPartition, tuple[int, ...]]:
        """What the snapshot left out, in all topics, until these brokers come back (`waiting_for`)."""
        rows = self._all_rows(PARTITIONS, "topic", "partition", "waits_for")
        return {partition_of(row): tuple(row["waits_for"]) for row in rows if row.get("waits_for")}

    @property
    def cluster_bytes(self) -> int:
        """What all replicas hold together."""
        return sum(size_bytes * len(brokers) for brokers, size_bytes in self.held.values())

    @cached_property
    def held_replicas(self) -> Counter[int]:
        """How many replicas each broker held, of all topics."""
        return held_replicas(brokers for brokers, _ in self.held.values())

    def _rows(self, *columns: str) -> list[dict[str, Any]]:
        rows = self._all_rows(PARTITIONS, "topic", "partition", *columns)
        return [row for row in rows if row["topic"] in self._topics]

    def _all_rows(self, name: str, *columns: str) -> list[dict[str, Any]]:
        return rows_of(self._files[name], f"{self._folder / name}", SNAPSHOT_SCHEMAS[name], columns)

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """The bytes that were compared with the digest, so that nobody can change a table after that."""
        files = {name: read_parquet(self._folder, name) for name in (BROKERS, PARTITIONS)}
        if self._digest is not None and digest_of_bytes(*files.values()) != self._digest:
            raise other_than_approved(self._folder)
        return files


def other_than_approved(what: Folder) -> ApprovalError:
    return ApprovalError(
        f"{what} is not as it was at the approval: somebody has changed it since. This try of the task has changed "
        "nothing in the cluster. Restore it and clear this task. If that is impossible, end the run: "
        "kafka_throttle_janitor then puts back its throttle and lock. Start a new Dag run, which plans from the "
        "current cluster."
    )


def partition_of(row: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


# What the connection's metrics server measured, beside the snapshot's tables. A server that is away stops no run.


def write_topic_rates(
    connection: ClusterConnection, topics: Collection[str], snapshot_folder: Folder, now: datetime
) -> bool:
    """Writes `topic_rates.parquet`, also if the server cannot be read: then with the reason. False: it cannot be read.

    Writes nothing if the connection names no server.
    """
    if connection.metrics is None:
        return True
    try:
        rates = read_hourly_rates(connection.metrics, topics, now, DAYS)
    except ReadError as unread:
        log.warning("%s: the plan uses the ledger's samples alone. %s", connection.connection_id, unread)
        history.write_unread(snapshot_folder, str(unread))
        return False
    history.write_topic_rates(snapshot_folder, rates)
    log.info(
        "%s: the metrics server gives the bytes in of %d of %d topics. Left out: %s",
        *(connection.connection_id, len(rates.topics), len(topics), rates.left_out),
    )
    return True
