"""Where this product runs: what an operator has configured there, and what else runs there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka_rebalance.documents.storage import FolderOfRuns
from kafka_rebalance.execution.janitor.lease_custody import AirflowState
from kafka_rebalance.model.connection import ClusterConnection


class OtherRuns(Protocol):
    """What may be asked of the runs beside one's own: each question names one run, or one Dag."""

    def state(self, dag_id: str, run_id: str) -> AirflowState:
        """Of a run of this deployment; UNKNOWN where it does not tell."""

    def is_active(self, dag_id: str, run_id: str) -> bool:
        """Whether the run is queued or running; a run that does not exist is not. Raises where it is not told."""

    def is_skipped(self, dag_id: str, run_id: str, task_id: str) -> bool:
        """Whether that task of the run was skipped; False where it is not told."""

    def is_paused(self, dag_id: str) -> bool | None:
        """None where there is no such Dag. Raises ReadError where it is not told."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """`address` is for people. `frozen_text` is what the freeze switch holds: asked before each write, and never kept;
    it raises ReadError. `read_connection` raises ConnectionSettingsError.
    """

    runs_root: FolderOfRuns
    open_folder: Callable[[str], FolderOfRuns]  # by its URL; nothing is read
    address: str
    policies_folder: Path
    plans_folder: Path
    read_connection: Callable[[str], ClusterConnection]
    frozen_text: Callable[[], str | None]
    other_runs: OtherRuns


class _Given:
    """A bridge until each step is given its deployment: who runs steps says once, for the process, how to find it."""

    find: Callable[[], Deployment] | None = None


def provide(find: Callable[[], Deployment]) -> None:
    """From now on the steps of this process run where `find` says. It is asked at each use: settings change."""
    _Given.find = find


def current() -> Deployment:
    """Where the steps of this process run."""
    if _Given.find is None:
        raise RuntimeError("Nobody has said where this runs: see kafka_rebalance.steps.deployment.provide.")
    return _Given.find()


def read_connection(connection_id: str) -> ClusterConnection:
    """The cluster's connection. Raises ConnectionSettingsError, which says where to make one."""
    return current().read_connection(connection_id)
