"""Which run owns a folder. The run's first task writes this into nonce.json, and every later task checks it.

XComs name the folder, and people who may edit XComs could name another run's folder. They cannot edit the storage.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_files import NONCE, SNAPSHOT, TOPIC, JsonFile
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ArtifactError, RunFolderError


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The Dag run that made the folder. `attempt` counts from 1; 0 means that an older version did not record it."""

    dag_id: str
    run_id: str
    connection_id: str
    attempt: int = 0

    def __post_init__(self) -> None:
        if not (self.dag_id and self.run_id and self.connection_id) or self.attempt < 0:
            raise ValueError("Expected the name of a run")


@dataclass(frozen=True, slots=True)
class Nonce:
    """nonce.json: a process that reads this nonce shares the folder with the run's first task."""

    nonce: str | None = None
    owner: FolderOwner | None = None  # older versions did not write it


NONCE_FILE = JsonFile(NONCE, Nonce)
_NAMING_OWNERS = (JsonFile(SNAPSHOT, FolderOwner), JsonFile(TOPIC, FolderOwner))  # of older versions


def read_folder_owner(folder: Folder) -> FolderOwner:
    """Raises ArtifactError if nothing in the folder names its owner, StorageError if storage does not answer.

    Older versions wrote no such record. Then snapshot.json or topic.json names the owner. A folder that has neither, as
    that of a cancel, has no owner.
    """
    owner = _owner_in(folder, NONCE_FILE.read(folder))
    if owner is None:
        raise ArtifactError(
            f"An earlier version wrote {folder / NONCE}, without the name of its run. Start a new Dag run."
        )
    return owner


def owner_if_named(folder: Folder) -> FolderOwner | None:
    """As `read_folder_owner`; None if no file of the folder names its owner.

    Raises ArtifactError if a file that should name it is damaged, StorageError.
    """
    written = NONCE_FILE.read_if_there(folder)
    return None if written is None else _owner_in(folder, written)


def _owner_in(folder: Folder, written: Nonce) -> FolderOwner | None:
    if written.owner is not None:
        return written.owner
    owners = (file.read_if_there(folder) for file in _NAMING_OWNERS)
    return next((owner for owner in owners if owner is not None), None)


def check_own_folder(folder: Folder, dag_id: str, run_id: str) -> FolderOwner:
    """The folder's owner. Raises RunFolderError unless it is this run."""
    owner = read_folder_owner(folder)
    if (owner.dag_id, owner.run_id) != (dag_id, run_id):
        raise RunFolderError(
            f"The folder {folder} belongs to run {owner.dag_id}/{owner.run_id}, but this is run {dag_id}/{run_id}. "
            "Somebody has edited an XCom of this run. Start a new Dag run."
        )
    return owner
