"""The ledger's samples, and the table `history` with one row a partition. Both ways to plan read its file."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.planning.problem.arrays import Ints, Problem
from kafka_rebalance.planning.problem.bytes_in_history import History, Retention, with_history
from kafka_rebalance.planning.problem.topic_rates import HOURS
from kafka_rebalance.planning.tables.checked_columns import Columns
from kafka_rebalance.planning.tables.parquet_files import parquet_bytes, parquet_table, read_parquet, write_table
from kafka_rebalance.planning.tables.snapshot_files import PARTITIONS
from kafka_rebalance.planning.tables.topic_rates import read_topic_rates

HISTORY = "history"  # the folder, beside moves and scores
TIMES_READ = "times_read"
_TIME = pa.timestamp("us", tz="UTC")
# Each snapshot writes one sample of each partition to the ledger's table `metrics`.
SAMPLES_SCHEMA = pa.schema(
    [
        ("observed_at", _TIME),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("size_bytes", pa.int64()),
        ("end_offset", pa.int64()),
        ("bytes_in_per_second", pa.float64()),
        ("start_offset", pa.int64()),  # files of the first runs lack this column and the next
        ("topic_czxid", pa.int64()),
        # Of all consumer groups; files of earlier runs lack these columns. Null: they could not be read.
        ("committed_offsets", pa.int64()),  # the sum
        ("committed_groups", pa.int32()),
        ("committed_digest", pa.int64()),  # 48 bits of the digest of their names
        # Of tiered topics: the first record on the leader's disk, to which `size_bytes` belongs.
        ("local_start_offset", pa.int64()),
    ]
)
HISTORY_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        ("samples", pa.int64()),
        ("first_at", _TIME),
        ("last_at", _TIME),
        ("first_size_bytes", pa.int64()),
        ("last_size_bytes", pa.int64()),
        ("mean_size_bytes", pa.float64()),
        ("p95_size_bytes", pa.float64()),
        ("intervals", pa.int64()),
        ("measured_seconds", pa.float64()),
        ("mean_bytes_in_per_second", pa.float64()),
        ("p95_bytes_in_per_second", pa.float64()),
        ("lifetime_ms", pa.int64()),
        ("lifetime_bytes", pa.int64()),
        (TIMES_READ, pa.float64()),  # how often groups read each record; no row with a value: no such column
    ]
)
# Further columns, if the samples tell the hours of the week apart. `tables.worst_hour` says which hour it is.
WORST_HOUR_SCHEMA = pa.schema(
    [
        ("worst_hour", pa.int32()),  # 0 begins on Monday at 00:00 UTC; the same in all rows; null: not measured
        ("worst_hour_bytes_in_per_second", pa.float64()),
        ("weeks", pa.float64()),  # for which every hour of the week was measured
        ("samples_an_hour", pa.int64()),  # the least of any hour of the week
    ]
)
# The part of the snapshot for Spark: the partitions, and for how long their records count.
EXISTING_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_czxid", pa.int64()),
        ("lifetime_ms", pa.int64()),
        ("tiered", pa.bool_()),  # null as false
    ]
)
_FILES, _UNREADABLE = b"files", b"unreadable"


def read_retention(snapshot_folder: Folder) -> Retention:
    """The columns of the table `partitions` that `read_problem` does not read, in the problem's order."""
    columns, order = _partitions(snapshot_folder)
    policies = columns.texts("cleanup_policy")
    return Retention(
        bytes_in_known=columns.amounts("bytes_in_per_second")[1][order],
        compacts=np.array(["compact" in (policy or "") for policy in policies], dtype=bool)[order],
        retention_ms=columns.amounts("retention_ms")[0][order],
        segment_bytes=columns.amounts("segment_bytes")[0][order],
    )


def _partitions(snapshot_folder: Folder) -> tuple[Columns, Ints]:
    """The table `partitions`, and the order of its rows in a problem."""
    where = f"{snapshot_folder}/{PARTITIONS}"
    columns = Columns(parquet_table(read_parquet(snapshot_folder, PARTITIONS), where), where)
    return columns, np.lexsort((columns.integers("partition"), columns.names("topic")[1]))


