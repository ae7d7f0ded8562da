"""Which batches this run has requested. Only batches.json and the fence tell that, and never the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, FormatVersionError, StorageError
from kafka_rebalance.steps.run_folder import RunFolder

REQUESTING = "requesting"  # the state of a batch that is about to be requested


def asked_for(folder: RunFolder, cluster: OpenCluster) -> frozenset[int]:
    """Numbers of the batches that this run has requested; only the cluster tells what became of them.

    Read it after the cluster, because a request is noted before it is made. A batch counts too if a worker died when it
    was about to request it, unless the fence is as it was noted: a request would have raised it. Raises ReadError,
    StorageError, FormatVersionError.
    """
    noted = entries(read_notes(folder))
    doubtful = [number for number, entry in noted.items() if entry.get("state") == REQUESTING]
    now = cluster.lock.read_fence().generation if doubtful else ""
    return frozenset(noted) - {number for number in doubtful if noted[number].get("generation") == now}


def gone_through(folder: RunFolder) -> frozenset[int]:
    """Numbers of the batches that were noted as ended. Raises StorageError, FormatVersionError."""
    return frozenset(number for number, entry in entries(read_notes(folder)).items() if entry.get("finished_at"))


def read_notes(folder: RunFolder) -> dict[str, Any]:
    """batches.json; empty if it is absent or damaged. Raises StorageError, FormatVersionError."""
    try:
        return json_files.read_json(folder, json_files.BATCHES)
    except (FormatVersionError, StorageError):
        raise
    except ArtifactError:
        return {}


def entries(document: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    return {entry["number"]: entry for entry in document.get("batches", [])}
