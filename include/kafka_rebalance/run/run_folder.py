"""Where a run keeps its files: `runs_url / connection / run / attempt`, on a shared disk or bucket.

Airflow's workers, the Spark driver and the web server must see the same folder. So the first task writes a nonce there,
and the others read it back before they use the folder.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kafka_rebalance.documents.folder_owner import (
    NONCE_FILE,
    FolderOwner,
    Nonce,
    check_own_folder,
    owner_if_named,
    read_folder_owner,
)
from kafka_rebalance.documents.json_files import (
    BATCHES,
    INSTALLATION,
    NONCE,
    SNAPSHOT,
    JsonFile,
    read_json_if_there,
)
from kafka_rebalance.documents.storage import Folder, FolderOfRuns, file_name, is_there, make_folder, names_in
from kafka_rebalance.errors import ApprovalError, ArtifactError, RunFolderError, StorageError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.run.inputs import Deployment, RunName, SparkArguments, StepInputs

_GO_ON = (
    "If that is impossible, end the run: kafka_throttle_janitor then puts back its throttle and lock. "
    "Start a new Dag run, which plans from the current cluster."
)

RunFolder: TypeAlias = FolderOfRuns


def open_run_folder(deployment: Deployment, url: str) -> RunFolder:
    """The folder that an XCom names. Raises RunFolderError unless it is below the root: people can edit XComs."""
    root, folder = deployment.runs_root, deployment.open_folder(url)
    parts = str(folder).split("/")
    inside = str(folder).startswith(str(root).rstrip("/") + "/") and ".." not in parts
    if not inside or (isinstance(folder, Path) and not folder.resolve().is_relative_to(Path(str(root)).resolve())):
        raise RunFolderError(
            f"The run's folder {url} is not below runs_url {root}. "
            "Check [kafka_rebalance] runs_url, or start a new Dag run."
        )
    return folder


def open_own_folder(deployment: Deployment, url: str, started: RunName, nonce: str | None = None) -> RunFolder:
    """The folder that an XCom names, which must be this run's; `nonce` is that of the run's first task, if known.

    Raises RunFolderError, ArtifactError, StorageError.
    """
    folder = open_run_folder(deployment, url)
    if nonce is not None:
        check_shared(deployment, folder, nonce)
    owner = check_own_folder(folder, started.dag_id, started.run_id)
    where = (folder.parent.parent.name, folder.parent.name, folder.name)
    attempt = str(owner.attempt) if owner.attempt else folder.name
    if where != (file_name(owner.connection_id), file_name(owner.run_id), attempt):
        raise RunFolderError(
            f"{folder / NONCE} belongs to attempt {attempt} of run {owner.run_id} on {owner.connection_id}, which has "
            "another folder. Start a new Dag run."
        )
    return folder


def check_submitted(submit: SparkArguments, same: bool) -> None:
    """Raises RunFolderError unless all files for Spark, which XComs name, are of this run and none of them is code."""
    if not same or submit.py_files is not None:
        raise RunFolderError(
            "Spark was to read or run files that are not this run's own. Nothing was submitted. Somebody has edited an "
            "XCom of this run. Start a new Dag run."
        )


def check_newest_attempt(folder: RunFolder) -> None:
    """Raises RunFolderError if the run's first task ran again since: the earlier approval is superseded.

    Call it only before the first write. A run that has begun ends from the folder that it began with.
    """
    own = read_folder_owner(folder)
    for later in (number for number in attempts(folder.parent) if number > int(folder.name)):
        if _is_of(folder.parent / str(later), own):  # else it is another Dag's run of the same name
            raise RunFolderError(
                f"{folder} is attempt {folder.name} of this run, and attempt {later} has begun since. "
                "Clear the first task of the run with what follows it, or start a new "
                "Dag run."
            )


def begin_run_folder(inputs: StepInputs, connection_id: str) -> tuple[RunFolder, str]:
    """As `create_run_folder`, and tells the later tasks of the run which folder it is."""
    folder, nonce = create_run_folder(inputs.deployment, connection_id, inputs.run)
    inputs.tell("run_folder", str(folder))
    inputs.tell("nonce", nonce)
    return folder, nonce


def create_run_folder(deployment: Deployment, connection_id: str, started: RunName) -> tuple[RunFolder, str]:
    """The folder of a new attempt of this run, and the nonce in it. A cleared task always begins a new attempt."""
    run = folder_of_run(deployment, connection_id, started.run_id)
    nonce = secrets.token_hex(16)
    attempt = max(attempts(run), default=0) + 1
    folder = run / str(attempt)
    make_folder(folder / "snapshot")
    owner = FolderOwner(started.dag_id, started.run_id, connection_id, attempt)
    NONCE_FILE.write(folder, Nonce(nonce, owner))
    return folder, nonce


def folder_of_run(deployment: Deployment, connection_id: str, run_id: str) -> RunFolder:
    return deployment.runs_root / file_name(connection_id) / file_name(run_id)


def attempts(run: RunFolder) -> list[int]:
    """The numbers of the run's attempts, the latest last. Raises StorageError."""
    return sorted(int(name) for name in names_in(run) if name.isdecimal())


