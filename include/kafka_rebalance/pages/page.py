"""The run's page as HTML: one document, everything escaped, no inline script, no style attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache

from jinja2 import Environment

from kafka_rebalance.documents.json_files import REASSIGNMENTS
from kafka_rebalance.kafka.reassignment_json import plan_file, rollback_file
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.pages import units
from kafka_rebalance.pages.approver_facts import (
    Brief,
    brief,
    further_runs_words,
    less_even_words,
    recommendation_words,
    why_aside,
)
from kafka_rebalance.pages.candidate_report import (
    METRICS,
    CandidateReport,
    amount,
    broker_loss_changes,
    copied_within_racks,
    rack_traffic_changes,
    way_back_words,
)
from kafka_rebalance.pages.first_screen import Look, NextStep, headline, limits_sum, looks_of, moves_sum, next_steps
from kafka_rebalance.pages.plots import (
    Plot,
    Row,
    broker_plots,
    candidates_plot,
    disk_plot,
    draw,
    glance_plot,
    timetable_plot,
)
from kafka_rebalance.pages.progress import EVENTS_SHOWN, Compared, LiveWords, compared, live_words, what_failed
from kafka_rebalance.pages.risks import RISKS_SHOWN
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.run_state import Action, RunState
from kafka_rebalance.pages.shell import ANSWER_SECONDS, REFRESH_SECONDS, make_environment, rendered
from kafka_rebalance.pages.tables import (
    BROKER_SORTS,
    CHANGED,
    LARGEST_MOVES,
    MOST_TEXT,
    SORTS,
    WORST,
    BrokerChange,
    BrokersPage,
    MovesPage,
    RackChange,
    brokers_file,
    listed_brokers,
    moves_file,
    rack_changes,
)

GLANCE = "glance"  # the name of the picture on the first screen; the others have numbers
TABLES = "tables"  # below the run's page: CSV files
FINDINGS_SHOWN, TOPICS_SHOWN = 30, 5  # of the segment settings, and of the topics of one finding
MOVES_LISTED = 50

BATCH_STATES = {  # of progress.json and of batches.json
    "requesting": "being requested",
    "requested": "requested",
    "moving": "under way",
    "settling": "in place, being checked once more",
    "waiting": "the next batch waits",
    "done": "in place",
    "refused": "refused by the controller",
    "taken_back": "cancelled by somebody else",
    "stalled": "no progress",
    "cancelled": "cancelled",
    "unreadable": "the cluster cannot be read",
}
PHASES = {
    "queued": "waiting for their batch",
    "registered": "requested, no copy yet",
    "copying": "copying",
    "in_isr": "caught up, in the ISR",
    "trimming": "old replicas being removed",
    "done": "done",
    "refused": "refused by the controller",
    "taken_back": "cancelled",
}


@dataclass(frozen=True, slots=True)
class Details:
    """One candidate's part of the page: its plots, and the most important rows of its long tables."""

    candidate: CandidateReport
    plots: tuple[Plot, ...]
    timetable_plot: Plot | None
    disk_plot: Plot | None
    brokers: tuple[BrokerChange, ...]
    brokers_caption: str
    racks: tuple[RackChange, ...]
    moves: tuple[Move, ...]
    moves_caption: str


def details_of(candidate: CandidateReport, moves_listed: int = MOVES_LISTED) -> Details:
    """Nothing is drawn yet: a plot is drawn when it is asked for."""
    brokers, moves = listed_brokers(candidate.brokers), candidate.largest_moves[:moves_listed]
    caption = "What each broker holds, before → after"
    if len(brokers) < len(candidate.brokers):
        caption = (
            f"{len(brokers)} of {units.format_count(len(candidate.brokers), 'broker', 'brokers')}: the {WORST} whose "
            f"disks get fullest and the {CHANGED} that change most, fullest first; before → after"
        )
    count = units.format_count(candidate.partitions, "move", "moves")
    which = f"All {count}" if len(moves) == candidate.partitions else f"The largest {len(moves)} of {count}"
    return Details(
        candidate,
        broker_plots(candidate.brokers),
        timetable_plot(candidate.timetable, candidate.makespan_seconds),
        disk_plot(candidate.fullest_disks),
        brokers,
        caption,
        rack_changes(candidate.brokers),
        moves,
        f"{which}, by bytes to copy.",
    )


