"""batches.json: when each batch was requested, how it ended, and why no batch followed."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import BATCHES, JsonFile, Time, omitted

DONE = "done"  # state of a batch that ended as approved


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
    not_elected: tuple[str, ...] | None = omitted()  # partitions that kept another leader than the preferred one

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


BATCHES_FILE = JsonFile(BATCHES, BatchNotes)
