"""progress.json: how far a run is, for the web page, the janitor and the next follower.

`updated_at` is the heartbeat of the process that follows a batch or waits for the next. These are only notes: a failed
write stops no move, and what cannot be read is ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.progress import BrokerTraffic
from kafka_rebalance.errors import ArtifactError, StorageError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.move_progress import MovesProgress, PartitionProgress, Phase
from kafka_rebalance.rebalance import stalled_copies
from kafka_rebalance.rebalance.batch_file import Followed
from kafka_rebalance.rebalance.broker_traffic import Rate, TrafficSeen
from kafka_rebalance.rebalance.controller_findings import FindingKind
from kafka_rebalance.rebalance.stalled_copies import Movement, Pair
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.stop_and_cancel_requests import Control

ANOMALIES_SHOWN = 20
BROKERS_SHOWN = 30  # those with most left to copy
WAITING, UNREADABLE = "the next batch waits", "the cluster cannot be read"  # short forms, besides those of findings

Subject: TypeAlias = TopicPartition | Pair | FindingKind  # of a finding


def wrong(progress: MovesProgress, odd: Mapping[Subject, str]) -> dict[str, str]:
    """{short: text} of the findings, of which people are told at their beginning and at their end."""
    late = {f"{about} is late" if isinstance(about, TopicPartition) else str(about): odd[about] for about in odd}
    return dict(islice({**progress.anomalies, **late}.items(), ANOMALIES_SHOWN))


def write_progress(
    folder: RunFolder,
    one: Followed,
    progress: MovesProgress,
    rate: Rate,
    *,
    state: str,
    seen: Movement,
    each: Sequence[PartitionProgress],
    odd: Mapping[Subject, str],
    control: Control,
    traffic: TrafficSeen,
    brokers: Sequence[BrokerTraffic],
    measured_bytes: int | None,
    happenings: Happenings,
    fullest_disk: tuple[int, float] | None,
) -> str | None:
    """Returns why the file could not be written, None if it was.

    The whole plan counts in planned bytes, so its total never changes: earlier batches as done, later ones as queued.
    This batch counts in today's bytes. `measured_bytes`: of its new replicas at its end, None before.
    """
    copied = traffic.done.received.total() + one.bytes_earlier
    total = traffic.total.received.total() + one.bytes_earlier + one.bytes_later
    phases = Counter({str(phase): count for phase, count in progress.phases.items()})
    phases.update({str(Phase.DONE): one.earlier, str(Phase.QUEUED): one.later})
    speed = rate.bytes_per_second
    shown = stalled_copies.named(seen, each, odd)
    anomalies = [*progress.anomalies.values(), *odd.values()]
    more = len(anomalies) - ANOMALIES_SHOWN
    return _write(
        folder,
        {
            "updated_at": _text(seen.at),
            "state": state,
            "batch": one.batch.number,
            "batches": one.batches,
            "partitions_done": progress.partitions_done + one.earlier,
            "partitions_total": progress.partitions_total + one.earlier + one.later,
            "bytes_copied": copied,
            "bytes_total": total,
            "bytes_per_second": speed,
            "eta_seconds": (total - copied) / speed if speed else None,
            "this_batch": {
                "partitions_done": progress.partitions_done,
                "partitions_total": progress.partitions_total,
                "bytes_copied": progress.bytes_copied,
                "bytes_total": progress.bytes_total,
                "measured_bytes": measured_bytes,
            },
            "busiest_bytes": one.busiest,
            "later_busiest_bytes": list(one.busiest_later),
            "brokers": brokers[:BROKERS_SHOWN],
            "brokers_total": len(brokers),
            "fullest_disk": dict(zip(("broker", "fraction"), fullest_disk, strict=True)) if fullest_disk else None,
            "phases": {phase: count for phase, count in phases.items() if count},
            "anomalies": anomalies[:ANOMALIES_SHOWN] + ([f"and {more} more"] if more > 0 else []),
            "partitions": [_partition(partition, seen, odd) for partition in shown],
            "stop_after_batch": str(control.stop_after_batch) if control.stop_after_batch else None,
            "movement": stalled_copies.to_note(seen, [partition.move.topic_partition for partition in shown]),
            **_happenings(happenings),
        },
    )


def _partition(one: PartitionProgress, seen: Movement, odd: Mapping[Subject, str]) -> dict[str, Any]:
    tp = one.move.topic_partition
    return {
        "partition": str(tp),
        "phase": str(one.phase),
        "seconds": round(seen.seconds_in_phase(tp), 1),
        "bytes_copied": one.bytes_copied,
        "bytes_total": one.bytes_total,
        "next": stalled_copies.NEXT[one.phase],
        **({"late_behind": one.leader} if tp in odd else {}),  # for tools that act on late copies
    }


def write_unreadable(folder: RunFolder, now: float, why: str) -> None:
    """Notes that the follower cannot read the cluster; what was known stays."""
    document = _read(folder)
    before = _recalled(document)
    told = events_after(before, now, {**before.open, UNREADABLE: why})
    state = {"updated_at": _text(now), "state": "unreadable", "waiting_for": [why]}
    _write(folder, {**document, **state, **_happenings(told)})


def write_waiting(folder: RunFolder, now: float, reasons: Sequence[str], until: datetime | None = None) -> None:
    """`until`: when a window opens, if the run waits for that."""
    document = {key: value for key, value in _read(folder).items() if key != "waiting_until"}
    told = events_after(_recalled(document), now, {WAITING: " ".join(reasons)})
    since = document.get("waiting_since") if document.get("state") == "waiting" else None
    state = {"updated_at": _text(now), "state": "waiting", "waiting_for": list(reasons), "anomalies": []}
    state["waiting_since"] = since or _text(now)
    if until is not None:
        state["waiting_until"] = until.isoformat(timespec="seconds")
    _write(folder, {**document, **state, **_happenings(told)})


def read_told(folder: RunFolder) -> tuple[Happenings, tuple[int, float] | None]:
    """The events of earlier followers, and the fullest disk that they have seen: broker and share in use."""
    document = _read(folder)
    match document.get("fullest_disk"):
        case {"broker": int(broker), "fraction": float(fraction)}:
            return _recalled(document), (broker, fraction)
    return _recalled(document), None


def _happenings(happenings: Happenings) -> dict[str, Any]:
    return {
        "open": dict(happenings.open),
        "events": [{"at": _text(event.at), "text": event.text} for event in happenings.events],
    }


def _recalled(document: Mapping[str, Any]) -> Happenings:
    """The events of these notes; none if their form is unknown."""
    try:
        events = [Event(datetime.fromisoformat(one["at"]).timestamp(), str(one["text"])) for one in document["events"]]
        return Happenings({str(about): str(text) for about, text in document["open"].items()}, tuple(events))
    except (AttributeError, KeyError, TypeError, ValueError):
        return Happenings()


def read_measured(folder: RunFolder, batch: int) -> int | None:
    """Bytes of the batch's new replicas when it ended; None if no follower measured them."""
    document = _read(folder)
    match document.get("this_batch"):
        case {"measured_bytes": int(measured)} if document.get("batch") == batch:
            return measured
    return None


