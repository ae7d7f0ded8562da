"""Where a run keeps its files: `runs_url / connection / run / attempt`, on a disk or a bucket that everyone shares.

Airflow's workers, the Spark driver and the web server must see the same folder. That is not taken on trust: the
snapshot writes a nonce there, and each of the others reads it back before it believes anything it finds.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kafka_rebalance.documents.folder_owner import FolderOwner, check_own_folder, read_folder_owner
from kafka_rebalance.documents.json_files import INSTALLATION, NONCE, read_json, read_json_if_there, write_json
from kafka_rebalance.documents.storage import FolderOfRuns, make_folder, names_in
from kafka_rebalance.errors import ArtifactError, RunFolderError, StorageError
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import RunName

if TYPE_CHECKING:
    from kafka_rebalance.documents.storage import Folder

_GO_ON = (
    "Where that cannot be done, end the run: kafka_throttle_janitor then puts back its throttle and lock. "
    "Start a new Dag run, which plans from the current cluster."
)

RunFolder: TypeAlias = FolderOfRuns


def open_run_folder(deployment: Deployment, url: str) -> RunFolder:
    """The folder that an XCom names. Raises RunFolderError where it is not below the root: XComs can be edited."""
    root, folder = deployment.runs_root, deployment.open_folder(url)
    parts = str(folder).split("/")
    inside = str(folder).startswith(str(root).rstrip("/") + "/") and ".." not in parts
    if not inside or (isinstance(folder, Path) and not folder.resolve().is_relative_to(Path(str(root)).resolve())):
        raise RunFolderError(
            f"The run's folder {url} is not below runs_url {root}. Nothing was read or written. "
            "Check [kafka_rebalance] runs_url, or start a new Dag run."
        )
    return folder


def open_own_folder(deployment: Deployment, url: str, started: RunName, nonce: str | None = None) -> RunFolder:
    """The folder that an XCom names, which must be this very run's. Raises RunFolderError, ArtifactError, StorageError.

    `nonce`: what the run's first task wrote there, where the caller was told.
    """
    folder = open_run_folder(deployment, url)
    if nonce is not None:
        check_shared(deployment, folder, nonce)
    owner = check_own_folder(folder, started.dag_id, started.run_id)
    where = (folder.parent.parent.name, folder.parent.name, folder.name)
    attempt = str(owner.attempt) if owner.attempt else folder.name
    if where != (file_name(owner.connection_id), file_name(owner.run_id), attempt):
        raise RunFolderError(
            f"{folder / NONCE} is that of attempt {attempt} of run {owner.run_id} on {owner.connection_id}, which is "
            "not kept in this folder. Nothing was written to the cluster. Start a new Dag run."
        )
    return folder


def check_submitted(same: bool) -> None:
    """Raises RunFolderError where Spark was given anything but files of this run, which XComs name."""
    if not same:
        raise RunFolderError(
            "What Spark was to read or to run is not of this run's folder. Nothing was submitted, nothing was written "
            "to the cluster. Somebody has edited an XCom of this run. Start a new Dag run."
        )


def check_newest_attempt(folder: RunFolder) -> None:
    """Raises RunFolderError where the run's first task was run again since: what was approved before is superseded.

    For what has not begun. What has is brought to its end from the folder it began with.
    """
    own = read_folder_owner(folder)
    for later in (number for number in attempts(folder.parent) if number > int(folder.name)):
        try:
            other = read_folder_owner(folder.parent / str(later))
        except StorageError:
            raise
        except ArtifactError:  # a first task that came no further than that
            continue
        if (other.dag_id, other.run_id) == (own.dag_id, own.run_id):  # else another Dag's run of the same name
            raise RunFolderError(
                f"{folder} is attempt {folder.name} of this run, and attempt {later} has begun since. Nothing was "
                "written to the cluster. Clear the first task of the run with what follows it, or start a new Dag run."
            )


def create_run_folder(deployment: Deployment, connection_id: str, started: RunName) -> tuple[RunFolder, str]:
    """A new attempt's folder, bound to this run, with a fresh nonce in it; and the nonce.

    A cleared task never re-uses an attempt.
    """
    run = folder_of_run(deployment, connection_id, started.run_id)
    nonce = secrets.token_hex(16)
    attempt = max(attempts(run), default=0) + 1
    folder = run / str(attempt)
    make_folder(folder / "snapshot")
    owner = FolderOwner(started.dag_id, started.run_id, connection_id, attempt)
    write_json(folder, NONCE, {"nonce": nonce, "owner": owner.to_mapping()})
    return folder, nonce


def folder_of_run(deployment: Deployment, connection_id: str, run_id: str) -> RunFolder:
    """The folder of this run's attempts."""
    return deployment.runs_root / file_name(connection_id) / file_name(run_id)


def attempts(run: RunFolder) -> list[int]:
    """The numbers of the run's attempts, the latest at the end. Raises StorageError."""
    return sorted(int(name) for name in names_in(run) if name.isdecimal())


def newest_attempt(run: RunFolder) -> RunFolder | None:
    """The folder of the run's last attempt; None where there is none. Raises StorageError."""
    numbers = attempts(run)
    return run / str(numbers[-1]) if numbers else None


def installation(deployment: Deployment) -> str:
    """Eight characters that tell this Airflow's storage of runs from any other; made where there are none yet.

    Two Airflows can have the same address, or none, and runs of the same name. Raises StorageError.
    """
    root = deployment.runs_root
    if read_json_if_there(root, INSTALLATION) is None:
        make_folder(root)
        write_json(root, INSTALLATION, {"installation": secrets.token_hex(4)})
    mark = read_json(root, INSTALLATION).get("installation")
    if not isinstance(mark, str) or not mark:
        raise ArtifactError(
            f"{root / INSTALLATION} holds no mark of this Airflow. Nothing was written to the cluster. Put back the "
            "file, or remove it: without it this Airflow does not know the locks it holds."
        )
    return mark


def check_shared(deployment: Deployment, folder: Folder, nonce: str) -> None:
    """Raises RunFolderError unless this process sees the nonce that the snapshot wrote, StorageError where storage does
    not tell.
    """
    try:
        document = read_json_if_there(folder, NONCE)
        found = None if document is None else document.get("nonce")
    except StorageError:
        raise
    except ArtifactError as damaged:
        raise RunFolderError(f"{damaged} Nothing was written to the cluster. {_GO_ON}") from damaged
    if found == nonce:
        return
    root = deployment.runs_root
    if document is not None:
        why = (
            f"The folder {folder} is of another attempt or run: its {NONCE} is not the one that this run wrote. "
            "Somebody has copied files there, or has edited an XCom of this run. Undo that"
        )
    elif names_in(folder):
        why = f"The folder {folder} is incomplete: {NONCE} of the run's first task is gone. Restore it"
    elif names_in(root):
        why = (
            f"The run's folder {folder} is gone. {root} is there and has other files, so somebody has removed this "
            "run's, or this process sees another storage under that name than the run's first task. Restore the "
            "folder, or mount the storage that all of Airflow and Spark share"
        )
    else:
        why = (
            f"run folder not shared: nothing of any run is below {root} as this process sees it. Point "
            "[kafka_rebalance] runs_url to storage that all of Airflow and Spark share"
        )
    raise RunFolderError(f"{why}, and clear this task. Nothing was written to the cluster. {_GO_ON}")


def file_name(name: str) -> str:
    """A name that is safe in any storage, and still different for different run ids."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).strip(".") or "_"
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
