"""What Airflow's task and the Spark driver tell each other beside arguments and the run's folder.

The task sets environment variables, because every user of a machine can read its command lines. The driver inherits
them in client mode, as a child of `spark-submit`. It leaves its error in a file of the task's machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_rebalance import errors

STORAGE_OPTIONS = "KAFKA_REBALANCE_STORAGE_OPTIONS"  # JSON: fsspec's options for the bucket with the run's folder
ERROR_FILE = "KAFKA_REBALANCE_ERROR_FILE"  # the path of a file for the driver's error


def storage_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """fsspec's options for a bucket; none if the environment has none, and then its client finds credentials itself."""
    options: dict[str, Any] = json.loads(environment.get(STORAGE_OPTIONS) or "{}")
    return options


def leave_error(environment: Mapping[str, str], error: errors.RebalanceError) -> None:
    """Writes the error for the task, if the task has asked for it."""
    if place := environment.get(ERROR_FILE):
        Path(place).write_text(json.dumps({"kind": type(error).__name__, "text": str(error)}), encoding="utf-8")


def left_error(place: Path) -> errors.RebalanceError | None:
    """The error that the driver has left; None if it ended in another way, or ran on another machine."""
    try:
        written = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    kind: type[errors.RebalanceError] = getattr(errors, written["kind"])
    return kind.__new__(kind, written["text"])  # `KafkaRuleError` would add to the text
