"""The file that a detached cluster leaves in its folder, for the process that attaches to it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster.errors import LocalClusterError

STATE_FILE = "cluster.json"
STATE_VERSION = 1


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Replaces the file as a whole."""
    draft = folder / f".{STATE_FILE}"
    draft.write_text(json.dumps({"format_version": STATE_VERSION, **state}, indent=1), encoding="utf-8")
    os.replace(draft, folder / STATE_FILE)


def read_state(folder: Path) -> dict[str, Any]:
    """Raises LocalClusterError where there is no such file, or one that cannot be used."""
    path = folder / STATE_FILE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LocalClusterError(
            f"There is no cluster in {folder} (no {STATE_FILE}). Nothing was done. Start one with `up`."
        ) from None
    except (OSError, ValueError) as error:
        raise LocalClusterError(f"{path} cannot be read: {error}. Nothing was done.") from error
    if not isinstance(state, dict) or state.get("format_version") != STATE_VERSION:
        raise LocalClusterError(
            f"{path} does not have format version {STATE_VERSION}. Nothing was done. "
            "Use the version of this package that started the cluster."
        )
    return state
