"""What a page says of a run that moves or has moved partitions: time left, events, and what was promised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kafka_rebalance.documents.json_files import time_in
from kafka_rebalance.documents.progress import DONE, BatchNote, Happening
from kafka_rebalance.documents.rate_steps import RateSteps, Reason, Sign
from kafka_rebalance.model.finding import some
from kafka_rebalance.moves.eta import ASSUMED, EtaRange, eta_range, rest_range
from kafka_rebalance.moves.move_progress import Phase
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.run_report import Execution, RunReport
from kafka_rebalance.pages.units import (
    format_bytes,
    format_count,
    format_duration,
    format_range,
    format_rate,
    format_rates,
    format_share,
)
from kafka_rebalance.pages.windows import WindowWords, window_now
from kafka_rebalance.run.check_result import CheckName, Verification
from kafka_rebalance.throttle.adaptive_rate import ANSWERS, LAGS, LATENCY, NETWORK

# What the page computes for a run that moves partitions: the time left, its events, and whether it is followed.


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
    rates: tuple[str, ...] = ()  # of a range: which brokers have which rate, and why none rises


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
    time_left = rest.seconds if rest is not None else None
    is_in_place = is_active and _is_in_place(report)
    batches = report.execution.batches
    newest = {batch.number for batch in batches[-BATCHES_SHOWN:]}
    shown = tuple(batch for batch in batches if batch.number in newest or batch.state != DONE)
    return LiveWords(
        rest=format_range(time_left.low, time_left.high) if time_left else "",
        ends=_ends(report, time_left) if time_left else "",
        basis=tuple(_basis(rest)) if rest is not None else (),
        silence=_ended(report) if not is_active else _silence(report, now) if now else "",
        is_in_place=is_in_place,
        window=window_now(report, time_left, now) if is_active and not is_in_place else None,
        planned=_planned(report),
        phases=_phases(report),
        batches=shown,
        batches_before=len(batches) - len(shown),
        events=tuple(sorted(_history_of(report), key=lambda event: event.at, reverse=True))[:EVENTS_KEPT],
        rates=tuple(rates_now_words(report.execution)) if is_active else (),
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
    seconds = rest_range(by_plan, at_pace, report.ratios)
    if seconds is None:
        return None
    return _Rest(
        seconds, None if by_plan is None else eta_range(by_plan, report.ratios), at_pace, report.execution.began_at
    )


def _ends(report: RunReport, rest: EtaRange) -> str:
    """`2026-05-03 15:32–15:41 UTC`, from the last look on."""
    assert report.execution.progress is not None
    looked_at = report.execution.progress.updated_at.astimezone(UTC)
    first, last = (looked_at + timedelta(seconds=seconds) for seconds in (rest.low, rest.high))
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
    sentences = ["The run has ended, and nobody follows its batches any more. The page shows the last look at them."]
    if throttle is not None and throttle.released_at is None:
        sentences.append(
            f"Copies in flight go on by themselves, under their throttle of {format_rate(throttle.bytes_per_second)}. "
            "The Dag kafka_throttle_janitor removes it after the last copy."
        )
    return " ".join(sentences)


# A run's figures: as predicted when it was approved, and as they turned out.


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of the table; `note` may be empty."""

    what: str
    predicted: str
    actual: str
    note: str = ""


def compared(report: RunReport) -> tuple[Compared, ...]:
    """Empty unless a run that requested something is over. Lines that nobody knows are left out."""
    focus = report.focus
    if focus is None or not report.execution.batches or report.verification is None:
        return ()
    return tuple(_lines(report, focus))


def _copied(focus: CandidateReport, execution: Execution) -> Compared:
    """Batches count as measured, else as planned; the note says which."""
    unmeasured, copied = len(execution.unmeasured), execution.arrived_bytes
    note = "measured on the new replicas as each batch ended"
    if all(batch.measured is None for batch in execution.done):
        copied, note = (
            execution.bytes_copied,
            "by the planned sizes, because nothing was measured" if unmeasured else "",
        )
    elif unmeasured:
        batches = format_count(unmeasured, "batch by its planned size", "batches by their planned sizes")
        note = f"{batches}, the others measured on the new replicas as they ended"
    return Compared("Bytes copied", format_bytes(focus.moved_bytes), format_bytes(copied), note)


