"""Why a plan is proposed: what is off in the snapshot, and what comes of it if nothing is done."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.documents.proposals.worst_case import WorstCase
from kafka_rebalance.model.metrics import Metric, noun_of
from kafka_rebalance.report.candidate.candidate_report import METRICS
from kafka_rebalance.report.units import Named, format_bytes, format_count, format_factor, format_share

METRICS_SAID = 3
# What each job is to even out, in the order in which it is said; the others are about something else.
JOB_METRICS = {
    "balance": METRICS,
    "leaders": (Metric.LEADERS, Metric.LEADER_BYTES_OUT),
    "relieve": (Metric.DISK, Metric.BYTES_IN),
}
_SOON_DAYS = 365.0


@dataclass(frozen=True, slots=True)
class Off:
    """Brokers beyond the tolerance of their share of one resource; a share of None is a load where none should be."""

    metric: str
    above: int
    below: int
    highest: tuple[int, float | None]  # (broker, multiple of its fair share)
    lowest: tuple[int, float | None]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The cluster before the plan. None: not known, or there is no such thing."""

    tolerance: float
    off: tuple[Off, ...]
    rack_violations: int
    fullest: tuple[int, int, int] | None  # (broker, bytes used, capacity)
    first_full: tuple[int, float, int] | None  # (broker, days, bytes a day that it grows by)
    leaving: tuple[tuple[int, ...], int, int] | None  # (brokers, replicas, bytes) to be emptied


def read_outlook(plan: Document) -> Outlook | None:
    """Of proposals.json; None where a version made it that did not look at this."""
    part = plan.optional_part("outlook")
    if part is None:
        return None
    fullest, full, leaving = (part.optional_part(key) for key in ("fullest_disk", "first_full", "leaving"))
    return Outlook(
        part.number("tolerance"),
        tuple(
            Off(
                off.text("metric"),
                off.count("above"),
                off.count("below"),
                _share(off.part("highest")),
                _share(off.part("lowest")),
            )
            for off in part.parts("off")
        ),
        part.count("rack_violations"),
        (fullest.count("broker"), fullest.count("used_bytes"), fullest.count("capacity_bytes")) if fullest else None,
        (full.count("broker"), full.number("days"), full.count("growth_bytes_per_day")) if full else None,
        (leaving.ids("brokers"), leaving.count("replicas"), leaving.count("bytes")) if leaving else None,
    )


def _share(part: Document) -> tuple[int, float | None]:
    return part.count("broker"), part.optional_number("share")


def why_words(outlook: Outlook, job: str) -> tuple[str, ...]:
    """What is off, in sentences; of the loads only what the job is about."""
    said = []
    if outlook.leaving is not None:
        brokers, replicas, size = outlook.leaving
        names = ", ".join(map(str, brokers))
        one = len(brokers) == 1
        said.append(
            f"Broker {names} {'is' if one else 'are'} to be emptied and {'holds' if one else 'hold'} "
            f"{format_count(replicas, 'replica', 'replicas')}, {format_bytes(size)}."
        )
    if outlook.rack_violations:
        count = format_count(outlook.rack_violations, "partition has", "partitions have")
        said.append(f"{count} replicas on fewer racks than there could be.")
    about = JOB_METRICS.get(job, ())
    ordered = sorted(
        (off for off in outlook.off if off.metric in about and (off.above or off.below)),
        key=lambda off: about.index(off.metric),
    )
    said += [_off_words(off, outlook.tolerance) for off in ordered[:METRICS_SAID]]
    if not said and about:
        said.append(f"Every broker is within {format_share(outlook.tolerance)} of its share.")
    if outlook.fullest is not None:
        broker, used, capacity = outlook.fullest
        said.append(
            f"The fullest disk is that of broker {broker}: {format_share(used / capacity)} of {format_bytes(capacity)}."
        )
    return tuple(said)


def _off_words(off: Off, tolerance: float) -> str:
    (high, most), (low, least) = off.highest, off.lowest
    carried = [f"broker {high} carries {format_factor(most)} times its fair share" if most is not None else ""]
    carried.append(f"broker {low} {format_factor(least)} times" if least is not None and low != high else "")
    is_are = {count: format_count(count, "broker is", "brokers are") for count in (off.above, off.below)}
    beyond = [f"{is_are[off.above]} more than {format_share(tolerance)} above it"] if off.above else []
    if off.below:
        below = f"{is_are[off.below]} more than {format_share(tolerance)} below it"
        beyond.append(f"{format_count(off.below)} below" if off.above else below)
    name = noun_of(off.metric)
    return f"{name.capitalize()}: {', '.join(filter(None, carried))}; {', '.join(beyond)}."


def otherwise_words(outlook: Outlook, worst: WorstCase | None, named: Named) -> tuple[str, ...]:
    """What comes of it if nothing is done, in sentences."""
    said = []
    if outlook.first_full is not None:
        broker, days, growth = outlook.first_full
        grows = f"it grows by {format_bytes(growth)} a day by the ledger's samples"
        if days <= _SOON_DAYS:
            said.append(f"The disk of broker {broker} is full in about {_days(days)}: {grows}.")
        else:
            said.append(f"No disk is full within a year; that of broker {broker} is first, {grows}.")
    rack = worst.rack if worst is not None else None
    if rack is not None and rack.today.partitions:
        lost = format_count(rack.today.partitions, "partition", "partitions")
        said.append(f"Losing rack {named(str(rack.today.lost))} takes the last replica in sync from {lost}.")
    if outlook.leaving is not None:
        brokers = ", ".join(map(str, outlook.leaving[0]))
        said.append(f"Broker {brokers} cannot be switched off without losing replicas.")
    if not said:
        ordered = sorted(
            (off for off in outlook.off if off.metric in METRICS), key=lambda off: METRICS.index(Metric(off.metric))
        )
        off = max(ordered, key=lambda one: one.highest[1] or 0.0, default=None)  # of equals the first
        if off is not None and off.above and off.highest[1] is not None:
            broker, share = off.highest
            name = noun_of(off.metric)
            said.append(f"Broker {broker} goes on carrying {format_factor(share)} times its share of {name}.")
        else:
            said.append("Nothing that is known of this cluster gets worse.")
    return tuple(said)


def _days(days: float) -> str:
    return "a day" if days < 1.5 else format_count(days, "day", "days")
