"""A damaged Parquet file gives its values, or an ArtifactError that names it, wherever it is damaged."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.history import (
    HISTORY,
    HISTORY_SCHEMA,
    TOPIC_RATES,
    read_history,
    read_topic_rates,
    write_history,
    write_unread,
)
from kafka_rebalance.planning.tables.parquet_files import PART, parquet_bytes, parquet_table, read_rows, write_rows
from kafka_rebalance.planning.tables.read_problem import (
    BROKERS,
    PARTITIONS,
    SNAPSHOT_SCHEMAS,
    read_problem,
    write_snapshot,
)
from kafka_rebalance.planning.tables.result_tables import (
    DISK_SCHEMA,
    LOADS_SCHEMA,
    MOVES_SCHEMA,
    moves_table,
    read_disk_peaks,
    read_loads,
)
from support.plans.small_snapshots import broker_rows, partition_rows

AT = datetime(2026, 11, 21, tzinfo=UTC)
TABLE = pa.table(
    {
        "observed_at": pa.array([AT] * 30, pa.timestamp("us", tz="UTC")),
        "topic": [f"überweisungen-{row}" for row in range(30)],
        "replicas": pa.array([[1, 2, row] for row in range(30)], pa.list_(pa.int32())),
        "size_bytes": [10**9 * row for row in range(30)],
    }
)


def damaged(content: bytes, seed: int, count: int) -> Iterator[bytes]:
    """The file with changed bits, a gap of other bytes, cut off, or with a piece taken out of its middle."""
    draw = random.Random(seed)
    for number in range(count):
        data = bytearray(content)
        at = draw.randrange(8, len(data) - 8)
        match number % 4:
            case 0:
                for _ in range(draw.choice((1, 1, 8))):
                    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            case 1:
                data[at : at + 8] = draw.choice((b"\0", b"\xff")) * 8
            case 2:
                del data[at:]
            case 3:
                data = data[:at] + data[-draw.randrange(8, len(data)) :]
        yield bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_damaged_file_is_an_error_that_names_it_or_gives_values_that_python_has(compression: str) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, compression=compression)
    refused = []
    for content in damaged(sink.getvalue().to_pybytes(), 1, 3000):
        try:
            table = parquet_table(content, "day=1/run.parquet")
        except ArtifactError as error:
            refused.append(str(error))
        else:
            table.to_pylist()
    assert len(refused) > 1500
    assert all(said.startswith("day=1/run.parquet") and "damaged (" in said for said in refused)


def test_a_file_with_checksums_never_gives_a_value_that_was_not_written() -> None:
    content = parquet_bytes(TABLE, page_checksums=True)
    for changed in damaged(content, 2, 2000):
        with suppress(ArtifactError):
            found = parquet_table(changed, "it")
            if found.schema.equals(TABLE.schema):  # the footer, which names and types the columns, has no checksum
                assert found.slice(0, len(TABLE)).equals(TABLE.slice(0, len(found)))


def loads(folder: Path) -> None:
    read_loads(folder, "balanced")


def disk(folder: Path) -> None:
    read_disk_peaks(folder, "balanced")


def snapshot(folder: Path) -> None:
    read_problem(folder, Settings())
    for name, schema in SNAPSHOT_SCHEMAS.items():
        read_rows(folder, name, schema, schema.names)


def history(folder: Path) -> None:
    file = folder / HISTORY / PART
    read_history(file.read_bytes(), str(file))


def _written(folder: Path) -> dict[Callable[[Path], Any], list[Path]]:
    partitions = partition_rows([[1, 2], [2, 3], [3, 1]] * 5)
    write_snapshot(folder, broker_rows([1, 2, 3]), partitions)
    move = {
        "candidate": "balanced",
        "topic": "a",
        "partition": 0,
        "before": [1, 2],
        "after": [3, 2],
        "bytes": 10,
        "size_bytes": 10,
        "batch": 1,
        "reason": "r",
        "leader": 1,
    }
    write_rows(folder / "moves", [move] * 20, MOVES_SCHEMA)
    load = {"candidate": "balanced", "phase": "before", "broker": 1, "replicas": 4, "leaders": 1, "size_bytes": 5}
    write_rows(folder / "loads", [load] * 20, LOADS_SCHEMA)
    peak = {"candidate": "balanced", "batch": 0, "broker": 1, "peak_bytes": 4, "after_bytes": 4}
    write_rows(folder / "disk", [peak] * 20, DISK_SCHEMA)
    write_history(folder, HISTORY_SCHEMA.empty_table(), 3, ["day=2026-11-21/cut.parquet"])
    write_unread(folder, "The metrics server does not answer.")
    return {
        history: [folder / HISTORY / PART],
        read_topic_rates: [folder / TOPIC_RATES],
        snapshot: [folder / BROKERS, folder / PARTITIONS],
        moves_table: [folder / "moves" / PART],
        loads: [folder / "loads" / PART],
        disk: [folder / "disk" / PART],
    }


@pytest.mark.slow
def test_every_reader_of_a_runs_tables_ends_with_an_artifact_error_where_they_are_damaged(tmp_path: Path) -> None:
    refused = []
    for seed, (read, files) in enumerate(_written(tmp_path).items()):
        for file in files:
            sound = file.read_bytes()
            for content in damaged(sound, seed, 150):
                file.write_bytes(content)
                try:
                    read(tmp_path)
                except ArtifactError as error:
                    refused.append(f"{file}: {error}")
            file.write_bytes(sound)
            read(tmp_path)
    assert len(refused) > 500
    assert all(str(Path(said.partition(": ")[0]).parent) in said.partition(": ")[2] for said in refused)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("topic", None),
        ("batch", None),
        ("before", [[None, 2]] * 20),
        ("after", ["3,2"] * 20),
        ("partition", ["zero"] * 20),
        ("candidate", None),
    ],
)
def test_a_column_of_moves_with_other_values_than_a_plan_writes_is_named(
    tmp_path: Path, column: str, value: list[Any] | None
) -> None:
    _written(tmp_path)
    file = tmp_path / "moves" / PART
    table = pq.read_table(file)
    values = pa.nulls(20) if value is None else pa.array(value)
    pq.write_table(table.set_column(table.column_names.index(column), column, values), file)
    with pytest.raises(ArtifactError, match=r"moves.*has not the columns that this version reads"):
        moves_table(tmp_path)
