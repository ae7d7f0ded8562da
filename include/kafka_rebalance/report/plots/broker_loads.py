"""Brokers before and after as small SVGs. The same values give the same bytes; numbers stand in the page's table too.

matplotlib draws; colours are CSS variables inside the SVG, so that the picture follows the reader's light or dark mode
even as an <img>, where nothing of the page reaches it. Before and after differ in shape as well as in colour.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from kafka_rebalance.model.metrics import Metric
from kafka_rebalance.report.candidate.broker_loads import BrokerChange, Load
from kafka_rebalance.report.plots.figure import AFTER, BEFORE, INK, WIDTH_INCHES, Plot, drawn, scale_of, set_ticks

BROKERS_SHOWN = 30  # one by one; more than that as a distribution
_POINTS = 61  # of the line of a distribution
_ROW_INCHES, _FRAME_INCHES = 0.27, 0.62

_LABEL_COLUMNS, _COLUMN_INCHES = 20, 0.097  # a label's letters, and how wide one is in a wide font of 11 pixels


@dataclass(frozen=True, slots=True)
class Row:
    """One broker in a plot; values in the unit of the whole plot's input (bytes, bytes per second or a count)."""

    label: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Resource:
    """What is plotted of a load. `kind` is bytes, rate or count."""

    metric: Metric
    kind: str
    value: Callable[[Load], float | None]


RESOURCES = (
    Resource(Metric.DISK, "bytes", lambda load: load.size_bytes),
    Resource(Metric.LEADERS, "count", lambda load: load.leaders),
    Resource(Metric.REPLICAS, "count", lambda load: load.replicas),
    Resource(Metric.BYTES_IN, "rate", lambda load: load.bytes_in_per_second),
)


def broker_plots(brokers: Sequence[BrokerChange]) -> tuple[Plot, ...]:
    """One plot for each resource that is known of every broker; of many brokers, how it is spread over them."""
    plots = []
    for resource in RESOURCES:
        rows = []
        for broker in brokers:
            before, after = resource.value(broker.before), resource.value(broker.after)
            if before is None or after is None:
                break
            rows.append(Row(_label(broker), before, after))
        else:
            if rows:
                plots.append(_plot(resource, rows, _even_share(brokers, [row.after for row in rows])))
    return tuple(plots)


def _label(broker: BrokerChange) -> str:
    """Racks are free text, and SVG text does not wrap: what is too long loses its end, never the broker's id."""
    label = f"{broker.broker}  {broker.rack or ''}".rstrip()
    if _columns(label) <= _LABEL_COLUMNS:
        return label
    while _columns(label) > _LABEL_COLUMNS - 1:
        label = label[:-1]
    return label + "…"


def _columns(text: str) -> int:
    """How wide the text is, in digits; the letters of East Asian scripts are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _even_share(brokers: Sequence[BrokerChange], after: Sequence[float]) -> float | None:
    """The mean over brokers that hold something in the end; None where capacities differ: shares then differ too.

    Where one of them is unknown, shares are equal.
    """
    staying = [value for broker, value in zip(brokers, after, strict=True) if broker.after.replicas]
    sizes = {broker.disk_capacity_bytes for broker in brokers if broker.after.replicas}
    if not staying or (len(sizes) > 1 and None not in sizes):
        return None
    return sum(staying) / len(staying)


def _plot(resource: Resource, rows: Sequence[Row], even: float | None) -> Plot:
    scale, unit = scale_of(resource.kind, max(max(row.before, row.after) for row in rows))
    before, after = sorted(row.before / scale for row in rows), sorted(row.after / scale for row in rows)
    title = resource.metric.heading + (f" ({unit})" if unit else "")
    if len(rows) > BROKERS_SHOWN:
        low, high = f"{before[0]:.3g}–{before[-1]:.3g}", f"{after[0]:.3g}–{after[-1]:.3g}"
        description = (
            f"{resource.metric.heading} of {len(rows):,} brokers, from the least to the most: "
            f"before {_course(before, unit)}, after {_course(after, unit)}."
        )
        svg = partial(draw_distribution, _thinned(before), _thinned(after), resource.metric.noun, even and even / scale)
        return Plot(title, f"all {len(rows):,} brokers: {low} before, {high} after", svg, description, True)
    description = (
        f"{resource.metric.heading} by broker: before {before[0]:.3g} to {before[-1]:.3g}{_suffix(unit)}, "
        f"after {after[0]:.3g} to {after[-1]:.3g}{_suffix(unit)}. The numbers are in the table below."
    )
    svg = partial(draw, tuple(rows), scale, resource.kind == "count", even)
    return Plot(title, "", svg, description)


def _course(ordered: Sequence[float], unit: str) -> str:
    tenth, half, nine = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9))
    return (
        f"{ordered[0]:.3g} at least, {tenth:.3g} at a tenth of them, {half:.3g} at half, {nine:.3g} at nine tenths, "
        f"{ordered[-1]:.3g}{_suffix(unit)} at most"
    )


def _thinned(ordered: Sequence[float]) -> tuple[float, ...]:
    """As many of the values, evenly spread and with both ends, as the eye can tell apart."""
    last = len(ordered) - 1
    return tuple(ordered[round(place * last / (_POINTS - 1))] for place in range(_POINTS))


def _suffix(unit: str) -> str:
    return f" {unit}" if unit else ""


@lru_cache(maxsize=128)
def draw(rows: tuple[Row, ...], scale: float, whole: bool, even: float | None) -> str:
    """The SVG: a line from before (hollow) to after (filled) for each broker, and the even share, dashed.

    Values are divided by `scale`; `whole` ones get whole ticks.
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
