"""The snapshot's two tables, as the checks before a write need them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ApprovalError
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition
from kafka_rebalance.planning.tables.parquet_files import read_parquet, rows_of
from kafka_rebalance.planning.tables.snapshot_files import BROKERS, PARTITIONS, SNAPSHOT_SCHEMAS
from kafka_rebalance.run.checks.drift import Baseline, BrokerThen, PartitionThen
from kafka_rebalance.run.checks.replica_counts import held_replicas
from kafka_rebalance.run.run_folder import RunFolder


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
        held: Counter[int] = Counter()
        for row in self._all_rows(PARTITIONS, "replicas", "size_bytes"):
            held.update(dict.fromkeys(row["replicas"], row["size_bytes"] or 0))
        return {
            row["broker"]: DiskThen(
                row["disk_capacity_bytes"],
                None if row["disk_used_bytes"] is None else max(0, row["disk_used_bytes"] - held[row["broker"]]),
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
