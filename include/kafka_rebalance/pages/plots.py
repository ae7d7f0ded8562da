"""The pictures of a page, as SVG."""

from __future__ import annotations

import base64
import io
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from kafka_rebalance.documents.proposals import CutPlan, Timetable
from kafka_rebalance.model.candidate import OFFERED, Metric
from kafka_rebalance.pages.candidate_report import CandidateReport, DiskCourse, furthest_off, off_share
from kafka_rebalance.pages.tables import BrokerChange
from kafka_rebalance.pages.units import format_bytes, format_share

# What all plots share: the colours of light and dark mode, the lock around matplotlib, and the SVG's theme.


_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

# Placeholders that matplotlib writes, and (variable, light, dark) of each. The colours are Okabe and Ito's.
_COLOURS = {
    "#010101": ("ink", "#3a3f45", "#c9ced4"),
    "#020202": ("line", "#d5d9de", "#3b4149"),
    "#030303": ("before", "#b35900", "#e8a04c"),
    "#040404": ("after", "#0067a8", "#62b5ee"),
}

INK, LINE, BEFORE, AFTER = _COLOURS

WIDTH_INCHES = 5.3  # 72 CSS pixels per inch, so a point is a pixel

STYLE = {
    "svg.fonttype": "none",  # text stays text: small, sharp, and in the reader's own font
    "svg.hashsalt": "kafka-rebalance",  # ids must not differ from one drawing to the next
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}

drawing = threading.Lock()  # matplotlib's settings are global, and the web app renders in several threads


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot that is drawn on demand, and its words. `note` stands beside the title."""

    title: str
    note: str
    svg: Callable[[], str] = field(compare=False)
    description: str
    is_spread: bool = False  # a distribution, instead of one broker a row

    @property
    def source(self) -> str:
        """The SVG for the `src` of an <img>."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg().encode()).decode()


def _scale_of(kind: str, largest: float) -> tuple[float, str]:
    """One unit for the whole axis, so that the eye compares lengths and not units."""
    if kind == "count":
        return 1.0, ""
    step = 0
    while largest >= 1024 and step < len(_BINARY) - 1:
        largest, step = largest / 1024, step + 1
    return float(1024**step), _BINARY[step] + ("/s" if kind == "rate" else "")


def drawn(height_inches: float, box: tuple[float, float, float, float], draw: Callable[[Any], None]) -> str:
    """The SVG. `draw` fills the axes; `box` is their (left, bottom, width, height) in shares of the figure."""
    import matplotlib as mpl  # here, because each process that parses the Dag imports this module
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with drawing, mpl.rc_context(STYLE):
        # 72 pixels per inch, as in an SVG, so that a place in pixels is the place that people see.
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), dpi=72)
        canvas = FigureCanvasSVG(figure)
        axes = figure.add_axes(box)
        draw(axes)
        return _finished(canvas, axes)


def _set_ticks(axes: Any, x: int, y: int | None = None, *, whole: bool = False, grid: str = "") -> None:
    """At most `x` and `y` ticks, at round numbers (`whole` ones on x, for a count). `grid` is x, y or both."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(x, integer=whole))
    if y is not None:
        axes.yaxis.set_major_locator(MaxNLocator(y))
    if grid:
        axes.grid(axis=grid, color=LINE, linewidth=0.6)


def _finished(canvas: Any, axes: Any) -> str:
    """The figure as SVG in light and dark mode, without background, and with only the lower axis."""
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    canvas.figure.patch.set_visible(False)
    axes.patch.set_visible(False)
    target = io.StringIO()
    canvas.print_svg(target, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _themed(target.getvalue())


def _themed(svg: str) -> str:
    """From the <svg> tag on, in CSS pixels, with a CSS variable for each placeholder."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(width|height)="([\d.]+)pt"', lambda m: f'{m[1]}="{float(m[2]):g}"', svg, count=2)
    svg = re.sub(r"font: [^;\"]*?([\d.]+px)[^;\"]*|font-size: ([\d.]+px); font-family: [^;\"]*", _font, svg)
    for placeholder, (name, _, _) in _COLOURS.items():
        svg = svg.replace(placeholder, f"var(--{name})")
    light = "".join(f"--{name}:{colour};" for name, colour, _ in _COLOURS.values())
    dark = "".join(f"--{name}:{colour};" for name, _, colour in _COLOURS.values())
    style = f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    return re.sub(r"(<svg[^>]*>)", lambda m: m[1] + style, svg, count=1)


