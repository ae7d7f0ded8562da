"""Brokers before and after as small SVGs. The same values give the same bytes; the page's table has the numbers too.

Colours are CSS variables inside the SVG. So the plot follows the reader's light or dark mode even as an <img>, which
the page's style does not reach. Before and after differ in shape as well as in colour.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from kafka_rebalance.model.metrics import Metric
from kafka_rebalance.pages.broker_loads import BrokerChange
from kafka_rebalance.pages.figure import AFTER, BEFORE, INK, WIDTH_INCHES, Plot, drawn, scale_of, set_ticks

BROKERS_SHOWN = 30  # one by one; more are drawn as a distribution
_POINTS = 61  # of the line of a distribution
_ROW_INCHES, _FRAME_INCHES = 0.27, 0.62
_LABEL_COLUMNS, _COLUMN_INCHES = 20, 0.097  # the width of a label, and of one letter in a wide font of 11 pixels


@dataclass(frozen=True, slots=True)
class Row:
    """One broker in a plot. Values are bytes, bytes per second or counts."""

    label: str
    before: float
    after: float


RESOURCES = (  # (metric, kind of unit, field of Load)
    (Metric.DISK, "bytes", "size_bytes"),
    (Metric.LEADERS, "count", "leaders"),
    (Metric.REPLICAS, "count", "replicas"),
    (Metric.BYTES_IN, "rate", "bytes_in_per_second"),
)


def broker_plots(brokers: Sequence[BrokerChange]) -> tuple[Plot, ...]:
    """One plot for each resource that is known of every broker; many brokers are drawn as a distribution."""
    plots = []
    for metric, kind, name in RESOURCES:
        rows = [Row(_label(one), getattr(one.before, name), getattr(one.after, name)) for one in brokers]
        if rows and all(row.before is not None and row.after is not None for row in rows):
            plots.append(_plot(metric, kind, rows, _even_share(brokers, [row.after for row in rows])))
    return tuple(plots)


def _label(broker: BrokerChange) -> str:
    """A rack is free text, and SVG text does not wrap: a long label loses its end, never the broker's id."""
    label = f"{broker.broker}  {broker.rack or ''}".rstrip()
    cut = label
    while _columns(cut) > _LABEL_COLUMNS - (cut != label):
        cut = cut[:-1]
    return label if cut == label else f"{cut}…"