def _lines(report: RunReport, focus: CandidateReport) -> Iterator[Compared]:
    execution, throttle = report.execution, report.execution.throttle
    approved = report.decision.throttle_bytes_per_second if report.decision else None
    began, ended = execution.began_at, execution.ended_at
    planned = focus.planned_seconds
    if planned is not None and began and ended:
        expected, worked = report.finishes_in(focus), execution.working_seconds(ended) or 0.0
        paused = (ended - began).total_seconds() - worked
        notes = [f"expected: {expected}"] if expected else []
        notes += [f"without {format_duration(paused)} in which it waited for its window"] if paused else []
        yield Compared("Time", format_duration(planned), format_duration(worked), "; ".join(notes))
    yield _copied(focus, execution)
    note = f"{format_count(len(report.left_out), 'move', 'moves')} left out" if report.left_out else ""
    in_place = format_count(execution.partitions_done)
    yield Compared("Partitions in place", format_count(focus.partitions), in_place, note)
    yield Compared("Batches", format_count(focus.batches), format_count(len(execution.done)))
    fullest = execution.progress.fullest_disk if execution.progress else None
    if focus.peak_disk_fraction is not None:
        known = (
            f"broker {fullest.broker}, with all other data on it" if fullest else "brokers report it from Kafka 3.3 on"
        )
        share = format_share(fullest.fraction) if fullest else "not known"
        yield Compared("Fullest disk meanwhile", format_share(focus.peak_disk_fraction), share, known)
    if approved is not None and throttle is not None:
        changes = format_count(len(throttle.rate_changes), "change", "changes") if throttle.rate_changes else ""
        now = format_rate(throttle.bytes_per_second)
        yield Compared("Throttle of one broker", format_rate(approved), now, changes and f"{changes} meanwhile")


# The events of a run, from every file that says when something happened.


BATCHES_SHOWN, EVENTS_SHOWN, EVENTS_KEPT = 10, 8, 100


def _history_of(report: RunReport) -> Iterator[Happening]:
    decision, execution = report.decision, report.execution
    if decision is not None and decision.is_approval and decision.approved_at is not None:
        yield Happening(decision.approved_at, f"{decision.by or 'Somebody'} approved {decision.choice}")
    yield from _of_throttle(report)
    yield from _of_rates(execution.rate_steps)
    for batch in execution.batches:
        if batch.created_at is not None:
            what = f"{format_count(batch.partitions, 'partition', 'partitions')}, {format_bytes(batch.bytes)} to copy"
            yield Happening(batch.created_at, f"Batch {batch.number} requested: {what}")
        if batch.finished_at is not None:
            yield Happening(batch.finished_at, f"Batch {batch.number} in place")
    if execution.progress is not None:
        yield from execution.progress.events
    yield from execution.asked
    for pause in execution.pauses:
        yield Happening(pause.at, "Paused: the next batch would not end before the window closes")
        if pause.ended_at is not None:
            yield Happening(pause.ended_at, "Went on: the window is open")
    if execution.stop is not None:
        yield Happening(execution.stop.at, execution.stop.why)
    for at in sorted({entry.at for entry in report.left_out}):
        count = sum(entry.at == at for entry in report.left_out)
        yield Happening(at, f"{format_count(count, 'approved move', 'approved moves')} left out")
    checks = report.verification
    if checks is not None and checks.verified_at is not None:
        outcome = "every check passed" if checks.passed else next(iter(what_failed(checks)), "not passed")
        yield Happening(checks.verified_at, f"Verified: {outcome}")


def _of_rates(noted: RateSteps | None) -> Iterator[Happening]:
    for step in noted.steps if noted is not None else ():
        did = f"{'raised' if step.after > step.before else 'lowered'} to {format_rate(step.after)}"
        yield Happening(step.at, f"Rate of {_brokers(step.brokers)} {did}: {_reasons(step.reasons)}")


def rates_now_words(execution: Execution) -> Iterator[str]:
    """`14.3 MiB/s: broker 1, 2`, by the last changes that are known, and why none rises."""
    throttle, noted = execution.throttle, execution.rate_steps
    if throttle is None or not throttle.adapts or noted is None:
        return
    rates = {broker: step.after for step in noted.steps for broker in step.brokers}
    for rate in sorted({*rates.values()}):
        yield f"{format_rate(rate)}: {_brokers([broker for broker in sorted(rates) if rates[broker] == rate])}"
    if noted.held_by:
        yield f"No other rate rises: {_reasons(noted.held_by)}"


