"""A run's figures: as predicted when it was approved, and as they turned out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.how_far import Execution
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import format_bytes, format_count, format_duration, format_rate, format_share


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
    left = f"{format_count(len(report.left_out), 'move', 'moves')} left out" if report.left_out else ""
    in_place = format_count(execution.partitions_done)
    yield Compared("Partitions in place", format_count(focus.partitions), in_place, left)
    yield Compared("Batches", format_count(focus.batches), format_count(len(execution.done)))
    fullest = execution.progress.fullest_disk if execution.progress else None
    if focus.peak_disk_fraction is not None:
        known = (
            f"broker {fullest.broker}, with all other data on it" if fullest else "brokers report it from Kafka 3.3 on"
        )
        seen = format_share(fullest.fraction) if fullest else "not known"
        yield Compared("Fullest disk meanwhile", format_share(focus.peak_disk_fraction), seen, known)
    if approved is not None and throttle is not None:
        changes = format_count(len(throttle.rate_changes), "change", "changes") if throttle.rate_changes else ""
        now = format_rate(throttle.bytes_per_second)
        yield Compared("Throttle of one broker", format_rate(approved), now, changes and f"{changes} meanwhile")
