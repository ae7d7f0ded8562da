"""What people ask of a running rebalance: control.json in the run's folder.

`kafka_rebalance_cancel` writes it. `reassign` reads it before each batch, and the follower at each look. A cancel also
has a file of its own: a person who asks to stop at the same moment overwrites a control.json that he has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from kafka_rebalance import clock
from kafka_rebalance.documents.json_files import CANCELLED, CONTROL, JsonFile, Time
from kafka_rebalance.documents.storage import Folder


@dataclass(frozen=True, slots=True)
class StopRequest:
    by: str
    at: Time

    def __str__(self) -> str:
        return f"{self.by} at {self.at.astimezone(UTC):%Y-%m-%d %H:%M:%S UTC}"


@dataclass(frozen=True, slots=True)
class Control:
    """What people have asked of a run so far.

    `stop_after_batch`: the run requests no further batch. `cancelled`: besides, partitions in flight go back to their
    former lists, so a partition with its former list was neither refused nor lost.
    """

    stop_after_batch: StopRequest | None = None
    cancelled: StopRequest | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The cancel alone: somebody who asks to stop at the same moment may overwrite it in control.json."""

    cancelled: StopRequest | None = None


_ASK_AGAIN = (
    f"Nothing more was requested of the cluster. Remove {CONTROL} and {CANCELLED}, and ask again with the Dag "
    "kafka_rebalance_cancel."
)
CONTROL_FILE = JsonFile(CONTROL, Control, _ASK_AGAIN)
CANCELLED_FILE = JsonFile(CANCELLED, Cancelled, _ASK_AGAIN)


def read_control(folder: Folder) -> Control:
    """What people have asked. Raises ArtifactError if a file cannot be read."""
    control = CONTROL_FILE.read_if_there(folder) or Control()
    kept = CANCELLED_FILE.read_if_there(folder)
    cancelled = (kept.cancelled if kept else None) or control.cancelled
    return Control(control.stop_after_batch or cancelled, cancelled)


def ask_stop(folder: Folder, by: str) -> Control:
    """Asks that the run requests no further batch. The name of the first person who asked stays in the file."""
    return _write(folder, read_control(folder), by)


def ask_cancel(folder: Folder, by: str) -> Control:
    """Asks to stop, and says that partitions in flight are about to be taken back. Write it before they are."""
    now = read_control(folder)
    cancelled = now.cancelled or _request(by)
    CANCELLED_FILE.write(folder, Cancelled(cancelled))
    return _write(folder, Control(now.stop_after_batch, cancelled), by)


def _write(folder: Folder, earlier: Control, by: str) -> Control:
    control = Control(earlier.stop_after_batch or _request(by), earlier.cancelled)
    CONTROL_FILE.write(folder, control)
    return control


def _request(by: str) -> StopRequest:
    return StopRequest(by, clock.utc_second())
