"""The run's page as HTML: one document, everything escaped, no inline script, no style attribute."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kafka_rebalance.documents.json_files import REASSIGNMENTS
from kafka_rebalance.report import units
from kafka_rebalance.report.candidate.broker_loads import BROKER_SORTS, BrokersPage
from kafka_rebalance.report.candidate.candidate_report import METRICS, CandidateReport
from kafka_rebalance.report.candidate.csv_files import brokers_file, moves_file
from kafka_rebalance.report.candidate.fullest_log_dirs import amount
from kafka_rebalance.report.candidate.kafka_json_files import plan_file, rollback_file
from kafka_rebalance.report.candidate.page_tables import LARGEST_MOVES
from kafka_rebalance.report.candidate.risk import way_back_words
from kafka_rebalance.report.candidate.search_query import MOST_TEXT, SORTS, MovesPage
from kafka_rebalance.report.candidate_part import Details, details_of
from kafka_rebalance.report.fleet.cluster_health import Link, Overview
from kafka_rebalance.report.plots.broker_loads import Row, draw
from kafka_rebalance.report.plots.bytes_against_evenness import candidates_plot
from kafka_rebalance.report.run.approver_facts import brief
from kafka_rebalance.report.run.drift import DriftReport
from kafka_rebalance.report.run.predicted_against_actual import compared
from kafka_rebalance.report.run.run_report import RunReport
from kafka_rebalance.report.run.time_left import live_words
from kafka_rebalance.report.run.what_happened import EVENTS_SHOWN
from kafka_rebalance.report.run.why_recommended import (
    further_runs_words,
    less_even_words,
    recommendation_words,
    why_aside,
)

STATIC = {
    "report.css": "text/css",
    "refresh.js": "text/javascript",
    "links.js": "text/javascript",
    "drift.js": "text/javascript",
    "requests.js": "text/javascript",
    "parts.js": "text/javascript",
}  # name: media type; nothing else is ever served
TABLES = "tables"  # below the run's page: CSV files
REQUESTS = "requests"  # below the fleet's page: what tells whether its requests are still the open ones
FINDINGS_SHOWN, TOPICS_SHOWN = 30, 5  # of the segment settings, and of the topics of one finding
# How often a page that is left open asks: of a run that goes on, and of one that waits for an answer.
REFRESH_SECONDS, ANSWER_SECONDS = 5, 15
_HERE = Path(__file__).parent
_UNITS = "(?:[KMGTP]iB|B|s|min|h|d|UTC)"

BATCH_STATES = {  # of progress.json and of batches.json
    "requesting": "being requested",
    "requested": "requested",
    "moving": "under way",
    "settling": "in place, watched for a moment",
    "waiting": "the next batch waits",
    "done": "in place",
    "refused": "refused by the controller",
    "taken_back": "cancelled by somebody else",
    "stalled": "no progress",
    "cancelled": "cancelled",
    "unreadable": "the cluster cannot be read",
}
PHASES = {
    "queued": "wait for their batch",
    "registered": "requested, no copy yet",
    "copying": "copying",
    "in_isr": "caught up, in the ISR",
    "trimming": "old replicas being removed",
    "done": "done",
    "refused": "refused by the controller",
    "taken_back": "cancelled",
}


@dataclass(frozen=True, slots=True)
class PageContext:
    """What is said beside a run's files. `at` is now, by which somebody is missed who should follow it. In words:
    `holds` is what keeps the run from going on, `superseded` what came after it.
    """

    at: datetime | None = None
    holds: tuple[str, ...] = ()
    superseded: str = ""


NOTHING_AROUND = PageContext()


def render_file(report: RunReport) -> str:
    """The page as one file that opens without Airflow; its links lead to the files of the run's folder beside it."""
    focus = report.focus
    others = [details_of(candidate) for candidate in report.candidates if candidate is not focus]
    details = [] if focus is None else [details_of(focus, LARGEST_MOVES), *others]
    return _render(report, details, static_url=None, run_url=None, is_live=False, drift_url=None)