def _font(match: re.Match[str]) -> str:
    """The reader's own font, not matplotlib's."""
    return f"font-size: {match[1] or match[2]}; font-family: system-ui, sans-serif"


# Brokers before and after as small SVGs. The same values give the same bytes; the page's table has the numbers too.
#
# Colours are CSS variables inside the SVG. So the plot follows the reader's light or dark mode even as an <img>, which
# the page's style does not reach. Before and after differ in shape as well as in colour.


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
        rows = [Row(_label(broker), getattr(broker.before, name), getattr(broker.after, name)) for broker in brokers]
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
    scale, unit = _scale_of(kind, max(max(row.before, row.after) for row in rows))
    before, after = sorted(row.before / scale for row in rows), sorted(row.after / scale for row in rows)
    title = metric.heading + (f" ({unit})" if unit else "")
    if len(rows) > BROKERS_SHOWN:
        low, high = f"{before[0]:.3g}–{before[-1]:.3g}", f"{after[0]:.3g}–{after[-1]:.3g}"
        description = (
            f"{metric.heading} of {len(rows):,} brokers, from the least to the most: "
            f"before {_course(before, unit)}, after {_course(after, unit)}."
        )
        svg = partial(_draw_distribution, _thinned(before), _thinned(after), metric.noun, even and even / scale)
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
        lines = range(len(rows))
        before, after = [row.before / scale for row in rows], [row.after / scale for row in rows]
        if even is not None:
            axes.axvline(even / scale, color=INK, linewidth=0.8, linestyle=(0, (3, 3)), zorder=1)
            axes.annotate(
                "even share", (even / scale, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3),
                textcoords="offset points", ha="center", va="bottom", fontsize=10,
            )  # fmt: skip
        axes.hlines(list(lines), before, after, color=AFTER, linewidth=1.6, alpha=0.45, zorder=2)
        axes.plot(
            before, list(lines), linestyle="none", marker="o", markersize=6, markerfacecolor="none",
            markeredgecolor=BEFORE, markeredgewidth=1.6, zorder=3,
        )  # fmt: skip
        axes.plot(
            after, list(lines), linestyle="none", marker="D", markersize=4.6, markerfacecolor=AFTER,
            markeredgecolor=AFTER, zorder=4,
        )  # fmt: skip
        axes.set_yticks(list(lines), [row.label for row in rows], parse_math=False)  # racks are not formulas
        axes.set_ylim(len(rows) - 0.4, -0.6)  # the first broker on top
        most = max([*before, *after, 1e-9])
        axes.set_xlim(-0.03 * most, 1.06 * most)  # room for the marker of a broker that holds nothing
        _set_ticks(axes, 5, whole=whole, grid="x")

    return drawn(height, (left, 0.32 / height, 0.97 - left, 1 - _FRAME_INCHES / height), draw_in)


@lru_cache(maxsize=64)
def _draw_distribution(before: tuple[float, ...], after: tuple[float, ...], what: str, even: float | None) -> str:
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
        _set_ticks(axes, 5, 5, grid="y")

    return drawn(2.6, (0.11, 0.18, 0.86, 0.72), draw_in)


# All brokers' disks before and after in one picture of the same height, against what the disks can hold.


_GLANCE_INCHES = 2.5
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
                (row.broker, float(row.before.size_bytes), float(row.after.size_bytes), row.disk_capacity_bytes)
                for row in brokers
            ),
            key=lambda column: (-column[1], column[0]),
        )
    )
    most = max(max(before, after) for _, before, after, _ in columns)
    scale, unit = _scale_of("bytes", most)
    shares = [(before / capacity, after / capacity) for _, before, after, capacity in columns if capacity]
    note = "capacities are not known"
    if shares:
        now, later = (format_share(max(column)) for column in zip(*shares, strict=True))
        note = f"Kafka fills at most {now} of a disk now, {later} afterwards"
    before, after = [column[1] / scale for column in columns], [column[2] / scale for column in columns]
    return Plot(
        f"Bytes on disk ({unit})",
        note,
        partial(_draw_glance, _spread(columns), len(columns), scale, most),
        f"Bytes on disk of {len(columns):,} brokers: before {min(before):.3g} to {max(before):.3g} {unit}, after "
        f"{min(after):.3g} to {max(after):.3g} {unit}, {note}. The numbers are in the table of brokers below.",
    )


