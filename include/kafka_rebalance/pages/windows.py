"""What a page says of windows: those of the policy, and the one of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_rebalance.documents.progress import Progress
from kafka_rebalance.moves.eta import EtaRange, eta_range, slowest_seconds, with_controller
from kafka_rebalance.moves.windows import NoRoom, Window, WindowFit, fit
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import format_count, format_duration, format_time
from kafka_rebalance.run.approval_rules import approval_ends

# How a run goes with the windows of its policy: which it takes, what does not fit, and whether it pauses now.


def policy_window_words(report: RunReport, focus: CandidateReport) -> str:
    """Before the first batch: the policy's windows, and how many the plan takes. Empty if the policy has none."""
    windows = report.policy.windows if report.policy is not None else None
    if not report.window.recurring:
        return f"outside the policy's windows ({_named(windows)})" if windows else ""
    now = report.approved_at or report.taken.observed_at
    parts = [_named([window.text for window in report.window.recurring])]
    opens = report.window.waits_until(now)
    if opens is not None:
        parts.append(f"opens at {format_time(opens)}, and an earlier approval expires as if it was given then")
    planned = fit_planned(report, focus)
    if planned is not None:
        parts.append(_fate(slowest(report, focus.batch_seconds), planned))
    return "; ".join(parts)


def _windows_now(report: RunReport, seconds: Sequence[float], at: datetime) -> tuple[str, bool]:
    """For an approved run, of which batches of so many seconds by the plan are still to be requested from `at` on.

    Returns the words, and whether all of them have room. Empty seconds: nothing is left, or nobody knows.
    """
    names, opens = _named([window.text for window in report.window.recurring]), report.window.waits_until(at)
    closes = report.window.closes_at(at)
    state = f"opens at {format_time(opens)}" if opens is not None else f"open until {format_time(closes)}"
    words, is_whole = _pause_words(report) or f"Window {names}: {state}.", True
    if seconds:
        slow = slowest(report, seconds)
        window_fit = _fit_of(report, slow, at, report.approved_at or at)
        what = f"what is left {_fate(slow, window_fit)}" if window_fit.ends_at else _fate(slow, window_fit)
        words, is_whole = f"{words} {what[0].upper()}{what[1:]}.", window_fit.ends_at is not None
    return words, is_whole


def _fit_of(report: RunReport, seconds: Sequence[float], now: datetime, approved_at: datetime) -> WindowFit:
    ends = None
    if report.policy is not None:
        first = report.window.waits_until(approved_at)
        expires = report.policy.approval_expires_after_seconds
        ends = approval_ends(approved_at, expires, not_before=first)
    return fit(report.window, seconds, now, ends)


def fit_planned(report: RunReport, candidate: CandidateReport) -> WindowFit | None:
    """The whole plan, from its approval or else from the snapshot on; None if its time is not known."""
    seconds = slowest(report, candidate.batch_seconds)
    start = report.approved_at or report.taken.observed_at
    return _fit_of(report, seconds, start, start) if seconds else None


def slowest(report: RunReport, seconds: Sequence[float]) -> tuple[float, ...]:
    """The upper end of the estimate of each batch, which is what a batch is held back by."""
    return tuple(slowest_seconds(batch, report.ratios) for batch in seconds)


def _fate(seconds: Sequence[float], window_fit: WindowFit) -> str:
    used, batches = len(window_fit.used), format_count(len(seconds), "batch", "batches")
    if window_fit.ends_at is not None:
        ends = f"even at the slow estimate it ends by {format_time(window_fit.ends_at)}"
        if used < 2:
            return f"fits one opening: {ends}"
        return (
            f"takes up to {format_count(used)} openings: {ends}. Between them it keeps the cluster's lock and no "
            "throttle"
        )
    where = f"the run may stop after {format_count(window_fit.placed)} of {batches}"
    if window_fit.no_room is NoRoom.TOO_LONG:
        batch = format_duration(seconds[window_fit.placed])
        return f"{where}: the next one may take {batch}, and no opening is so long. A higher throttle makes it shorter"
    if window_fit.no_room is NoRoom.APPROVAL_ENDED:
        return (
            f"{where}: the approval ends before the next opening with room. approval_expires_after_seconds of the "
            "policy decides that"
        )
    return f"{where}: it would take more than {format_count(used)} openings"


