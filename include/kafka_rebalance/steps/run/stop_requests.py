"""What people ask of a running rebalance: control.json in the run's folder.

`kafka_rebalance_cancel` writes it; `reassign` reads it before each batch, and whoever follows a batch at each look.
A cancel has a file of its own besides, since somebody who asks to stop at the same moment writes over what he has not
seen.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kafka_rebalance.documents.reassignment.control import (
    CANCELLED_FILE,
    CONTROL_FILE,
    Cancelled,
    Control,
    StopRequest,
)
from kafka_rebalance.steps.run_folder import RunFolder


def read_control(folder: RunFolder) -> Control:
    """What has been asked; nothing where neither file is there. Raises ArtifactError where one cannot be read."""
    asked = CONTROL_FILE.read_if_there(folder) or Control()
    kept = CANCELLED_FILE.read_if_there(folder)
    cancelled = (kept.cancelled if kept else None) or asked.cancelled
    return Control(asked.stop_after_batch or cancelled, cancelled)


def ask_stop(folder: RunFolder, by: str) -> Control:
    """Asks that no further batch be requested. Who asked first stays written down."""
    now = read_control(folder)
    return _write(folder, Control(now.stop_after_batch or _by(by), now.cancelled))


def ask_cancel(folder: RunFolder, by: str) -> Control:
    """Asks the same, and says that partitions in flight are about to be taken back. To be written before they are."""
    now = read_control(folder)
    cancelled = now.cancelled or _by(by)
    CANCELLED_FILE.write(folder, Cancelled(cancelled))
    return _write(folder, Control(now.stop_after_batch or _by(by), cancelled))


def _write(folder: RunFolder, control: Control) -> Control:
    CONTROL_FILE.write(folder, control)
    return control


def _by(by: str) -> StopRequest:
    return StopRequest(by, datetime.now(UTC).replace(microsecond=0))
