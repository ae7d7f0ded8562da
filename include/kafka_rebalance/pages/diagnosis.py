"""Why a plan is proposed: what is uneven in the snapshot, and what happens if nobody does anything."""

from __future__ import annotations

from kafka_rebalance.documents.candidate_figures import WorstCase
from kafka_rebalance.documents.proposals import Diagnosis, FurtherBrokers, Leaving, Off, Strays
from kafka_rebalance.model.metrics import Metric, noun_of
from kafka_rebalance.model.settings import LEADERS_ALONE
from kafka_rebalance.pages.candidate_report import METRICS
from kafka_rebalance.pages.units import Named, format_bytes, format_count, format_factor, format_share

METRICS_SAID, BROKERS_SAID = 3, 10
# What each of these jobs evens out, in the order of the sentences.
JOB_METRICS = {
    "balance": METRICS,
    "leaders": (Metric.LEADERS, Metric.LEADER_BYTES_OUT),
    "relieve": (Metric.DISK, Metric.BYTES_IN),
}
_SOON_DAYS = 365.0


def why_words(outlook: Diagnosis, job: str) -> tuple[str, ...]:
    """What is uneven or wrong, in sentences. Of the loads, only those that the job evens out."""
    said = []
    if outlook.leaving is not None:
        said.append(_leaving_words(outlook.leaving, job))
    if outlook.strays is not None:
        said.append(_stray_words(outlook.strays))
    if outlook.rack_violations:
        count = format_count(outlook.rack_violations, "partition has", "partitions have")
        said.append(f"{count} replicas on fewer racks than possible.")
    about = JOB_METRICS.get(job, ())
    ordered = sorted(
        (off for off in outlook.off if off.metric in about and (off.above or off.below)),
        key=lambda off: about.index(off.metric),
    )
    said += [_off_words(off, outlook.tolerance) for off in ordered[:METRICS_SAID]]
    if not said and about:
        said.append(f"Every broker is within {format_share(outlook.tolerance)} of its share.")
    if outlook.fullest_disk is not None:
        disk = outlook.fullest_disk
        share = format_share(disk.used_share)
        said.append(
            f"The fullest disk is that of broker {disk.broker}: {share} of {format_bytes(disk.capacity_bytes)}."
        )
    return tuple(said)


def _leaving_words(leaving: Leaving, job: str) -> str:
    brokers, is_one = ", ".join(map(str, leaving.brokers)), len(leaving.brokers) == 1
    said = f"Broker {brokers} {'is' if is_one else 'are'} to"
    if job not in LEADERS_ALONE:
        replicas = format_count(leaving.replicas, "replica", "replicas")
        return f"{said} be emptied and {'holds' if is_one else 'hold'} {replicas}, {format_bytes(leaving.bytes)}."
    led = ""
    if leaving.leaders is not None:
        led = f" and {'leads' if is_one else 'lead'} {format_count(leaving.leaders, 'partition', 'partitions')}"
    return f"{said} lead nothing{led}. {'It keeps its' if is_one else 'They keep their'} replicas."


def _stray_words(strays: Strays) -> str:
    where = "outside the pool of"
    replicas = format_count(strays.replicas, f"replica lies {where} its topic", f"replicas lie {where} their topic")
    brokers = ", ".join(map(str, strays.brokers[:BROKERS_SAID]))
    more = len(strays.brokers) - BROKERS_SAID
    others = f" and {format_count(more, 'other', 'others')}" if more > 0 else ""
    return f"{replicas}, on broker {brokers}{others}."


def _off_words(off: Off, tolerance: float) -> str:
    high, low = off.highest, off.lowest
    carried = []
    if high.share is not None:
        carried.append(f"broker {high.broker} carries {format_factor(high.share)} times its fair share")
    if low.share is not None and low.broker != high.broker:
        carried.append(f"broker {low.broker} {f'{format_factor(low.share)} times' if low.share else 'nothing'}")
    is_are = {count: format_count(count, "broker is", "brokers are") for count in (off.above, off.below)}
    beyond = [f"{is_are[off.above]} more than {format_share(tolerance)} above it"] if off.above else []
    if off.below:
        below = f"{is_are[off.below]} more than {format_share(tolerance)} below it"
        beyond.append(f"{format_count(off.below)} below" if off.above else below)
    return f"{noun_of(off.metric).capitalize()}: {', '.join(carried)}; {', '.join(beyond)}."


def otherwise_words(outlook: Diagnosis, job: str, worst: WorstCase | None, named: Named) -> tuple[str, ...]:
    """What happens if nobody does anything, in sentences."""
    said = []
    first = outlook.first_full
    if first is not None:
        grows = f"it grows by {format_bytes(first.growth_bytes_per_day)} a day by the ledger's samples"
        days = "a day" if first.days < 1.5 else format_count(first.days, "day", "days")
        if first.days <= _SOON_DAYS:
            said.append(f"The disk of broker {first.broker} is full in about {days}: {grows}.")
        else:
            said.append(f"No disk is full within a year; that of broker {first.broker} is first, {grows}.")
    needed = (outlook.further_brokers, *outlook.further_brokers_of_pools)
    said += [_further_words(further) for further in needed if further is not None and any(further.brokers)]
    rack = worst.rack if worst is not None else None
    if rack is not None and rack.today.partitions:
        lost = format_count(rack.today.partitions, "partition", "partitions")
        said.append(f"Losing rack {named(str(rack.today.lost))} takes the last replica in sync from {lost}.")
    if outlook.leaving is not None and job not in LEADERS_ALONE:
        brokers = ", ".join(map(str, outlook.leaving.brokers))
        said.append(f"Broker {brokers} cannot be switched off without losing replicas.")
    if not said:
        ordered = sorted(
            (off for off in outlook.off if off.metric in METRICS), key=lambda off: METRICS.index(Metric(off.metric))
        )
        off = max(ordered, key=lambda one: one.highest.share or 0.0, default=None)  # the first of equals
        if off is not None and off.above and off.highest.share is not None:
            carries = f"{format_factor(off.highest.share)} times its share of {noun_of(off.metric)}"
            said.append(f"Broker {off.highest.broker} goes on carrying {carries}.")
        else:
            said.append("By what is known of this cluster, nothing gets worse.")
    return tuple(said)


def _further_words(further: FurtherBrokers) -> str:
    """How many brokers to add, by days."""
    needed = [
        f"{format_count(count)} for {days} days" if count else f"none for {days} days"
        for days, count in zip(further.days, further.brokers, strict=True)
    ]
    who = "the cluster" if further.pool is None else f"the pool of {further.pool}"
    return (
        f"To keep evenly used disks below {format_share(further.share)}, {who} needs further brokers of "
        f"{format_bytes(further.capacity_bytes)}: {', '.join(needed)}."
    )
