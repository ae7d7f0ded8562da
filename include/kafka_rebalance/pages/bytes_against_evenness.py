"""The candidates as a small SVG: the bytes that each copies, against how uneven it leaves the cluster.

If the plan has the curve of one candidate that stops after a part of its bytes, this is the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from kafka_rebalance.documents.candidate_figures import CutPlan
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.pages.candidate_report import CandidateReport, furthest_off, off_share
from kafka_rebalance.pages.figure import AFTER, BEFORE, INK, Plot, drawn, scale_of, set_ticks
from kafka_rebalance.pages.units import format_bytes, format_share

FEWEST = 4  # candidates; without a curve fewer are clearer in the table alone
_HEIGHT_INCHES = 2.9
_NAME_POINTS = 10
TODAY = "today"


@dataclass(frozen=True, slots=True)
class Point:
    """`off` is how far the furthest broker is from its fair share of any resource, as a share of it."""

    name: str
    copied_bytes: int
    off: float


def candidates_plot(candidates: Sequence[CandidateReport], recommended: str | None = None) -> Plot | None:
    """None if there are few candidates and no curve, or if the scores of one are not known."""
    possible = [candidate for candidate in candidates if candidate.status in OFFERED]
    cut = next((candidate for candidate in possible if candidate.evenness_by_bytes), None)
    if cut is None and len(possible) < FEWEST:
        return None
    points = []
    for candidate in possible:
        off = off_share(candidate)
        if off is None:
            return None
        points.append(Point(candidate.name, candidate.moved_bytes, off))
    before = furthest_off([before for _, before, _ in possible[0].spreads])
    today = () if before is None else (Point(TODAY, 0, before),)
    best, curve = front_points(points), () if cut is None else cut.evenness_by_bytes
    named = ", ".join(f"{p.name} {format_bytes(p.copied_bytes)} and {format_share(p.off)}" for p in (*today, *points))
    line, words = "the line joins candidates that no other beats in both", ""
    if cut is not None:
        line = f"the line is {cut.name}, stopped after a part of its bytes; no other beats a diamond in both"
        parts = ", ".join(f"{format_bytes(one.bytes)} and {format_share(one.off)}" for one in curve)
        words = f" {cut.name}, stopped after a part of its bytes: {parts}."
    chosen = "" if recommended is None else f" Recommended is {recommended}."
    return Plot(
        "Bytes copied against what is left uneven",
        line,
        partial(draw_candidates, (*today, *points), tuple(point.name for point in best), curve, recommended),
        f"Bytes copied, and how far the furthest broker is from its fair share in the end: {named}. No other "
        f"beats {', '.join(point.name for point in best)} in both.{words}{chosen}",
    )


def front_points(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points that no other beats: none is at least as good in both and better in one. By bytes."""
    best = [
        one
        for one in points
        if not any(
            (other.copied_bytes, other.off) != (one.copied_bytes, one.off)
            and other.copied_bytes <= one.copied_bytes
            and other.off <= one.off
            for other in points
        )
    ]
    return tuple(sorted(best, key=lambda one: one.copied_bytes))


class _Names:
    """Finds a place for each name beside its point, where it covers no point and no other name.

    In pixels; the figure has 72 of them per inch, as many as points.
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]

    def place(self, name: str, at: tuple[float, float]) -> tuple[tuple[float, float], str, str]:
        """(offset, horizontal and vertical alignment)"""
        width, height, (x, y) = len(name) * 0.62 * _NAME_POINTS, 1.2 * _NAME_POINTS, at
        found = [
            ((0.0, 7.0), "center", "bottom", (x - width / 2, y + 6, x + width / 2, y + 6 + height)),
            ((0.0, -7.0), "center", "top", (x - width / 2, y - 6 - height, x + width / 2, y - 6)),
            ((8.0, 0.0), "left", "center", (x + 7, y - height / 2, x + 7 + width, y + height / 2)),
            ((-8.0, 0.0), "right", "center", (x - 7 - width, y - height / 2, x - 7, y + height / 2)),
        ]
        offset, across, up, box = min(found, key=lambda one: sum(_overlap(one[3], taken) for taken in self._taken))
        self._taken.append(box)
        return offset, across, up


_Box = tuple[float, float, float, float]


def _overlap(one: _Box, other: _Box) -> float:
    """The area that both cover."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


@lru_cache(maxsize=64)
def draw_candidates(
    points: tuple[Point, ...], best: tuple[str, ...], curve: tuple[CutPlan, ...] = (), recommended: str | None = None
) -> str:
    """The SVG: a filled diamond for each of `best`, and a hollow circle for each other.

    The line is the curve, or joins `best` if there is none. A ring surrounds the recommended one.
    """
    scale, unit = scale_of("bytes", max(point.copied_bytes for point in points))

    def draw_in(axes: Any) -> None:
        front = sorted((point for point in points if point.name in best), key=lambda point: point.copied_bytes)
        joined = [(cut.bytes, cut.off) for cut in curve] or [(point.copied_bytes, point.off) for point in front]
        axes.plot(
            [copied / scale for copied, _ in joined], [100 * off for _, off in joined],
            color=AFTER, linewidth=1.2, alpha=0.5, zorder=2, marker="." if curve else "none", markersize=5,
        )  # fmt: skip
        most = max(point.copied_bytes for point in points) / scale or 1.0
        top = 100 * max([point.off for point in points] + [off for _, off in joined]) or 1.0
        axes.set_xlim(-0.14 * most, 1.14 * most)
        axes.set_ylim(-0.12 * top, 1.16 * top)
        places = [(point.copied_bytes / scale, 100 * point.off) for point in points]
        names = _Names([tuple(at) for at in axes.transData.transform(places)])
        for point, at in zip(points, places, strict=True):
            on_front = point.name in best
            axes.plot(
                *at, linestyle="none", marker="D" if on_front else "o", markersize=5.5 if on_front else 6.5, zorder=3,
                markerfacecolor=AFTER if on_front else "none", markeredgecolor=AFTER if on_front else BEFORE,
                markeredgewidth=1.4,
            )  # fmt: skip
            if point.name == recommended:
                axes.plot(
                    *at, linestyle="none", marker="o", markersize=12, markerfacecolor="none", markeredgecolor=AFTER,
                    markeredgewidth=1.2, zorder=3,
                )  # fmt: skip
            offset, across, up = names.place(point.name, tuple(axes.transData.transform(at)))
            axes.annotate(
                point.name, at, xytext=offset, textcoords="offset points", fontsize=_NAME_POINTS, ha=across, va=up,
                parse_math=False,
            )  # fmt: skip
        axes.set_xlabel(f"bytes copied ({unit})")
        axes.set_ylabel("furthest broker off its share (%)")
        set_ticks(axes, 5, 5, grid="both")
        axes.tick_params(labelcolor=INK)

    return drawn(_HEIGHT_INCHES, (0.12, 0.17, 0.85, 0.76), draw_in)
