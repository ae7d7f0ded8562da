"""What people ask of a running rebalance: control.json in the run's folder.

`kafka_rebalance_cancel` writes it. `reassign` reads it before each batch, and the follower at each look. A cancel also
has a file of its own: a person who asks to stop at the same moment overwrites a control.json that he has not seen.
"""

from __future__ import annotations

from kafka_rebalance import clock
from kafka_rebalance.documents.progress import CANCELLED_FILE, CONTROL_FILE, Cancelled, Control, StopRequest
from kafka_rebalance.run.run_folder import RunFolder


def read_control(folder: RunFolder) -> Control:
    """What people have asked. Raises ArtifactError if a file cannot be read."""
    asked = CONTROL_FILE.read_if_there(folder) or Control()
    kept = CANCELLED_FILE.read_if_there(folder)
    cancelled = (kept.cancelled if kept else None) or asked.cancelled
    return Control(asked.stop_after_batch or cancelled, cancelled)


def ask_stop(folder: RunFolder, by: str) -> Control:
    """Asks that the run requests no further batch. The name of the first person who asked stays in the file."""
    return _write(folder, read_control(folder), by)


def ask_cancel(folder: RunFolder, by: str) -> Control:
    """Asks to stop, and says that partitions in flight are about to be taken back. Write it before they are."""
    now = read_control(folder)
    cancelled = now.cancelled or _request(by)
    CANCELLED_FILE.write(folder, Cancelled(cancelled))
    return _write(folder, Control(now.stop_after_batch, cancelled), by)


def _write(folder: RunFolder, asked: Control, by: str) -> Control:
    control = Control(asked.stop_after_batch or _request(by), asked.cancelled)
    CONTROL_FILE.write(folder, control)
    return control


def _request(by: str) -> StopRequest:
    return StopRequest(by, clock.utc_now().replace(microsecond=0))
