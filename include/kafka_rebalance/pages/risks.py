"""What can go wrong with one candidate, the worst first, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_rebalance.documents.proposals import WorstCase
from kafka_rebalance.documents.segments import CandidateSegments
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.finding import some
from kafka_rebalance.moves.windows import NoRoom
from kafka_rebalance.pages.approver_facts import further_runs_words, less_even_words
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import (
    Named,
    format_bytes,
    format_count,
    format_rate,
    format_share,
    format_time,
)
from kafka_rebalance.pages.windows import ends_in_time, fit_planned
from kafka_rebalance.throttle.rates import NIC_SHARE, free_bytes_per_second

RISKS_SHOWN = 3
_BROKERS_NAMED = 3


@dataclass(frozen=True, slots=True)
class Risk:
    """Two sentences: what can go wrong, and what to do."""

    text: str
    remedy: str


def risks(report: RunReport, candidate: CandidateReport, named: Named = str) -> tuple[Risk, ...]:
    """Every known one: first what keeps the plan from ending, then what hurts clients, then what stays undone.

    `named` quotes the names of racks, topics and people.
    """
    return (
        *_cannot_end(report, candidate, named),
        *_makes_worse(report, candidate, named),
        *_stays_undone(report, candidate, named),
    )


def _cannot_end(report: RunReport, candidate: CandidateReport, named: Named) -> Iterator[Risk]:
    if candidate.status == Status.INFEASIBLE and candidate.note:
        yield Risk(f"Not possible: {named(candidate.note.removesuffix('.'))}.", "Then plan again.")
    if candidate.status == Status.FAILED:
        yield Risk(
            f"Planning it failed: {named(candidate.note.removesuffix('.'))}.",
            "Choose another candidate. Report the error with this run's folder.",
        )
    if candidate.name in report.stopped:
        own = _segments_of(report, candidate)
        first = own.stops[0] if own is not None and own.stops else None
        why = "" if first is None else f": {named(first.text)}"
        yield Risk(f"Its copies could not end{why}.", "Mend these segment settings, then plan again.")
    cost, throttle = report.costs.get(candidate.name), report.throttle_of(candidate)
    if cost is not None and throttle is not None and candidate.moved_bytes and cost.least_bytes_per_second > throttle:
        least = format_rate(cost.least_bytes_per_second)
        yield Risk(
            f"Producers write faster than copies may go: {format_rate(throttle)} are allowed, {least} are needed.",
            "Set a higher throttle in the request.",
        )
    yield from _misses_window(report, candidate)


def _segments_of(report: RunReport, candidate: CandidateReport) -> CandidateSegments | None:
    return report.segments.candidates.get(candidate.name) if report.segments is not None else None


def _misses_window(report: RunReport, candidate: CandidateReport) -> Iterator[Risk]:
    takes, window = report.takes(candidate), report.window
    planned = fit_planned(report, candidate) if window.recurring else None
    if planned is not None and planned.ends_at is None:
        batches = format_count(candidate.batches, "batch", "batches")
        is_late = planned.no_room is NoRoom.APPROVAL_ENDED
        why = "the approval ends before the next window" if is_late else "no window has room for the next one"
        yield Risk(
            f"It may stop after {format_count(planned.placed)} of {batches}: {why}.",
            "Approve a smaller candidate, or a higher throttle. A later run moves the rest.",
        )
    if takes is None or window.finish_by is None:
        return
    in_time = ends_in_time(report, candidate)
    if in_time:
        return
    how = "may not end" if in_time is None else "cannot end"
    yield Risk(
        f"It {how} by {format_time(window.finish_by)}. Batches that would end later do not start.",
        "Approve a smaller candidate, or a higher throttle. A later run moves the rest.",
    )


def _makes_worse(report: RunReport, candidate: CandidateReport, named: Named) -> Iterator[Risk]:
    yield from _fills_disk(report, candidate)
    if candidate.worst_case is not None:
        yield from _loses_more(candidate.worst_case, named)
    worse = less_even_words(candidate)
    if worse:
        yield Risk(worse, "Approve another candidate, or reject.")
    yield from _fills_networks(report, candidate)


def _fills_disk(report: RunReport, candidate: CandidateReport) -> Iterator[Risk]:
    peak, allowed = candidate.peak_disk_fraction, 1 - report.settings.disk_headroom
    if peak is None or peak <= allowed or not candidate.moved_bytes:
        return
    disk = candidate.fullest_sized_disk
    which = "A disk" if disk is None else f"The disk of broker {disk.broker}"
    yield Risk(
        f"{which} gets {format_share(peak)} full; {format_share(allowed)} are allowed.",
        "Free space there first, or approve a candidate that copies less.",
    )


def _loses_more(worst: WorstCase, named: Named) -> Iterator[Risk]:
    broker, rack = worst.broker, worst.rack
    if broker is not None and broker.is_worse:
        loss = broker.worst
        yield Risk(
            f"If broker {loss.lost} fails in batch {loss.batch}, {_partitions(loss.partitions)} under "
            f"min.insync.replicas (today {format_count(broker.today.partitions)} at worst).",
            "Restart no broker while it runs.",
        )
    elif broker is not None and broker.ends_worse:
        yield Risk(
            f"Afterwards the loss of broker {broker.after.lost} costs more than any today: "
            f"{_partitions(broker.after.partitions)} under min.insync.replicas.",
            "Look at Worst case before you approve.",
        )
    if rack is not None and (rack.is_worse or rack.ends_worse):
        loss = rack.worst if rack.is_worse else rack.after
        when = "while it runs" if rack.is_worse else "afterwards"
        yield Risk(
            f"If rack {named(str(loss.lost))} fails {when}, {_partitions(loss.partitions)} without a replica in sync "
            f"(today {format_count(rack.today.partitions)}).",
            "Plan no work on that rack while it runs." if rack.is_worse else "Look at Worst case before you approve.",
        )


def _partitions(count: int) -> str:
    return f"{format_count(count, 'partition is', 'partitions are')}"


def _fills_networks(report: RunReport, candidate: CandidateReport) -> Iterator[Risk]:
    cost, throttle = report.costs.get(candidate.name), report.throttle_of(candidate)
    if cost is None or cost.network is None or throttle is None or not candidate.moved_bytes:
        return
    full = [use for use in cost.network.tightest if free_bytes_per_second(use) < throttle]
    if not full:
        return
    brokers = ", ".join(str(use.broker) for use in full[:_BROKERS_NAMED])
    more = f" and {len(full) - _BROKERS_NAMED} more" if full[_BROKERS_NAMED:] else ""
    whose = "the network of broker" if len(full) == 1 else "the networks of brokers"
    yield Risk(
        f"With the copies, {whose} {brokers}{more} may carry more than {format_share(NIC_SHARE)}.",
        "Set a lower throttle in the request.",
    )


def _stays_undone(report: RunReport, candidate: CandidateReport, named: Named) -> Iterator[Risk]:
    for topics in candidate.left_waiting:
        which = some([named(name) for name in topics.named], topics.count)
        brokers = f"broker{'s' * (len(topics.brokers) > 1)} {', '.join(map(str, topics.brokers))}"
        if topics.being_deleted:
            yield Risk(f"The deletion of {which} goes on waiting for {brokers}.", "Start the broker to end it.")
        else:
            yield Risk(
                f"Left out: {which}. Lost unless {brokers} {'returns' if len(topics.brokers) == 1 else 'return'}.",
                "Start the broker, or approve if the records may be lost.",
            )
    stays = candidate.stays_behind or ()
    if stays:
        brokers = ", ".join(map(str, dict.fromkeys(stay.broker for stay in stays)))
        replicas = format_count(sum(stay.replicas for stay in stays), "replica stays", "replicas stay")
        size = format_bytes(sum(stay.size_bytes for stay in stays))
        yield Risk(
            f"{replicas} on broker {brokers} ({size}), which the job should empty. The verification fails then.",
            "Look at Why before you approve: it names topics and reasons.",
        )
    own = _segments_of(report, candidate)
    if own is not None and own.finding_count:
        count = format_count(own.finding_count, "segment setting or limit", "segment settings or limits")
        yield Risk(
            f"{count} would change with the new brokers: {named(own.findings[0].text)}.",
            "Look at Segment settings before you approve.",
        )
    further = further_runs_words(report, candidate)
    if further:
        yield Risk(further, "Start further runs afterwards, or raise max_bytes.")
    elections = report.taken.automatic_elections
    if elections is not None and elections.brokers and candidate.leader_changes:
        yield Risk(
            "Kafka also elects preferred leaders by itself (auto.leader.rebalance.enable), outside the limits here.",
            "Set it to false on the controller if leaders must change step by step.",
        )
    rejection = report.rejection
    if rejection is not None:
        note = f": {named(rejection.note)}" if rejection.note else ""
        who = named(rejection.by) if rejection.by else "Somebody"
        yield Risk(
            f"{who} rejected such a plan on {rejection.at:%Y-%m-%d}{note}.",
            "Look at Since the last rejection.",
        )
