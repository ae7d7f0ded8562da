"""The demo's closing tables, in the units that reasons and reports have."""

from __future__ import annotations

from pathlib import Path

from demo.__main__ import recommended_option
from demo.tables import broker_table, move_lines
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.planner import run
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from support.plans.small_snapshots import broker_rows, partition_rows


def test_bytes_have_the_unit_of_the_reasons_beside_them(tmp_path: Path) -> None:
    write_snapshot(tmp_path, broker_rows([1, 2]), partition_rows([[1]] * 8, size=2 * 1024**2))
    run(tmp_path, tmp_path, Settings(candidates=("light",)))
    table = broker_table(tmp_path, "light").splitlines()
    assert table[0].endswith("MiB on disk")
    assert table[1].endswith("16.0 ->   10.0")
    lines = list(move_lines(tmp_path, "light", most=1))
    assert lines[0] == "  3 partitions in 1 batches, 6.00 MiB copied"
    assert "[1] -> [2], 2.00 MiB; broker 1 has 200 %" in lines[1]
    assert lines[2] == "  and 2 more"


def test_the_demo_approves_what_is_recommended_and_nothing_else() -> None:
    options = ["light · 11111111", "balanced · 22222222", "Reject"]
    assert recommended_option(options, {"recommended": "balanced"}) == "balanced · 22222222"
    assert recommended_option(options, {"recommended": None}) == "Reject"
    assert recommended_option(options, {}) == "Reject"
