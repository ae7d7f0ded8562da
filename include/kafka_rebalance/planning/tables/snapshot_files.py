"""The two files of a snapshot: their columns, their writer and their digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa

from kafka_rebalance.documents.storage import Folder, write_whole
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.model.settings import SEARCHED
from kafka_rebalance.planning.tables.parquet_files import parquet_bytes

BROKERS, PARTITIONS = "brokers.parquet", "partitions.parquet"
# The columns with the lists that the last proposal gave these candidates, as far as they have not been made since.
PROPOSED = {name: f"proposed_{name}" for name in SEARCHED}


class BrokerState(StrEnum):
    """The values of the column `state`; null is KEEP."""

    KEEP = "keep"
    NEW = "new"
    DRAIN = "drain"


_LOG_DIR = pa.struct([("path", pa.string()), ("total_bytes", pa.int64()), ("usable_bytes", pa.int64())])
SNAPSHOT_SCHEMAS = {
    BROKERS: pa.schema(
        [
            pa.field("broker", pa.int32(), nullable=False),
            pa.field("rack", pa.string()),
            pa.field("state", pa.string()),
            pa.field("disk_capacity_bytes", pa.int64()),
            pa.field("disk_used_bytes", pa.int64()),
            pa.field("log_dirs", pa.list_(_LOG_DIR)),
            pa.field("offline_log_dirs", pa.list_(pa.string())),  # paths
            pa.field("cordoned_log_dirs", pa.list_(pa.string())),  # those of KIP-1066: they get no new replica
            pa.field("nic_in_bytes_per_second", pa.float64()),
            pa.field("nic_out_bytes_per_second", pa.float64()),
            pa.field("registration_czxid", pa.int64()),
        ]
    ),
    PARTITIONS: pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("replicas", pa.list_(pa.int32()), nullable=False),
            pa.field("log_dirs", pa.list_(pa.string())),  # the path of each replica
            pa.field("size_bytes", pa.int64()),
            pa.field("isr", pa.list_(pa.int32())),
            pa.field("leader", pa.int32()),
            pa.field("leader_epoch", pa.int32()),
            pa.field("topic_znode_version", pa.int32()),
            pa.field("topic_czxid", pa.int64()),
            pa.field("topic_id", pa.string()),
            pa.field("bytes_in_per_second", pa.float64()),
            pa.field("bytes_out_per_second", pa.float64()),
            pa.field("min_insync_replicas", pa.int32()),
            pa.field("excluded", pa.bool_()),
            pa.field("waits_for", pa.list_(pa.int32())),  # nobody can copy it unless these brokers come back
            pa.field("being_deleted", pa.bool_()),  # its topic; the deletion waits for these brokers
            pa.field("cleanup_policy", pa.string()),
            pa.field("retention_ms", pa.int64()),
            pa.field("segment_bytes", pa.int64()),
            pa.field("kafkas_own", pa.bool_()),  # the brokers call the topic internal, and no name does
            pa.field("tiered", pa.bool_()),  # older records are in remote storage; `size_bytes` has none of those
            pa.field("remote_records", pa.int64()),  # in remote storage alone, of a tiered topic; null: unknown
            pa.field("local_records", pa.int64()),  # the other records of a tiered topic; null: unknown
            pa.field("left_brokers", pa.list_(pa.int32())),  # an earlier plan has lately taken a replica from these
            *(pa.field(column, pa.list_(pa.int32())) for column in PROPOSED.values()),
        ]
    ),
}
# Of the file; earlier versions have no such columns.
_LEFT_OUT_WHEN_EMPTY = (
    "offline_log_dirs",
    "cordoned_log_dirs",
    "waits_for",
    "being_deleted",
    "kafkas_own",
    "tiered",
    "remote_records",
    "local_records",
    "left_brokers",
    *PROPOSED.values(),
)


def write_snapshot(
    folder: Folder, broker_rows: Sequence[Mapping[str, Any]], partition_rows: Sequence[Mapping[str, Any]]
) -> str:
    """Writes both tables, rows sorted by their keys. Returns the digest of the two files.

    A later column in which no row has a value is not written, so that it changes no digest of a snapshot without it.
    """
    brokers = sorted(broker_rows, key=lambda row: row["broker"])
    partitions = sorted(partition_rows, key=lambda row: (row["topic"], row["partition"]))
    written = []
    for name, rows in ((BROKERS, brokers), (PARTITIONS, partitions)):
        schema = SNAPSHOT_SCHEMAS[name]
        unknown = sorted({column for row in rows for column in row} - set(schema.names))
        if unknown:
            raise ArtifactError(f"{name} has no column {', '.join(unknown)}.")
        written.append(parquet_bytes(_table(rows, schema)))
        write_whole(folder / name, written[-1])
    return digest_of_bytes(*written)


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    empty = [
        name
        for name in _LEFT_OUT_WHEN_EMPTY
        if name in schema.names and not any(_is_told(row.get(name)) for row in rows)
    ]
    return table.drop_columns(empty) if empty else table


def _is_told(value: Any) -> bool:
    return bool(value) or (value == 0 and value is not False)
