"""A Dag run in Airflow's database with a folder of samples: what the run's tab is asked for in tests."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import insert

from kafka_rebalance.documents.json_files import JANITOR, PROPOSALS, SNAPSHOT, write_json
from kafka_rebalance.run.clusters import LOG_DIRS_DAG
from kafka_rebalance.run.run_folder import NONCE
from support.airflow.airflow_home import RUNS
from support.documents import report_samples as samples

NONCE_VALUE = "12345678901234567890123456789012"  # all digits: must not be read as a number
SECRET = "only for eyes with permission"


class Run:
    """A Dag run in the database, and its folder."""

    def __init__(self, dag_id: str = "kafka_rebalance", state: str = "running") -> None:
        self.dag_id = dag_id
        self.first_task = "plan" if dag_id == LOG_DIRS_DAG else "snapshot"  # pushes folder and nonce
        self.run_id = f"manual__2026-05-03T14:31:58+00:00_{uuid.uuid4().hex[:8]}"
        self.folder = RUNS / "orders-prod" / uuid.uuid4().hex
        self.url = f"/kafka-rebalance/run/{dag_id}/{quote(self.run_id, safe='')}"
        with create_session() as session:
            session.add(
                DagRun(dag_id=dag_id, run_id=self.run_id, run_type="manual", state=state, run_after=datetime.now(UTC))
            )

    def with_tasks(self, *tasks: str) -> Run:
        values = {
            "dag_id": self.dag_id,
            "run_id": self.run_id,
            "map_index": -1,
            "state": "success",
            "pool": "default_pool",
        }
        values |= {"try_number": 1, "max_tries": 0, "pool_slots": 1, "priority_weight": 1, "queue": "default"}
        with create_session() as session:
            for task in tasks:
                session.execute(insert(TaskInstance).values(id=uuid.uuid4(), task_id=task, **values))
        return self

    def with_xcom(self, **values: Any) -> Run:
        with create_session() as session:
            dag_run_id = session.query(DagRun.id).filter_by(dag_id=self.dag_id, run_id=self.run_id).scalar()
            for key, value in values.items():
                session.add(
                    XComModel(
                        dag_run_id=dag_run_id, dag_id=self.dag_id, run_id=self.run_id, task_id=self.first_task,
                        map_index=-1, key=key, value=value, timestamp=datetime.now(UTC),
                    )
                )  # fmt: skip
        return self

    def with_folder(self, nonce: str = NONCE_VALUE, **snapshot: Any) -> Run:
        self.folder.mkdir(parents=True)
        write_json(self.folder, NONCE, {"nonce": nonce})
        ours = {"dag_id": self.dag_id, "run_id": self.run_id, "reason": SECRET}
        write_json(self.folder, SNAPSHOT, samples.snapshot(**ours | snapshot))
        write_json(self.folder, PROPOSALS, samples.proposals())
        return self

    def ready(self) -> Run:
        return (
            self.with_tasks("snapshot", "render_report")
            .with_folder()
            .with_xcom(run_folder=str(self.folder), nonce=NONCE_VALUE)
        )


OMAR = [{"id": "7", "name": "omar"}]


def waiting(
    run: Run, subject: str = "Rebalance of orders-prod: 12 GiB", assigned: list[dict[str, str]] | None = OMAR
) -> None:
    """The run asks for its approval; one person may answer. `assigned` None: anybody may."""
    with create_session() as session:
        ti_id = uuid.uuid4()
        session.execute(insert(TaskInstance).values(
            id=ti_id, task_id="approve", dag_id=run.dag_id, run_id=run.run_id, map_index=-1, state="awaiting_input",
            pool="default_pool", try_number=1, max_tries=0, pool_slots=1, priority_weight=1, queue="default",
        ))  # fmt: skip
        session.add(HITLDetail(ti_id=ti_id, options=["light"], subject=subject, params={},
                               assignees=assigned))  # fmt: skip


def janitor_report(connection: str, looked_at: datetime, **changes: Any) -> None:
    """What the janitor writes of a cluster."""
    (RUNS / JANITOR).mkdir(exist_ok=True)
    empty = {"lock": None, "alerts": [], "warnings": [], "findings": []}
    write_json(RUNS / JANITOR, f"{connection}.json", {"looked_at": looked_at.isoformat(), **empty, **changes})