def render_page(
    report: RunReport,
    *,
    static_url: str,
    run_url: str,
    is_live: bool = False,
    drift_url: str | None = None,
    around: PageContext = NOTHING_AROUND,
) -> str:
    """The page with style and scripts from `static_url`; what is long is fetched from below `run_url`, its own address.

    A live one keeps itself up to date while it is open. What has changed in the cluster since comes from `drift_url`.
    """
    details = [] if report.focus is None else [details_of(report.focus)]
    return _render(
        report, details, static_url=static_url, run_url=run_url, is_live=is_live, drift_url=drift_url, around=around
    )


def _render(
    report: RunReport,
    details: Sequence[Details],
    *,
    static_url: str | None,
    run_url: str | None,
    is_live: bool,
    drift_url: str | None,
    around: PageContext = NOTHING_AROUND,
) -> str:
    every = REFRESH_SECONDS if report.state.changes_by_itself else ANSWER_SECONDS
    is_active = report.facts.is_active
    shown = {detail.candidate.name for detail in details}
    return _environment().get_template("run/report.html").render(
        report=report,
        brief=brief(report),
        focus=report.focus,
        details=details,
        later=[candidate for candidate in report.candidates if candidate.name not in shown],
        metrics=METRICS,
        phases=PHASES,
        states=BATCH_STATES,
        findings_shown=FINDINGS_SHOWN,
        topics_shown=TOPICS_SHOWN,
        state=report.state,
        is_live=is_live,
        drift_url=drift_url,
        live=live_words(report, around.at if is_live else None, is_active=is_active),
        is_active=is_active,
        holds=around.holds,
        superseded=around.superseded,
        compared=compared(report),
        aside=why_aside(report),
        recommendation=recommendation_words(report),
        less_even={c.name: less_even_words(c) for c in report.candidates},
        further_runs={c.name: further_runs_words(report, c) for c in report.candidates},
        scatter=candidates_plot(report.candidates),
        events_shown=EVENTS_SHOWN,
        refresh_seconds=every,
        title=f"Rebalance of {report.connection_id}",
        **_places(run_url),
        **_assets(static_url),
    )  # fmt: skip


def render_candidate(report: RunReport, candidate: CandidateReport, *, static_url: str, run_url: str) -> str:
    """One candidate's brokers and moves, as a page that the run's page fetches its part from."""
    heading = f"{candidate.title}: brokers and moves"
    detail = details_of(candidate)
    return _part("candidate/part.html", report.connection_id, heading, static_url, run_url, detail=detail)


def render_moves(found: MovesPage, connection_id: str, title: str, *, static_url: str, run_url: str) -> str:
    """What a search of a candidate's moves finds, as a page like `render_candidate`."""
    more = {"found": found, "sorts": SORTS, "most_text": MOST_TEXT}
    return _part("candidate/moves.html", connection_id, f"{title}: moves", static_url, run_url, **more)


def render_brokers(found: BrokersPage, connection_id: str, title: str, *, static_url: str, run_url: str) -> str:
    """One page of all brokers of a candidate, like `render_candidate`."""
    more = {"found": found, "sorts": BROKER_SORTS}
    return _part("candidate/brokers.html", connection_id, f"{title}: brokers", static_url, run_url, **more)


def _part(part: str, connection_id: str, heading: str, static_url: str, run_url: str, **content: object) -> str:
    return (
        _environment()
        .get_template("part.html")
        .render(
            part=part,
            connection_id=connection_id,
            heading=heading,
            title=f"{heading}, {connection_id}",
            **_places(run_url),
            **_assets(static_url),
            **content,
        )
    )


def _places(run_url: str | None) -> dict[str, str | None]:
    """Where links lead to: below the run's page, or beside the file."""
    if run_url is None:
        return {"run_url": None, "files_url": REASSIGNMENTS, "tables_url": "."}
    return {"run_url": run_url, "files_url": f"{run_url}/{REASSIGNMENTS}", "tables_url": f"{run_url}/{TABLES}"}


