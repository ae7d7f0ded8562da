"""Runs that wait for an answer keep no other run of their Dag in the queue, by Airflow's own choice of queued runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import delete

from support.airflow.control_plane import bring_dags_in

WAITING = 40  # more than Airflow's default of 16


@pytest.fixture(scope="module", autouse=True)
def dags() -> None:
    bring_dags_in()


@pytest.fixture(params=["kafka_rebalance", "kafka_rebalance_cancel", "kafka_topics", "kafka_log_dirs"])
def dag_id(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == request.param, DagRun.run_id.like("waits-%")))
        session.execute(delete(DagRun).where(DagRun.dag_id == request.param, DagRun.run_id == "urgent"))


def test_an_urgent_run_starts_beside_forty_that_wait_for_an_answer(dag_id: str) -> None:
    now = datetime.now(UTC) - timedelta(hours=1)
    runs = [(f"waits-{number}", DagRunState.RUNNING) for number in range(WAITING)] + [("urgent", DagRunState.QUEUED)]
    with create_session() as session:
        for run_id, state in runs:
            made = DagRun(dag_id=dag_id, run_id=run_id, run_type="manual", run_after=now, queued_at=now)
            made.state = state
            session.add(made)
        session.flush()
        chosen = list(DagRun.get_queued_dag_runs_to_set_running(session))
        assert "urgent" in {run.run_id for run in chosen if run.dag_id == dag_id}
