"""Which run owns a folder. The run's first task writes this into nonce.json, and every later task checks it.

XComs name the folder, and people who may edit XComs could name another run's folder. They cannot edit the storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_files import NONCE, SNAPSHOT, TOPIC, read_json, read_json_if_there
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ArtifactError, RunFolderError


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The Dag run that made the folder. `attempt` counts from 1; 0 means that an older version did not record it."""

    dag_id: str
    run_id: str
    connection_id: str
    attempt: int = 0

    @classmethod
    def from_mapping(cls, given: object, where: str) -> FolderOwner:
        """Raises ArtifactError if this names no run."""
        given = given if isinstance(given, Mapping) else {}
        dag_id, run_id, connection_id = (given.get(name) for name in ("dag_id", "run_id", "connection_id"))
        attempt = given.get("attempt", 0)
        named = all(isinstance(text, str) and text for text in (dag_id, run_id, connection_id))
        if not named or type(attempt) is not int or attempt < 0:
            raise ArtifactError(f"{where} does not name the run it belongs to.")
        return cls(str(dag_id), str(run_id), str(connection_id), attempt)


def read_folder_owner(folder: Folder) -> FolderOwner:
    """Raises ArtifactError if nothing in the folder names its owner, StorageError if storage does not answer.

    Older versions wrote no such record. Then snapshot.json or topic.json names the owner. A folder that has neither, as
    that of a cancel, has no owner.
    """
    found = read_json(folder, NONCE).get("owner")
    if isinstance(found, Mapping):
        return FolderOwner.from_mapping(found, f"{folder / NONCE}")
    for name in (SNAPSHOT, TOPIC):
        written = read_json_if_there(folder, name)
        if written is not None:
            named = {key: written.get(key) for key in ("dag_id", "run_id", "connection_id")}
            return FolderOwner.from_mapping(named, f"{folder / name}")
    raise ArtifactError(f"An earlier version wrote {folder / NONCE}, without the name of its run. Start a new Dag run.")


def owner_if_named(folder: Folder) -> FolderOwner | None:
    """As `read_folder_owner`; None if no file of the folder names its owner.

    Raises ArtifactError if a file that should name it is damaged, StorageError.
    """
    written = read_json_if_there(folder, NONCE)
    if written is None:
        return None
    if not isinstance(written.get("owner"), Mapping) and not any(
        read_json_if_there(folder, name) is not None for name in (SNAPSHOT, TOPIC)
    ):
        return None
    return read_folder_owner(folder)


def check_own_folder(folder: Folder, dag_id: str, run_id: str) -> FolderOwner:
    """The folder's owner. Raises RunFolderError unless it is this run."""
    owner = read_folder_owner(folder)
    if (owner.dag_id, owner.run_id) != (dag_id, run_id):
        raise RunFolderError(
            f"The folder {folder} belongs to run {owner.dag_id}/{owner.run_id}, but this is run {dag_id}/{run_id}. "
            "Somebody has edited an XCom of this run. Start a new Dag run."
        )
    return owner