def render_file(report: RunReport) -> str:
    """The page as one file that opens without Airflow. Its links lead to the files beside it in the run's folder."""
    return render_page(report, static_url=None, run_url=None)


@dataclass(frozen=True, slots=True)
class InAirflow:
    """What a page in Airflow says beside the run's own files.

    It fetches the changes in the cluster since the snapshot from `drift_url`, and its buttons lead to the `pages` of
    Airflow on which a person acts. `holds` says in words what keeps the run from going on, and `superseded` what came
    after it.
    """

    is_live: bool = False  # the page keeps itself up to date while it is open
    now: datetime | None = None  # a live page says if nobody has followed the run until then
    drift_url: str | None = None
    pages: Mapping[Action, str] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
    superseded: str = ""


@dataclass(frozen=True, slots=True)
class RunPage:
    """All that the template of a run's page is told, by the names that it has there."""

    report: RunReport
    airflow: InAirflow
    brief: Brief
    focus: CandidateReport | None
    details: tuple[Details, ...]
    later: tuple[CandidateReport, ...]  # candidates whose details are fetched when somebody opens them
    looks: tuple[Look, ...]
    state: RunState
    headline: str
    press: tuple[NextStep, ...]
    what_failed: tuple[str, ...]
    live: LiveWords
    is_active: bool
    compared: tuple[Compared, ...]
    aside: Mapping[str, str]
    recommendation: tuple[str, ...]
    less_even: Mapping[str, str]
    further_runs: Mapping[str, str]
    scatter: Plot | None
    refresh_seconds: int
    title: str


def render_page(
    report: RunReport,
    *,
    static_url: str | None,
    run_url: str | None,
    airflow: InAirflow = InAirflow(),
) -> str:
    """The page, with style and scripts from `static_url`. It fetches long tables from `run_url`, its own address."""
    page = _run_page(report, airflow, in_one_file=run_url is None)
    told = {part.name: getattr(page, part.name) for part in fields(page)}
    return _rendered("run/report.html", static_url, **told, **_places(run_url))


def _run_page(report: RunReport, airflow: InAirflow, *, in_one_file: bool) -> RunPage:
    focus, is_active = report.focus, report.facts.is_active
    details: tuple[Details, ...] = ()
    if focus is not None:
        others = [candidate for candidate in report.candidates if in_one_file and candidate is not focus]
        details = (details_of(focus, LARGEST_MOVES if in_one_file else MOVES_LISTED), *map(details_of, others))
    shown = {detail.candidate.name for detail in details}
    return RunPage(
        report=report,
        airflow=airflow,
        brief=brief(report),
        focus=focus,
        details=details,
        later=tuple(candidate for candidate in report.candidates if candidate.name not in shown),
        looks=looks_of(report),
        state=report.state,
        headline=headline(report),
        press=next_steps(report.state, airflow.pages),
        what_failed=what_failed(report.verification) if report.verification is not None else (),
        live=live_words(report, airflow.now if airflow.is_live else None, is_active=is_active),
        is_active=is_active,
        compared=compared(report),
        aside=why_aside(report),
        recommendation=recommendation_words(report),
        less_even={c.name: less_even_words(c) for c in report.candidates},
        further_runs={c.name: further_runs_words(report, c) for c in report.candidates},
        scatter=candidates_plot(report.candidates, report.recommended),
        refresh_seconds=REFRESH_SECONDS if report.state.changes_by_itself else ANSWER_SECONDS,
        title=f"Rebalance of {report.taken.connection_id}",
    )


def render_candidate(report: RunReport, candidate: CandidateReport, *, static_url: str, run_url: str) -> str:
    """One candidate's brokers and moves, as a page of its own. The run's page fetches its part from there."""
    heading, detail = f"{candidate.title}: brokers and moves", details_of(candidate)
    return _part("candidate/part.html", report.taken.connection_id, heading, static_url, run_url, detail=detail)


def render_moves(found: MovesPage, connection_id: str, title: str, *, static_url: str, run_url: str) -> str:
    """The result of a search in a candidate's moves, as a page like `render_candidate`."""
    more = {"found": found, "sorts": SORTS, "most_text": MOST_TEXT}
    return _part("candidate/moves.html", connection_id, f"{title}: moves", static_url, run_url, **more)


def render_brokers(found: BrokersPage, connection_id: str, title: str, *, static_url: str, run_url: str) -> str:
    """One page of all brokers of a candidate, like `render_candidate`."""
    more = {"found": found, "sorts": BROKER_SORTS}
    return _part("candidate/brokers.html", connection_id, f"{title}: brokers", static_url, run_url, **more)


