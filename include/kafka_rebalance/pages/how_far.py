"""What a run's files say while it moves partitions: batches, progress, throttle, and what people asked of it.

Units: bytes, seconds, bytes per second. None is unknown. A file of an older version has fewer keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_rebalance.documents.batches import BATCHES_FILE, DONE, BatchNote, BatchNotes, Stopped, WindowPause
from kafka_rebalance.documents.control import CANCELLED_FILE, CONTROL_FILE, Cancelled, Control
from kafka_rebalance.documents.json_files import THROTTLE, Time, decode
from kafka_rebalance.documents.progress import PROGRESS_FILE, Happening, Progress
from kafka_rebalance.moves.eta import paused_seconds

Document = Mapping[str, object]

_MOMENTS = ("taken_at", "handed_over_at", "suspended_at", "released_at")


@dataclass(frozen=True, slots=True)
class RateSet:
    """Somebody changed the rate while the run went on."""

    bytes_per_second: float
    by: str
    at: Time


@dataclass(frozen=True, slots=True)
class Throttle:
    """What the run set, and what became of it: throttle.json."""

    bytes_per_second: float  # now
    wanted: Mapping[str, Any]  # configs by entity
    first_bytes_per_second: float | None = None  # if somebody changed it since
    rate_changes: tuple[RateSet, ...] = ()
    taken_at: Time | None = None
    handed_over_at: Time | None = None
    suspended_at: Time | None = None  # until the next batch, after a long wait
    released_at: Time | None = None

    @property
    def approved_bytes_per_second(self) -> float:
        return self.bytes_per_second if self.first_bytes_per_second is None else self.first_bytes_per_second

    @property
    def brokers(self) -> int:
        return sum(entity.startswith("brokers/") for entity in self.wanted)


@dataclass(frozen=True, slots=True)
class Execution:
    """The run from its first batch on. `stop` says why the run requested no further batch."""

    batches: tuple[BatchNote, ...] = ()
    progress: Progress | None = None
    throttle: Throttle | None = None
    stop: Stopped | None = None
    asked: tuple[Happening, ...] = ()  # what people asked of the run
    pauses: tuple[WindowPause, ...] = ()  # until a window opened

    @property
    def done(self) -> tuple[BatchNote, ...]:
        return tuple(batch for batch in self.batches if batch.state == DONE)

    @property
    def partitions_done(self) -> int:
        """Of the whole plan: as last noted, or by the batches in place, whichever is more."""
        return max(self.progress.partitions_done if self.progress else 0, sum(b.partitions for b in self.done))

    @property
    def bytes_copied(self) -> int:
        """Like `partitions_done`."""
        return max(self.progress.bytes_copied if self.progress else 0, sum(b.bytes for b in self.done))

    @property
    def unmeasured(self) -> tuple[BatchNote, ...]:
        """Batches in place that copied bytes, and of which only the planned size is known."""
        return tuple(batch for batch in self.done if batch.bytes and batch.measured is None)

    @property
    def arrived_bytes(self) -> int:
        """Batches in place count as measured, else as planned; a batch that has not ended counts as last noted."""
        ended = sum(batch.bytes if batch.measured is None else batch.measured for batch in self.done)
        if self.progress is None or self.progress.this_batch is None:
            return ended
        open_batch = self.progress.batch not in {batch.number for batch in self.done}
        return ended + (self.progress.this_batch.bytes_copied if open_batch else 0)

    @property
    def pause(self) -> WindowPause | None:
        """The one that has not ended."""
        return self.pauses[-1] if self.pauses and self.pauses[-1].ended_at is None and self.stop is None else None

    def working_seconds(self, until: datetime) -> float | None:
        """From the first request on, without the time in which the run waited for a window. None: nothing requested."""
        if self.began_at is None:
            return None
        pauses = [(pause.at, pause.ended_at) for pause in self.pauses]
        return (until - self.began_at).total_seconds() - paused_seconds(pauses, self.began_at, until)

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
    batches: Document | None,
    progress: Document | None,
    throttle: Document | None,
    control: Document | None,
    cancelled: Document | None,
) -> Execution:
    """Raises ArtifactError for a missing or wrong value, naming file and key."""
    noted = BatchNotes() if batches is None else BATCHES_FILE.decode(batches)
    return Execution(
        batches=noted.batches,
        progress=None if progress is None else PROGRESS_FILE.decode(progress),
        throttle=None if throttle is None else decode(Throttle, {**throttle, **_moments(throttle)}, THROTTLE),
        stop=noted.stopped,
        pauses=noted.pauses or (),
        asked=_asked(CONTROL_FILE.decode(control or {}), CANCELLED_FILE.decode(cancelled or {})),
    )


def _moments(lease: Document) -> dict[str, object]:
    """Some leases have null for a missing moment, others an empty text."""
    return {name: lease.get(name) or None for name in _MOMENTS}


def _asked(control: Control, kept: Cancelled) -> tuple[Happening, ...]:
    asked = (
        (control.stop_after_batch, "asked for no further batch"),
        (kept.cancelled or control.cancelled, "cancelled the run"),
    )
    return tuple(Happening(who.at, f"{who.by} {what}") for who, what in asked if who is not None)
