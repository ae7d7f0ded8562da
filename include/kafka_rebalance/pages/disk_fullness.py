"""The fullest disks over the batches of a candidate, as a small SVG."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from kafka_rebalance.pages.candidate_report import DiskCourse
from kafka_rebalance.pages.figure import AFTER, BEFORE, INK, Plot, drawn, set_ticks
from kafka_rebalance.pages.units import format_share

_HEIGHT_INCHES = 2.4
# Lines differ in dashes as well as in colour.
_LINES = ((AFTER, (0, ())), (BEFORE, (0, (5, 2))), (INK, (0, (1.5, 1.5))), (AFTER, (0, (6, 2, 1.5, 2))))

Course = tuple[int, tuple[tuple[float, float], ...]]  # (broker, ((batches that are over, % of its disk), ...))


def disk_plot(disks: Sequence[DiskCourse]) -> Plot | None:
    """How full each disk is at the peak of each batch; None if no capacity is known, or below two batches."""
    last = max((disk.steps[-1][0] for disk in disks), default=0)
    if last < 2:
        return None  # the table is clearer
    sized = [(disk, disk.capacity_bytes) for disk in disks[: len(_LINES)] if disk.capacity_bytes]
    courses: list[Course] = [(disk.broker, _points(disk, capacity, last)) for disk, capacity in sized]
    if not courses:
        return None
    fullest = max(percent for _, points in courses for _, percent in points) / 100
    brokers = ", ".join(str(broker) for broker, _ in courses)
    return Plot(
        "Share of disk in use (%)",
        "by broker, the fullest disks",
        partial(draw_disks, tuple(courses), last),
        f"Disks of brokers {brokers} over {last} batches: {format_share(fullest)} full at most. The numbers are in the "
        "table below.",
    )


def _points(disk: DiskCourse, capacity_bytes: int, last: int) -> tuple[tuple[float, float], ...]:
    """The corners of the line: at the peak during each batch that changes the disk, flat in between."""
    points, now = [], float(disk.steps[0][2])
    for batch, peak, after in disk.steps[1:]:
        points += [(batch - 1, now), (batch - 1, peak), (batch, peak), (batch, after)]
        now = after
    return tuple((over, 100 * size / capacity_bytes) for over, size in [(0, disk.steps[0][2]), *points, (last, now)])


@lru_cache(maxsize=64)
def draw_disks(courses: tuple[Course, ...], last: int) -> str:
    """The SVG: a line of steps for each broker."""

    def draw_in(axes: Any) -> None:
        for (broker, points), (colour, dashes) in zip(courses, _LINES, strict=False):
            over, percent = zip(*points, strict=True)
            axes.plot(over, percent, color=colour, linestyle=dashes, linewidth=1.4, label=str(broker))
        axes.set_xlim(0, last)
        most = max(percent for _, points in courses for _, percent in points)
        axes.set_ylim(0, 1.06 * most or 1)  # the highest line is not cut in half
        axes.set_xlabel("batches done")
        set_ticks(axes, 6, 5, whole=True, grid="y")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.04, 1.0), ncols=len(courses), frameon=False, fontsize=9.5,
                    handlelength=2.2, columnspacing=1.2, labelcolor=INK)  # fmt: skip

    return drawn(_HEIGHT_INCHES, (0.1, 0.2, 0.87, 0.62), draw_in)
