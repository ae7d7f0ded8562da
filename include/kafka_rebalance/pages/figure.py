"""What all plots share: the colours of light and dark mode, the lock around matplotlib, and the SVG's theme."""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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


def scale_of(kind: str, largest: float) -> tuple[float, str]:
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


def set_ticks(axes: Any, x: int, y: int | None = None, *, whole: bool = False, grid: str = "") -> None:
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
    return themed(target.getvalue())


def themed(svg: str) -> str:
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
