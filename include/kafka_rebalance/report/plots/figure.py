"""What all plots share: colours of two modes, the lock around matplotlib, the SVG's theme."""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

# Placeholders that matplotlib writes, and what each stands for: (variable, light, dark). Okabe and Ito's colours.
_COLOURS = {
    "#010101": ("ink", "#3a3f45", "#c9ced4"),
    "#020202": ("line", "#d5d9de", "#3b4149"),
    "#030303": ("before", "#b35900", "#e8a04c"),
    "#040404": ("after", "#0067a8", "#62b5ee"),
}

INK, LINE, BEFORE, AFTER = _COLOURS

WIDTH_INCHES = 5.3  # 72 CSS pixels an inch: a point becomes a pixel

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
    """A picture, drawn when it is asked for, and in words what it shows. `note` is said beside the title."""

    title: str
    note: str
    svg: Callable[[], str] = field(compare=False)
    description: str
    is_spread: bool = False  # over the brokers, instead of one by one

    @property
    def source(self) -> str:
        """The picture itself for the `src` of an <img>."""
        return as_source(self.svg())


def as_source(svg: str) -> str:
    """The picture for the `src` of an <img>."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def scale_of(kind: str, largest: float) -> tuple[float, str]:
    """One unit for the whole axis, so that the eye compares lengths and not units."""
    if kind == "count":
        return 1.0, ""
    step = 0
    while largest >= 1024 and step < len(_BINARY) - 1:
        largest, step = largest / 1024, step + 1
    return float(1024**step), _BINARY[step] + ("/s" if kind == "rate" else "")


def drawn(height_inches: float, box: tuple[float, float, float, float], draw: Callable[[Any], None]) -> str:
    """The SVG of what `draw` puts into the axes; `box` is (left, bottom, width, height) in shares of the figure."""
    import matplotlib as mpl  # here, because every process that parses the Dag imports this module
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with drawing, mpl.rc_context(STYLE):
        # 72 pixels an inch, as an SVG has them: what is placed by pixels is placed as it is seen.
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), dpi=72)
        canvas = FigureCanvasSVG(figure)
        axes = figure.add_axes(box)
        draw(axes)
        return _finished(canvas, axes)


def set_ticks(axes: Any, x: int, y: int | None = None, *, whole: bool = False, grid: str = "") -> None:
    """At most so many ticks, at round numbers, with a grid of `x`, `y` or `both`; on x `whole` ones, for a count."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(x, integer=whole))
    if y is not None:
        axes.yaxis.set_major_locator(MaxNLocator(y))
    if grid:
        axes.grid(axis=grid, color=LINE, linewidth=0.6)


def _finished(canvas: Any, axes: Any) -> str:
    """The drawn figure as SVG in the page's two modes: nothing behind it, and of its frame the axis below alone."""
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    canvas.figure.patch.set_visible(False)
    axes.patch.set_visible(False)
    target = io.StringIO()
    canvas.print_svg(target, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return themed(target.getvalue())


def themed(svg: str) -> str:
    """From the <svg> tag on, in CSS pixels, with placeholders turned into variables of the two modes."""
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
    """The reader's own font instead of matplotlib's list of names."""
    return f"font-size: {match[1] or match[2]}; font-family: system-ui, sans-serif"
