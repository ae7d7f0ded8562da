"""What people ask of a running rebalance: control.json in the run's folder.

`kafka_rebalance_cancel` writes it; `reassign` reads it before each batch, and whoever follows a batch at each look.
A cancel has a file of its own besides, since somebody who asks to stop at the same moment writes over what he has not
seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.workflow.run.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked, and when (ISO 8601, UTC)."""

    by: str
    at: str

    def __str__(self) -> str:
        return f"{self.by} at {self.at}"


@dataclass(frozen=True, slots=True)
class Control:
    """What has been asked of a run so far.

    `stop_after_batch`: no further batch is requested. `cancelled`: besides, partitions in flight are taken back to the
    lists they had before, so one that is back there was neither refused nor lost.
    """

    stop_after_batch: Asked | None = None
    cancelled: Asked | None = None


def read_control(folder: RunFolder) -> Control:
    """What has been asked; nothing where neither file is there. Raises ArtifactError where one cannot be read."""
    document, kept = (
        json_files.read_json_if_there(folder, name) or {} for name in (json_files.CONTROL, json_files.CANCELLED)
    )
    cancelled = _asked(folder, kept, "cancelled") or _asked(folder, document, "cancelled")
    return Control(_asked(folder, document, "stop_after_batch") or cancelled, cancelled)


def ask_stop(folder: RunFolder, by: str) -> Control:
    """Asks that no further batch be requested. Who asked first stays written down."""
    now = read_control(folder)
    return _write(folder, Control(now.stop_after_batch or _by(by), now.cancelled))


def ask_cancel(folder: RunFolder, by: str) -> Control:
    """Asks the same, and says that partitions in flight are about to be taken back. To be written before they are."""
    now = read_control(folder)
    cancelled = now.cancelled or _by(by)
    json_files.write_json(folder, json_files.CANCELLED, {"cancelled": asdict(cancelled)})
    return _write(folder, Control(now.stop_after_batch or _by(by), cancelled))


def _write(folder: RunFolder, control: Control) -> Control:
    asked = {"stop_after_batch": control.stop_after_batch, "cancelled": control.cancelled}
    document = {name: None if who is None else asdict(who) for name, who in asked.items()}
    json_files.write_json(folder, json_files.CONTROL, document)
    return control


def _by(by: str) -> Asked:
    return Asked(by, datetime.now(UTC).isoformat(timespec="seconds"))


def _asked(folder: RunFolder, document: Mapping[str, Any], name: str) -> Asked | None:
    found = document.get(name)
    if found is None:
        return None
    if not isinstance(found, Mapping) or not all(isinstance(found.get(key), str) for key in ("by", "at")):
        raise ArtifactError(
            f"{folder}: {name} of {json_files.CONTROL} or {json_files.CANCELLED} is {found!r}, neither null nor who "
            "asked and when. Nothing more was requested of the cluster. Ask again with the Dag kafka_rebalance_cancel, "
            "after removing those files."
        )
    return Asked(found["by"], found["at"])
