"""The ledger's samples, and the table `history` with one row a partition, a file that both ways of planning read."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_rebalance.documents.storage import Folder, make_folder, write_whole
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.digests import digest_of_bytes
from kafka_rebalance.planning.problem.arrays import Ints, Problem
from kafka_rebalance.planning.problem.bytes_in_history import History, Retention, with_history
from kafka_rebalance.planning.tables.checked_columns import Columns
from kafka_rebalance.planning.tables.parquet_files import PART, parquet_table, read_parquet
from kafka_rebalance.planning.tables.snapshot_files import PARTITIONS

HISTORY = "history"  # the folder, beside moves and scores
_TIME = pa.timestamp("us", tz="UTC")
# One sample of a partition, as every snapshot leaves it in the ledger's table `metrics`.
SAMPLES_SCHEMA = pa.schema(
    [
        ("observed_at", _TIME),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("size_bytes", pa.int64()),
        ("end_offset", pa.int64()),
        ("bytes_in_per_second", pa.float64()),
        ("start_offset", pa.int64()),  # from here on: absent from the files of the first runs
        ("topic_czxid", pa.int64()),
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
    ]
)
# What Spark gets of the snapshot: which partitions there are, and for how long their records count.
EXISTING_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_czxid", pa.int64()),
        ("lifetime_ms", pa.int64()),
    ]
)
_FILES, _UNREADABLE = b"files", b"unreadable"


def read_retention(snapshot_folder: Folder) -> Retention:
    """What `read_problem` leaves aside of the table `partitions`, in the problem's order."""
    columns, order = _partitions(snapshot_folder)
    policies = columns.texts("cleanup_policy")
    return Retention(
        bytes_in_known=columns.amounts("bytes_in_per_second")[1][order],
        compacts=np.array(["compact" in (policy or "") for policy in policies], dtype=bool)[order],
        retention_ms=columns.amounts("retention_ms")[0][order],
        segment_bytes=columns.amounts("segment_bytes")[0][order],
    )


def _partitions(snapshot_folder: Folder) -> tuple[Columns, Ints]:
    """The table `partitions`, and the order in which a problem has its rows."""
    where = f"{snapshot_folder}/{PARTITIONS}"
    columns = Columns(parquet_table(read_parquet(snapshot_folder, PARTITIONS), where), where)
    return columns, np.lexsort((columns.integers("partition"), columns.names("topic")[1]))


def existing_partitions(problem: Problem, snapshot_folder: Folder) -> pa.Table:
    """The snapshot's partitions in the columns of EXISTING_SCHEMA."""
    columns, order = _partitions(snapshot_folder)
    lifetime = read_retention(snapshot_folder).lifetimes_ms(problem)
    czxid = pa.nulls(len(order), pa.int64())
    if "topic_czxid" in columns.table.column_names:
        column = columns.table.column("topic_czxid")
        if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
            raise ArtifactError(
                f"{columns.where}: column topic_czxid is {column.type}, not an integer. Nothing was planned."
            )
        czxid = column.cast(pa.int64()).take(pa.array(order)).combine_chunks()
    return pa.table(
        [
            pa.array(problem.topics, pa.string()).take(pa.array(problem.topic)),
            pa.array(problem.partition.astype(np.int32)),
            czxid,
            pa.array(lifetime, mask=lifetime < 0),
        ],
        schema=EXISTING_SCHEMA,
    )


def write_history(folder: Folder, table: pa.Table, files: int, unreadable: Sequence[str]) -> bytes:
    """Writes `history/part-0.parquet`, rows by topic and partition; returns its bytes. Same rows, same bytes.

    `files` of the ledger gave these rows, one a snapshot; `unreadable` names those that gave none.
    """
    rows = table.select(HISTORY_SCHEMA.names).cast(HISTORY_SCHEMA)
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    buffer = io.BytesIO()
    metadata = {_FILES: str(files), _UNREADABLE: json.dumps(sorted(unreadable))}
    pq.write_table(rows.replace_schema_metadata(metadata), buffer, compression="zstd")
    content = buffer.getvalue()
    place = folder / HISTORY
    make_folder(place)
    write_whole(place / PART, content)
    return content


def read_history(content: bytes, where: str) -> History:
    """The table of a file. Raises ArtifactError naming the file and the column that cannot be used."""
    table = parquet_table(content, where)
    columns = Columns(table, where)
    try:
        metadata = table.schema.metadata or {}
        files, unreadable = int(metadata[_FILES]), tuple(map(str, json.loads(metadata[_UNREADABLE])))
    except (KeyError, TypeError, ValueError) as wrong:
        raise ArtifactError(
            f"{where} does not say which files it was made of ({wrong!r}). Nothing was planned. Let a Spark job with "
            "--metrics make it."
        ) from wrong
    topics, topic = columns.names("topic")
    partition = columns.integers("partition")
    columns.check_keys(topic, partition)
    rate, _ = columns.amounts("p95_bytes_in_per_second", required=True)
    lifetime, _ = columns.amounts("lifetime_ms", required=True)
    lifetime_bytes, lifetime_known = columns.amounts("lifetime_bytes", required=True)
    return History(
        digest=digest_of_bytes(content),
        files=files,
        unreadable=unreadable,
        topics=topics,
        topic=topic,
        partition=partition,
        first_at=_microseconds(table, "first_at", where),
        last_at=_microseconds(table, "last_at", where),
        first_size_bytes=columns.amounts("first_size_bytes", required=True)[0],
        last_size_bytes=columns.amounts("last_size_bytes", required=True)[0],
        intervals=columns.integers("intervals"),
        measured_seconds=columns.amounts("measured_seconds", required=True)[0],
        bytes_in=rate,
        lifetime_ms=lifetime,
        lifetime_bytes=lifetime_bytes,
        lifetime_known=lifetime_known,
    )


def planned_with(problem: Problem, snapshot_folder: Folder, content: bytes, where: str) -> Problem:
    """The problem with the history of a file's content."""
    return with_history(problem, read_retention(snapshot_folder), read_history(content, where))


def _microseconds(table: pa.Table, name: str, where: str) -> Ints:
    if name not in table.column_names or not pa.types.is_timestamp(table.schema.field(name).type):
        raise ArtifactError(f"{where}: column {name} is not a timestamp. Nothing was planned.")
    column = table.column(name)
    if column.null_count:
        raise ArtifactError(f"{where}: column {name} has {column.null_count} nulls. Nothing was planned.")
    values: Ints = column.cast(_TIME).cast(pa.int64()).to_numpy()
    return values