def _named(windows: Sequence[str]) -> str:
    return "; ".join(windows)


def _pause_words(report: RunReport) -> str:
    """Empty unless the run waits for a window now."""
    pause = report.execution.pause
    if pause is None:
        return ""
    until = f" until {format_time(pause.until)}, when its window opens" if pause.until is not None else ""
    return (
        f"The run pauses{until}. It keeps the cluster's lock, and its throttle is put back. To give the cluster to "
        "other runs, stop it with kafka_rebalance_cancel."
    )


# Whether an approved run ends within its window, and which batches do not start otherwise.


def ends_in_time(report: RunReport, candidate: CandidateReport) -> bool | None:
    """Whether the plan ends by `finish_by`; None: only at the quick estimate, or nobody knows how long it takes."""
    window, takes = report.window, report.takes(candidate)
    if window.finish_by is None or takes is None:
        return None
    begins_at = max(filter(None, (report.taken.observed_at, window.not_before)))
    room = (window.finish_by - begins_at).total_seconds()
    return True if _slowest(report, candidate) <= room else None if takes.low <= room else False


def _slowest(report: RunReport, candidate: CandidateReport) -> float:
    """The slow end of the plan's time: what the run holds a batch back by, of all batches together."""
    return sum(slowest(report, (candidate.planned_seconds or 0.0,)))


def window_words(report: RunReport, candidate: CandidateReport) -> str:
    """Whether the plan fits the window that was asked for; empty without one."""
    window, observed_at, parts = report.window, report.taken.observed_at, []
    if window.not_before is not None:
        parts.append(f"starts at {format_time(window.not_before)} at the earliest, with lock and throttle")
        if window.not_before > observed_at:
            parts.append("an earlier approval expires as if it was given then")
    if window.finish_by is not None:
        end, in_time = window.finish_by, ends_in_time(report, candidate)
        if in_time:
            slow = timedelta(seconds=_slowest(report, candidate))
            parts.append(
                f"if started by {format_time(end - slow)}, it ends by {format_time(end)} even at the slow estimate"
            )
        else:
            how = "may not end" if in_time is None else "cannot end"
            parts.append(f"{how} by {format_time(end)}: batches that would end later do not start")
    return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class WindowWords:
    """`tone` is the CSS class of a paragraph: quiet, ask or problem."""

    text: str
    tone: str = "quiet"


@dataclass(frozen=True, slots=True)
class _Left:
    """The rest from `at` on: seconds in all, and as predicted for the batch under way and for each later batch.

    `later` is None if nothing was requested yet, or if an older version made the run.
    """

    at: datetime
    low: float
    high: float
    this: float = 0.0
    later: tuple[float, ...] | None = None


def window_now(report: RunReport, rest: EtaRange | None, now: datetime | None) -> WindowWords | None:
    """None if the run has no window, or requests nothing more.

    `rest` is the time from the last look on, while batches move. `now` is None in the file, which nobody updates.
    """
    window, execution = report.window, report.execution
    if (
        not (report.state.is_approved_only or report.state.is_unverified)
        or execution.stop is not None
        or window == Window()
    ):
        return None
    rest_of_run = _left(report, rest, now)
    if window.recurring:
        return _recurring_now(report, rest_of_run, now)
    parts = []
    if window.not_before is not None and (rest_of_run is None or rest_of_run.at <= window.not_before):
        parts.append(f"from {format_time(window.not_before)}")
    tone = "quiet"
    if window.finish_by is not None:
        until = f"until {format_time(window.finish_by)}"
        words, tone = _held_against(report, window.finish_by, rest_of_run) if rest_of_run is not None else ("", tone)
        parts.append(f"{until}: {words}" if words else until)
    return WindowWords(f"Window {' '.join(parts)}.", tone) if parts else None


