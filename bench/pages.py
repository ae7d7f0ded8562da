"""Writes what was measured into the pages of docs/evidence, between the markers of its command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.best_known import Known
from bench.scoring import METRICS, Score

DOCS = Path(__file__).parents[1] / "docs"
EVIDENCE = DOCS / "evidence"
HEADS = ("replicas", "disk", "bytes in", "leaders", "leader bytes out")  # METRICS, for people
# Okabe and Ito's colours; the shapes differ too.
_LOOKS = {0.10: ("#b35900", "o"), 0.02: ("#0067a8", "D")}
_WIDTH_INCHES, _ROW_INCHES, _FRAME_INCHES = 5.0, 0.34, 1.1  # narrow, so that text is readable on a phone


@dataclass(frozen=True, slots=True)
class Row:
    """One plan of `balanced`."""

    size: str
    scenario: str
    seed: int
    tolerance: float
    status: str
    score: Score
    crowding_before: float
    excess_leaders_before: int
    simple_bound: int
    relaxed_bound: int | None
    known: Known | None  # of small clusters
    makespan_ratio: float
    search_seconds: float
    peak_bytes: int

    @property
    def over_simple(self) -> float | None:
        return _over(self.score.moved_bytes, self.simple_bound)

    @property
    def over_relaxed(self) -> float | None:
        return _over(self.score.moved_bytes, self.relaxed_bound)

    @property
    def over_best_known(self) -> float | None:
        return None if self.known is None else _over(self.score.moved_bytes, self.known.fewest)

    @property
    def over_whole(self) -> float | None:
        return None if self.known is None else _over(self.score.moved_bytes, self.known.least)

    @property
    def over_bound(self) -> float | None:
        """Over the highest of the bounds."""
        found = (self.over_simple, self.over_relaxed, self.over_whole)
        return min((one for one in found if one is not None), default=None)

    def __str__(self) -> str:
        most = max(self.score.spreads[metric].most for metric in METRICS)
        least = min(self.score.spreads[metric].least for metric in METRICS)
        return (
            f"{self.size} {self.scenario} seed {self.seed} ε {self.tolerance:.2f}: {self.status}, "
            f"{self.score.moved_bytes / 1e12:.2f} TB, {_ratio(self.over_simple)} simple, "
            f"{_ratio(self.over_relaxed)} LP, {_ratio(self.over_whole)} whole, "
            f"{_ratio(self.over_best_known)} best known, {least:.3f} to {most:.3f}, "
            f"crowding {self.crowding_before:.4f} to {self.score.crowding:.4f}, "
            f"excess leaders {self.excess_leaders_before} to {self.score.excess_leaders} "
            f"({self.score.leader_changes} changes), {self.score.violations} violations, "
            f"search {self.search_seconds:.1f} s, {self.peak_bytes / 2**20:.0f} MiB, "
            f"makespan {self.makespan_ratio:.3f}"
        )


def _over(moved_bytes: int, bound: int | None) -> float | None:
    """None without a bound, or if it is 0."""
    return moved_bytes / bound if bound else None


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def write_page(name: str, rows: Sequence[Row]) -> tuple[Path, ...]:
    """Puts tables and picture between `<!-- name -->` and `<!-- /name -->`; returns the written files."""
    picture = EVIDENCE / ("benchmarks-planner.png" if name == "bench" else "benchmarks-planner-xl.png")
    alternative = "Bytes over the bound and seconds of the search; the figures are in the tables"
    page = write_section(name, [*tables(rows), "", f"![{alternative}]({picture.name})"])
    draw(rows, picture)
    return page, picture


def write_section(name: str, lines: Sequence[str]) -> Path:
    """Replaces these lines of the page of evidence that has this section, and returns it.

    Raises ValueError if no page has such a place.
    """
    page = next(
        (page for page in EVIDENCE.glob("*.md") if f"<!-- {name} -->" in page.read_text(encoding="utf-8")), None
    )
    if page is None:
        raise ValueError(f"No page in {EVIDENCE} has <!-- {name} -->. Restore the marker.")
    page.write_text(with_section(page, name, lines), encoding="utf-8")
    return page


def with_section(page: Path, name: str, lines: Sequence[str]) -> str:
    """The page with these lines between `<!-- name -->` and `<!-- /name -->`. ValueError if it has no such place."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = page.read_text(encoding="utf-8")
    if not re.search(f"{begin}.*{end}", text, flags=re.DOTALL):
        raise ValueError(f"{page} has no {begin} with {end} after it. Nothing was written. Restore both markers.")
    content = "\n".join([begin, *lines, end])
    return re.sub(f"{begin}.*{end}", lambda _: content, text, flags=re.DOTALL)


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows that differ only in their seed, with the name that they share."""
    for key in dict.fromkeys((row.size, row.scenario, row.tolerance) for row in rows):
        same = [row for row in rows if (row.size, row.scenario, row.tolerance) == key]
        yield f"{key[0]} {key[1]} | {key[2]:.0%}", same


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Two tables, with a line for each size, scenario and tolerance. Every column has the worst of the seeds."""
    yield ""
    bytes_over = "÷ simple bound | ÷ LP bound | ÷ whole bound | ÷ best known"
    yield f"| cluster | ε | seeds | TB | {bytes_over} | makespan ÷ bound | search s | peak MiB |"
    yield "|---|" + "---:|" * 10
    for name, same in _groups(rows):
        cells = [
            f"{len(same)}",
            f"{max(row.score.moved_bytes for row in same) / 1e12:,.2f}",
            _worst(same, lambda row: row.over_simple),
            _worst(same, lambda row: row.over_relaxed),
            _worst(same, lambda row: row.over_whole),
            _worst(same, lambda row: row.over_best_known),
            _worst(same, lambda row: row.makespan_ratio),
            f"{max(row.search_seconds for row in same):,.1f}",
            f"{max(row.peak_bytes for row in same) / 2**20:,.0f}",
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""
    yield f"| cluster | ε | {' | '.join(HEADS)} | crowding before → after | excess leaders | violations |"
    yield "|---|---:|" + "---:|" * 8
    for name, same in _groups(rows):
        led = max(same, key=lambda row: row.score.excess_leaders - row.excess_leaders_before)
        crowded = max(same, key=lambda row: row.score.crowding - row.crowding_before)
        cells = [
            *(_band(same, metric) for metric in METRICS),
            f"{crowded.crowding_before:.4f} → {crowded.score.crowding:.4f}",
            f"{led.excess_leaders_before:,} → {led.score.excess_leaders:,}",
            f"{sum(row.score.violations for row in same)}",
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def _worst(rows: Sequence[Row], figure: Callable[[Row], float | None]) -> str:
    return _ratio(max((value for row in rows if (value := figure(row)) is not None), default=None))


def _band(rows: Sequence[Row], metric: str) -> str:
    """Least and most, in bold if they are outside ε and the largest partition does not excuse that."""
    spreads = [(row.score.spreads[metric], row.tolerance) for row in rows]
    least, most = min(spread.least for spread, _ in spreads), max(spread.most for spread, _ in spreads)
    text = f"{least:.3f}–{most:.3f}"
    outside = any(
        max(spread.most - 1, 1 - spread.least) > max(tolerance, spread.grain) + 5e-4 for spread, tolerance in spreads
    )
    return f"**{text}**" if outside else text


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draws every plan as a point: bytes over the bound above, seconds below."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(f"{row.size} {row.scenario}" for row in rows))
    height = 2 * (_ROW_INCHES * len(names) + _FRAME_INCHES)
    with pyplot.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (bytes_axis, time_axis) = pyplot.subplots(2, 1, figsize=(_WIDTH_INCHES, height), layout="constrained")
        _points(bytes_axis, names, rows, lambda row: row.over_bound)
        bytes_axis.set_title("Bytes copied ÷ what no plan stays below")
        bytes_axis.axvline(1, color="#3a3f45", linewidth=1)
        bytes_axis.set_xlim(right=max(1.1, bytes_axis.get_xlim()[1]))  # so that 0.001 does not look large
        _points(time_axis, names, rows, lambda row: row.search_seconds)
        time_axis.set_title("Seconds of the search")
        least, most = time_axis.dataLim.intervalx
        if most > 10 * least:
            time_axis.set_xscale("log")
        else:
            time_axis.set_xlim(left=0)  # below one decade a log axis has at most one label
        time_axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        figure.legend(*bytes_axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(path, dpi=160, metadata={"Software": None})
        pyplot.close(figure)


def _points(axis: Any, names: Sequence[str], rows: Sequence[Row], figure: Callable[[Row], float | None]) -> None:
    for offset, (tolerance, (colour, marker)) in zip((-0.15, 0.15), _LOOKS.items(), strict=True):
        found = [(value, row) for row in rows if row.tolerance == tolerance and (value := figure(row)) is not None]
        axis.scatter(
            [value for value, _ in found],
            [names.index(f"{row.size} {row.scenario}") + offset for _, row in found],
            color=colour,
            marker=marker,
            s=34,
            label=f"within {tolerance:.0%}",
        )
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="x", color="#d5d9de")
    axis.set_axisbelow(True)
    axis.tick_params(length=0)
