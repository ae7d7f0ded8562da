"""How far the run is that holds the cluster's throttle, and since when it has not come further."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.progress import PROGRESS_FILE
from kafka_rebalance.errors import ArtifactError, RunFolderError
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.throttle.throttle_lease import ThrottleLease


def run_progress(
    deployment: Deployment, lease: ThrottleLease | None, before: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any] | None:
    """`progress` of the janitor's report; None if no run holds a throttle, or if it has noted nothing that can be read.

    `before`: the same of the last report. `since` is the janitor's time at which the copied bytes, or the partitions in
    place, were first seen as they are now.
    """
    if lease is None:
        return None
    try:
        written = json_files.read_json_if_there(open_run_folder(deployment, lease.run_folder), json_files.PROGRESS)
        seen = None if written is None else PROGRESS_FILE.decode(written)
    except (RunFolderError, ArtifactError):
        return None
    if seen is None:
        return None
    found = {
        "run": lease.run,
        "partitions_left": max(0, seen.partitions_total - seen.partitions_done),
        "bytes_left": max(0, seen.bytes_total - seen.bytes_copied),
    }
    is_same = before is not None and all(before.get(key) == value for key, value in found.items())
    return {**found, "since": before["since"] if is_same and before is not None else now.isoformat()}
