"""Which broker receives and sends when, as a small SVG."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from kafka_rebalance.documents.candidate_figures import Timetable
from kafka_rebalance.pages.figure import AFTER, BEFORE, INK, LINE, Plot, drawn, set_ticks

_ROW_INCHES, _FRAME_INCHES = 0.34, 0.75
_UNITS = (  # (from, seconds of one, name)
    (7200.0, 3600.0, "hours of copying"),
    (120.0, 60.0, "minutes of copying"),
    (0.0, 1.0, "seconds of copying"),
)

Lane = tuple[int, tuple[float, ...], tuple[float, ...]]  # broker, and [slot] shares of the throttle in and out


def timetable_plot(timetable: Timetable | None, seconds: float | None) -> Plot | None:
    """The brokers with most to copy; None if nothing is copied. `seconds`: of all copying; None is unknown."""
    if timetable is None or not timetable.brokers:
        return None
    lanes = tuple((one["broker"], one["in"], one["out"]) for one in timetable.brokers)
    length, unit = 100.0, "% of the copying"
    if seconds:
        length, unit = next((seconds / of_one, name) for least, of_one, name in _UNITS if seconds >= least)
    which = "" if len(lanes) == timetable.broker_count else f" of {timetable.broker_count:,}, those with most to do"
    return Plot(
        "Who receives (above) and sends (below) when",
        f"by broker{which}; a full lane is the throttle",
        partial(draw_lanes, lanes, length, unit),
        f"What {len(lanes)} brokers receive and send while it runs, as shares of the throttle. The numbers are in the "
        "table below.",
    )


@lru_cache(maxsize=64)
def draw_lanes(lanes: tuple[Lane, ...], length: float, unit: str) -> str:
    """The SVG: a lane for each broker, with bytes in above its line and bytes out below it."""
    height = _FRAME_INCHES + _ROW_INCHES * len(lanes)

    def draw_in(axes: Any) -> None:
        for row, (_, received, sent) in enumerate(lanes):
            for shares, way, colour in ((received, -1, AFTER), (sent, 1, BEFORE)):
                edges = [length * slot / len(shares) for slot in range(len(shares) + 1)]
                tops = [row + way * 0.44 * min(1.0, share) for share in shares]
                axes.stairs(tops, edges, baseline=row, fill=True, color=colour, linewidth=0)
            axes.axhline(row, color=LINE, linewidth=0.6)
        axes.set_yticks(range(len(lanes)), [str(broker) for broker, _, _ in lanes])
        axes.set_ylim(len(lanes) - 0.5, -0.5)  # the first broker on top
        axes.set_xlim(0, length)
        axes.set_xlabel(unit, color=INK)
        set_ticks(axes, 6)

    return drawn(height, (0.11, 0.5 / height, 0.86, 1 - _FRAME_INCHES / height), draw_in)
