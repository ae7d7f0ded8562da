"""Where steps run that no Airflow runs: a folder, one connection, and no other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.run.deployment import Deployment


class NoAirflow:
    """Other runs, of which there are none here."""

    def state(self, dag_id: str, run_id: str) -> AirflowState:
        return AirflowState.UNKNOWN

    def is_active(self, dag_id: str, run_id: str) -> bool:
        return False

    def task_states(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> Mapping[str, str] | None:
        return {}

    def is_paused(self, dag_id: str) -> bool | None:
        return None


def deployment_without_airflow(connection: ClusterConnection, out: Path) -> Deployment:
    """All files below `out`, and this connection under any id.

    Nothing is ever written to the cluster: it counts as frozen. A policy below `out` is only planned with.
    """
    return Deployment(
        runs_root=out,
        open_folder=Path,
        address="",
        policies_folder=out / "policies",
        plans_folder=out / "plans",
        read_connection=lambda _: connection,
        has_connection=lambda _: True,
        frozen_text=lambda: "true",
        other_runs=NoAirflow(),
    )
