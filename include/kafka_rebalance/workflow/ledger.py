"""What was measured, proposed and reached, kept over runs: Parquet tables by cluster and day below `runs_url`.

Each run adds files of its own and never rewrites another's, so that any number of runs may write at once.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_rebalance.planning.history_table import SAMPLES_SCHEMA
from kafka_rebalance.workflow.run_folder import RunFolder, file_name, runs_root

AUDITS = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("rule", pa.string()),
        ("severity", pa.string()),
        ("topics", pa.int64()),
        ("topic", pa.string()),  # the first of them
        ("brokers", pa.list_(pa.int32())),
        ("finding", pa.string()),
        ("source", pa.string()),
    ]
)
PLANS = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
        ("candidate", pa.string()),
        ("digest", pa.string()),
        ("status", pa.string()),
        ("recommended", pa.bool_()),
        ("moved_bytes", pa.int64()),
        ("moved_bytes_bound", pa.int64()),
        ("moved_replicas", pa.int64()),
        ("leader_changes", pa.int64()),
        ("makespan_seconds", pa.float64()),
        ("disk_max_over_mean_before", pa.float64()),
        ("disk_max_over_mean_after", pa.float64()),
    ]
)
OUTCOMES = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
        ("candidate", pa.string()),
        ("digest", pa.string()),
        ("approved_by", pa.string()),
        ("verified", pa.bool_()),
        ("predicted_bytes", pa.int64()),
        ("copied_bytes", pa.int64()),
        ("predicted_seconds", pa.float64()),
        ("actual_seconds", pa.float64()),
        ("partitions", pa.int64()),
        ("batches", pa.int64()),
        ("throttle_bytes_per_second", pa.int64()),
    ]
)
TOPICS = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
        ("topic", pa.string()),
        ("action", pa.string()),
        ("digest", pa.string()),
        ("requested_by", pa.string()),
        ("approved_by", pa.string()),  # null: no approval is asked for that action
        ("partitions_before", pa.int64()),
        ("partitions_after", pa.int64()),
        ("configs_changed", pa.int64()),
        ("verified", pa.bool_()),
    ]
)
TABLES = {"audits": AUDITS, "metrics": SAMPLES_SCHEMA, "plans": PLANS, "outcomes": OUTCOMES, "topics": TOPICS}


def folder_of(table: str, connection_id: str) -> RunFolder:
    """Where a cluster's rows of a table are, by day."""
    return runs_root() / "ledger" / table / f"cluster={file_name(connection_id)}"


def append(
    table: str, connection_id: str, run_id: str, observed_at: datetime, rows: Sequence[Mapping[str, Any]]
) -> RunFolder:
    """Adds one file of rows to a table; returns its path.

    `ledger/<table>/cluster=<connection>/day=<date>/<run>.parquet`: the path gives cluster and day.
    The same run and table again replace the file: a cleared task counts once.
    """
    schema = TABLES[table]
    folder = folder_of(table, connection_id) / f"day={observed_at:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    content = [{"observed_at": observed_at, **row} for row in rows]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(content, schema=schema), buffer, compression="zstd")
    path = folder / f"{file_name(run_id)}.parquet"
    path.write_bytes(buffer.getvalue())
    return path