def _part(part: str, connection_id: str, heading: str, static_url: str, run_url: str, **content: object) -> str:
    title = f"{heading}, {connection_id}"
    more = {"part": part, "connection_id": connection_id, "heading": heading, "title": title}
    return _rendered("part.html", static_url, **more, **_places(run_url), **content)


def _places(run_url: str | None) -> dict[str, str | None]:
    """Where links lead to: below the run's page, or beside the file."""
    if run_url is None:
        return {"run_url": None, "files_url": REASSIGNMENTS, "tables_url": "."}
    return {"run_url": run_url, "files_url": f"{run_url}/{REASSIGNMENTS}", "tables_url": f"{run_url}/{TABLES}"}


# What has changed in the cluster since the snapshot. The run checks the same again before its first write.


@dataclass(frozen=True, slots=True)
class CandidateDrift:
    """One candidate's moves, compared with the cluster. `conflicts` and `changes` hold the first few, in words."""

    name: str
    unchanged: int
    harmless: int
    conflicting: int
    conflicts: tuple[str, ...]
    changes: tuple[str, ...]  # harmless ones


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The cluster at `read_at`. `in_the_way`: what would stop the first write now, for any moves."""

    observed_at: datetime  # the snapshot
    read_at: datetime
    candidates: tuple[CandidateDrift, ...]
    in_the_way: tuple[str, ...]
    states_read: bool  # False: too many partitions, so leaders and in-sync replicas were not read
    aside: tuple[str, ...] = ()  # offered candidates that were not compared: all together have too many moves

    @property
    def age_seconds(self) -> float:
        """How old the snapshot was when the cluster was read."""
        return (self.read_at - self.observed_at).total_seconds()


def render_drift(
    drift: DriftReport | str | None,
    *,
    static_url: str,
    drift_url: str,
    run_url: str,
    patience_seconds: float,
    past: str = "",
) -> str:
    """What has changed since the snapshot, or why nobody knows; None: the cluster has not answered yet.

    `past` says why there is nothing to compare: the run has requested its first batch, or it is over.
    """
    return _rendered(
        "run/drift.html",
        static_url,
        drift=drift,
        past=past,
        drift_url=drift_url,
        run_url=run_url,
        patience_seconds=patience_seconds,
        title="Since the snapshot",
    )


def picture(report: RunReport) -> bytes | None:
    """The brokers' disks before and after the candidate in focus, as SVG; None if they are not known."""
    return plot_picture(report.focus, GLANCE) if report.focus is not None else None


def plot_picture(candidate: CandidateReport, name: str) -> bytes | None:
    """A plot of the candidate as SVG, by its name in the addresses of the page; None if there is none."""
    if name == GLANCE:
        plot = glance_plot(candidate.brokers)
    else:
        details = details_of(candidate)
        plots = (*details.plots, details.disk_plot, details.timetable_plot)
        plot = {str(number): plot for number, plot in enumerate(plots)}.get(name)
    return None if plot is None else plot.svg().encode()


@cache
def _environment() -> Environment:
    """As that of the shell, with the filters and the constants of this page."""
    made = make_environment()
    made.globals.update(
        metrics=METRICS,
        GLANCE=GLANCE,
        phases=PHASES,
        states=BATCH_STATES,
        findings_shown=FINDINGS_SHOWN,
        topics_shown=TOPICS_SHOWN,
        risks_shown=RISKS_SHOWN,
        events_shown=EVENTS_SHOWN,
    )
    made.filters.update(
        way_back=way_back_words,
        loss_changes=broker_loss_changes,
        rack_traffic=rack_traffic_changes,
        copied_within_racks=copied_within_racks,
        moves_sum=moves_sum,
        limits_sum=limits_sum,
        of_log_dir=amount,
        plan_file=plan_file,
        rollback_file=rollback_file,
        moves_file=moves_file,
        brokers_file=brokers_file,
    )
    return made


def _rendered(template: str, static_url: str | None, **content: object) -> str:
    return rendered(template, static_url, environment=_environment(), **content)


def warm_up() -> None:
    """Compiles the templates and loads matplotlib. That takes seconds, for which the first reader should not wait."""
    templates = _environment()
    for name in templates.list_templates():
        templates.get_template(name)
    draw((Row("1", 0, 1),), 1.0, True, None)
