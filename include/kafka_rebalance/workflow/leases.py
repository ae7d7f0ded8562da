"""The throttle leases: `runs_url / leases / <cluster id>.json`, one a cluster, whatever becomes of Airflow's database.

Who writes one holds the cluster's lock, or is the janitor. A copy goes into the run's folder, for its page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_rebalance.errors import ArtifactError, RunFolderError
from kafka_rebalance.execution.lease import ThrottleLease
from kafka_rebalance.model import artifacts
from kafka_rebalance.workflow.run_folder import RunFolder, file_name, open_run_folder, runs_root


@dataclass(frozen=True, slots=True)
class StoredLease:
    """One file of the folder; `lease` is None where it cannot be read, and `problem` says why."""

    name: str
    lease: ThrottleLease | None
    problem: str = ""


def read(cluster_id: str) -> ThrottleLease | None:
    """The cluster's lease, also one that was given back; None where there never was one. Raises ArtifactError."""
    folder, name = _folder(), _name(cluster_id)
    if not (folder / name).exists():
        return None
    return ThrottleLease.from_mapping(artifacts.read_json(folder, name))


def read_open(cluster_id: str) -> ThrottleLease | None:
    """The lease that nobody has given back yet, whichever run's it is. Raises ArtifactError."""
    lease = read(cluster_id)
    return None if lease is None or lease.released_at is not None else lease


def write(lease: ThrottleLease) -> None:
    """Replaces the cluster's lease, and the copy in its run's folder where that still exists. Raises RunFolderError."""
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        artifacts.write_json(folder, _name(lease.cluster_id), lease.to_mapping(), source_digest=lease.candidate_digest)
    except OSError as failed:
        raise RunFolderError(
            f"The throttle lease {folder / _name(lease.cluster_id)} cannot be written ({failed}). No throttle was "
            "changed because of it. Make [kafka_rebalance] runs_url a folder that Airflow's workers may write, then "
            "clear this task."
        ) from failed
    try:
        run = open_run_folder(lease.run_folder)
        if (run / artifacts.DECISION).exists():
            artifacts.write_json(run, artifacts.THROTTLE, lease.to_mapping(), source_digest=lease.candidate_digest)
    except (OSError, RunFolderError):
        return  # the copy is for people; the lease is what counts


def stored() -> tuple[StoredLease, ...]:
    """Every lease there is, also those that were given back and those that cannot be read. Raises RunFolderError."""
    folder = _folder()
    try:
        names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    except OSError as failed:
        raise RunFolderError(f"{folder} cannot be listed ({failed}). No throttle was changed.") from failed
    return tuple(_stored(folder, name) for name in names if name.endswith(".json") and not name.startswith("."))


def _stored(folder: RunFolder, name: str) -> StoredLease:
    try:
        return StoredLease(name, ThrottleLease.from_mapping(artifacts.read_json(folder, name)))
    except ArtifactError as unreadable:
        return StoredLease(name, None, str(unreadable))


def now() -> str:
    """ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _folder() -> RunFolder:
    return runs_root() / artifacts.LEASES


def _name(cluster_id: str) -> str:
    return f"{file_name(cluster_id)}.json"
