"""Whose a run's folder is: what the run's first task writes into nonce.json, and every later task holds itself against.

XComs name the folder, and whoever may edit XComs could name another run's. What is in storage they cannot edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kafka_rebalance.documents.json_files import NONCE, SNAPSHOT, TOPIC, read_json, read_json_if_there
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ArtifactError, RunFolderError


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The Dag run that made the folder. `attempt` counts from 1, and 0 is of a version that did not write it down."""

    dag_id: str
    run_id: str
    connection_id: str
    attempt: int = 0

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, given: object, where: str) -> FolderOwner:
        """Raises ArtifactError where this names no run."""
        given = given if isinstance(given, Mapping) else {}
        dag_id, run_id, connection_id = (given.get(name) for name in ("dag_id", "run_id", "connection_id"))
        attempt = given.get("attempt", 0)
        named = all(isinstance(text, str) and text for text in (dag_id, run_id, connection_id))
        if not named or type(attempt) is not int or attempt < 0:
            raise ArtifactError(f"{where} does not name the run it belongs to. Nothing was written to the cluster.")
        return cls(str(dag_id), str(run_id), str(connection_id), attempt)


def read_folder_owner(folder: Folder) -> FolderOwner:
    """Raises ArtifactError where nothing in the folder says whose it is, StorageError where storage does not tell.

    The folder of a run that began under a version before this record is that of the run which snapshot.json or
    topic.json names. One that has neither, as of a cancelling, is nobody's.
    """
    found = read_json(folder, NONCE).get("owner")
    if isinstance(found, Mapping):
        return FolderOwner.from_mapping(found, f"{folder / NONCE}")
    for name in (SNAPSHOT, TOPIC):
        written = read_json_if_there(folder, name)
        if written is not None:
            named = {key: written.get(key) for key in ("dag_id", "run_id", "connection_id")}
            return FolderOwner.from_mapping(named, f"{folder / name}")
    raise ArtifactError(
        f"{folder / NONCE} is of an earlier version and does not name its run. Nothing was written to the cluster. "
        "Start a new Dag run."
    )


def check_own_folder(folder: Folder, dag_id: str, run_id: str) -> FolderOwner:
    """Raises RunFolderError unless this run's first task made the folder."""
    owner = read_folder_owner(folder)
    if (owner.dag_id, owner.run_id) != (dag_id, run_id):
        raise RunFolderError(
            f"The folder {folder} belongs to run {owner.dag_id}/{owner.run_id}, this is run {dag_id}/{run_id}. Nothing "
            "was written to the cluster. Somebody has edited an XCom of this run. Start a new Dag run."
        )
    return owner
