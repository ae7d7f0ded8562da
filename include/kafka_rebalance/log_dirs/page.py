"""The page of a run of `kafka_log_dirs`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, DirForecast, LogDirMove, PlannedLogDirs
from kafka_rebalance.documents.progress import PROGRESS_FILE, Progress
from kafka_rebalance.log_dirs.rules import seconds_at_most, window_of
from kafka_rebalance.moves.windows import fit
from kafka_rebalance.pages.first_screen import LEAST, NEAR, KeyFigure, NextStep
from kafka_rebalance.pages.progress import what_failed
from kafka_rebalance.pages.run_state import Action, Tone
from kafka_rebalance.pages.shell import ANSWER_SECONDS, REFRESH_SECONDS, rendered
from kafka_rebalance.pages.units import (
    UNKNOWN,
    about,
    format_bytes,
    format_count,
    format_duration,
    format_factor,
    format_rate,
    format_share,
    format_time,
)
from kafka_rebalance.run.approval_rules import DECISION_FILE, Decision
from kafka_rebalance.run.check_result import VERIFICATION_FILE, Verification
from kafka_rebalance.run.run_folder import RunFolder

MOVES_LISTED = 50


def render_log_dirs(
    run: LogDirRun,
    connection_id: str,
    *,
    static_url: str,
    pages: Mapping[Action, str],
    now: datetime,
    holds: Sequence[str],
) -> str:
    """The page. `pages` and `holds` as of `render_page` of a rebalance."""
    planned = run.planned
    return rendered(
        "log_dirs/run.html",
        static_url,
        run=run,
        state=run.state,
        connection_id=connection_id,
        title=f"Log dirs of {connection_id}",
        is_live=run.is_active and (run.state.changes_by_itself or run.has_open_request),
        press=buttons(run, pages),
        holds=holds,
        asked=asked_words(planned) if planned else "",
        windows=windows_words(planned) if planned else "",
        figures=log_dir_figures(planned) if planned else (),
        caveats=caveats(planned) if planned else (),
        dirs=fullest_first(planned.dirs) if planned else (),
        peak_share=peak_share,
        copy_states=COPY_STATES,
        moves=largest_first(planned) if planned else (),
        moves_listed=MOVES_LISTED,
        silence=silence(run, now),
        what_failed=what_failed(run.verification) if run.verification else (),
        refresh_seconds=REFRESH_SECONDS if run.state.changes_by_itself else ANSWER_SECONDS,
    )


# What an approver of moves between log dirs decides by: figures, caveats, and the log dirs themselves.


SILENT = timedelta(minutes=2)  # the follower looks at least every half minute, and Airflow needs time to hand over

COPY_STATES = {  # of progress.json
    "waiting": "waiting for their copy",
    "copying": "copying",
    "done": "in place",
    "gone": "no longer on their broker",
    "elsewhere": "moved elsewhere by somebody else",
}
_BUTTONS = {  # words on the button, and what to do on the page that it opens
    Action.ANSWER: ("Approve or reject", ""),
    Action.STOP: ("Stop the run", "mark the task move as failed: copies under way are then cancelled"),
    Action.FIND_CAUSE: ("See which task failed", "its log says why"),
    Action.ASK_AGAIN: ("Ask again", "clear the task approve"),
    Action.GO_ON: ("Go on with the plan", "clear hold_rate and all tasks after it"),
    Action.ROLL_BACK: ("Take the moves back", "trigger it with job way_back and of_run, this run's id"),
    Action.START_ANEW: ("Plan again", "trigger a new run"),
}


def buttons(run: LogDirRun, pages: Mapping[Action, str]) -> tuple[NextStep, ...]:
    """What a person may press now, the most likely one first."""
    return tuple(
        NextStep(*_BUTTONS[action], pages[action], action not in (Action.STOP, Action.ROLL_BACK))
        for action in run.state.actions
        if action in pages
    )


def asked_words(planned: PlannedLogDirs, quote: Callable[[str], str] = str) -> str:
    """`empty log dir /data/a of broker 1`."""
    job = planned.plan.job
    if job == "drain":
        return f"empty log dir {quote(str(planned.log_dir))} of broker {planned.broker}"
    if job == "way_back":
        return f"take back the moves between log dirs of run {quote(str(planned.of_run))}"
    whose = "each broker" if planned.broker is None else f"broker {planned.broker}"
    return f"even the log dirs of {whose} within {format_share(planned.tolerance)}"


def log_dir_figures(planned: PlannedLogDirs) -> tuple[KeyFigure, ...]:
    """In the order in which they are shown."""
    figures = (_copies(planned), _takes(planned), _fullest_disk(planned), _evenness(planned), _outside(planned))
    return tuple(figure for figure in figures if figure is not None)


def _copies(planned: PlannedLogDirs) -> KeyFigure:
    plan, least = planned.plan, planned.bound_bytes
    replicas = format_count(len(plan.moves), "replica", "replicas")
    note = f"{replicas} on {format_count(len(plan.brokers), 'broker', 'brokers')}"
    if not least:
        return KeyFigure("Copies", format_bytes(plan.size_bytes), "unproven", Tone.CALM, note)
    above = plan.size_bytes / least - 1
    word = "least" if above <= LEAST else "near the least" if above <= NEAR else "above the least"
    if above > LEAST:
        note += f"; no plan copies less than {format_bytes(least)}"
    return KeyFigure(
        "Copies", format_bytes(plan.size_bytes), word, Tone.GOOD if above <= NEAR else Tone.ATTENTION, note
    )


def _takes(planned: PlannedLogDirs) -> KeyFigure:
    plan = planned.plan
    at_once = format_count(plan.copies_per_broker, "copy", "copies")
    note = f"{format_rate(plan.throttle_bytes_per_second)} on each broker, {at_once} at once"
    return KeyFigure("Takes", about(plan.seconds), "at the throttle", Tone.CALM, note)


def _fullest_disk(planned: PlannedLogDirs) -> KeyFigure:
    name, fullest = "Fullest disk meanwhile", fullest_first(planned.dirs)[0]
    share = peak_share(fullest)
    if share is None:
        return KeyFigure(name, UNKNOWN, UNKNOWN, Tone.ATTENTION, "no broker tells the size of its disks")
    allowed = 1 - planned.plan.disk_headroom
    note = f"{fullest.path} of broker {fullest.broker}, {format_share(allowed)} allowed"
    receives = any((move.broker, move.after) == (fullest.broker, fullest.path) for move in planned.plan.moves)
    if share <= allowed:
        return KeyFigure(name, format_share(share), "has room", Tone.GOOD, note)
    word, tone = ("too full", Tone.BAD) if receives else ("as full as now", Tone.ATTENTION)
    return KeyFigure(name, format_share(share), word, tone, note)


def _evenness(planned: PlannedLogDirs) -> KeyFigure | None:
    """Of a drain it is what stays in the log dir."""
    if planned.plan.job == "drain":
        left_bytes = next(
            forecast.after_bytes
            for forecast in planned.dirs
            if (forecast.broker, forecast.path) == (planned.broker, planned.log_dir)
        )
        word, tone = ("empty", Tone.GOOD) if left_bytes == 0 else ("not empty", Tone.BAD)
        return KeyFigure("Left in the log dir", format_bytes(left_bytes), word, tone, str(planned.log_dir))
    before, after = (_highest(planned.dirs, when) for when in ("before_bytes", "after_bytes"))
    if before is None or after is None:
        return None
    word, tone = ("even", Tone.GOOD) if after <= 1 + planned.tolerance + 5e-4 else ("more even", Tone.GOOD)
    if after >= before:
        word, tone = ("as even as before", Tone.CALM) if after == before else ("less even", Tone.ATTENTION)
    return KeyFigure(
        "Fullest log dir", f"{format_factor(before)} → {format_factor(after)}", word, tone, "of its share of the broker"
    )


def _outside(planned: PlannedLogDirs) -> KeyFigure | None:
    if planned.plan.job != "balance" or not planned.left_bytes:
        return None
    note = "no move of a whole replica helps further"
    return KeyFigure("Stay outside the band", format_bytes(planned.left_bytes), "uneven", Tone.ATTENTION, note)


def _highest(dirs: Sequence[DirForecast], bytes_then: str) -> float | None:
    """The largest multiple of its share that a log dir holds of its broker's bytes. Shares as the planner has them."""
    by_broker: defaultdict[int, list[DirForecast]] = defaultdict(list)
    for forecast in dirs:
        by_broker[forecast.broker].append(forecast)
    multiples = []
    for of_broker in by_broker.values():
        sized = all(forecast.total_bytes for forecast in of_broker)
        weights = [float(forecast.total_bytes or 0) if sized else 1.0 for forecast in of_broker]
        total = sum(getattr(forecast, bytes_then) for forecast in of_broker)
        multiples += [
            getattr(forecast, bytes_then) / total / (weight / sum(weights))
            for forecast, weight in zip(of_broker, weights, strict=True)
            if total
        ]
    return max(multiples, default=None)


