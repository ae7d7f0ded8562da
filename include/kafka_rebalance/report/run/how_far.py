"""What a run's files say of it while it moves partitions: batches, progress, throttle, and what was asked of it.

Bytes, seconds and bytes per second throughout; None is unknown. A file of an older version has fewer keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kafka_rebalance.documents.json_files import BATCHES, CANCELLED, CONTROL, PROGRESS, THROTTLE
from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.execution.follow.broker_traffic import BrokerTraffic

BATCH_DONE = "done"  # state of a batch that ended as approved


@dataclass(frozen=True, slots=True)
class Happening:
    """Something of the run's history, in words."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class BatchReport:
    number: int
    partitions: int
    bytes: int
    created_at: datetime | None
    finished_at: datetime | None
    state: str
    measured_bytes: int | None = None  # of its new replicas as it ended; None: nobody measured it, or it has not ended


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A partition with an anomaly, or one of those longest in their phase."""

    partition: str
    phase: str
    seconds: float
    bytes_copied: int
    bytes_total: int
    next: str


@dataclass(frozen=True, slots=True)
class Count:
    """Partitions and bytes, done of how many."""

    partitions_done: int
    partitions_total: int
    bytes_copied: int
    bytes_total: int

    @property
    def share_left(self) -> float:
        """Of the bytes; nothing is left where nothing is copied."""
        return max(0.0, 1 - self.bytes_copied / self.bytes_total) if self.bytes_total else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What whoever follows the run noted last. `plan` is of the whole plan, `batch_count` of the batch under way."""

    updated_at: datetime
    state: str
    batch: int | None
    batches: int | None
    plan: Count
    batch_count: Count | None
    bytes_per_second: float | None
    phases: tuple[tuple[str, int], ...]
    anomalies: tuple[str, ...]
    waiting_for: tuple[str, ...]
    brokers: tuple[BrokerTraffic, ...]
    brokers_total: int
    fullest_disk: tuple[int, float] | None  # broker, and the highest share of its disks that was in use
    slowest: tuple[NamedPartition, ...]
    events: tuple[Happening, ...]
    busiest_bytes: int | None = None  # of the broker that copies most in this batch
    later_busiest: tuple[int, ...] | None = None  # the same of each later batch

    @property
    def batches_left(self) -> int | None:
        """With the one under way; None where none was requested yet."""
        if self.batch is None or self.batches is None:
            return None
        later = max(0, self.batches - self.batch) if self.later_busiest is None else len(self.later_busiest)
        this = self.batch_count
        is_over = this is not None and this.partitions_done >= this.partitions_total
        return later + (not is_over)


@dataclass(frozen=True, slots=True)
class Throttle:
    """What `throttle.json` says the run set, on how many brokers, and what became of it."""

    bytes_per_second: float  # now
    approved_bytes_per_second: float
    brokers: int
    changes: tuple[tuple[datetime, float, str], ...]  # (when, bytes per second, by whom)
    taken_at: datetime | None
    handed_over_at: datetime | None
    released_at: datetime | None
    suspended_at: datetime | None = None  # until the next batch, which has waited for long


@dataclass(frozen=True, slots=True)
class Execution:
    """Everything of the run from its first batch on. `stop` is why no further batch was requested."""

    batches: tuple[BatchReport, ...] = ()
    progress: Progress | None = None
    throttle: Throttle | None = None
    stop: Happening | None = None
    asked: tuple[Happening, ...] = ()  # what people asked of the run, and who

    @property
    def done(self) -> tuple[BatchReport, ...]:
        return tuple(batch for batch in self.batches if batch.state == BATCH_DONE)

    @property
    def partitions_done(self) -> int:
        """Of the whole plan: as last noted, and batches that are over since."""
        return max(self.progress.plan.partitions_done if self.progress else 0, sum(b.partitions for b in self.done))

    @property
    def bytes_copied(self) -> int:
        """Like `partitions_done`."""
        return max(self.progress.plan.bytes_copied if self.progress else 0, sum(b.bytes for b in self.done))

    @property
    def unmeasured(self) -> tuple[BatchReport, ...]:
        """Batches in place that copied something of which only the planned size is known."""
        return tuple(batch for batch in self.done if batch.bytes and batch.measured_bytes is None)

    @property
    def arrived_bytes(self) -> int:
        """Of the batches in place as they were measured, else as planned; of one that did not end, as last noted."""
        ended = sum(batch.bytes if batch.measured_bytes is None else batch.measured_bytes for batch in self.done)
        if self.progress is None or self.progress.batch_count is None:
            return ended
        open_batch = self.progress.batch not in {batch.number for batch in self.done}
        return ended + (self.progress.batch_count.bytes_copied if open_batch else 0)

    @property
    def began_at(self) -> datetime | None:
        """When the first batch was requested."""
        return min((batch.created_at for batch in self.batches if batch.created_at), default=None)

    @property
    def ended_at(self) -> datetime | None:
        """When the last batch that is in place had ended."""
        return max((batch.finished_at for batch in self.done if batch.finished_at), default=None)


