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
from urllib.parse import unquote, urlsplit

from airflow.sdk import ObjectStoragePath
from airflow.sdk.configuration import conf

from kafka_rebalance.errors import ArtifactError, RunFolderError, StorageError
from kafka_rebalance.model.artifacts import INSTALLATION, NONCE, read_json, read_json_if_there, write_json

if TYPE_CHECKING:
    from kafka_rebalance.model.artifacts import Folder

SECTION, OPTION = "kafka_rebalance", "runs_url"

RunFolder: TypeAlias = Path | ObjectStoragePath


def runs_root() -> RunFolder:
    """The folder below which every run has its own: `[kafka_rebalance] runs_url`, by default in Airflow's home."""
    configured = conf.get(SECTION, OPTION, fallback="")
    if not configured:
        return Path(conf.get("core", "dags_folder")).parent / "kafka_rebalance_runs"
    return _path(configured)


def open_run_folder(url: str) -> RunFolder:
    """The folder that an XCom names. Raises RunFolderError where it is not below the root: XComs can be edited."""
    root, folder = runs_root(), _path(url)
    parts = str(folder).split("/")
    inside = str(folder).startswith(str(root).rstrip("/") + "/") and ".." not in parts
    if not inside or (isinstance(folder, Path) and not folder.resolve().is_relative_to(Path(str(root)).resolve())):
        raise RunFolderError(
            f"The run's folder {url} is not below runs_url {root}. Nothing was read or written. "
            "Check [kafka_rebalance] runs_url, or start a new Dag run."
        )
    return folder


def create_run_folder(connection_id: str, run_id: str) -> tuple[RunFolder, str]:
    """A new attempt's folder with a fresh nonce in it, and the nonce. A cleared task never re-uses an attempt."""
    run = runs_root() / file_name(connection_id) / file_name(run_id)
    nonce = secrets.token_hex(16)
    try:
        attempt = 1
        while (run / str(attempt)).exists():
            attempt += 1
        folder = run / str(attempt)
        (folder / "snapshot").mkdir(parents=True, exist_ok=True)
        write_json(folder, NONCE, {"nonce": nonce})
    except OSError as failed:
        raise StorageError(
            f"The run's folder {run} cannot be written ({failed}). Nothing was read from or written to the cluster. "
            "Make [kafka_rebalance] runs_url a folder that Airflow's workers may write."
        ) from failed
    return folder, nonce


def newest_attempt(run: RunFolder) -> RunFolder | None:
    """The folder of the run's last attempt; None where there is none."""
    if not run.exists():
        return None
    numbers = [int(path.name) for path in run.iterdir() if path.name.isdigit()]
    return run / str(max(numbers)) if numbers else None


def installation() -> str:
    """Eight characters that tell this Airflow's storage of runs from any other; made where there are none yet.

    Two Airflows can have the same address, or none, and runs of the same name. Raises StorageError.
    """
    root = runs_root()
    try:
        if read_json_if_there(root, INSTALLATION) is None:
            root.mkdir(parents=True, exist_ok=True)
            write_json(root, INSTALLATION, {"installation": secrets.token_hex(4)})
    except OSError as failed:
        raise StorageError(
            f"{root / INSTALLATION} cannot be written ({failed}). Nothing was written to the cluster. "
            "Make [kafka_rebalance] runs_url a folder that Airflow's workers may write."
        ) from failed
    return str(read_json(root, INSTALLATION).get("installation"))


def check_shared(folder: Folder, nonce: str) -> None:
    """Raises RunFolderError unless this process sees the nonce that the snapshot wrote, StorageError where storage does
    not tell.
    """
    try:
        found = read_json(folder, NONCE).get("nonce")
    except StorageError:
        raise
    except ArtifactError:
        found = None
    if found != nonce:
        raise RunFolderError(
            f"run folder not shared: {folder} does not hold the nonce that the snapshot wrote there. Nothing was "
            "written to the cluster. Point [kafka_rebalance] runs_url to storage that all of Airflow and Spark share."
        )


def _path(url: str) -> RunFolder:
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else url).absolute()
    return ObjectStoragePath(url)


def file_name(name: str) -> str:
    """A name that is safe in any storage, and still different for different run ids."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).strip(".") or "_"
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