def caveats(planned: PlannedLogDirs) -> tuple[str, ...]:
    """What can go wrong, and what undoes it."""
    words = []
    unsized = [forecast for forecast in planned.dirs if forecast.total_bytes is None]
    if unsized:
        dirs = format_count(len(unsized), "log dir tells", "log dirs tell")
        words.append(f"{dirs} no size of its disk (before Kafka 3.3), so nobody knows whether the copies have room.")
    words.append(
        "Copies and clients share the disks. If clients suffer, mark the task move as failed: copies under way are "
        "then cancelled."
    )
    words.append(
        "Two log dirs on one file system count as two disks here, and their room counts twice. Check that first."
    )
    return tuple(words)


def fullest_first(dirs: Sequence[DirForecast]) -> tuple[DirForecast, ...]:
    """The fullest disk at the peak first, those of unknown size last."""
    return tuple(sorted(dirs, key=lambda forecast: (-(peak_share(forecast) or 0.0), forecast.broker, forecast.path)))


def peak_share(forecast: DirForecast) -> float | None:
    return forecast.peak_bytes / forecast.total_bytes if forecast.total_bytes else None


def largest_first(planned: PlannedLogDirs) -> tuple[LogDirMove, ...]:
    return tuple(sorted(planned.plan.moves, key=lambda move: (-move.size_bytes, move.replica)))


