"""What the planner's measurements write, and how one run is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.best_known import Known
from bench.pages import PAGE, Row, tables, write_page
from bench.scoring import METRICS, Score, Spread

ROOT = Path(__file__).parents[3]
EVEN = Spread(1.01, 0.99, 0.01, grain=0.001)
SCORE = Score(
    dict.fromkeys(METRICS, EVEN),
    0,
    0,
    0,
    crowding=0.02,
    excess_leaders=4,
    moved_bytes=2_040_000_000_000,
    leader_changes=3,
)
KNOWN = Known(fewest=2_000_000_000_000, least=1_980_000_000_000)
ROW = Row("S", "add", 1, 0.02, "ok", SCORE, 0.03, 1_204, 2_000_000_000_000, None, KNOWN, 1.01, 0.4, 150 * 2**20)


def test_a_line_has_the_worst_of_its_seeds() -> None:
    score = replace(SCORE, moved_bytes=2_200_000_000_000, crowding=0.01, excess_leaders=5)
    worse = replace(ROW, seed=2, score=score, relaxed_bound=2)
    lines = [line for line in tables([ROW, replace(worse, relaxed_bound=2_100_000_000_000)]) if "S add" in line]
    assert lines[0] == "| S add | 2% | 2 | 2.20 | 1.100 | 1.048 | 1.111 | 1.100 | 1.010 | 0.4 | 150 |"
    assert lines[1].endswith("| 0.0300 → 0.0200 | 1,204 → 5 | 0 |")


def test_a_band_is_bold_where_no_large_partition_excuses_it() -> None:
    wide = Spread(1.03, 0.99, 0.01, grain=0.001)
    spreads = dict.fromkeys(METRICS, EVEN) | {"disk": replace(wide, grain=0.05), "leaders": wide}
    line = [line for line in tables([replace(ROW, score=replace(SCORE, spreads=spreads))]) if "S add" in line][1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:7] == ["0.990–1.010", "0.990–1.030", "0.990–1.010", "**0.990–1.030**", "0.990–1.010"]


@pytest.mark.slow
def test_only_what_is_between_the_markers_changes(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n")
    written = write_page(tmp_path, "bench", [ROW, replace(ROW, scenario="skew", tolerance=0.1)])
    text = (tmp_path / PAGE).read_text()
    assert text.startswith("before\n<!-- bench -->\n")
    assert text.endswith("<!-- /bench -->\nafter\n")
    assert "old" not in text
    assert "| S skew | 10%" in text
    assert written[1].read_bytes().startswith(b"\x89PNG")


def test_a_page_without_markers_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text("a page")
    with pytest.raises(ValueError, match="Nothing was written"):
        write_page(tmp_path, "bench", [ROW])
    assert [path.name for path in tmp_path.iterdir()] == [PAGE]


def test_memory_and_exit_status_are_those_of_the_command() -> None:
    program = "import sys; held = bytearray(60_000_000); sys.exit(3)"
    command = [sys.executable, str(ROOT / "bench/measured.py"), sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    taken = json.loads(done.stdout)
    assert 60_000_000 < taken["peak_bytes"] < 150_000_000
    assert 0 < taken["cpu_seconds"] <= taken["seconds"] * 2
