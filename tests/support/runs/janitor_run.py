"""The janitor on a simulated cluster, and what Airflow answers it; simulated, too."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.janitor_report import JanitorReport, Sighting, write_janitor_report
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.janitor import look_after_cluster, look_after_lease
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION, open_lease
from support.runs.simulated_cluster import SimulatedRun

SIMULATED = "simulated-cluster-0001"


class Airflow:
    """What the API server answers; a run without a state does not exist."""

    def __init__(self) -> None:
        self.states = {"one": "running"}
        self.paused = False
        self.away = False

    def dagrun_state(self, dag_id: str, run_id: str) -> str:
        if self.away or run_id not in self.states:
            status = None if self.away else 404
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": status}))
        return self.states[run_id]

    @classmethod
    def answering(cls, monkeypatch: pytest.MonkeyPatch) -> Airflow:
        """One that tasks of this process ask; the janitor looks once and does not wait for another look."""
        made = cls()
        monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(made.dagrun_state))
        monkeypatch.setattr(
            RuntimeTaskInstance, "get_dag", staticmethod(lambda dag_id: SimpleNamespace(is_paused=made.paused))
        )
        monkeypatch.setattr(look_after_cluster, "WATCH_SECONDS", 0)
        return made


def janitors_run(by: str | None = None) -> Any:
    return SimpleNamespace(dag_id="kafka_throttle_janitor", run_id="now", triggering_user_name=by, run_type="scheduled")


def tend(by: str | None = None, of: str = CONNECTION, **params: Any) -> dict[str, Any]:
    given = {"kafka_conn_id": of if params else None, "clean": [], "break_lock": None, **params}
    return run_step(look_after_cluster.look_after_cluster, janitors_run(by), of, given)


def silent(run: SimulatedRun, seconds: float) -> None:
    """As if nobody had done anything for so long."""
    at = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
    lease = open_lease(SIMULATED)
    assert lease is not None
    lease_files.write(airflow_deployment(), dataclasses.replace(lease, taken_at=at))
    for name, key in ((json_files.BATCHES, "batches"), (json_files.PROGRESS, None)):
        if (run.folder / name).exists():
            document = json_files.read_json(run.folder, name)
            for batch in document.get("batches", []) if key else []:
                batch["created_at"] = at
            if key is None:
                document["updated_at"] = at
            document.pop("format_version")
            json_files.write_json(run.folder, name, document)
    write_report(JanitorReport(followed=Sighting(signs_of(run), datetime.fromisoformat(at), datetime.now(UTC))))


def last_report() -> JanitorReport:
    report = look_after_cluster.last_report(airflow_deployment(), CONNECTION)
    assert report is not None
    return report


def write_report(report: JanitorReport) -> None:
    """As if it were the last one."""
    write_janitor_report(airflow_deployment().runs_root, CONNECTION, report)


def signs_of(run: SimulatedRun) -> tuple[str, ...]:
    """What the janitor has seen of the run so far, as the lease and the folder tell it."""
    lease = open_lease(SIMULATED)
    assert lease is not None
    return tuple(map(str, (lease.taken_at, *look_after_lease._signs(airflow_deployment(), lease))))
