"""What the page computes for a run that moves partitions: the time left, its events, and whether it is followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kafka_rebalance.documents.batches import DONE, BatchNote
from kafka_rebalance.documents.progress import Happening
from kafka_rebalance.moves.eta import ASSUMED, EtaRange, eta_range, rest_range
from kafka_rebalance.moves.move_progress import Phase
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import format_bytes, format_count, format_duration, format_range, format_rate
from kafka_rebalance.pages.what_happened import BATCHES_SHOWN, EVENTS_KEPT, history_of
from kafka_rebalance.pages.words_of_time_window import WindowWords, window_now

# A follower notes at least every 15 s that it has looked. To hand over between worker and triggerer, Airflow needs some
# seconds more.
SILENT = timedelta(seconds=60)
MOVING = ("moving", "settling")  # states of progress.json in which the end can be estimated
PACE_SHARE = 0.05  # of the plan's time: before that, a run's own pace says nothing


@dataclass(frozen=True, slots=True)
class LiveWords:
    """`rest`, `ends` and `basis` are empty if the end is not known; `silence` if somebody follows the run."""

    rest: str
    ends: str
    basis: tuple[tuple[str, str], ...]  # what the time left rests on: (seconds in words, by what)
    silence: str
    is_in_place: bool  # every batch is in place, and the verification follows
    window: WindowWords | None
    planned: str  # the planned size of the batch under way, if its partitions have another size now
    phases: tuple[tuple[str, int], ...]  # (phase, partitions), in the order in which a partition goes through them
    batches: tuple[BatchNote, ...]  # the newest, and all that did not end well, by number
    batches_before: int  # in place, and not among `batches`
    events: tuple[Happening, ...]  # newest first


@dataclass(frozen=True, slots=True)
class _Rest:
    """`seconds` spans both: the plan's time for the rest, and the rest at the run's own pace, each if it is known."""

    seconds: EtaRange
    by_plan: EtaRange | None
    at_pace: float | None
    began_at: datetime | None


def live_words(report: RunReport, now: datetime | None, *, is_active: bool = True) -> LiveWords:
    """`now` is None in the file, which nobody updates. A run that is not active has ended in Airflow."""
    rest = _rest(report) if is_active else None
    left = rest.seconds if rest is not None else None
    is_in_place = is_active and _is_in_place(report)
    batches = report.execution.batches
    newest = {batch.number for batch in batches[-BATCHES_SHOWN:]}
    shown = tuple(batch for batch in batches if batch.number in newest or batch.state != DONE)
    return LiveWords(
        rest=format_range(left.low, left.high) if left else "",
        ends=_ends(report, left) if left else "",
        basis=tuple(_basis(rest)) if rest is not None else (),
        silence=_ended(report) if not is_active else _silence(report, now) if now else "",
        is_in_place=is_in_place,
        window=window_now(report, left, now) if is_active and not is_in_place else None,
        planned=_planned(report),
        phases=_phases(report),
        batches=shown,
        batches_before=len(batches) - len(shown),
        events=tuple(sorted(history_of(report), key=lambda one: one.at, reverse=True))[:EVENTS_KEPT],
    )


def _rest(report: RunReport) -> _Rest | None:
    """By the plan's time for the rest, at the present throttle, and by the pace so far."""
    progress, focus, throttle = report.execution.progress, report.focus, report.execution.throttle
    if progress is None or progress.state not in MOVING or focus is None:
        return None
    rate = throttle.bytes_per_second if throttle else None
    whole, by_plan = report.planned_seconds(focus, rate), report.seconds_left(focus, rate)
    share, at_pace = by_plan / whole if by_plan and whole else progress.share_left, None
    if share <= 0:
        return None
    worked = report.execution.working_seconds(progress.updated_at)
    if worked is not None and 1 - share >= PACE_SHARE:
        at_pace = worked * share / (1 - share)
    ratios = report.estimate.ratios if report.estimate else ()
    seconds = rest_range(by_plan, at_pace, ratios)
    if seconds is None:
        return None
    return _Rest(seconds, None if by_plan is None else eta_range(by_plan, ratios), at_pace, report.execution.began_at)


def _ends(report: RunReport, left: EtaRange) -> str:
    """`2026-05-03 15:32–15:41 UTC`, from the last look on."""
    assert report.execution.progress is not None
    seen = report.execution.progress.updated_at.astimezone(UTC)
    first, last = (seen + timedelta(seconds=seconds) for seconds in (left.low, left.high))
    same_day = first.date() == last.date()
    return f"{first:%Y-%m-%d %H:%M}–{last:{'%H:%M' if same_day else '%Y-%m-%d %H:%M'}} UTC"


def _basis(rest: _Rest) -> Iterator[tuple[str, str]]:
    """`12 min`, at its pace since 14:41; `46 min–1 h 17 min`, by the plan and 7 earlier runs here."""
    if rest.at_pace is not None and rest.began_at is not None:
        yield format_duration(rest.at_pace), f"at its pace since {rest.began_at.astimezone(UTC):%H:%M}"
    by_plan = rest.by_plan
    if by_plan is not None:
        low, high = ASSUMED
        by = f"by {low}–{high} times the plan"  # assumed
        if by_plan.is_measured:
            by = f"by the plan and {format_count(by_plan.runs)} earlier runs here"
        yield format_range(by_plan.low, by_plan.high), by


def _planned(report: RunReport) -> str:
    progress = report.execution.progress
    if progress is None or progress.this_batch is None or not progress.this_batch.bytes_total:
        return ""
    planned = next((batch.bytes for batch in report.execution.batches if batch.number == progress.batch), None)
    if planned is None or format_bytes(planned) == format_bytes(progress.this_batch.bytes_total):
        return ""
    return f"the present size of its partitions; {format_bytes(planned)} by the plan"


def _phases(report: RunReport) -> tuple[tuple[str, int], ...]:
    counts = dict(report.execution.progress.phases) if report.execution.progress else {}
    order = [*(str(phase) for phase in Phase), *counts]
    return tuple((phase, counts[phase]) for phase in dict.fromkeys(order) if counts.get(phase))


def _silence(report: RunReport, now: datetime) -> str:
    progress = report.execution.progress
    last = progress.updated_at if progress else report.execution.began_at
    if not report.state.is_unverified or last is None or now - last < SILENT:
        return ""
    if report.execution.stop is not None or _is_in_place(report):
        return ""  # the tasks after reassign write no progress
    return (
        f"No news for {format_duration((now - last).total_seconds())}: nobody follows this run now. Copies in flight "
        "go on by themselves, under their throttle. Check the log of the task reassign, and whether the triggerer and "
        "the workers run."
    )


def _is_in_place(report: RunReport) -> bool:
    """By batches.json, or by progress.json, which is written a little earlier."""
    execution = report.execution
    if not report.state.is_unverified or execution.progress is None:
        return False
    plan, is_over = execution.progress, execution.progress.state == DONE
    done = max(plan.partitions_done if is_over else 0, sum(batch.partitions for batch in execution.done))
    return 0 < plan.partitions_total <= done


def _ended(report: RunReport) -> str:
    """For a run that Airflow has ended; empty unless its reassignment is not verified."""
    throttle = report.execution.throttle
    if not report.state.is_unverified:
        return ""
    said = ["The run has ended, and nobody follows its batches any more. The page shows the last look at them."]
    if throttle is not None and throttle.released_at is None:
        said.append(
            f"Copies in flight go on by themselves, under their throttle of {format_rate(throttle.bytes_per_second)}. "
            "The Dag kafka_throttle_janitor removes it after the last copy."
        )
    return " ".join(said)
