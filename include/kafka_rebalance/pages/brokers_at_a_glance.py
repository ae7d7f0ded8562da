"""All brokers' disks before and after in one picture of the same height, against what the disks can hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from kafka_rebalance.pages.broker_loads import BrokerChange
from kafka_rebalance.pages.figure import AFTER, BEFORE, LINE, Plot, drawn, scale_of, set_ticks
from kafka_rebalance.pages.units import format_share

_HEIGHT_INCHES = 2.5
_NAMED = 20  # ids of brokers have room below the axis
_COLUMNS = 100  # of more brokers, so many stand for all, evenly spread from the fullest to the emptiest
# Capacities are drawn if they are at most so many times the fullest disk. Else differences would be too small to see.
_IN_SIGHT = 2.5

Column = tuple[int, float, float, float | None]  # broker, bytes before and after, capacity


def glance_plot(brokers: Sequence[BrokerChange]) -> Plot | None:
    """A column for each broker, from the fullest before to the emptiest; None if no broker is known."""
    if not brokers:
        return None
    columns = tuple(
        sorted(
            (
                (one.broker, float(one.before.size_bytes), float(one.after.size_bytes), one.disk_capacity_bytes)
                for one in brokers
            ),
            key=lambda column: (-column[1], column[0]),
        )
    )
    most = max(max(before, after) for _, before, after, _ in columns)
    scale, unit = scale_of("bytes", most)
    shares = [(before / capacity, after / capacity) for _, before, after, capacity in columns if capacity]
    note = "capacities are not known"
    if shares:
        now, later = (format_share(max(one)) for one in zip(*shares, strict=True))
        note = f"Kafka fills at most {now} of a disk now, {later} afterwards"
    before, after = [column[1] / scale for column in columns], [column[2] / scale for column in columns]
    return Plot(
        f"Bytes on disk ({unit})",
        note,
        partial(draw_glance, _spread(columns), len(columns), scale, most),
        f"Bytes on disk of {len(columns):,} brokers: before {min(before):.3g} to {max(before):.3g} {unit}, after "
        f"{min(after):.3g} to {max(after):.3g} {unit}, {note}. The numbers are in the table of brokers below.",
    )


def _spread(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    last = len(columns) - 1
    if last < _COLUMNS:
        return columns
    return tuple(columns[round(place * last / (_COLUMNS - 1))] for place in range(_COLUMNS))


@lru_cache(maxsize=64)
def draw_glance(columns: tuple[Column, ...], brokers: int, scale: float, most: float) -> str:
    """The SVG: hollow is before, filled is after, and a grey mark is the disk's capacity."""

    def draw_in(axes: Any) -> None:
        at = range(len(columns))
        before, after = [column[1] / scale for column in columns], [column[2] / scale for column in columns]
        capacities = [
            (place, column[3] / scale) for place, column in zip(at, columns, strict=True) if column[3] is not None
        ]
        in_sight = [one for one in capacities if one[1] * scale <= _IN_SIGHT * most]
        size = max(2.0, min(6.0, 260 / len(columns)))
        if in_sight:
            places, highest = zip(*in_sight, strict=True)
            axes.bar(places, highest, width=0.7, color=LINE, alpha=0.45, linewidth=0, zorder=0)
        axes.vlines(list(at), before, after, color=AFTER, linewidth=min(2.0, size / 3), alpha=0.5, zorder=2)
        axes.plot(
            list(at), before, linestyle="none", marker="o", markersize=size, markerfacecolor="none",
            markeredgecolor=BEFORE, markeredgewidth=min(1.6, size / 3), zorder=3,
        )  # fmt: skip
        axes.plot(
            list(at), after, linestyle="none", marker="D", markersize=0.8 * size, markerfacecolor=AFTER,
            markeredgecolor=AFTER, markeredgewidth=0, zorder=4,
        )  # fmt: skip
        top = max([most / scale, *(height for _, height in in_sight)]) or 1.0
        axes.set_ylim(-0.03 * top, 1.05 * top)
        axes.set_xlim(-0.7, len(columns) - 0.3)
        set_ticks(axes, 6, 5, grid="y")
        if brokers <= _NAMED:
            axes.set_xticks(list(at), [str(column[0]) for column in columns])
        else:
            axes.set_xticks([])
        axes.set_xlabel("broker" if brokers <= _NAMED else f"{brokers:,} brokers, fullest first")

    return drawn(_HEIGHT_INCHES, (0.11, 0.19, 0.87, 0.77), draw_in)