def _recurring_now(report: RunReport, left: _Left | None, now: datetime | None) -> WindowWords:
    """The batch under way runs to its end, so only the later ones are held against the windows."""
    resumes_at = now or report.taken.observed_at
    tone = "quiet" if report.execution.pause is None else "ask"
    if left is None:
        return WindowWords(_windows_now(report, (), resumes_at)[0], tone)
    resumes_at = max(resumes_at, left.at) + timedelta(seconds=sum(slowest(report, (left.this,))))
    by_plan = report.focus.batch_seconds if report.focus is not None else ()
    text, is_whole = _windows_now(report, by_plan if left.later is None else left.later, resumes_at)
    return WindowWords(text, tone if is_whole else "problem")


def _held_against(report: RunReport, finish_by: datetime, left: _Left) -> tuple[str, str]:
    """(words, tone)"""
    first, last = (left.at + timedelta(seconds=seconds) for seconds in (left.low, left.high))
    few, many = (_not_begun(report, left, seconds) for seconds in (left.low, left.high))
    if last <= finish_by and not many:
        return f"the run will end in time, by {format_time(last)} at the latest", "quiet"
    is_sure = first > finish_by or bool(few)
    how = "cannot end in time" if is_sure else "may not end in time"
    return f"the run {how}. {_fate_of_batches(few, many, left.later)}", "problem" if is_sure else "ask"


def _not_begun(report: RunReport, left: _Left, seconds: float) -> int:
    """How many later batches do not start if the rest takes `seconds`."""
    if not left.later:
        return 0
    pace = seconds / (left.this + sum(left.later))
    lasts = [length * pace for length in left.later]
    return report.window.not_begun(slowest(report, left.later), left.at + timedelta(seconds=left.this * pace), lasts)


def _fate_of_batches(few: int, many: int, later: Sequence[float] | None) -> str:
    if later is None:
        return "Batches that would end later do not start"
    if not many:
        return "The window stops no batch: the batch under way runs to its end"
    which = "The last batch" if len(later) == 1 else f"None of the {format_count(len(later))} later batches"
    if few == len(later):
        will = "will not start" if len(later) == 1 else "will start"
        return f"{which} {will}, and their partitions stay where they are"
    if len(later) == 1:
        return f"{which} may not start"
    number = f"{format_count(few)} to {format_count(many)}" if few else f"up to {format_count(many)}"
    number = format_count(many) if few == many else number
    return f"Of the {format_count(len(later))} later batches, {number} will not start"


def _left(report: RunReport, rest: EtaRange | None, now: datetime | None) -> _Left | None:
    """None if nobody knows how long the plan takes."""
    progress, throttle, focus = report.execution.progress, report.execution.throttle, report.focus
    if focus is None:
        return None
    rate = throttle.bytes_per_second if throttle is not None else report.throttle_of(focus)
    if rest is not None and progress is not None:
        batch = progress.this_batch
        this = _seconds(int((progress.busiest_bytes or 0) * (batch.share_left if batch is not None else 0.0)), rate)
        return _Left(progress.updated_at, rest.low, rest.high, this, _later(progress, rate))
    by_plan = report.seconds_left(focus, rate)
    if by_plan is None:
        return None
    whole = eta_range(by_plan, report.ratios)
    moments = (now, progress.updated_at if progress else None, report.approved_at, report.window.not_before)
    moment = max(filter(None, moments), default=report.taken.observed_at)
    return _Left(moment, whole.low, whole.high, 0.0, _later(progress, rate) if progress is not None else None)


def _later(progress: Progress, rate: float | None) -> tuple[float, ...] | None:
    if progress.later_busiest_bytes is None:
        return None
    return tuple(_seconds(busiest, rate) for busiest in progress.later_busiest_bytes)


def _seconds(busiest: int, rate: float | None) -> float:
    return with_controller(busiest / rate if rate else 0.0, 1)