def _columns(text: str) -> int:
    """The width of the text, in digits; East Asian letters are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _even_share(brokers: Sequence[BrokerChange], after: Sequence[float]) -> float | None:
    """The mean over the brokers that hold something in the end; None if their capacities differ, as shares then do.

    If one of the capacities is unknown, shares are equal.
    """
    staying = [value for broker, value in zip(brokers, after, strict=True) if broker.after.replicas]
    sizes = {broker.disk_capacity_bytes for broker in brokers if broker.after.replicas}
    if not staying or (len(sizes) > 1 and None not in sizes):
        return None
    return sum(staying) / len(staying)


def _plot(metric: Metric, kind: str, rows: Sequence[Row], even: float | None) -> Plot:
    scale, unit = scale_of(kind, max(max(row.before, row.after) for row in rows))
    before, after = sorted(row.before / scale for row in rows), sorted(row.after / scale for row in rows)
    title = metric.heading + (f" ({unit})" if unit else "")
    if len(rows) > BROKERS_SHOWN:
        low, high = f"{before[0]:.3g}–{before[-1]:.3g}", f"{after[0]:.3g}–{after[-1]:.3g}"
        description = (
            f"{metric.heading} of {len(rows):,} brokers, from the least to the most: "
            f"before {_course(before, unit)}, after {_course(after, unit)}."
        )
        svg = partial(draw_distribution, _thinned(before), _thinned(after), metric.noun, even and even / scale)
        return Plot(title, f"all {len(rows):,} brokers: {low} before, {high} after", svg, description, True)
    description = (
        f"{metric.heading} by broker: before {before[0]:.3g} to {before[-1]:.3g}{_suffix(unit)}, "
        f"after {after[0]:.3g} to {after[-1]:.3g}{_suffix(unit)}. The numbers are in the table below."
    )
    svg = partial(draw, tuple(rows), scale, kind == "count", even)
    return Plot(title, "", svg, description)


def _course(ordered: Sequence[float], unit: str) -> str:
    tenth, half, nine = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9))
    return (
        f"{ordered[0]:.3g} at least, {tenth:.3g} at a tenth of them, {half:.3g} at half, {nine:.3g} at nine tenths, "
        f"{ordered[-1]:.3g}{_suffix(unit)} at most"
    )


def _thinned(ordered: Sequence[float]) -> tuple[float, ...]:
    """As many values as the eye can tell apart, evenly spread, with both ends."""
    last = len(ordered) - 1
    return tuple(ordered[round(place * last / (_POINTS - 1))] for place in range(_POINTS))


def _suffix(unit: str) -> str:
    return f" {unit}" if unit else ""


@lru_cache(maxsize=128)
def draw(rows: tuple[Row, ...], scale: float, whole: bool, even: float | None) -> str:
    """The SVG: for each broker a line from before (hollow) to after (filled), and the even share, dashed.

    Values are divided by `scale`; `whole` values get whole ticks.
    """
    height = _FRAME_INCHES + _ROW_INCHES * len(rows)
    left = max(0.235, (max(_columns(row.label) for row in rows) * _COLUMN_INCHES + 0.1) / WIDTH_INCHES)

    def draw_in(axes: Any) -> None:
        at = range(len(rows))
        before, after = [row.before / scale for row in rows], [row.after / scale for row in rows]
        if even is not None:
            axes.axvline(even / scale, color=INK, linewidth=0.8, linestyle=(0, (3, 3)), zorder=1)
            axes.annotate(
                "even share", (even / scale, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3),
                textcoords="offset points", ha="center", va="bottom", fontsize=10,
            )  # fmt: skip
        axes.hlines(list(at), before, after, color=AFTER, linewidth=1.6, alpha=0.45, zorder=2)
        axes.plot(
            before, list(at), linestyle="none", marker="o", markersize=6, markerfacecolor="none",
            markeredgecolor=BEFORE, markeredgewidth=1.6, zorder=3,
        )  # fmt: skip
        axes.plot(
            after, list(at), linestyle="none", marker="D", markersize=4.6, markerfacecolor=AFTER,
            markeredgecolor=AFTER, zorder=4,
        )  # fmt: skip
        axes.set_yticks(list(at), [row.label for row in rows], parse_math=False)  # racks are not formulas
        axes.set_ylim(len(rows) - 0.4, -0.6)  # the first broker on top
        most = max([*before, *after, 1e-9])
        axes.set_xlim(-0.03 * most, 1.06 * most)  # room for the marker of a broker that holds nothing
        set_ticks(axes, 5, whole=whole, grid="x")

    return drawn(height, (left, 0.32 / height, 0.97 - left, 1 - _FRAME_INCHES / height), draw_in)


@lru_cache(maxsize=64)
def draw_distribution(before: tuple[float, ...], after: tuple[float, ...], what: str, even: float | None) -> str:
    """The SVG: the brokers from the least to the most, before dashed and after solid, and the even share."""

    def draw_in(axes: Any) -> None:
        share = [100 * place / (len(before) - 1) for place in range(len(before))]
        if even is not None:
            axes.axhline(even, color=INK, linewidth=0.8, linestyle=(0, (1.5, 2.5)), zorder=1)
        axes.plot(share, before, color=BEFORE, linestyle=(0, (5, 2)), linewidth=1.8, zorder=2)
        axes.plot(share, after, color=AFTER, linewidth=1.8, zorder=3)
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 1.06 * max([*before, *after, 1e-9]))
        axes.set_xlabel(f"% of brokers, by {what}")
        set_ticks(axes, 5, 5, grid="y")

    return drawn(2.6, (0.11, 0.18, 0.86, 0.72), draw_in)
