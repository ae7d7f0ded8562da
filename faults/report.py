"""Writes the tables of docs/evidence/faults.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from faults.cases import EVERY_VERSION, KINDS, Case, matrix
from faults.growth import Figure, rows
from faults.one_case import Result
from faults.ours.processes import ROOT

PAGE = ROOT / "docs" / "evidence" / "faults.md"
BEGIN, END = "<!-- faults -->", "<!-- /faults -->"
STRIKES_BEGIN, STRIKES_END = "<!-- strikes -->", "<!-- /strikes -->"
LOG_DIRS_BEGIN, LOG_DIRS_END = "<!-- log-dirs -->", "<!-- /log-dirs -->"
SOAK_BEGIN, SOAK_END = "<!-- soak -->", "<!-- /soak -->"


def write_tables(results: Collection[Result], page: Path = PAGE) -> Path:
    """Replaces the tables of kills, of strikes and of log dirs, if they have a result; returns the page."""
    by_name = {result.case: result for result in results}
    tables: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in matrix():
        of_rebalances = (BEGIN, END) if case.is_kill else (STRIKES_BEGIN, STRIKES_END)
        tables[(LOG_DIRS_BEGIN, LOG_DIRS_END) if case.is_between_log_dirs else of_rebalances].append(case)
    for (begin, end), cases in tables.items():
        if any(case.name in by_name for case in cases):
            _replace(page, begin, end, _table(cases, by_name))
    return page


def _table(cases: Sequence[Case], by_name: Mapping[str, Result]) -> list[str]:
    """A row for each fault and moment, a column for each version."""
    lines = [f"| fault | moment | {' | '.join(EVERY_VERSION)} |", "|---|---|" + "---|" * len(EVERY_VERSION)]
    for struck in dict.fromkeys(_struck(case) for case in cases):
        of = {case.version: case for case in cases if _struck(case) == struck}
        cells = (_cell(by_name.get(of[version].name)) if version in of else "" for version in EVERY_VERSION)
        lines.append(f"| {struck} | {' | '.join(cells)} |")
    passed = [result for case in cases if (result := by_name.get(case.name)) and result.passed]
    seeds = ", ".join(map(str, sorted({result.seed for result in passed})))
    records = sum(result.acknowledged for result in passed)
    said = f"{len(passed)} of {len(cases)} cases passed (seed {seeds}), with {records:,} acknowledged records."
    return [*lines, "", said]


def write_soak(
    cases: Sequence[Case],
    results: Sequence[Result],
    measured: Sequence[Sequence[Figure]],
    again: Sequence[Sequence[Figure]],
    page: Path = PAGE,
) -> Path:
    """Replaces the soak's tables. The last result is about all records, read again at the end.

    `measured` are the figures after each rebalance, `again` those after each round of following all batches again.
    """
    by_name = {result.case: result for result in results}
    lines = ["| | fault | moment | result |", "|---:|---|---|---|"]
    for number, case in enumerate(cases, 1):
        lines.append(f"| {number} | {_struck(case)} | {_cell(by_name.get(case.name))} |")
    passed = sum(case.name in by_name and by_name[case.name].passed for case in cases)
    last = results[-1]
    said = (
        f"{passed} of {len(cases)} rebalances passed on one cluster of {cases[0].version} (seed {cases[0].seed}). Read "
        f"again at the end: {last.acknowledged:,} acknowledged records, {last.lost} lost."
    )
    return _replace(page, SOAK_BEGIN, SOAK_END, [*lines, "", said, "", *growth_table(measured, again)])


def growth_table(*series: Sequence[Sequence[Figure]]) -> list[str]:
    """Each figure when it was first measured, at the end, and at its highest. No limit: nothing is documented."""
    lines = ["| what is left | first | last | highest | at most |", "|---|---:|---:|---:|---:|"]
    for measured in series:
        for name, first, last, highest, most in rows(measured):
            lines.append(f"| {name} | {first} | {last} | {highest} | {'' if most is None else most} |")
    return lines


def _replace(page: Path, begin: str, end: str, lines: Sequence[str]) -> Path:
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(begin)
    page.write_text(head + "\n".join([begin, "", *lines, "", end]) + rest.partition(end)[2], encoding="utf-8")
    return page


def _struck(case: Case) -> str:
    return f"{KINDS[case.fault].text} | {case.moment}"


def _cell(result: Result | None) -> str:
    """Seconds, acknowledged records, longest gap, and everything in which the case is not an undisturbed success."""
    if result is None:
        return "not run"
    notes = {
        "**the case failed**": not result.passed,
        f"**{result.lost} lost**": result.lost,
        f"run {result.state or 'not ended'}": result.state != "success",
        "cleared once": result.cleared,
        result.operator: result.operator,
        f"{len(result.errors)} failed {'try' if len(result.errors) == 1 else 'tries'}": result.errors,
    }
    figures = f"{result.seconds:.0f} s; {result.acknowledged:,}; {result.longest_gap_seconds:.1f} s"
    return "; ".join([figures, *(note for note, holds in notes.items() if holds)])