def _brokers(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {some(list(map(str, brokers)))}"


def _reasons(reasons: Sequence[Reason]) -> str:
    return "; ".join(dict.fromkeys(map(reason_words, reasons)))


_PARTS = {
    ANSWERS: "how fast brokers answer",
    LAGS: "the lags of consumer groups",
    NETWORK: "network_use of the metrics server",
    LATENCY: "produce_latency of the metrics server",
}


def reason_words(reason: Reason) -> str:
    """What a look has seen, for people."""
    count = format_count(reason.figure or 0, "partition", "partitions")
    return {
        Sign.UNDER_MIN_ISR: f"{count} under min.insync.replicas ({reason.what})",
        Sign.AT_MIN_ISR: f"{count} at min.insync.replicas and not all in sync ({reason.what})",
        Sign.ISR_UNREAD: "the partitions of the cluster could not be read",
        Sign.FELL_OUT: f"replicas of {count} have left the ISR ({reason.what})",
        Sign.UNDER_REPLICATED: f"{count} lack replicas in the ISR ({reason.what})",
        Sign.NO_ANSWER: f"broker {reason.broker} does not answer",
        Sign.SLOW_ANSWER: f"broker {reason.broker} answers in {_milliseconds(reason)}",
        Sign.FULL_NETWORK: f"the network of broker {reason.broker} is used to {format_share(reason.figure)}",
        Sign.SLOW_PRODUCE: f"broker {reason.broker} takes {_milliseconds(reason)} for a produce request",
        Sign.LAG_GROWS: f"group {reason.what} falls behind ({format_count(reason.figure)} records)",
        Sign.UNREAD: f"{_PARTS.get(reason.what, reason.what)} could not be read",
        Sign.IDLE: "nothing is copied there",
        Sign.SETTLING: "looks are awaited first",
        Sign.PROBED: f"{format_rate(reason.figure)} was too high a short time ago",
        Sign.CALM: "nothing was seen",
    }[reason.sign]


def _milliseconds(reason: Reason) -> str:
    usual = f", not in {1000 * reason.usual:.0f} ms" if reason.usual is not None else ""
    return f"{1000 * (reason.figure or 0):.0f} ms{usual}"


def _of_throttle(report: RunReport) -> Iterator[Happening]:
    throttle = report.execution.throttle
    if throttle is None:
        return
    where = format_count(throttle.brokers, "broker", "brokers")
    rate = format_rates(throttle.ladder[0] if throttle.ladder else None, throttle.taken_at_rate)
    changes = (
        (change.at, f"{change.by} set the throttle to {format_rate(change.bytes_per_second)}")
        for change in throttle.rate_changes
    )
    for at, what in (
        *changes,
        (throttle.taken_at, f"Throttle of {rate} set on {where}"),
        (throttle.handed_over_at, "Throttle left to the Dag kafka_throttle_janitor: copies still run"),
        (throttle.suspended_at, "Throttle put back until the next batch"),
        (throttle.released_at, "Throttle taken off; the values from before it are back"),
    ):
        if (moment := time_in(at)) is not None:
            yield Happening(moment, what)


# What the verification found wrong, in figures, the worst first.


# The worst first: (one, several, what is said of them). Checks without a line here come last, under their name.
_SAID: dict[str, tuple[str, str, str]] = {
    CheckName.REPLICAS: ("move", "moves", "not in place"),
    CheckName.LOG_DIR: ("replica", "replicas", "not in the approved log dir"),
    CheckName.SAME_TOPIC: ("moved topic", "moved topics", "deleted and created again"),
    CheckName.NOT_DELETED: ("moved topic", "moved topics", "queued for deletion"),
    CheckName.EMPTIED: ("broker", "brokers", "not emptied"),
    CheckName.AT_REST: ("request", "requests", "still open in Kafka"),
    CheckName.IN_SYNC: ("partition", "partitions", "not in sync as approved"),
    CheckName.LEADER: ("partition", "partitions", "not led by the preferred leader"),
    CheckName.THROTTLE: ("throttle", "throttles", "not as before the run"),
}


def what_failed(verification: Verification) -> tuple[str, ...]:
    """One for each name of failed checks: `17 of 34 moves are not in place`."""
    failed: dict[str, int] = {}
    counts: dict[str, int] = {}
    for check in verification.checks:
        counts[check.name] = counts.get(check.name, 0) + 1
        if not check.passed:
            failed[check.name] = failed.get(check.name, 0) + 1
    order = [*map(str, _SAID), *counts]
    return tuple(_words(name, failed[name], counts[name]) for name in dict.fromkeys(order) if name in failed)


def _words(name: str, failed: int, total: int) -> str:
    """Some checks are noted only where they fail, as of topics made again. Then a total says nothing."""
    if name not in _SAID:
        return f"{format_count(failed)} of {format_count(total, 'check', 'checks')} of {name} failed"
    one, several, what = _SAID[name]
    counted = format_count(total, one, several)
    which = counted if failed == total else f"{format_count(failed)} of {counted}"
    return f"{which} {'is' if failed == 1 else 'are'} {what}"
