"""Which moves this run has requested. Only batches.json and the fence tell that, and never the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, FormatVersionError, StorageError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.run_folder import RunFolder

REQUESTING = "requesting"  # the state of a batch of which moves are about to be requested
# Of a batch that is requested in parts: the partitions that were requested, and those that were about to be.
ASKED, ASKING = "asked", "asking"


def asked_for(folder: RunFolder, moves: Iterable[Move], cluster: OpenCluster) -> frozenset[TopicPartition]:
    """The partitions of these moves that this run has requested; only the cluster tells what became of them.

    Read it after the cluster, because a request is noted before it is made. A move counts too if a worker died when it
    was about to request it, unless the fence is as it was noted: a request would have raised it. Raises ReadError,
    StorageError, FormatVersionError.
    """
    noted = entries(read_notes(folder))
    is_doubtful = any(entry.get("state") == REQUESTING for entry in noted.values())
    now = cluster.lock.read_fence().generation if is_doubtful else ""
    parts = {number: _asked_part(entry, now) for number, entry in noted.items()}
    return frozenset(
        move.topic_partition
        for move in moves
        if move.batch in parts and (parts[move.batch] is None or str(move.topic_partition) in (parts[move.batch] or ()))
    )


def _asked_part(entry: Mapping[str, Any], now: str) -> frozenset[str] | None:
    """The partitions of a batch that were requested; None: all."""
    is_certain = entry.get("state") != REQUESTING or entry.get("generation") != now
    if ASKED in entry:
        return frozenset((*entry[ASKED], *(entry.get(ASKING, ()) if is_certain else ())))
    return None if is_certain else frozenset()


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
