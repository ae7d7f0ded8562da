"""What all pages share: one document each, everything escaped, no inline script, no style attribute."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kafka_rebalance.pages import units

STATIC = dict.fromkeys(("report.css", "fleet.css"), "text/css") | dict.fromkeys(
    ("refresh.js", "links.js", "drift.js", "requests.js", "parts.js"), "text/javascript"
)  # name: media type. The web app serves no other file
# Seconds after which an open page asks again: for a run that goes on, and for one that waits for an answer.
REFRESH_SECONDS, ANSWER_SECONDS = 5, 15
_HERE = Path(__file__).parent
_UNITS = "(?:[KMGTP]iB|B|s|min|h|d|UTC)"


def render_message(heading: str, text: str, *, static_url: str) -> str:
    """A short page that says why there is no report."""
    return rendered("message.html", static_url, title=heading, text=text)


def read_static(name: str) -> str:
    """The text of a file in STATIC. KeyError for any other name."""
    STATIC[name]
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def rendered(
    template: str, static_url: str | None, *, environment: Environment | None = None, **content: object
) -> str:
    """The template with its content. Without `static_url` the style sheet stands in the page.

    `environment`: that of a page with filters of its own.
    """
    # Our own style sheet is the only text that is not escaped.
    style = Markup(read_static("report.css")) if static_url is None else None
    compiled = (environment or _environment()).get_template(template)
    return compiled.render(static_url=static_url, style=style, **content)


@cache
def _environment() -> Environment:
    return make_environment()


def make_environment() -> Environment:
    """A new one, with the formats of units as filters."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, not an empty cell
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formats: tuple[Callable[..., str], ...] = (
        units.format_bytes, units.format_rate, units.format_duration, units.format_count, units.format_share,
        units.format_factor, units.format_time, units.format_age,
    )  # fmt: skip
    made.filters.update({f.__name__.removeprefix("format_"): _unbroken(f) for f in formats})
    made.filters.update(
        job=units.format_job,
        ids=lambda replicas: ", ".join(map(str, replicas)),
        kept=_kept,
        whole=lambda value: value.replace(" ", "\N{NO-BREAK SPACE}").replace("–", "–\N{ZERO WIDTH SPACE}"),
        figure=lambda figure: f"{figure.value}, {figure.word}",
    )
    return made


def _kept(sentence: str) -> str:
    """The sentence with a no-break space between each number and its unit."""
    return re.sub(rf"(?<=\d) (?={_UNITS}\b|%)", "\N{NO-BREAK SPACE}", sentence)


def _unbroken(format_value: Callable[..., str]) -> Callable[..., str]:
    return lambda *arguments: format_value(*arguments).replace(" ", "\N{NO-BREAK SPACE}")
