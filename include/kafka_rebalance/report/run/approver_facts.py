"""The first screen in words, the same for the page and the approval request: why, the verdict, the risk, the cost."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.snapshot import AutomaticElections
from kafka_rebalance.execution.eta import MIN_SECONDS, eta_range
from kafka_rebalance.model.metrics import noun_of
from kafka_rebalance.report.candidate.candidate_report import CandidateReport
from kafka_rebalance.report.candidate.client_cost import network_words
from kafka_rebalance.report.candidate.fullest_log_dirs import fullest_words
from kafka_rebalance.report.candidate.risk import worst_case_words
from kafka_rebalance.report.candidate.stays_behind import stays_words
from kafka_rebalance.report.run.diagnosis import otherwise_words, why_words
from kafka_rebalance.report.run.run_report import RunReport
from kafka_rebalance.report.run.time_window import window_words
from kafka_rebalance.report.units import (
    Named,
    about,
    format_bytes,
    format_count,
    format_duration,
    format_factor,
    format_rate,
    format_share,
)

KAFKA_ELECTS = "Kafka's own elections"
STAYS_BEHIND = "Stays on brokers to be emptied"

_NAMED = 5  # brokers, at most


@dataclass(frozen=True, slots=True)
class Brief:
    """Sentences, and facts as (name, text). Empty where nothing is known of it."""

    why: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    verdict: tuple[tuple[str, str], ...] = ()
    worst: tuple[str, ...] = ()
    cost: tuple[tuple[str, str], ...] = ()


def brief(report: RunReport, named: Named = str) -> Brief:
    """Of the candidate in focus. `named` puts what the cluster calls its racks and topics into a sentence."""
    focus, outlook = report.focus, report.outlook
    worst = focus.worst_case if focus is not None else None
    return Brief(
        why_words(outlook, report.settings.job) if outlook is not None else (),
        otherwise_words(outlook, worst, named) if outlook is not None else (),
        _verdict(report, focus, named) if focus is not None else (),
        worst_case_words(worst, named) if worst is not None else (),
        _cost(report, focus) if focus is not None else (),
    )


def _verdict(report: RunReport, focus: CandidateReport, named: Named) -> tuple[tuple[str, str], ...]:
    moves = format_count(focus.partitions, "move", "moves")
    batches = format_count(focus.batches, "batch", "batches")
    facts = [("Copies", f"{format_bytes(focus.moved_bytes)} in {moves}, {batches}{_above_bound(focus)}")]
    facts.append(("Preferred leaders", f"{format_count(focus.leader_changes)} change"))
    stays = stays_words(focus.stays_behind or (), named)
    facts += [(STAYS_BEHIND, stays)] if stays else []
    elections = report.automatic_elections
    if elections is not None and elections.brokers:
        facts.append((KAFKA_ELECTS, _kafka_elects(elections)))
    if focus.planned_seconds is not None:
        finishes = report.finishes_in(focus)
        facts.append(("Takes", finishes or f"{about(focus.planned_seconds)} by the plan"))
        # Once batches run, their progress is held against it.
        window = "" if report.execution.batches else _window(report, focus.planned_seconds)
        facts += [("Window", window)] if window else []
    if focus.peak_disk_fraction is not None:
        facts.append(("Fullest disk meanwhile", f"{format_share(focus.peak_disk_fraction)}{_of_unknown_size(focus)}"))
    log_dir = fullest_words(focus.log_dirs, named)
    facts += [("Fullest log dir meanwhile", log_dir)] if log_dir else []
    gain = _gain(focus)
    return (*facts, *([("Gain", gain)] if gain else []))


def _kafka_elects(elections: AutomaticElections) -> str:
    seconds = elections.check_seconds
    every = "" if seconds is None else f", which it checks every {format_duration(seconds)}"
    return (
        f"the controller also elects preferred leaders by itself between batches{every} "
        "(auto.leader.rebalance.enable). It may elect leaders of topics outside this plan. "
        "leader_changes_per_batch does not limit it"
    )


def _of_unknown_size(focus: CandidateReport) -> str:
    """How many disks the figure says nothing of."""
    unknown = [one.broker for one in focus.brokers if one.after.replicas and not one.disk_capacity_bytes]
    if not unknown:
        return ""
    named = ", ".join(map(str, unknown[:_NAMED])) + (f" and {len(unknown) - _NAMED} more" if unknown[_NAMED:] else "")
    return f" of those whose size is known; unknown is that of broker {named}"


def _above_bound(focus: CandidateReport) -> str:
    if not focus.moved_bytes or not focus.moved_bytes_bound:
        return ""
    above = focus.moved_bytes / focus.moved_bytes_bound - 1
    return "; the least possible" if above <= 0 else f"; within {format_share(_up(above))} of the least possible"


def _up(share: float) -> float:
    """The next whole percent: within it, it is."""
    return max(0.01, -(-round(share * 1e6) // 10_000) / 100)


def _gain(focus: CandidateReport) -> str:
    """How the highest broker comes down, of the resource of which it does so most."""
    if focus.gain is None:
        return ""
    metric, before, after = focus.gain
    return f"{noun_of(metric)} of the highest broker {format_factor(before)} → {format_factor(after)} of its share"


def _window(report: RunReport, seconds: float) -> str:
    low, high = seconds, seconds
    if report.estimate is not None and seconds >= MIN_SECONDS:
        found = eta_range(seconds, report.estimate.ratios)
        low, high = found.low, found.high
    return window_words(report.window, report.observed_at, low, high)


def _cost(report: RunReport, focus: CandidateReport) -> tuple[tuple[str, str], ...]:
    throttle, cost = report.throttle_of(focus), report.costs.get(focus.name)
    if not focus.moved_bytes:
        return ()
    facts = []
    if throttle is not None:
        facts.append(("Throttle of one broker", f"{format_rate(throttle)} in and {format_rate(throttle)} out"))
    if cost is not None:
        least = format_rate(cost.least_bytes_per_second)
        known = cost.least_bytes_per_second > 1  # else nothing is known to be written
        smallest = f"{least} ({cost.reason})" if known else f"not known: {cost.reason}"
        facts.append(("Smallest at which every copy can end", smallest))
        facts.append(("Networks", network_words(cost, throttle)))
    if focus.peak_disk_fraction is not None:
        facts.append(("Disks", _disks(report, focus)))
    return tuple(facts)


def _disks(report: RunReport, focus: CandidateReport) -> str:
    """What the fullest disk has left at its peak, and which get fuller than what is to be kept free allows."""
    known = [(disk, disk.fullest, disk.capacity_bytes) for disk in focus.fullest_disks if disk.capacity_bytes]
    if not known:
        return f"the fullest is at {format_share(focus.peak_disk_fraction)}"
    disk, (peak, batch), capacity = known[0]
    when = f"in batch {batch}" if batch else "before the first batch"
    left = format_bytes(max(0, capacity - peak))
    said = f"broker {disk.broker} is fullest, {format_share(peak / capacity)} {when}: {left} left"
    allowed = 1 - report.settings.disk_headroom
    full = ", ".join(str(disk.broker) for disk, (peak, _), capacity in known if peak > allowed * capacity)
    return f"{said}; beyond {format_share(allowed)}: broker {full}" if full else said