def render_overview(
    overview: Overview, *, static_url: str, janitor_url: str, overview_url: str, requests_tag: str
) -> str:
    """The page of the fleet. Below its own address it asks whether `requests_tag` is still the one."""
    return (
        _environment()
        .get_template("fleet/overview.html")
        .render(
            overview=overview,
            title="Kafka balance",
            janitor_link=Link("The Dag kafka_throttle_janitor", janitor_url),
            overview_url=overview_url,
            requests_url=f"{overview_url}/{REQUESTS}",
            requests_tag=requests_tag,
            refresh_seconds=ANSWER_SECONDS,
            **_assets(static_url),
        )
    )


def render_drift(
    drift: DriftReport | str | None,
    *,
    static_url: str,
    drift_url: str,
    run_url: str,
    patience_seconds: float,
    past: str = "",
) -> str:
    """What has changed since the snapshot, or why that is not known; None: the cluster has not answered yet.

    `past`: why there is nothing to compare any more, for a run that has begun with its first batch or is over.
    """
    return (
        _environment()
        .get_template("run/drift.html")
        .render(
            drift=drift,
            past=past,
            drift_url=drift_url,
            run_url=run_url,
            patience_seconds=patience_seconds,
            title="Since the snapshot",
            **_assets(static_url),
        )
    )


def picture(report: RunReport) -> bytes | None:
    """The brokers' disks before and after the candidate in focus, as SVG; None where nothing is known of them."""
    plots = details_of(report.focus).plots if report.focus is not None else ()
    return plots[0].svg().encode() if plots else None


def plot_picture(candidate: CandidateReport, number: int) -> bytes | None:
    """One of the candidate's pictures as SVG, by its number on the page; None where there are fewer."""
    pictures = details_of(candidate).pictures
    plot = pictures[number] if number < len(pictures) else None
    return None if plot is None else plot.svg().encode()


def render_message(heading: str, text: str, *, static_url: str) -> str:
    """A short page that says in words why there is no report."""
    return _environment().get_template("message.html").render(title=heading, text=text, **_assets(static_url))


def read_static(name: str) -> str:
    """The text of one of the page's own files. KeyError for any other name."""
    STATIC[name]
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def _assets(static_url: str | None) -> dict[str, object]:
    # Our own style sheet is the only text that is not escaped.
    return {"static_url": static_url, "style": Markup(read_static("report.css")) if static_url is None else None}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, not an empty cell
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formats: tuple[Callable[..., str], ...] = (
        units.format_bytes, units.format_rate, units.format_duration, units.format_count, units.format_share,
        units.format_factor, units.format_time,
    )  # fmt: skip
    environment.filters.update({f.__name__.removeprefix("format_"): _unbroken(f) for f in formats})
    environment.filters.update(
        job=units.format_job,
        ids=lambda replicas: ", ".join(map(str, replicas)),
        kept=_kept,
        way_back=way_back_words,
        of_log_dir=amount,
        plan_file=plan_file,
        rollback_file=rollback_file,
        moves_file=moves_file,
        brokers_file=brokers_file,
    )
    return environment


def _kept(sentence: str) -> str:
    """A sentence in which no number is parted from its unit at the end of a line."""
    return re.sub(rf"(?<=\d) (?={_UNITS}\b|%)", "\N{NO-BREAK SPACE}", sentence)


def warm_up() -> None:
    """Compiles the templates and loads what draws: seconds, for which the first reader of a page should not wait."""
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)
    draw((Row("1", 0, 1),), 1.0, True, None)


def _unbroken(format_value: Callable[..., str]) -> Callable[..., str]:
    """A number stays on one line with its unit."""
    return lambda *arguments: format_value(*arguments).replace(" ", "\N{NO-BREAK SPACE}")
