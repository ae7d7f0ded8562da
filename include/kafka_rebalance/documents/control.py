"""control.json and cancelled.json: what people ask of a running rebalance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from kafka_rebalance.documents.json_files import CANCELLED, CONTROL, JsonFile, Time


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
