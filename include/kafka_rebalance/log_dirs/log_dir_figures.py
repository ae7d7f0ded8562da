"""What an approver of moves between log dirs decides by: figures, caveats, and the log dirs themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from kafka_rebalance.documents.log_dir_plan import DirForecast, LogDirMove, PlannedLogDirs
from kafka_rebalance.log_dirs.log_dir_run import LogDirRun
from kafka_rebalance.pages.key_figures import LEAST, NEAR, KeyFigure
from kafka_rebalance.pages.next_steps import NextStep
from kafka_rebalance.pages.run_state import Action, Tone
from kafka_rebalance.pages.units import (
    UNKNOWN,
    about,
    format_bytes,
    format_count,
    format_duration,
    format_factor,
    format_rate,
    format_share,
)

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
    found = (_copies(planned), _takes(planned), _fullest_disk(planned), _evenness(planned), _outside(planned))
    return tuple(figure for figure in found if figure is not None)


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
        left = next(
            one.after_bytes for one in planned.dirs if (one.broker, one.path) == (planned.broker, planned.log_dir)
        )
        word, tone = ("empty", Tone.GOOD) if left == 0 else ("not empty", Tone.BAD)
        return KeyFigure("Left in the log dir", format_bytes(left), word, tone, str(planned.log_dir))
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
    for one in dirs:
        by_broker[one.broker].append(one)
    found = []
    for held in by_broker.values():
        sized = all(one.total_bytes for one in held)
        weights = [float(one.total_bytes or 0) if sized else 1.0 for one in held]
        total = sum(getattr(one, bytes_then) for one in held)
        found += [
            getattr(one, bytes_then) / total / (weight / sum(weights))
            for one, weight in zip(held, weights, strict=True)
            if total
        ]
    return max(found, default=None)


def caveats(planned: PlannedLogDirs) -> tuple[str, ...]:
    """What can go wrong, and what undoes it."""
    said = []
    unsized = [one for one in planned.dirs if one.total_bytes is None]
    if unsized:
        dirs = format_count(len(unsized), "log dir tells", "log dirs tell")
        said.append(f"{dirs} no size of its disk (before Kafka 3.3), so nobody knows whether the copies have room.")
    said.append(
        "Copies and clients share the disks. If clients suffer, mark the task move as failed: copies under way are "
        "then cancelled."
    )
    said.append(
        "Two log dirs on one file system count as two disks here, and their room counts twice. Check that first."
    )
    return tuple(said)


def fullest_first(dirs: Sequence[DirForecast]) -> tuple[DirForecast, ...]:
    """The fullest disk at the peak first, those of unknown size last."""
    return tuple(sorted(dirs, key=lambda one: (-(peak_share(one) or 0.0), one.broker, one.path)))


def peak_share(one: DirForecast) -> float | None:
    return one.peak_bytes / one.total_bytes if one.total_bytes else None


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
