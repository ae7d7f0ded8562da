"""progress.json: the last notes of a run's follower, in bytes, seconds and bytes per second. None: unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kafka_rebalance.documents.json_files import BATCHES, PROGRESS, JsonFile, Time, omitted


@dataclass(frozen=True, slots=True)
class Happening:
    at: Time
    text: str


@dataclass(frozen=True, slots=True)
class BrokerTraffic:
    """One broker: bytes in and out so far, of how many, and per second. A rate is None if it is unknown."""

    broker: int
    received: int
    to_receive: int
    received_per_second: float | None
    sent: int
    to_send: int
    sent_per_second: float | None

    @property
    def left(self) -> int:
        return max(0, self.to_receive - self.received) + max(0, self.to_send - self.sent)


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A partition with a finding, or one of those that have been longest in their phase."""

    partition: str
    phase: str
    seconds: float | int
    bytes_copied: int
    bytes_total: int
    next: str
    late_behind: int | None = omitted()  # the leader, for tools that act on late copies


@dataclass(frozen=True, slots=True)
class FullestSeen:
    broker: int
    fraction: float


class Direction(StrEnum):
    """The part that a broker has in a copy."""

    RECEIVES = "receives"
    SENDS = "sends"


@dataclass(frozen=True, slots=True)
class CopyPace:
    """What one broker has copied in one direction over so many looks, while nothing but itself held it up."""

    broker: int
    direction: Direction
    bytes: int
    seconds: float
    looks: int
    partners: tuple[int, ...]  # the brokers at the other end, ascending


@dataclass(frozen=True, slots=True)
class SlowBroker:
    """A broker that copies less than half of what the median of its peers does, in the same direction."""

    broker: int
    direction: Direction
    bytes_per_second: int
    peers_bytes_per_second: int  # their median
    peers: int


@dataclass(frozen=True, slots=True)
class OftenSlow:
    """A broker that was slow in so many of the last runs that judged it, and behind in so many of the last checks."""

    broker: int
    runs: int
    of_runs: int
    nights: int
    of_nights: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Partitions and bytes: done, of how many. All are zero while a run has only waited."""

    partitions_done: int = 0
    partitions_total: int = 0
    bytes_copied: int = 0
    bytes_total: int = 0

    @property
    def share_left(self) -> float:
        """The share of the bytes that is left; 0 if nothing is copied."""
        return max(0.0, 1 - self.bytes_copied / self.bytes_total) if self.bytes_total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount(Count):
    measured_bytes: int | None = None  # of its new replicas at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Count):
    """The counts are of the whole plan; `this_batch` is the batch under way."""

    updated_at: Time
    state: str
    batch: int | None = None
    batches: int | None = None
    this_batch: BatchCount | None = None
    bytes_per_second: float | None = None
    eta_seconds: float | None = None
    busiest_bytes: int | None = None  # of the broker that copies most in this batch
    later_busiest_bytes: tuple[int, ...] | None = None  # the same of each later batch
    phases: Mapping[str, int] = field(default_factory=dict)
    anomalies: tuple[str, ...] = ()
    brokers: tuple[BrokerTraffic, ...] = ()
    brokers_total: int = 0
    fullest_disk: FullestSeen | None = None  # the highest share of a broker's disks that has been in use
    partitions: tuple[NamedPartition, ...] = ()
    events: tuple[Happening, ...] = ()
    open: Mapping[str, str] = field(default_factory=dict)  # what people were told of and is not over, by its subject
    stop_after_batch: str | None = None
    movement: Mapping[str, Any] = field(default_factory=dict)  # for the next follower of this batch
    slow_brokers: tuple[SlowBroker, ...] = omitted(())
    paces: tuple[CopyPace, ...] = omitted(())  # for the next look, of this batch or a later one
    waiting_for: tuple[str, ...] | None = omitted()
    waiting_since: Time | None = omitted()
    waiting_until: Time | None = omitted()  # when its window opens; None: it waits for something else

    @property
    def batches_left(self) -> int | None:
        """The batch under way counts. None: no batch was requested yet."""
        if self.batch is None or self.batches is None:
            return None
        later, this = self.later_busiest_bytes, self.this_batch
        later_batches = max(0, self.batches - self.batch) if later is None else len(later)
        is_over = this is not None and this.partitions_done >= this.partitions_total
        return later_batches + (not is_over)


PROGRESS_FILE = JsonFile(PROGRESS, Progress)


# batches.json: when each batch was requested, how it ended, and why no batch followed.


DONE = "done"  # state of a batch that ended as approved
REQUESTING = "requesting"  # the state of a batch of which moves are about to be requested


@dataclass(frozen=True, slots=True)
class BatchNote:
    number: int
    partitions: int
    bytes: int  # planned
    state: str
    created_at: Time | None = None
    finished_at: Time | None = None
    measured_bytes: int | None = omitted(-1)  # see `measured`; -1: it has not ended
    generation: str | None = omitted("")  # of the fence just before the request; None: noted earlier
    # Of a batch that is requested in parts: the partitions that were requested, and those that were about to be.
    asked: tuple[str, ...] | None = omitted()
    asking: tuple[str, ...] | None = omitted()
    kafka_said: Mapping[str, str] | None = omitted()  # of the partitions that Kafka has refused at once: its words
    not_elected: tuple[str, ...] | None = omitted()  # partitions that kept another leader than the preferred one
    why: str | None = omitted()  # it was refused or taken back
    controller_epoch: int | None = omitted()  # when it was refused

    @property
    def measured(self) -> int | None:
        """Bytes of its new replicas at its end; None: nobody measured them, or it has not ended."""
        return None if self.measured_bytes is None or self.measured_bytes < 0 else self.measured_bytes


@dataclass(frozen=True, slots=True)
class Stopped:
    at: Time
    why: str


@dataclass(frozen=True, slots=True)
class WindowPause:
    """The run waited for a window to open. `ended_at`: when it requested something again; None: it still waits."""

    at: Time
    ended_at: Time | None = None
    until: Time | None = None  # when the window opens


@dataclass(frozen=True, slots=True)
class BatchNotes:
    batches: tuple[BatchNote, ...] = ()
    stopped: Stopped | None = omitted()  # why no further batch was requested
    pauses: tuple[WindowPause, ...] | None = omitted()

    @property
    def by_number(self) -> dict[int, BatchNote]:
        return {note.number: note for note in self.batches}


BATCHES_FILE = JsonFile(BATCHES, BatchNotes)
