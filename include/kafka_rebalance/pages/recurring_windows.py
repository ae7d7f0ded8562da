"""How a run goes with the windows of its policy: which it takes, what does not fit, and whether it pauses now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kafka_rebalance.moves.eta import slowest_seconds
from kafka_rebalance.moves.window_fit import NoRoom, WindowFit, fit
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import format_count, format_duration, format_time
from kafka_rebalance.run.approval_rules import approval_ends


def policy_window_words(report: RunReport, focus: CandidateReport) -> str:
    """Before the first batch: the policy's windows, and how many the plan takes. Empty if the policy has none."""
    windows = report.policy.windows if report.policy is not None else None
    if not report.window.recurring:
        return f"outside the policy's windows ({_named(windows)})" if windows else ""
    now = report.decision.approved_at if report.decision and report.decision.approved_at else report.observed_at
    said = [_named([one.text for one in report.window.recurring])]
    opens = report.window.waits_until(now)
    if opens is not None:
        said.append(f"opens at {format_time(opens)}, and an earlier approval expires as if it was given then")
    planned = fit_planned(report, focus)
    if planned is not None:
        said.append(_fate(slowest(report, focus.batch_seconds), planned))
    return "; ".join(said)


def windows_now(report: RunReport, seconds: Sequence[float], at: datetime) -> tuple[str, bool]:
    """For an approved run, of which batches of so many seconds by the plan are still to be requested from `at` on.

    Returns the words, and whether all of them have room. Empty seconds: nothing is left, or nobody knows.
    """
    names, opens = _named([one.text for one in report.window.recurring]), report.window.waits_until(at)
    closes = report.window.closes_at(at)
    state = f"opens at {format_time(opens)}" if opens is not None else f"open until {format_time(closes)}"
    said, is_whole = pause_words(report) or f"Window {names}: {state}.", True
    if seconds:
        slow, approved = slowest(report, seconds), report.decision.approved_at if report.decision else None
        found = fit_of(report, slow, at, approved or at)
        what = f"what is left {_fate(slow, found)}" if found.ends_at else _fate(slow, found)
        said, is_whole = f"{said} {what[0].upper()}{what[1:]}.", found.ends_at is not None
    return said, is_whole


def fit_of(report: RunReport, seconds: Sequence[float], now: datetime, approved_at: datetime) -> WindowFit:
    ends = None
    if report.policy is not None:
        first = report.window.waits_until(approved_at)
        expires = report.policy.approval_expires_after_seconds
        ends = approval_ends(approved_at.isoformat(), expires, not_before=first)
    return fit(report.window, seconds, now, ends)


def fit_planned(report: RunReport, candidate: CandidateReport) -> WindowFit | None:
    """The whole plan, from its approval or else from the snapshot on; None if its time is not known."""
    seconds = slowest(report, candidate.batch_seconds)
    at = report.decision.approved_at if report.decision and report.decision.approved_at else report.observed_at
    return fit_of(report, seconds, at, at) if seconds else None


def slowest(report: RunReport, seconds: Sequence[float]) -> tuple[float, ...]:
    """The upper end of the estimate of each batch, which is what a batch is held back by."""
    ratios = report.estimate.ratios if report.estimate is not None else ()
    return tuple(slowest_seconds(one, ratios) for one in seconds)


def _fate(seconds: Sequence[float], found: WindowFit) -> str:
    used, batches = len(found.used), format_count(len(seconds), "batch", "batches")
    if found.ends_at is not None:
        ends = f"even at the slow estimate it ends by {format_time(found.ends_at)}"
        if used < 2:
            return f"fits one opening: {ends}"
        return (
            f"takes up to {format_count(used)} openings: {ends}. Between them it keeps the cluster's lock and no "
            "throttle"
        )
    where = f"the run may stop after {format_count(found.placed)} of {batches}"
    if found.no_room is NoRoom.TOO_LONG:
        batch = format_duration(seconds[found.placed])
        return f"{where}: the next one may take {batch}, and no opening is so long. A higher throttle makes it shorter"
    if found.no_room is NoRoom.APPROVAL_ENDED:
        return (
            f"{where}: the approval ends before the next opening with room. approval_expires_after_seconds of the "
            "policy decides that"
        )
    return f"{where}: it would take more than {format_count(used)} openings"


def _named(windows: Sequence[str]) -> str:
    return "; ".join(windows)


def pause_words(report: RunReport) -> str:
    """Empty unless the run waits for a window now."""
    pause = report.execution.pause
    if pause is None:
        return ""
    until = f" until {format_time(pause.until)}, when its window opens" if pause.until is not None else ""
    return (
        f"The run pauses{until}. It keeps the cluster's lock, and its throttle is put back. To give the cluster to "
        "other runs, stop it with kafka_rebalance_cancel."
    )
