"""The figures about our own tests are counted from what the tools say: mutants, and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bench.pages import with_section
from bench.strength import branches, mutants
from bench.strength.mutants import MODULES, PAGE, ROOT, equivalent_in


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


def test_a_page_without_markers_stays_as_it_is(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("a page")
    with pytest.raises(ValueError, match="Nothing was written"):
        with_section(page, "bench", ["a line"])
    page.write_text("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n")
    assert with_section(page, "bench", ["a line"]) == "before\n<!-- bench -->\na line\n<!-- /bench -->\nafter\n"


@pytest.mark.parametrize("measure", [branches.main, mutants.main])
@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("--sed", 2)])
def test_help_and_a_mistyped_argument_start_no_measurement(
    measure: Callable[[Sequence[str]], int], argument: str, status: int
) -> None:
    with pytest.raises(SystemExit) as ended:
        measure([argument])
    assert ended.value.code == status
