"""The candidates as a small SVG: what each copies, against how far from even it leaves the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kafka_rebalance.report.plots import (
    AFTER,
    BEFORE,
    INK,
    LINE,
    STYLE,
    Plot,
    as_source,
    drawing,
    finished,
    scale_of,
)
from kafka_rebalance.report.units import format_bytes, format_share
from kafka_rebalance.report.values import CandidateReport

FEWEST = 4  # below, the table alone says it better
_WIDTH_INCHES, _HEIGHT_INCHES = 5.3, 2.9
TODAY = "today"


@dataclass(frozen=True, slots=True)
class Point:
    """`off` is the distance of the furthest broker from its fair share, of any resource, as a share of that share."""

    name: str
    copied_bytes: int
    off: float


def candidates_plot(candidates: Sequence[CandidateReport]) -> Plot | None:
    """None where there are few candidates, or where the scores of one are not known."""
    possible = [candidate for candidate in candidates if candidate.status != "infeasible"]
    if len(possible) < FEWEST:
        return None
    points = []
    for candidate in possible:
        off = off_share(candidate)
        if off is None:
            return None
        points.append(Point(candidate.name, candidate.moved_bytes, off))
    before = _off([score.before for score in possible[0].scores])
    today = () if before is None else (Point(TODAY, 0, before),)
    best = front(points)
    named = ", ".join(f"{p.name} {format_bytes(p.copied_bytes)} and {format_share(p.off)}" for p in (*today, *points))
    return Plot(
        "Bytes copied against what is left uneven",
        "the line joins candidates that none betters in both",
        as_source(draw_candidates((*today, *points), tuple(point.name for point in best))),
        f"Bytes copied, and how far the furthest broker is from its fair share in the end: {named}. None betters "
        f"{', '.join(point.name for point in best)} in both.",
    )


def off_share(candidate: CandidateReport) -> float | None:
    """How far the furthest broker is from its fair share in the end, as a share of it; None where it is not known."""
    return _off([score.after for score in candidate.scores])


def _off(ranges: Sequence[tuple[float | None, float | None]]) -> float | None:
    known = [max(1 - low, high - 1) for low, high in ranges if low is not None and high is not None]
    return max(known) if known and len(known) == len(ranges) else None


def front(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those that no other is at least as good as in both, and better in one; by bytes."""
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


@lru_cache(maxsize=64)
def draw_candidates(points: tuple[Point, ...], best: tuple[str, ...]) -> str:
    """The SVG: a filled diamond for each of `best`, joined, and a hollow circle for each other."""
    import matplotlib as mpl  # here, because every process that parses the Dag imports this module
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    scale, unit = scale_of("bytes", max(point.copied_bytes for point in points))
    with drawing, mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES))
        canvas = FigureCanvasSVG(figure)
        axes = figure.add_axes((0.12, 0.17, 0.85, 0.76))
        joined = sorted((point for point in points if point.name in best), key=lambda point: point.copied_bytes)
        axes.plot(
            [point.copied_bytes / scale for point in joined], [100 * point.off for point in joined],
            color=AFTER, linewidth=1.2, alpha=0.5, zorder=2,
        )  # fmt: skip
        for place, point in enumerate(sorted(points, key=lambda point: (point.copied_bytes, point.name))):
            on_front = point.name in best
            at = (point.copied_bytes / scale, 100 * point.off)
            axes.plot(
                *at, linestyle="none", marker="D" if on_front else "o", markersize=5.5 if on_front else 6.5, zorder=3,
                markerfacecolor=AFTER if on_front else "none", markeredgecolor=AFTER if on_front else BEFORE,
                markeredgewidth=1.4,
            )  # fmt: skip
            above = place % 2 == 0  # two that lie close keep their names apart
            axes.annotate(
                point.name, at, xytext=(0, 8 if above else -8), textcoords="offset points", fontsize=10,
                ha="center", va="bottom" if above else "top", parse_math=False,
            )  # fmt: skip
        axes.margins(x=0.14, y=0.22)
        axes.set_xlabel(f"bytes copied ({unit})")
        axes.set_ylabel("furthest broker off its share (%)")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlim(left=-0.14 * max(point.copied_bytes for point in points) / scale)
        axes.grid(color=LINE, linewidth=0.6)
        axes.tick_params(labelcolor=INK)
        return finished(canvas, axes)