def _spread(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    last = len(columns) - 1
    if last < _COLUMNS:
        return columns
    return tuple(columns[round(place * last / (_COLUMNS - 1))] for place in range(_COLUMNS))


@lru_cache(maxsize=64)
def _draw_glance(columns: tuple[Column, ...], brokers: int, scale: float, most: float) -> str:
    """The SVG: hollow is before, filled is after, and a grey mark is the disk's capacity."""

    def draw_in(axes: Any) -> None:
        slots = range(len(columns))
        before, after = [column[1] / scale for column in columns], [column[2] / scale for column in columns]
        capacities = [
            (place, column[3] / scale) for place, column in zip(slots, columns, strict=True) if column[3] is not None
        ]
        in_sight = [capacity for capacity in capacities if capacity[1] * scale <= _IN_SIGHT * most]
        size = max(2.0, min(6.0, 260 / len(columns)))
        if in_sight:
            places, highest = zip(*in_sight, strict=True)
            axes.bar(places, highest, width=0.7, color=LINE, alpha=0.45, linewidth=0, zorder=0)
        axes.vlines(list(slots), before, after, color=AFTER, linewidth=min(2.0, size / 3), alpha=0.5, zorder=2)
        axes.plot(
            list(slots), before, linestyle="none", marker="o", markersize=size, markerfacecolor="none",
            markeredgecolor=BEFORE, markeredgewidth=min(1.6, size / 3), zorder=3,
        )  # fmt: skip
        axes.plot(
            list(slots), after, linestyle="none", marker="D", markersize=0.8 * size, markerfacecolor=AFTER,
            markeredgecolor=AFTER, markeredgewidth=0, zorder=4,
        )  # fmt: skip
        top = max([most / scale, *(height for _, height in in_sight)]) or 1.0
        axes.set_ylim(-0.03 * top, 1.05 * top)
        axes.set_xlim(-0.7, len(columns) - 0.3)
        _set_ticks(axes, 6, 5, grid="y")
        if brokers <= _NAMED:
            axes.set_xticks(list(slots), [str(column[0]) for column in columns])
        else:
            axes.set_xticks([])
        axes.set_xlabel("broker" if brokers <= _NAMED else f"{brokers:,} brokers, fullest first")

    return drawn(_GLANCE_INCHES, (0.11, 0.19, 0.87, 0.77), draw_in)


# The fullest disks over the batches of a candidate, as a small SVG.


_DISKS_INCHES = 2.4
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
        partial(_draw_disks, tuple(courses), last),
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
def _draw_disks(courses: tuple[Course, ...], last: int) -> str:
    """The SVG: a line of steps for each broker."""

    def draw_in(axes: Any) -> None:
        for (broker, points), (colour, dashes) in zip(courses, _LINES, strict=False):
            over, percent = zip(*points, strict=True)
            axes.plot(over, percent, color=colour, linestyle=dashes, linewidth=1.4, label=str(broker))
        axes.set_xlim(0, last)
        most = max(percent for _, points in courses for _, percent in points)
        axes.set_ylim(0, 1.06 * most or 1)  # the highest line is not cut in half
        axes.set_xlabel("batches done")
        _set_ticks(axes, 6, 5, whole=True, grid="y")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.04, 1.0), ncols=len(courses), frameon=False, fontsize=9.5,
                    handlelength=2.2, columnspacing=1.2, labelcolor=INK)  # fmt: skip

    return drawn(_DISKS_INCHES, (0.1, 0.2, 0.87, 0.62), draw_in)


# The candidates as a small SVG: the bytes that each copies, against how uneven it leaves the cluster.
#
# If the plan has the curve of one candidate that stops after a part of its bytes, this is the line.


FEWEST = 4  # candidates; without a curve fewer are clearer in the table alone
_CANDIDATES_INCHES = 2.9
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
        parts = ", ".join(f"{format_bytes(cut.bytes)} and {format_share(cut.off)}" for cut in curve)
        words = f" {cut.name}, stopped after a part of its bytes: {parts}."
    chosen = "" if recommended is None else f" Recommended is {recommended}."
    return Plot(
        "Bytes copied against what is left uneven",
        line,
        partial(_draw_candidates, (*today, *points), tuple(point.name for point in best), curve, recommended),
        f"Bytes copied, and how far the furthest broker is from its fair share in the end: {named}. No other "
        f"beats {', '.join(point.name for point in best)} in both.{words}{chosen}",
    )


