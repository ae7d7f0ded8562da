"""A deployment without Airflow: folders below a temporary one, and answers that are written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_rebalance.errors import ConnectionSettingsError, ReadError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.run.inputs import Deployment


@dataclass
class ToldRuns:
    """Of a run that is not named here it is told that it is gone. `paused` is what is told of every Dag."""

    states: dict[tuple[str, str], AirflowState] = field(default_factory=dict)
    tasks: Mapping[str, str] | None = field(default_factory=dict)  # the states of every run's tasks
    paused: bool | ReadError | None = False
    decisions: dict[tuple[str, str], object] = field(default_factory=dict)  # what `approve` of a run has told

    def state(self, dag_id: str, run_id: str) -> AirflowState:
        return self.states.get((dag_id, run_id), AirflowState.GONE)

    def is_active(self, dag_id: str, run_id: str) -> bool:
        return self.state(dag_id, run_id) in (AirflowState.RUNNING, AirflowState.PAUSED)

    def task_states(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> Mapping[str, str] | None:
        return None if self.tasks is None else {task: self.tasks[task] for task in task_ids if task in self.tasks}

    def told_decision(self, dag_id: str, run_id: str) -> object:
        return self.decisions.get((dag_id, run_id))

    def is_paused(self, dag_id: str) -> bool | None:
        if isinstance(self.paused, ReadError):
            raise self.paused
        return self.paused


def plain_deployment(
    folder: Path, connections: Mapping[str, ClusterConnection] | None = None, **changed: object
) -> Deployment:
    """`changed` are fields of it. Policies are files of `folder / "policies"`, which is made."""

    def read_connection(connection_id: str) -> ClusterConnection:
        if connection_id not in (connections or {}):
            raise ConnectionSettingsError(f"There is no connection {connection_id!r}.")
        return (connections or {})[connection_id]

    (folder / "policies").mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "runs_root": folder / "runs",
        "open_folder": Path,
        "address": "https://airflow.example",
        "policies_folder": folder / "policies",
        "plans_folder": folder / "plans",
        "read_connection": read_connection,
        "has_connection": lambda connection_id: connection_id in (connections or {}),
        "frozen_text": lambda: None,
        "other_runs": ToldRuns(),
    }
    return Deployment(**(given | changed))
