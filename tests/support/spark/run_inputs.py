"""What the planning job reads: a snapshot of uneven partitions, and six nights of their samples."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_rebalance.planning.tables.history import SAMPLES_SCHEMA
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.plans.small_snapshots import broker_rows, partition_rows

PARTITIONS, NIGHTS = 40, 6
RESULTS = [f"{table}/part-0.parquet" for table in ("moves", "scores", "candidates", "loads", "disk")] + [
    "proposals.json"
]
_FIRST = datetime(2026, 11, 14, 2, 15, tzinfo=UTC)


def write_inputs(folder: Path) -> Path:
    """Writes `snapshot/` and `metrics/` into the folder and returns it."""
    (folder / "snapshot").mkdir()
    lists = [[1, 2 + number % 2] for number in range(PARTITIONS)]
    sizes = [10**6 * (1 + number) for number in range(PARTITIONS)]
    write_snapshot(folder / "snapshot", broker_rows(range(1, 6)), partition_rows(lists, size_bytes=sizes))
    for night in range(NIGHTS):
        at = _FIRST + timedelta(days=night)
        rows = [
            {
                "observed_at": at,
                "topic": "orders",
                "partition": number,
                "size_bytes": size * (1 + night),
                "end_offset": 1000 * (1 + night) * (1 + number % 7),
                "start_offset": 0,
            }
            for number, size in enumerate(sizes)
        ]
        day = folder / "metrics" / f"day={at:%Y-%m-%d}"
        day.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=SAMPLES_SCHEMA), day / "night.parquet")
    return folder