def front_points(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points that no other beats: none is at least as good in both and better in one. By bytes."""
    best = [
        point
        for point in points
        if not any(
            (other.copied_bytes, other.off) != (point.copied_bytes, point.off)
            and other.copied_bytes <= point.copied_bytes
            and other.off <= point.off
            for other in points
        )
    ]
    return tuple(sorted(best, key=lambda point: point.copied_bytes))


class _Names:
    """Finds a place for each name beside its point, where it covers no point and no other name.

    In pixels; the figure has 72 of them per inch, as many as points.
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]

    def place(self, name: str, point: tuple[float, float]) -> tuple[tuple[float, float], str, str]:
        """(offset, horizontal and vertical alignment)"""
        width, height, (x, y) = len(name) * 0.62 * _NAME_POINTS, 1.2 * _NAME_POINTS, point
        places = [
            ((0.0, 7.0), "center", "bottom", (x - width / 2, y + 6, x + width / 2, y + 6 + height)),
            ((0.0, -7.0), "center", "top", (x - width / 2, y - 6 - height, x + width / 2, y - 6)),
            ((8.0, 0.0), "left", "center", (x + 7, y - height / 2, x + 7 + width, y + height / 2)),
            ((-8.0, 0.0), "right", "center", (x - 7 - width, y - height / 2, x - 7, y + height / 2)),
        ]
        offset, across, up, box = min(places, key=lambda spot: sum(_overlap(spot[3], taken) for taken in self._taken))
        self._taken.append(box)
        return offset, across, up


_Box = tuple[float, float, float, float]


def _overlap(one: _Box, other: _Box) -> float:
    """The area that both cover."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


@lru_cache(maxsize=64)
def _draw_candidates(
    points: tuple[Point, ...], best: tuple[str, ...], curve: tuple[CutPlan, ...] = (), recommended: str | None = None
) -> str:
    """The SVG: a filled diamond for each of `best`, and a hollow circle for each other.

    The line is the curve, or joins `best` if there is none. A ring surrounds the recommended one.
    """
    scale, unit = _scale_of("bytes", max(point.copied_bytes for point in points))

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
        names = _Names([tuple(point) for point in axes.transData.transform(places)])
        for point, place in zip(points, places, strict=True):
            on_front = point.name in best
            axes.plot(
                *place, linestyle="none", marker="D" if on_front else "o", markersize=5.5 if on_front else 6.5,
                zorder=3, markerfacecolor=AFTER if on_front else "none", markeredgecolor=AFTER if on_front else BEFORE,
                markeredgewidth=1.4,
            )  # fmt: skip
            if point.name == recommended:
                axes.plot(
                    *place, linestyle="none", marker="o", markersize=12, markerfacecolor="none", markeredgecolor=AFTER,
                    markeredgewidth=1.2, zorder=3,
                )  # fmt: skip
            offset, across, up = names.place(point.name, tuple(axes.transData.transform(place)))
            axes.annotate(
                point.name, place, xytext=offset, textcoords="offset points", fontsize=_NAME_POINTS, ha=across, va=up,
                parse_math=False,
            )  # fmt: skip
        axes.set_xlabel(f"bytes copied ({unit})")
        axes.set_ylabel("furthest broker off its share (%)")
        _set_ticks(axes, 5, 5, grid="both")
        axes.tick_params(labelcolor=INK)

    return drawn(_CANDIDATES_INCHES, (0.12, 0.17, 0.85, 0.76), draw_in)


# Which broker receives and sends when, as a small SVG.


_LANE_INCHES, _TIMETABLE_INCHES = 0.34, 0.75
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
    lanes = tuple((lane["broker"], lane["in"], lane["out"]) for lane in timetable.brokers)
    length, unit = 100.0, "% of the copying"
    if seconds:
        length, unit = next((seconds / of_one, name) for least, of_one, name in _UNITS if seconds >= least)
    which = "" if len(lanes) == timetable.broker_count else f" of {timetable.broker_count:,}, those with most to do"
    return Plot(
        "Who receives (above) and sends (below) when",
        f"by broker{which}; a full lane is the throttle",
        partial(_draw_lanes, lanes, length, unit),
        f"What {len(lanes)} brokers receive and send while it runs, as shares of the throttle. The numbers are in the "
        "table below.",
    )


@lru_cache(maxsize=64)
def _draw_lanes(lanes: tuple[Lane, ...], length: float, unit: str) -> str:
    """The SVG: a lane for each broker, with bytes in above its line and bytes out below it."""
    height = _TIMETABLE_INCHES + _LANE_INCHES * len(lanes)

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
        _set_ticks(axes, 6)

    return drawn(height, (0.11, 0.5 / height, 0.86, 1 - _TIMETABLE_INCHES / height), draw_in)
