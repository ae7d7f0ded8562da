"""Which batches this run has asked for: by batches.json and the fence, and by nothing that the cluster shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, FormatVersionError, StorageError
from kafka_rebalance.steps.run_folder import RunFolder
from kafka_rebalance.zookeeper import cluster_lock

REQUESTING = "requesting"  # the state of a batch that is about to be requested


def asked_for(folder: RunFolder, client: KazooClient) -> frozenset[int]:
    """Numbers of the batches that this run has asked for; whether anything came of it, only the cluster tells. To be
    read after the cluster, since a request is noted before it is made.

    A batch that was about to be requested by a worker that died counts, unless the fence is still as it was noted:
    the request would have raised it, so it was never made. Raises ReadError, StorageError, FormatVersionError.
    """
    noted = entries(read_notes(folder))
    doubtful = [number for number, entry in noted.items() if entry.get("state") == REQUESTING]
    now = cluster_lock.read_fence(client).generation if doubtful else ""
    return frozenset(noted) - {number for number in doubtful if noted[number].get("generation") == now}


def gone_through(folder: RunFolder) -> frozenset[int]:
    """Numbers of the batches that were noted as over. Raises StorageError, FormatVersionError."""
    return frozenset(number for number, entry in entries(read_notes(folder)).items() if entry.get("finished_at"))


def read_notes(folder: RunFolder) -> dict[str, Any]:
    """batches.json; an empty document where there are no readable notes."""
    try:
        return json_files.read_json(folder, json_files.BATCHES)
    except (FormatVersionError, StorageError):
        raise
    except ArtifactError:
        return {}


def entries(document: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """What was noted of each batch, by its number."""
    return {entry["number"]: entry for entry in document.get("batches", [])}