def silence(run: LogDirRun, now: datetime) -> str:
    """Says that nobody follows the copies; empty if somebody does."""
    progress = run.progress
    if not run.is_active or run.verification is not None or progress is None:
        return ""
    quiet = now - progress.updated_at
    if quiet < SILENT or progress.partitions_done >= progress.partitions_total:
        return ""
    return (
        f"Nobody has looked at the copies for {format_duration(quiet.total_seconds())}. They go on under their rate. "
        "Check that scheduler, workers and triggerer run. The task move reads from the brokers where it stands."
    )


# A run of `kafka_log_dirs` as its files and Airflow tell it, and where it stands.


class LogDirState(Enum):
    """Every state of such a run, with what is said of it and what a person may do."""

    def __init__(self, sentence: str, tone: Tone, actions: tuple[Action, ...] = ()) -> None:
        self.sentence, self.tone, self.actions = sentence, tone, actions

    PLANNING = "The plan is being made", Tone.CALM
    NOTHING_TO_MOVE = "Nothing had to move: the log of the task plan says why", Tone.CALM, (Action.START_ANEW,)
    ENDED_WITHOUT_PLAN = (
        "Ended before there was a plan: nothing was written to the cluster",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.START_ANEW),
    )
    PLANNED = "Planned; the request for approval is not open yet", Tone.CALM
    WAITING = "Waits for approval", Tone.ATTENTION, (Action.ANSWER,)
    ENDED_UNDECIDED = (
        "Ended without a decision: nothing was written to the cluster",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.ASK_AGAIN, Action.START_ANEW),
    )
    REJECTED = "Rejected: nothing was written to the cluster", Tone.CALM, (Action.START_ANEW,)
    UNANSWERED = (
        "Ended without an answer: nothing was written to the cluster",
        Tone.CALM,
        (Action.ASK_AGAIN, Action.START_ANEW),
    )
    APPROVED = "Approved, not started yet", Tone.ATTENTION, (Action.STOP,)
    COPYING = "Approved; the copies were started and are not verified yet", Tone.ATTENTION, (Action.STOP,)
    PAUSED = "Waits until its window opens; the rate is put back meanwhile", Tone.CALM, (Action.STOP,)
    VERIFIED = "Done and verified", Tone.GOOD, (Action.ROLL_BACK,)
    NOT_AS_APPROVED = (
        "Verification failed: the log dirs are not as approved",
        Tone.BAD,
        (Action.FIND_CAUSE, Action.GO_ON, Action.ROLL_BACK, Action.START_ANEW),
    )
    ENDED_BEFORE_COPIES = (
        "Approved, but the run ended before it requested a copy",
        Tone.CALM,
        (Action.FIND_CAUSE, Action.GO_ON, Action.START_ANEW),
    )
    BROKEN_OFF = (
        "The copies were started, but the run ended before it verified the end",
        Tone.BAD,
        (Action.FIND_CAUSE, Action.GO_ON, Action.ROLL_BACK),
    )

    @property
    def changes_by_itself(self) -> bool:
        """Whether the page changes without an answer of a person."""
        return self in (
            LogDirState.PLANNING,
            LogDirState.PLANNED,
            LogDirState.APPROVED,
            LogDirState.COPYING,
            LogDirState.PAUSED,
        )