def newest_attempt(run: RunFolder, dag_id: str) -> RunFolder | None:
    """The folder of the last attempt of this Dag's run, if any.

    Runs of two Dags may have one id. Then their attempts lie beside each other, and the last one may be the other's.
    Raises StorageError, and ArtifactError if the record of a later attempt's owner is damaged.
    """
    folders = (run / str(number) for number in reversed(attempts(run)))
    return next((folder for folder in folders if (owner := owner_if_named(folder)) and owner.dag_id == dag_id), None)


def owners_of(run: RunFolder) -> frozenset[tuple[str, str]]:
    """(Dag, run) of each run that has an attempt in this folder.

    Raises StorageError, and ArtifactError for a damaged record.
    """
    owners = (owner_if_named(run / str(number)) for number in attempts(run))
    return frozenset((owner.dag_id, owner.run_id) for owner in owners if owner is not None)


def find_run_folder(deployment: Deployment, started: RunName, connection_id: object = None) -> RunFolder | None:
    """The folder of the run's newest attempt; None if there is none. A cleared task loses its XComs, but not this.

    An attempt that has moved something counts until a newer one has its snapshot. Without a `connection_id`, as where
    the run's conf names none, it looks below all connections. Raises StorageError.
    """
    root = deployment.runs_root
    known = isinstance(connection_id, str) and connection_id
    for connection in [file_name(str(connection_id))] if known else names_in(root):
        run = root / connection / file_name(started.run_id)
        own = [run / str(number) for number in attempts(run) if _is_of(run / str(number), started)]
        if own:
            begun = (folder for folder in reversed(own) if is_there(folder / SNAPSHOT) or is_there(folder / BATCHES))
            newest = next(begun, own[-1])
            return newest if is_there(newest / BATCHES) else own[-1]
    return None


def _is_of(folder: RunFolder, started: RunName) -> bool:
    try:
        owner = read_folder_owner(folder)
    except StorageError:
        raise
    except ArtifactError:  # its first task failed or was killed before it wrote this
        return False
    return (owner.dag_id, owner.run_id) == (started.dag_id, started.run_id)


@dataclass(frozen=True, slots=True)
class Installation:
    """installation.json, below runs_url."""

    installation: str

    def __post_init__(self) -> None:
        if not self.installation:
            raise ValueError("Expected the mark of this Airflow")


_INSTALLATION_FILE = JsonFile(
    INSTALLATION,
    Installation,
    "Restore the file, or remove it: this Airflow then no longer knows which locks it holds.",
)


def installation(deployment: Deployment) -> str:
    """Eight characters that tell this Airflow's storage of runs from any other; made at the first call.

    Two Airflows can have the same address, or none, and runs of the same name. Raises ArtifactError, StorageError.
    """
    root = deployment.runs_root
    if _INSTALLATION_FILE.read_if_there(root) is None:
        make_folder(root)
        # Two first runs may do this at once, and both go on with the mark that came first.
        _INSTALLATION_FILE.write(root, Installation(secrets.token_hex(4)), first_stays=True)
    return _INSTALLATION_FILE.read(root).installation


def check_shared(deployment: Deployment, folder: Folder, nonce: str) -> None:
    """Raises RunFolderError unless this process sees the nonce of the run's first task, StorageError."""
    try:
        written = NONCE_FILE.read_if_there(folder)
    except StorageError:
        raise
    except ArtifactError as damaged:
        raise RunFolderError(f"{damaged} {_GO_ON}") from damaged
    if written is not None and written.nonce == nonce:
        return
    root = deployment.runs_root
    if written is not None:
        why = (
            f"The folder {folder} is of another attempt or run: this run did not write its {NONCE}. "
            "Somebody has copied files there, or has edited an XCom of this run. Undo that"
        )
    elif names_in(folder):
        why = f"The folder {folder} is incomplete: {NONCE} of the run's first task is gone. Restore it"
    elif names_in(root):
        why = (
            f"The run's folder {folder} is gone, but {root} has other files. Somebody has removed the folder, or this "
            "process sees another storage under that name than the run's first task. Restore the folder, or mount the "
            "storage that all of Airflow and Spark share"
        )
    else:
        why = (
            f"run folder not shared: this process sees no run below {root}. Point [kafka_rebalance] runs_url to "
            "storage that all of Airflow and Spark share"
        )
    raise RunFolderError(f"{why}, and clear this task. {_GO_ON}")


def digests_of_files(folder: Folder, names: Iterable[str]) -> dict[str, str]:
    """The digest of each file's content; empty for a file that is absent, which also counts. Raises ArtifactError."""
    contents = {name: read_json_if_there(folder, name) for name in names}
    return {name: "" if content is None else digest_of(content) for name, content in contents.items()}


def check_still_shown(folder: Folder, names: Iterable[str], shown: object) -> None:
    """Raises ApprovalError if one of these files is no longer the one whose digest is in `shown`.

    None: an earlier version has not noted the digests.
    """
    if shown is None:
        return
    now = digests_of_files(folder, names)
    changed = [name for name in now if not isinstance(shown, Mapping) or now[name] != shown.get(name)]
    if changed:
        raise ApprovalError(
            f"{folder / changed[0]} is not as it was when people were asked: somebody has changed it since. Restore "
            "it, and clear this task. Or start a new Dag run, which plans from the current cluster."
        )