def read_execution(
    *,
    batches: Mapping[str, object] | None,
    progress: Mapping[str, object] | None,
    throttle: Mapping[str, object] | None,
    control: Mapping[str, object] | None,
    cancelled: Mapping[str, object] | None,
) -> Execution:
    """Of the documents that are there. Raises ArtifactError for a missing or wrong value, naming file and key."""
    noted = Document.of(BATCHES, batches) if batches is not None else None
    stopped = noted.optional_part("stopped") if noted else None
    return Execution(
        batches=_batches(noted) if noted else (),
        progress=_progress(Document.of(PROGRESS, progress)) if progress is not None else None,
        throttle=_throttle(Document.of(THROTTLE, throttle)) if throttle is not None else None,
        stop=Happening(stopped.time("at"), stopped.text("why")) if stopped else None,
        asked=_asked(
            Document.of(CONTROL, {} if control is None else control),
            Document.of(CANCELLED, {} if cancelled is None else cancelled),
        ),
    )


def _batches(document: Document) -> tuple[BatchReport, ...]:
    return tuple(
        BatchReport(
            part.count("number"),
            part.count("partitions"),
            part.count("bytes"),
            part.optional_time("created_at"),
            part.optional_time("finished_at"),
            part.text("state"),
            part.optional_count("measured_bytes"),
        )
        for part in (document.parts("batches") if "batches" in document.content else ())
    )


def _progress(document: Document) -> Progress:
    phases = document.optional_part("phases")
    share = document.optional_part("this_batch")
    fullest = document.optional_part("fullest_disk")
    return Progress(
        updated_at=document.time("updated_at"),
        state=document.text("state"),
        batch=document.optional_count("batch"),
        batches=document.optional_count("batches"),
        plan=_count(document),
        batch_count=_count(share) if share else None,
        bytes_per_second=document.optional_number("bytes_per_second"),
        phases=tuple((phase, phases.count(phase)) for phase in phases.content) if phases else (),
        anomalies=document.texts("anomalies"),
        waiting_for=document.texts("waiting_for"),
        brokers=tuple(_broker(part) for part in _listed(document, "brokers")),
        brokers_total=document.optional_count("brokers_total") or 0,
        fullest_disk=(fullest.count("broker"), fullest.number("fraction")) if fullest else None,
        slowest=tuple(_partition(part) for part in _listed(document, "partitions")),
        events=tuple(Happening(part.time("at"), part.text("text")) for part in _listed(document, "events")),
        busiest_bytes=document.optional_count("busiest_bytes"),
        later_busiest=document.ids("later_busiest_bytes") if "later_busiest_bytes" in document.content else None,
    )


def _count(document: Document) -> Count:
    """Zeros where a run has only waited so far."""
    keys = ("partitions_done", "partitions_total", "bytes_copied", "bytes_total")
    return Count(*(document.count(key) if key in document.content else 0 for key in keys))


def _broker(part: Document) -> BrokerTraffic:
    return BrokerTraffic(
        part.count("broker"),
        part.count("received"),
        part.count("to_receive"),
        part.optional_number("received_per_second"),
        part.count("sent"),
        part.count("to_send"),
        part.optional_number("sent_per_second"),
    )


def _partition(part: Document) -> NamedPartition:
    return NamedPartition(
        part.text("partition"),
        part.text("phase"),
        part.number("seconds"),
        part.count("bytes_copied"),
        part.count("bytes_total"),
        part.text("next"),
    )


def _throttle(document: Document) -> Throttle:
    entities = document.part("wanted").content
    now, first = document.number("bytes_per_second"), document.optional_number("first_bytes_per_second")
    return Throttle(
        bytes_per_second=now,
        approved_bytes_per_second=now if first is None else first,
        brokers=sum(entity.startswith("brokers/") for entity in entities),
        changes=tuple(
            (part.time("at"), part.number("bytes_per_second"), part.text("by"))
            for part in _listed(document, "rate_changes")
        ),
        taken_at=_time_or_none(document, "taken_at"),
        handed_over_at=_time_or_none(document, "handed_over_at"),
        released_at=_time_or_none(document, "released_at"),
        suspended_at=_time_or_none(document, "suspended_at"),
    )


def _asked(control: Document, cancelled: Document) -> tuple[Happening, ...]:
    """A cancel counts by its own file: who asks to stop at the same moment may write it out of control.json."""
    stop, cancel = "stop_after_batch", "cancelled"
    asked = (
        (control.optional_part(stop), "asked for no further batch"),
        (cancelled.optional_part(cancel) or control.optional_part(cancel), "cancelled the run"),
    )
    return tuple(Happening(part.time("at"), f"{part.text('by')} {what}") for part, what in asked if part is not None)


def _listed(document: Document, key: str) -> tuple[Document, ...]:
    """The objects of a list that older files do not have."""
    return document.parts(key) if key in document.content else ()


def _time_or_none(document: Document, key: str) -> datetime | None:
    """A time that some files have as null, and some as empty text."""
    return document.optional_time(key) if document.content.get(key) else None
