"""The throttle leases below `runs_url`: `leases / <cluster id> / <generation>.json`. `lease_copies` uses them.

A lease is never overwritten. Each change is a new file, named by the generation of the fence (`Fence`)
under which it is made. The latest generation is the cluster's lease. Storage offers no compare and swap. But a worker
that was frozen between its read and its write writes an earlier file than the others: nobody reads it. It has set no
config either, because configs are written under the same fence. So raise the fence first, then read the lease, then
change it.

Files before a lease that was given back are removed. A copy of the lease goes into the run's folder, for its page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from kafka_rebalance.documents import json_files, storage
from kafka_rebalance.documents.json_files import JsonFile
from kafka_rebalance.documents.throttle_lease import THROTTLE_FILE, ThrottleLease, check_lease, lease_file
from kafka_rebalance.errors import ArtifactError, FormatVersionError, RunFolderError, StorageError
from kafka_rebalance.run.approval_rules import DECISION_FILE
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.run_folder import RunFolder, open_run_folder

_GENERATION = re.compile(r"([0-9a-f]{16}-[0-9]{10}|log-[0-9]{13}-[0-9]{16})\.json", re.ASCII)
_UNNUMBERED = ".json"  # after the cluster's name, beside its folder: the one file of a version without generations
_DAMAGED = ".damaged"  # after the name of a file that nobody reads any more
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class StoredLease:
    """One cluster's lease; `lease` is None if it cannot be read, and `problem` says why."""

    name: str
    lease: ThrottleLease | None
    problem: str = ""


def read(deployment: Deployment, cluster_id: str) -> ThrottleLease | None:
    """The cluster's lease, also one that was given back; None if there never was one. Raises ArtifactError."""
    return _read(deployment, storage.file_name(cluster_id))


def write(deployment: Deployment, lease: ThrottleLease) -> None:
    """Writes the lease under its generation, and its copy if the run's folder still exists.

    Raises StorageError, and ArtifactError for a lease that nobody could read again.
    """
    folder, name = _folder(deployment) / storage.file_name(lease.cluster_id), f"{lease.generation}.json"
    if not _GENERATION.fullmatch(name):
        raise ValueError(f"a lease is written under a fence, not under {lease.generation!r}")
    ThrottleLease.from_mapping(lease.to_mapping())  # else nobody could read it and put anything back
    storage.make_folder(folder)
    if isinstance(folder, Path):
        storage.sync_folder(folder.parent)
    lease_file(name).write(folder, lease, source_digest=lease.candidate_digest)
    try:
        run = open_run_folder(deployment, lease.run_folder)
        if storage.is_there(run / json_files.DECISION) and is_latest(deployment, lease):
            THROTTLE_FILE.write(run, lease, source_digest=lease.candidate_digest)
    except RunFolderError:
        return  # the copy is only for people


def is_latest(deployment: Deployment, lease: ThrottleLease) -> bool:
    return _generations(deployment, storage.file_name(lease.cluster_id))[-1:] == [lease.generation]


def was_given_back_between(deployment: Deployment, earlier: ThrottleLease, later: ThrottleLease) -> bool:
    """Whether somebody who had not seen the later lease gave one back between the two."""
    cluster = storage.file_name(later.cluster_id)
    between = [
        generation
        for generation in _generations(deployment, cluster)
        if earlier.generation < generation < later.generation
    ]
    found = [_read_generation(deployment, cluster, one) for one in between]
    return any(lease is not None and lease.released_at is not None for lease in found)


def remove_before(deployment: Deployment, lease: ThrottleLease) -> None:
    cluster = storage.file_name(lease.cluster_id)
    earlier = [generation for generation in _generations(deployment, cluster) if generation < lease.generation]
    leases = _folder(deployment)
    for file in (*(leases / cluster / f"{one}.json" for one in earlier), leases / f"{cluster}{_UNNUMBERED}"):
        try:
            storage.remove(file)
        except StorageError:
            return  # they do no harm, and the next call tries again


def set_damaged_aside(deployment: Deployment, cluster_id: str) -> list[str]:
    """Renames the latest files of the cluster's lease that cannot be read, and returns the new names.

    The latest file that can be read is then the cluster's lease. Raises StorageError.
    """
    cluster, taken = storage.file_name(cluster_id), []
    while True:
        try:
            _read(deployment, cluster)
        except (StorageError, FormatVersionError):
            raise
        except ArtifactError:
            leases, generations = _folder(deployment), _generations(deployment, cluster)
            unnumbered = leases / f"{cluster}{_UNNUMBERED}"
            file = leases / cluster / f"{generations[-1]}.json" if generations else unnumbered
            aside = file.with_name(f"{file.name}{_DAMAGED}")
            storage.write_whole(aside, storage.read_if_there(file) or b"")
            storage.remove(file)
            taken.append(str(aside))
        else:
            return taken


def stored(deployment: Deployment) -> tuple[StoredLease, ...]:
    """The lease of every cluster, also if it was given back or cannot be read. Raises StorageError."""
    names = {
        name.removesuffix(_UNNUMBERED)
        for name in storage.names_in(_folder(deployment))
        if not name.startswith(".") and not name.endswith(_DAMAGED)
    }
    found = []
    for name in sorted(names):
        try:
            if (lease := _read(deployment, name)) is not None:
                found.append(StoredLease(name, lease))
        except ArtifactError as unreadable:
            found.append(StoredLease(name, None, str(unreadable)))
    return tuple(found)


def _read(deployment: Deployment, cluster: str) -> ThrottleLease | None:
    for _ in range(_ATTEMPTS):
        generations = _generations(deployment, cluster)
        if not generations:
            return _checked(lease_file(f"{cluster}{_UNNUMBERED}"), _folder(deployment))
        found = _read_generation(deployment, cluster, generations[-1])
        if found is not None:
            return found  # else a later lease was given back meanwhile, and this file removed
    listed = _folder(deployment) / cluster
    raise ArtifactError(f"{listed} lists leases that do not exist. No throttle was changed. Try again.")


def _read_generation(deployment: Deployment, cluster: str, generation: str) -> ThrottleLease | None:
    """None if it was removed meanwhile."""
    lease = _checked(lease_file(f"{generation}.json"), _folder(deployment) / cluster)
    return None if lease is None else replace(lease, generation=generation)


def _checked(file: JsonFile[ThrottleLease], folder: RunFolder) -> ThrottleLease | None:
    lease = file.read_if_there(folder)
    if lease is not None:
        check_lease(lease)
    return lease


def _generations(deployment: Deployment, cluster: str) -> list[str]:
    """In order, the latest last."""
    found = (_GENERATION.fullmatch(name) for name in storage.names_in(_folder(deployment) / cluster))
    return [match[1] for match in found if match is not None]


def _folder(deployment: Deployment) -> RunFolder:
    return deployment.runs_root / json_files.LEASES


def read_copy(folder: RunFolder) -> ThrottleLease | None:
    """The copy of the lease in the run's folder, also if it was given back. Raises ArtifactError."""
    return _checked(THROTTLE_FILE, folder)


def rate_in_force(folder: RunFolder) -> int:
    """The rate that was set last, else the approved one, in bytes per second. Of a range the lowest, at which a run may
    have to stay.
    """
    try:
        return THROTTLE_FILE.read(folder).lowest_rate
    except ArtifactError:
        return DECISION_FILE.read(folder).lowest_rate
