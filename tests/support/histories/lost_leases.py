"""The lease that a simulated cluster has, as its files and its record tell it, and how one of both is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

LOSSES = ("folder", "damaged file", "record", "damaged record")


def lease_texts(leases: Path, record: dict[str, Any] | None) -> dict[str, Any]:
    """{cluster: its lease}; of files and record the later one that can be read."""
    found: dict[str, Any] = {}
    for cluster in leases.glob("*"):
        for file in sorted(cluster.glob("*.json"), reverse=True)[:1]:
            with suppress(ValueError):
                found[cluster.name] = json.loads(file.read_text())
    if record is not None:
        file_lease = found.get(record["cluster_id"])
        if file_lease is None or file_lease["generation"] < record["generation"]:
            found[record["cluster_id"]] = record
    return found


def lose_lease(
    leases: Path, record: dict[str, Any] | None, how: str, lose_record: Callable[[], object] | None = None
) -> bool:
    """Whether one copy is lost; the other one stays, as it is later or of the same time."""
    files = [max(cluster.glob("*.json"), default=None) for cluster in leases.glob("*")]
    latest = next((file for file in files if file is not None), None)
    if latest is None or record is None:
        return False
    try:
        generation = json.loads(latest.read_text())["generation"]
    except ValueError:
        return False
    if "record" in how:
        if lose_record is None or generation < record["generation"]:
            return False
        lose_record()
    elif record["generation"] < generation:
        return False
    elif how == "folder":
        shutil.rmtree(leases)
    else:
        latest.write_text("{")
    return True
