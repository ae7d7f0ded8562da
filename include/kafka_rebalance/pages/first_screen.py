"""The first screen of a run's page: where it stands, five figures, risks, and what to press."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_rebalance.model.candidate import OFFERED, Status, noun_of
from kafka_rebalance.pages.candidate_report import CandidateReport, above_least_words, off_share
from kafka_rebalance.pages.plots import Plot, glance_plot
from kafka_rebalance.pages.risks import Risk, risks
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.run_state import Action, RunState, Tone
from kafka_rebalance.pages.units import (
    UNKNOWN,
    format_bytes,
    format_count,
    format_factor,
    format_range,
    format_share,
    format_time,
)
from kafka_rebalance.pages.windows import ends_in_time, fit_planned

# Where a run stands, in the one sentence that a reader sees first.


def headline(report: RunReport) -> str:
    """The sentence of the state, or a nearer one where the files of the run tell more."""
    state, focus, pause = report.state, report.focus, report.execution.pause
    if state.is_approved_only and report.decision is not None:
        return f"{state.sentence} ({report.decision.choice})"
    if state is RunState.EXECUTING and pause is not None and pause.until is not None:
        return f"Approved and started; pauses until {format_time(pause.until)}"
    failed = [candidate.name for candidate in report.candidates if candidate.status == Status.FAILED]
    if state is RunState.NOTHING_TO_MOVE and failed:
        return f"Planning of {', '.join(failed)} failed, and no other candidate moves anything"
    if state is RunState.NOTHING_TO_MOVE and all(
        candidate.status == Status.INFEASIBLE for candidate in report.candidates
    ):
        return "Not possible: no candidate does the job within its limits"
    not_moved = report.verification.not_moved if report.verification is not None else None
    if state is RunState.NOT_AS_APPROVED and focus is not None and not_moved is not None and not_moved.partitions:
        moves = format_count(focus.partitions, "approved move", "approved moves")
        were = "was" if len(not_moved.partitions) == 1 else "were"
        return f"Stopped: {format_count(len(not_moved.partitions))} of {moves} {were} not made"
    return state.sentence


# The five figures by which one decides on a candidate, each with a word of judgement.


LEAST, NEAR = 0.01, 0.10  # above the least possible bytes, as a share of them


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """`word` judges the value, and `tone` is its colour. `note` says what the value is measured against."""

    name: str
    value: str
    word: str
    tone: Tone
    note: str = ""


class KeyFigures(NamedTuple):
    """In the order in which they are shown."""

    copies: KeyFigure
    takes: KeyFigure
    fullest_disk: KeyFigure
    evenness: KeyFigure
    worst_loss: KeyFigure


def key_figures(report: RunReport, candidate: CandidateReport) -> KeyFigures:
    return KeyFigures(
        _copies(candidate),
        _takes(report, candidate),
        _fullest_disk(report, candidate),
        _evenness(report, candidate),
        _worst_loss(candidate),
    )


def _copies(candidate: CandidateReport) -> KeyFigure:
    if not candidate.moved_bytes:
        return KeyFigure("Copies", "nothing", "least", Tone.GOOD, _moves(candidate))
    above = candidate.above_least
    word, tone = "unproven", Tone.CALM
    if above is not None:
        word = "least" if above <= LEAST + 1e-9 else "near the least" if above <= NEAR else "above the least"
        tone = Tone.GOOD if above <= NEAR else Tone.ATTENTION
    note = ", ".join(filter(None, (_moves(candidate), above_least_words(candidate))))
    return KeyFigure("Copies", format_bytes(candidate.moved_bytes), word, tone, note)


def _moves(candidate: CandidateReport) -> str:
    return format_count(candidate.partitions, "move", "moves")


def _takes(report: RunReport, candidate: CandidateReport) -> KeyFigure:
    if not candidate.partitions:
        return KeyFigure("Takes", "no time", "nothing moves", Tone.CALM)
    takes = report.takes(candidate)
    if takes is None:
        return KeyFigure("Takes", UNKNOWN, UNKNOWN, Tone.CALM, "no throttle is set yet")
    window = report.window
    batches = format_count(candidate.batches, "batch", "batches")
    note = f"{batches}, by {format_count(takes.runs)} earlier runs" if takes.is_measured else f"{batches}, by the plan"
    word, tone = "at any time", Tone.CALM
    if window.recurring:
        planned = fit_planned(report, candidate)
        openings = 0 if planned is None else len(planned.used)
        word, tone = "fits", Tone.GOOD
        if planned is None or planned.ends_at is None:
            word, tone = ("unknown", Tone.CALM) if planned is None else ("does not fit", Tone.BAD)
        elif openings > 1:
            word, tone = f"takes {openings} windows", Tone.ATTENTION
    if window.finish_by is not None:
        in_time = ends_in_time(report, candidate)
        word, tone = ("fits", Tone.GOOD) if in_time else ("does not fit", Tone.BAD)
        if in_time is None:
            word, tone = "may not fit", Tone.ATTENTION
    return KeyFigure("Takes", format_range(takes.low, takes.high), word, tone, note)


def _fullest_disk(report: RunReport, candidate: CandidateReport) -> KeyFigure:
    name, peak = "Fullest disk meanwhile", candidate.peak_disk_fraction
    if not candidate.moved_bytes:
        return KeyFigure(name, "as now", "unchanged", Tone.CALM)
    if peak is None:
        return KeyFigure(name, UNKNOWN, UNKNOWN, Tone.CALM, "no disk's size is known")
    allowed = 1 - report.settings.disk_headroom
    disk = candidate.fullest_sized_disk
    where = [] if disk is None else [f"broker {disk.broker}"]
    note = ", ".join([*where, f"{format_share(allowed)} allowed"])
    if peak > allowed:
        return KeyFigure(name, format_share(peak), "too full", Tone.BAD, note)
    return KeyFigure(name, format_share(peak), "has room", Tone.GOOD, note)


def _evenness(report: RunReport, candidate: CandidateReport) -> KeyFigure:
    name, gain, off = "Highest broker", candidate.gain, off_share(candidate)
    tolerance = format_share(report.settings.tolerance)
    if candidate.less_even is not None:
        worse = candidate.less_even
        value = f"{format_factor(worse.before.highest)} → {format_factor(worse.after.highest)}"
        return KeyFigure(name, value, "worse", Tone.BAD, f"of its share of {noun_of(worse.metric)}")
    if off is None:
        return KeyFigure(name, UNKNOWN, UNKNOWN, Tone.CALM, "no load is known of every broker")
    if gain is None:
        high = max(score.max_over_mean for _, _, score in candidate.spreads if score is not None)
        word, tone = ("even", Tone.GOOD) if off <= report.settings.tolerance else ("unchanged", Tone.CALM)
        return KeyFigure(name, format_factor(high), word, tone, f"of its share, as now; {tolerance} off is asked for")
    metric, before, after = gain
    word = "even" if off <= report.settings.tolerance + 5e-4 else "more even"
    value = f"{format_factor(before)} → {format_factor(after)}"
    return KeyFigure(name, value, word, Tone.GOOD, f"of its share of {noun_of(metric)}")


def _worst_loss(candidate: CandidateReport) -> KeyFigure:
    name, worst = "If a broker fails", candidate.worst_case
    if not candidate.partitions:
        return KeyFigure(name, "as now", "unchanged", Tone.CALM)
    course = worst.broker if worst is not None else None
    if course is None:
        return KeyFigure(name, UNKNOWN, UNKNOWN, Tone.CALM, "no min.insync.replicas is known")
    most = max(course.worst.partitions, course.today.partitions)
    note = "refuse acks=all"
    if course.is_worse:
        today = f"today {format_count(course.today.partitions)}"
        value = format_count(course.worst.partitions, "partition", "partitions")
        return KeyFigure(name, value, "worse", Tone.ATTENTION, f"{note}; {today}")
    value = format_count(most, "partition", "partitions")
    if course.ends_worse:
        return KeyFigure(name, value, "worse later", Tone.ATTENTION, f"{note}; later {course.after.partitions:,}")
    return KeyFigure(name, value, "as today" if most else "harmless", Tone.CALM if most else Tone.GOOD, note)


# What the first screen of a run's page shows of each candidate, and the sums in the headings of what is closed.


@dataclass(frozen=True, slots=True)
class Look:
    """One candidate at a glance. Nothing is drawn yet."""

    number: int  # in the address of its part of the page
    candidate: CandidateReport
    figures: KeyFigures
    risks: tuple[Risk, ...]
    plot: Plot | None
    is_default: bool  # shown until the reader chooses another one
    is_recommended: bool
    is_stopped: bool  # not offered: its copies could not end

    @property
    def is_possible(self) -> bool:
        """Whether it does the job within the limits, in full or in part."""
        return self.candidate.status in OFFERED

    @property
    def has_failed(self) -> bool:
        """Whether its computation ended with an error."""
        return self.candidate.status == Status.FAILED

    @property
    def has_capacities(self) -> bool:
        """Whether the picture shows what disks can hold."""
        return any(broker.disk_capacity_bytes for broker in self.candidate.brokers)


def looks_of(report: RunReport) -> tuple[Look, ...]:
    """One for each candidate, in the order of the plan."""
    return tuple(
        Look(
            number,
            candidate,
            key_figures(report, candidate),
            risks(report, candidate),
            glance_plot(candidate.brokers),
            candidate is report.focus,
            candidate.name == report.recommended,
            candidate.name in report.stopped,
        )
        for number, candidate in enumerate(report.candidates, 1)
    )


def moves_sum(candidate: CandidateReport) -> str:
    """`34 moves of 6 topics, 287 GiB`."""
    moves = format_count(candidate.partitions, "move", "moves")
    held_up = candidate.held_up
    of = f" of {format_count(held_up.topics, 'topic', 'topics')}" if held_up is not None and held_up.topics else ""
    return f"{moves}{of}, {format_bytes(candidate.moved_bytes)}" if candidate.moved_bytes else f"{moves}{of}, no copies"


def limits_sum(report: RunReport) -> str:
    """The limit of which the candidate in focus uses most; empty if no share says anything."""
    known = [(use.share, use.name) for use in report.limits if use.share is not None]
    if not known:
        return ""
    share, name = max(known, key=lambda use: use[0])
    return f"at most {format_share(share)} used, {name[0].lower()}{name[1:]}"


# What a person may press now: where each button leads in Airflow, and what to do there.


_BUTTONS = {  # words on the button, and what to do on the page that it opens
    Action.ANSWER: ("Approve or reject", ""),
    Action.STOP: ("Stop, cancel or throttle", ""),  # one button for all that the Dag can do to a run that goes on
    Action.FIND_CAUSE: ("See which task failed", "its log says why"),
    Action.ASK_AGAIN: ("Ask again", "clear the task approve"),
    Action.GO_ON: ("Go on with the plan", "clear hold_throttle and all tasks after it"),
    Action.VERIFY_AGAIN: ("Verify again", "clear the task; its log says why"),
    Action.GIVE_BACK: ("Give leadership back", "trigger it with the job give_back"),
    Action.ROLL_BACK: ("Move the replicas back", "trigger it with the action roll_back"),
    Action.CANCEL: ("Cancel the copies", "trigger it with the action cancel_now"),
    Action.START_ANEW: ("Plan again", "trigger a new run"),
}

_UNDOES = frozenset({Action.STOP, Action.CANCEL, Action.SET_THROTTLE, Action.GIVE_BACK, Action.ROLL_BACK})


@dataclass(frozen=True, slots=True)
class NextStep:
    """A button. `how` says what to do on the page at `url`; empty if that page says it.

    `is_expected`: the run needs it to come to its end. What stops or undoes a run is only possible.
    """

    words: str
    how: str
    url: str
    is_expected: bool


def next_steps(state: RunState, pages: Mapping[Action, str]) -> tuple[NextStep, ...]:
    """The steps that the state allows and that have a page in Airflow, the most likely one first."""
    allowed = {Action.STOP} if Action.STOP in state.actions else set(state.actions)
    return tuple(
        NextStep(*words, pages[action], action not in _UNDOES)
        for action, words in _BUTTONS.items()
        if action in allowed and action in pages
    )
