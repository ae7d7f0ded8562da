"""The events of a run, from every file that says when something happened."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_rebalance.documents.progress import Happening
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import format_bytes, format_count, format_rate
from kafka_rebalance.pages.what_failed import what_failed

BATCHES_SHOWN, EVENTS_SHOWN, EVENTS_KEPT = 10, 8, 100


def history_of(report: RunReport) -> Iterator[Happening]:
    decision, execution = report.decision, report.execution
    if decision is not None and decision.is_approval and decision.approved_at is not None:
        yield Happening(decision.approved_at, f"{decision.by or 'Somebody'} approved {decision.choice}")
    yield from _of_throttle(report)
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
    for at in sorted({one.at for one in report.left_out}):
        count = sum(one.at == at for one in report.left_out)
        yield Happening(at, f"{format_count(count, 'approved move', 'approved moves')} left out")
    checks = report.verification
    if checks is not None and checks.verified_at is not None:
        said = "every check passed" if checks.passed else next(iter(what_failed(checks)), "not passed")
        yield Happening(checks.verified_at, f"Verified: {said}")


def _of_throttle(report: RunReport) -> Iterator[Happening]:
    throttle = report.execution.throttle
    if throttle is None:
        return
    where, rate = format_count(throttle.brokers, "broker", "brokers"), format_rate(throttle.approved_bytes_per_second)
    for change in throttle.rate_changes:
        yield Happening(change.at, f"{change.by} set the throttle to {format_rate(change.bytes_per_second)}")
    for at, what in (
        (throttle.taken_at, f"Throttle of {rate} set on {where}"),
        (throttle.handed_over_at, "Throttle left to the Dag kafka_throttle_janitor: copies still run"),
        (throttle.suspended_at, "Throttle put back until the next batch"),
        (throttle.released_at, "Throttle taken off; the values from before it are back"),
    ):
        if at is not None:
            yield Happening(at, what)