@dataclass(frozen=True, slots=True)
class LogDirRun:
    """The files of a run's folder; None: not written yet. The last three fields are Airflow's."""

    planned: PlannedLogDirs | None = None
    decision: Decision | None = None
    progress: Progress | None = None  # `move` writes it before its first request
    verification: Verification | None = None
    is_active: bool = True  # queued or running
    has_succeeded: bool = False
    has_open_request: bool = False

    @property
    def waits_until(self) -> datetime | None:
        """When the window opens for which the next copies wait; None if they do not wait."""
        progress = self.progress
        return progress.waiting_until if progress is not None and progress.state == "waiting" else None

    @property
    def state(self) -> LogDirState:
        """The first state of the list that fits."""
        decision, verification, is_active = self.decision, self.verification, self.is_active
        states = (
            (verification is not None and verification.passed, LogDirState.VERIFIED),
            # A clear goes on with the plan, and the checks of the earlier end stay in the folder until the next.
            (verification is not None and not is_active, LogDirState.NOT_AS_APPROVED),
            (decision is not None and decision.choice is None, LogDirState.UNANSWERED),
            (decision is not None and not decision.is_approval, LogDirState.REJECTED),
            (decision is not None and is_active and self.waits_until is not None, LogDirState.PAUSED),
            (
                decision is not None and self.progress is not None,
                LogDirState.COPYING if is_active else LogDirState.BROKEN_OFF,
            ),
            (decision is not None, LogDirState.APPROVED if is_active else LogDirState.ENDED_BEFORE_COPIES),
            (is_active and self.has_open_request, LogDirState.WAITING),
            (self.planned is None and is_active, LogDirState.PLANNING),
            (self.planned is None and self.has_succeeded, LogDirState.NOTHING_TO_MOVE),
            (self.planned is None, LogDirState.ENDED_WITHOUT_PLAN),
            (not is_active, LogDirState.ENDED_UNDECIDED),
        )
        return next((state for fits, state in states if fits), LogDirState.PLANNED)


# Which windows of the policy the copies between log dirs take.


def windows_words(planned: PlannedLogDirs) -> str:
    """Empty if the policy has no windows."""
    plan, now, named = planned.plan, planned.observed_at, "; ".join(planned.policy_windows)
    if not plan.windows:
        return f"The copies begin at once after the approval, outside the policy's windows ({named})." if named else ""
    window = window_of(plan)
    opens, closes = window.waits_until(now), window.closes_at(now)
    state = f"It opens at {format_time(opens)}" if opens is not None else f"It is open until {format_time(closes)}"
    # A broker's copies share its rate, so they take as long as one after the other.
    busiest = max(plan.brokers, key=lambda broker: sum(move.size_bytes for move in plan.moves if move.broker == broker))
    rate = plan.throttle_bytes_per_second
    seconds = [seconds_at_most(move.size_bytes, rate) for move in plan.moves if move.broker == busiest]
    fitted = fit(window, seconds, now)
    fate = (
        f"All copies may take {format_count(len(fitted.used), 'opening', 'openings')}, and end by "
        f"{format_time(fitted.ends_at)} even at the slow estimate"
        if fitted.ends_at is not None
        else f"No opening has room for the copy after the first {fitted.placed}"
    )
    return (
        f"Copies begin and end in the policy's windows ({named}). {state}. {fate}. Between two openings the "
        "run keeps the cluster's lock and no rate. The approval must last until the next one opens."
    )


# What the files of a run of `kafka_log_dirs` say so far, for its page.


def read_log_dir_run(folder: RunFolder, *, is_active: bool, has_succeeded: bool, has_open_request: bool) -> LogDirRun:
    """Raises ArtifactError, StorageError."""
    return LogDirRun(
        LOG_DIRS_FILE.read_if_there(folder),
        DECISION_FILE.read_if_there(folder),
        PROGRESS_FILE.read_if_there(folder),
        VERIFICATION_FILE.read_if_there(folder),
        is_active,
        has_succeeded,
        has_open_request,
    )
