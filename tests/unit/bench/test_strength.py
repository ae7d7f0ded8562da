"""The figures about our own tests are counted from what the tools say: mutants, and branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.pages import with_section
from bench.strength.branches import ROOMS, missing_in
from bench.strength.branches import table as branch_table
from bench.strength.mutants import MODULES, PAGE, ROOT, equivalent_in, results_in
from bench.strength.mutants import table as mutant_table

TOLD = """
    kafka_rebalance.moves.move_stage.x_stage_of__mutmut_1: killed
    kafka_rebalance.moves.move_stage.x_stage_of__mutmut_12: survived
    kafka_rebalance.run.checks.batch_wait.xǁWaitǁto_arguments__mutmut_3: no tests
    kafka_rebalance.throttle.in_force.x_each_entry__mutmut_5: survived
    kafka_rebalance.throttle.in_force.x_each_entry__mutmut_6: timeout
"""
RESULTS = {
    "moves.move_stage.stage_of 1": "killed",
    "moves.move_stage.stage_of 12": "survived",
    "run.checks.batch_wait.Wait.to_arguments 3": "no tests",
    "throttle.in_force.each_entry 5": "survived",
    "throttle.in_force.each_entry 6": "timeout",
}


def test_each_mutant_has_its_module_function_number_and_end() -> None:
    assert results_in(TOLD) == RESULTS


def test_equivalent_mutants_are_read_from_the_page_by_number() -> None:
    page = "| mutant | why |\n|---|---|\n| `throttle.in_force.each_entry` 5, 26 | Names have no slash |\n"
    assert equivalent_in(page) == {"throttle.in_force.each_entry 5", "throttle.in_force.each_entry 26"}


def test_the_score_counts_what_a_test_could_notice() -> None:
    lines, score = mutant_table(RESULTS, {"throttle.in_force.each_entry 5", "moves.move_stage.stage_of 1"})
    assert score == 2 / 4, "one of four is killed, one timed out; two are alive, and one is equivalent"
    assert lines[2:] == [
        "| `moves/move_stage.py` | 2 | 0 | 1 | 50.0% |",
        "| `run/checks/*` | 1 | 0 | 1 | 0.0% |",
        "| `throttle/in_force.py` | 2 | 1 | 0 | 100.0% |",
        "| all | 5 | 1 | 2 | 50.0% |",
    ]


def test_every_module_that_is_measured_is_there() -> None:
    assert all(list((ROOT / "include/kafka_rebalance").glob(name)) for name in MODULES)


def test_every_equivalent_mutant_is_of_a_function_that_is_there() -> None:
    found = equivalent_in(PAGE.read_text(encoding="utf-8"))
    for name in found:
        parts = name.partition(" ")[0].split(".")
        function = parts.pop()
        files = [
            ROOT / "include/kafka_rebalance" / f"{'/'.join(parts[:end])}.py" for end in (len(parts), len(parts) - 1)
        ]
        assert any(f"def {function}(" in file.read_text() for file in files if file.is_file()), name


def told(branches: int, taken: int, *missing: list[int]) -> dict[str, Any]:
    summary = {"num_branches": branches, "covered_branches": taken, "num_statements": 10, "covered_lines": 9}
    return {"summary": summary, "missing_branches": list(missing)}


def test_branches_are_counted_by_room_and_the_least_share_decides() -> None:
    files = {
        "include/kafka_rebalance/model/policy.py": told(10, 9, [3, 5]),
        "include/kafka_rebalance/kafka/topics.py": told(10, 10),
        "include/kafka_rebalance/kafka/__init__.py": told(0, 0),
    }
    lines, least = branch_table(files)
    assert least == 0.9
    assert "| `model` | 10 | 90.0% | 10 | 90.0% |" in lines
    assert "| `kafka` | 20 | 90.0% | 10 | 100.0% |" in lines
    assert lines[-1] == "| all | 30 | 90.0% | 20 | 95.0% |"
    assert missing_in(files) == {"include/kafka_rebalance/model/policy.py": ["3->5"]}
    assert {"planning", "moves", "throttle"} <= set(ROOMS)


def test_a_page_without_markers_stays_as_it_is(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("a page")
    with pytest.raises(ValueError, match="Nothing was written"):
        with_section(page, "bench", ["a line"])
    page.write_text("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n")
    assert with_section(page, "bench", ["a line"]) == "before\n<!-- bench -->\na line\n<!-- /bench -->\nafter\n"
