"""The table of docs/reliability.md."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from faults.cases import FAULT_TEXTS, matrix
from faults.processes import ROOT
from faults.run import Result

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- faults -->", "<!-- /faults -->"


def write_table(results: Collection[Result], page: Path = PAGE) -> Path:
    """Replaces the table between the page's two marks; returns the page."""
    by_name = {result.case: result for result in results}
    lines = [
        BEGIN,
        "",
        "| version | fault | moment | result | run over after | records, lost | longest gap | run | failed tries |",
        "|---|---|---|---|---:|---:|---:|---|---:|",
    ]
    for case in matrix():
        result = by_name.get(case.name)
        lines.append(f"| {case.version} | {FAULT_TEXTS[case.fault]} | {case.moment} | {_cells(result)} |")
    everything = [case.name for case in matrix()]
    passed = [result for name in everything if (result := by_name.get(name)) and result.passed]
    seeds = ", ".join(map(str, sorted({result.seed for result in passed})))
    records = sum(result.acknowledged for result in passed)
    lines += [
        "",
        f"{len(passed)} of {len(everything)} cases passed (seed {seeds}), with {records:,} acknowledged records.",
        "",
        END,
    ]
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    page.write_text(head + "\n".join(lines) + rest.partition(END)[2], encoding="utf-8")
    return page


def _cells(result: Result | None) -> str:
    if result is None:
        return "not run | | | | |"
    state = "; ".join(filter(None, (result.state, "cleared once" if result.cleared else "", result.operator)))
    return (
        f"{'passed' if result.passed else '**failed**'} | {result.seconds:.0f} s | "
        f"{result.acknowledged:,}, {result.lost} | {result.longest_gap_seconds:.1f} s | {state} | {len(result.errors)}"
    )
