"""What the snapshot read, as the checks before a write need it: out of the run's two tables."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq

from kafka_rebalance.documents import json_files
from kafka_rebalance.execution.check.drift import Baseline, BrokerThen, PartitionThen
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition
from kafka_rebalance.planning.tables.parquet_files import read_parquet
from kafka_rebalance.steps.run_folder import RunFolder

_PARTITIONS, _BROKERS = "partitions.parquet", "brokers.parquet"


@dataclass(frozen=True, slots=True)
class DiskThen:
    """A broker's disks in the snapshot; `other_bytes` is of what is no replica. None: not known."""

    capacity_bytes: int | None
    other_bytes: int | None


class SnapshotTables:
    """The snapshot of these topics, read when it is first asked for: its files do not change."""

    def __init__(self, folder: RunFolder, topics: Collection[str]) -> None:
        self._folder, self._topics = folder, topics

    @cached_property
    def baseline(self) -> Baseline:
        return read_baseline(self._folder, self._topics)

    @cached_property
    def min_insync(self) -> dict[TopicPartition, int]:
        return read_min_insync(self._folder, self._topics)

    @cached_property
    def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of one replica of each partition."""
        rows = _read(self._folder, _PARTITIONS, ["topic", "partition", "size_bytes"], self._topics)
        return {TopicPartition(row["topic"], row["partition"]): row["size_bytes"] for row in rows}

    @cached_property
    def disks(self) -> dict[int, DiskThen]:
        return read_disks(self._folder)


def read_baseline(folder: RunFolder, topics: Collection[str]) -> Baseline:
    """The snapshot of these topics, and of every broker."""
    columns = ["topic", "partition", "replicas", "isr", "leader", "topic_znode_version", "topic_czxid", "topic_id"]
    rows = _read(folder, _PARTITIONS, columns, topics)
    return Baseline(
        topics={
            row["topic"]: TopicIdentity(row["topic_znode_version"], row["topic_czxid"], row["topic_id"]) for row in rows
        },
        brokers={
            row["broker"]: BrokerThen(row["registration_czxid"], row["rack"], row["state"] != "new")
            for row in _read(folder, _BROKERS, ["broker", "registration_czxid", "rack", "state"])
        },
        partitions={
            TopicPartition(row["topic"], row["partition"]): PartitionThen(
                replicas=tuple(row["replicas"]),
                isr=None if row["isr"] is None else frozenset(row["isr"]),
                leader=row["leader"],
            )
            for row in rows
        },
    )


def read_min_insync(folder: RunFolder, topics: Collection[str]) -> dict[TopicPartition, int]:
    """`min.insync.replicas` of these topics' partitions, where the snapshot could tell it."""
    rows = _read(folder, _PARTITIONS, ["topic", "partition", "min_insync_replicas"], topics)
    return {
        TopicPartition(row["topic"], row["partition"]): row["min_insync_replicas"]
        for row in rows
        if row["min_insync_replicas"] is not None
    }


def read_disks(folder: RunFolder) -> dict[int, DiskThen]:
    """Every broker's disks."""
    held: Counter[int] = Counter()
    for row in _read(folder, _PARTITIONS, ["replicas", "size_bytes"]):
        held.update(dict.fromkeys(row["replicas"], row["size_bytes"] or 0))
    return {
        row["broker"]: DiskThen(
            row["disk_capacity_bytes"],
            None if row["disk_used_bytes"] is None else max(0, row["disk_used_bytes"] - held[row["broker"]]),
        )
        for row in _read(folder, _BROKERS, ["broker", "disk_capacity_bytes", "disk_used_bytes"])
    }


def read_held(folder: RunFolder, broker: int) -> dict[TopicPartition, int]:
    """Bytes of each replica that the broker held, in all topics."""
    rows = _read(folder, _PARTITIONS, ["topic", "partition", "replicas", "size_bytes"])
    return {
        TopicPartition(row["topic"], row["partition"]): row["size_bytes"] for row in rows if broker in row["replicas"]
    }


def _read(
    folder: RunFolder, name: str, columns: list[str], topics: Collection[str] | None = None
) -> list[dict[str, Any]]:
    content = read_parquet(folder / json_files.SNAPSHOT_FOLDER, name)
    table = pq.ParquetFile(io.BytesIO(content)).read(columns=columns)  # `read_table` would import pandas
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows if topics is None else [row for row in rows if row["topic"] in topics]
