"""Removes runs and rows that are older than their cluster's policy keeps. Without such a policy all of them stay.

What is open stays, whatever its age: a run that Airflow still has, everything of a cluster with an open throttle or a
noted lock, and the run that `roll_back` would undo.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import file_name, modified_at, names_in, remove, remove_folder
from kafka_rebalance.errors import RebalanceError, RunFolderError
from kafka_rebalance.run import ledger, policy_file
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.run_folder import RunFolder, attempts, owners_of
from kafka_rebalance.run.run_lock import noted_connections
from kafka_rebalance.run.running_rebalance import find_moved
from kafka_rebalance.throttle import lease_files

log = logging.getLogger(__name__)


def remove_old(inputs: StepInputs) -> dict[str, list[str]]:
    """Returns the removed folders of each connection. Raises RunFolderError for those that could not be removed."""
    deployment, now = inputs.deployment, clock.utc_now()
    removed: dict[str, list[str]] = {}
    problems: list[str] = []
    for connection_id in policy_file.connections(deployment.policies_folder):
        removed[connection_id] = []
        for folder in _old_folders(deployment, connection_id, now, problems):
            try:
                _remove_whole(folder)
            except RebalanceError as failed:
                problems.append(str(failed))
                continue
            log.info("Removed %s: the policy of %s keeps nothing that old.", folder, connection_id)
            removed[connection_id].append(str(folder))
    if problems:
        raise RunFolderError(
            f"{len(problems)} old folders or clusters were left as they are; the first: {problems[0]} "
            "What could be removed is removed. Mend this, or remove them by hand; the next night tries again."
        )
    return removed


def _old_folders(deployment: Deployment, connection_id: str, now: datetime, problems: list[str]) -> Iterator[RunFolder]:
    try:
        policy = deployment.read_policy(connection_id)
        if policy is None:
            return
        if policy.keep_ledger_days is not None:
            yield from _old_days(deployment, connection_id, now - timedelta(days=policy.keep_ledger_days))
        if policy.keep_runs_days is not None and not _is_open(deployment, connection_id):
            yield from _old_runs(deployment, connection_id, now - timedelta(days=policy.keep_runs_days), problems)
    except RebalanceError as unreadable:
        problems.append(f"{connection_id}: {unreadable}")


def _old_days(deployment: Deployment, connection_id: str, before: datetime) -> Iterator[RunFolder]:
    for table in ledger.TABLES:
        folder = ledger.folder_of(deployment, table, connection_id)
        for name in names_in(folder):
            day = ledger.date_of(name)
            if day is not None and day < before.date():
                yield folder / name


def _is_open(deployment: Deployment, connection_id: str) -> bool:
    """Whether a run of this cluster may still hold its lock or its throttle."""
    leases = [stored.lease for stored in lease_files.stored(deployment)]
    open_leases = any(
        lease is None or (lease.connection_id in (connection_id, "") and lease.released_at is None) for lease in leases
    )
    return open_leases or connection_id in noted_connections(deployment)


def _old_runs(deployment: Deployment, connection_id: str, before: datetime, problems: list[str]) -> Iterator[RunFolder]:
    connection = deployment.runs_root / file_name(connection_id)
    moved = find_moved(deployment, connection_id, None)
    for name in names_in(connection):
        run = connection / name
        try:
            if not attempts(run) or _last_write(run) >= before:
                continue
            owners = owners_of(run)
            if not owners:
                problems.append(f"Nothing in {run} names its run, so it stays. Remove it by hand if no run needs it.")
                continue
            is_last_moved = moved is not None and str(moved.folder.parent) == str(run)
            # Runs of two Dags may have one id, and share the folder.
            is_active = any(deployment.other_runs.is_active(*owner) for owner in sorted(owners))
        except RebalanceError as unreadable:
            problems.append(str(unreadable))
            continue
        except Exception as failed:  # Airflow's own errors: it does not tell whether the run is over
            problems.append(f"Airflow does not tell whether the run of {run} is over ({failed}).")
            continue
        if not (is_last_moved or is_active):
            yield run


def _last_write(run: RunFolder) -> datetime:
    """When the newest file of the run's attempts was written."""
    files = (run / str(number) / name for number in attempts(run) for name in names_in(run / str(number)))
    return max((modified_at(file) for file in files), default=datetime.min.replace(tzinfo=UTC))


def _remove_whole(folder: RunFolder) -> None:
    """Removes a run or a day. A half-removed run has no batches and still an owner, so the next night finishes it."""
    for number in attempts(folder):
        remove(folder / str(number) / json_files.BATCHES)
        for name in names_in(folder / str(number)):
            if name != json_files.NONCE:
                remove_folder(folder / str(number) / name)
    remove_folder(folder)
