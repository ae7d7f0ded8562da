"""Somebody clears the first task while the run's copies are in flight: its XComs are gone, and the folder is not."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import update

from kafka_rebalance.documents.json_files import BATCHES, NONCE, PROPOSALS, SNAPSHOT, write_json
from kafka_rebalance.documents.storage import file_name
from support.airflow.airflow_home import RUNS
from support.airflow.web_run import NONCE_VALUE, SECRET, Run
from support.documents import report_samples as samples

pytestmark = pytest.mark.usefixtures("tables")

CONNECTION = "orders-prod"


def in_its_place(run: Run, attempt: int = 1, connection: str = CONNECTION, **conf: Any) -> Run:
    """The run's folder where every run has it, and no XCom that names it."""
    run.folder = RUNS / connection / file_name(run.run_id) / str(attempt)
    run.with_folder()
    owner = {"dag_id": run.dag_id, "run_id": run.run_id, "connection_id": connection, "attempt": attempt}
    write_json(run.folder, NONCE, {"nonce": NONCE_VALUE, "owner": owner})
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == run.run_id).values(conf=conf))
        session.query(XComModel).filter_by(run_id=run.run_id).delete()
    return run


@pytest.mark.parametrize("conf", [{"kafka_conn_id": CONNECTION}, {}], ids=["its conf names the cluster", "not"])
@pytest.mark.parametrize("state", ["running", "success", "failed"])
def test_a_run_whose_first_task_was_cleared_is_shown_with_its_files(get: Any, state: str, conf: Any) -> None:
    run = in_its_place(Run(state=state).with_tasks("snapshot", "render_report"), **conf)
    assert SECRET in get(run.url).text
    file = get(f"{run.url}/reassignments/balanced.json")
    assert (file.status_code, "partitions" in file.text) == (200, True)
    assert get(f"{run.url}/candidate?candidate=balanced").status_code == 200
    assert get(f"{run.url}/drift").status_code == 200


def test_an_attempt_that_has_begun_is_shown_until_a_newer_one_has_its_snapshot(get: Any) -> None:
    run = in_its_place(Run().with_tasks("snapshot", "render_report"))
    write_json(run.folder, BATCHES, {"batches": []})
    second = run.folder.parent / "2"
    second.mkdir()
    owner = {"dag_id": run.dag_id, "run_id": run.run_id, "connection_id": CONNECTION, "attempt": 2}
    write_json(second, NONCE, {"nonce": "second", "owner": owner})
    assert SECRET in get(run.url).text
    ours = {"dag_id": run.dag_id, "run_id": run.run_id, "reason": "of the second attempt"}
    write_json(second, SNAPSHOT, samples.snapshot(**ours))
    write_json(second, PROPOSALS, samples.proposals())
    assert "of the second attempt" in get(run.url).text


def test_the_folder_of_another_dags_run_of_the_same_name_is_not_shown(get: Any) -> None:
    run = in_its_place(Run().with_tasks("snapshot", "render_report"))
    owner = {"dag_id": "kafka_topics", "run_id": run.run_id, "connection_id": CONNECTION, "attempt": 1}
    write_json(run.folder, NONCE, {"nonce": NONCE_VALUE, "owner": owner})
    seen = get(run.url).text
    assert "No snapshot yet" in seen
    assert SECRET not in seen