def existing_partitions(problem: Problem, snapshot_folder: Folder) -> pa.Table:
    """The snapshot's partitions in the columns of EXISTING_SCHEMA."""
    columns, order = _partitions(snapshot_folder)
    lifetime = read_retention(snapshot_folder).lifetimes_ms(problem)
    czxid = columns.optional_integers("topic_czxid").take(pa.array(order))
    return pa.table(
        [
            pa.array(problem.topics, pa.string()).take(pa.array(problem.topic)),
            pa.array(problem.partition.astype(np.int32)),
            czxid,
            pa.array(lifetime, mask=lifetime < 0),
            pa.array(columns.flags("tiered")[order]),
        ],
        schema=EXISTING_SCHEMA,
    )


def write_history(folder: Folder, table: pa.Table, files: int, unreadable: Sequence[str]) -> bytes:
    """Writes `history/part-0.parquet`, rows by topic and partition; returns its bytes. Same rows, same bytes.

    `files` is the number of the ledger's files that gave samples; `unreadable` names the files that gave none.
    """
    hours = WORST_HOUR_SCHEMA if "worst_hour" in table.column_names else ()
    schema = pa.schema([*HISTORY_SCHEMA, *hours])
    rows = table.select(schema.names).cast(schema)
    if rows[TIMES_READ].null_count == len(rows):  # so that it changes no digest of a plan without it
        rows = rows.drop_columns(TIMES_READ)
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    return write_table(folder / HISTORY, _with_sources(rows, files, unreadable))


def _with_sources(rows: pa.Table, files: int, unreadable: Sequence[str]) -> pa.Table:
    return rows.replace_schema_metadata({_FILES: str(files), _UNREADABLE: json.dumps(sorted(unreadable))})


def read_history(content: bytes, where: str) -> History:
    """The history in a file. Raises ArtifactError, which names the file and the wrong column."""
    table = parquet_table(content, where)
    columns = Columns(table, where)
    try:
        metadata = table.schema.metadata or {}
        files, unreadable = int(metadata[_FILES]), tuple(map(str, json.loads(metadata[_UNREADABLE])))
    except (KeyError, TypeError, ValueError) as wrong:
        raise ArtifactError(
            f"{where} does not name its source files ({wrong!r}). Nothing was planned. Let a Spark job with --metrics "
            "write it again."
        ) from wrong
    topics, topic = columns.names("topic")
    partition = columns.integers("partition")
    columns.check_keys(topic, partition)
    lifetime_bytes, lifetime_known = columns.amounts("lifetime_bytes", required=True)
    times_read, times_read_known = columns.amounts(TIMES_READ)
    hour, in_hour = columns.amounts("worst_hour")
    if len(hours := np.unique(hour[in_hour])) > 1 or (hours >= HOURS).any():
        raise ArtifactError(
            f"{where} names {len(hours)} worst hours, or one that is none of the week. Nothing was planned. Let a "
            "Spark job with --metrics write it again."
        )
    return History(
        digest=digest_of_bytes(content),
        files=files,
        unreadable=unreadable,
        topics=topics,
        topic=topic,
        partition=partition,
        first_at=columns.times("first_at"),
        last_at=columns.times("last_at"),
        first_size_bytes=columns.amounts("first_size_bytes", required=True)[0],
        last_size_bytes=columns.amounts("last_size_bytes", required=True)[0],
        intervals=columns.integers("intervals"),
        measured_seconds=columns.amounts("measured_seconds", required=True)[0],
        bytes_in=columns.amounts("p95_bytes_in_per_second", required=True)[0],
        lifetime_ms=columns.amounts("lifetime_ms", required=True)[0],
        lifetime_bytes=lifetime_bytes,
        lifetime_known=lifetime_known,
        times_read=times_read,
        times_read_known=times_read_known,
        worst_hour=int(hours[0]) if len(hours) else None,
        in_worst_hour=in_hour,
        worst_hour_bytes_in=columns.amounts("worst_hour_bytes_in_per_second")[0],
        weeks=columns.amounts("weeks")[0],
        samples_an_hour=columns.amounts("samples_an_hour")[0],
    )


def planned_with(problem: Problem, snapshot_folder: Folder, content: bytes | None, where: str) -> Problem:
    """With a history's file, and with what a metrics server gave the snapshot. The same problem if there is neither."""
    server = read_topic_rates(snapshot_folder)
    if content is None:
        if server is None:
            return problem
        content = parquet_bytes(_with_sources(HISTORY_SCHEMA.empty_table(), 0, ()))
    return with_history(problem, read_retention(snapshot_folder), read_history(content, where), server)
