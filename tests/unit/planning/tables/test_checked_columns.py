"""Columns of input tables as arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_rebalance.planning.tables.parquet_files import Columns
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.plans.small_snapshots import broker_rows, partition_rows


def test_a_null_of_any_part_of_a_table_has_its_place_in_the_array() -> None:
    whole = pa.table({"leader": pa.array([5, None, 7, None], pa.int32()), "size": pa.array([None, 2.5, None, 1.0])})
    table = pa.concat_tables([whole.slice(1, 2), whole.slice(3)])
    columns = Columns(table, "partitions")
    assert columns.optional_ids("leader").tolist() == [-1, 7, -1]
    values, known = columns.amounts("size")
    assert values.tolist() == [2.5, 0.0, 1.0]
    assert known.tolist() == [True, False, True]
    values, _ = Columns(whole.slice(1), "partitions").amounts("size")  # one part, which begins within its buffer
    assert values.tolist() == [2.5, 0.0, 1.0]


READ = """
import sys
from pathlib import Path
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import prepare
prepare(Path(sys.argv[1]), Settings())
print([name for name in ("pandas", "scipy") if name in sys.modules])
"""


@pytest.mark.slow
def test_a_snapshot_with_unknown_values_is_read_without_pandas(tmp_path: Path) -> None:
    write_snapshot(tmp_path, broker_rows([1, 2]), partition_rows([[1, 2], [2, 1]]))
    done = subprocess.run([sys.executable, "-c", READ, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