def read_movement(folder: RunFolder, batch: int) -> Mapping[str, Any]:
    """What an earlier follower of this batch noted; empty if none did."""
    document = _read(folder)
    found = document.get("movement") if document.get("batch") == batch else None
    return found if isinstance(found, Mapping) else {}


def _read(folder: RunFolder) -> dict[str, Any]:
    try:
        return json_files.read_json(folder, json_files.PROGRESS)
    except ArtifactError:
        return {}


def _write(folder: RunFolder, document: Mapping[str, Any]) -> str | None:
    """Why it could not be written; None if it was."""
    try:
        json_files.write_json(folder, json_files.PROGRESS, document)
    except StorageError as failed:
        return str(failed.__cause__)
    return None


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


# The history of a run: when each finding and each wait began, and when it was over.


KEPT = 40  # events, the newest


class Event(NamedTuple):
    at: float  # seconds of the wall clock
    text: str


@dataclass(frozen=True, slots=True)
class Happenings:
    """`open`: {what is wrong or waited for now, in short: the whole text}. `events`: oldest first."""

    open: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def events_after(before: Happenings, now: float, found: Mapping[str, str]) -> Happenings:
    """The history after another look. `found` is of the form of `open`: the same short form is told once."""
    over = [f"No longer: {short}" for short in before.open if short not in found]
    begun = [text for short, text in found.items() if short not in before.open]
    events = (*before.events, *(Event(now, text) for text in (*over, *begun)))
    return Happenings(dict(found), events[-KEPT:])
