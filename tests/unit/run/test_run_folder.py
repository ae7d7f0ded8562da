"""Runs of two Dags may have one id, and then share a folder; and names of any length that Airflow allows."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import file_name
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.nightly.remove_old import remove_old
from kafka_rebalance.nightly.why_not_propose import proposal_of
from kafka_rebalance.run.clusters import LOG_DIRS_DAG, REBALANCE_DAG, TOPICS_DAG
from kafka_rebalance.run.inputs import Deployment, StartedRun, StepInputs
from kafka_rebalance.run.run_folder import create_run_folder, folder_of_run, newest_attempt
from support.runs.plain_deployment import plain_deployment

CONNECTION, ONE_ID = "kafka_eu", "CHG-1234"


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return plain_deployment(tmp_path)


def made(deployment: Deployment, dag_id: str, run_id: str = ONE_ID) -> Path:
    folder, _ = create_run_folder(deployment, CONNECTION, StartedRun(dag_id, run_id))
    assert isinstance(folder, Path)
    return folder


def test_the_newest_attempt_is_that_of_the_dag_that_is_asked_for(deployment: Deployment) -> None:
    first, _, second, last = (made(deployment, dag) for dag in (REBALANCE_DAG, TOPICS_DAG, REBALANCE_DAG, TOPICS_DAG))
    run = folder_of_run(deployment, CONNECTION, ONE_ID)
    assert (newest_attempt(run, REBALANCE_DAG), newest_attempt(run, TOPICS_DAG)) == (second, last)
    assert newest_attempt(run, LOG_DIRS_DAG) is None
    assert first.name == "1"


def test_an_attempt_whose_first_task_failed_at_once_is_nobodys(deployment: Deployment) -> None:
    folder = made(deployment, REBALANCE_DAG)
    (folder.parent / "2" / "snapshot").mkdir(parents=True)
    assert newest_attempt(folder.parent, REBALANCE_DAG) == folder


def test_a_damaged_record_of_the_owner_is_an_error_and_not_another_attempt(deployment: Deployment) -> None:
    made(deployment, REBALANCE_DAG)
    later = made(deployment, REBALANCE_DAG)
    (later / json_files.NONCE).write_text("{")
    with pytest.raises(ArtifactError):
        newest_attempt(later.parent, REBALANCE_DAG)


@pytest.mark.parametrize("is_open", [REBALANCE_DAG, TOPICS_DAG])
def test_a_folder_stays_while_a_run_of_any_dag_in_it_is_open(
    tmp_path: Path, deployment: Deployment, is_open: str
) -> None:
    (tmp_path / "policies" / f"{CONNECTION}.yaml").write_text("approvers: [uma]\nkeep_runs_days: 1\n")
    folders = [made(deployment, REBALANCE_DAG), made(deployment, TOPICS_DAG)]
    at = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    for folder in folders:
        for file in folder.iterdir():
            os.utime(file, (at, at))
    states = deployment.other_runs.states  # type: ignore[attr-defined]
    states |= {(dag, ONE_ID): AirflowState.OVER for dag in (REBALANCE_DAG, TOPICS_DAG)}
    states[is_open, ONE_ID] = AirflowState.RUNNING
    inputs = StepInputs(StartedRun("kafka_ledger", "tonight"), deployment, lambda *_: None)
    remove_old(inputs)
    assert all(folder.exists() for folder in folders)
    states[is_open, ONE_ID] = AirflowState.OVER
    remove_old(inputs)
    assert not any(folder.exists() for folder in folders)


# --- names ---


@pytest.mark.parametrize("length", [1, 166, 191, 192, 250, 5000])
@pytest.mark.parametrize("mark", ["x", "+", "é"])
def test_a_name_of_any_length_is_one_that_a_disk_takes(tmp_path: Path, length: int, mark: str) -> None:
    name = file_name(mark + "y" * (length - 1))
    (tmp_path / f".{name}.parquet.{'0' * 16}.part").write_text("")
    assert name != file_name(mark + "y" * length)
    assert name != file_name(("z" if mark == "x" else "-") + "y" * (length - 1))


def test_a_short_name_stays_as_it_was() -> None:
    """Runs that are open outlive an upgrade."""
    assert file_name("manual__2026-11-27") == "manual__2026-11-27"
    assert file_name("manual__2026-11-27T00:00:00+00:00") == "manual__2026-11-27T00_00_00_00_00-773e71e0"
    assert file_name("y" * 191) == "y" * 191


def test_a_check_with_a_long_run_id_starts_a_rebalance_whose_id_airflow_takes() -> None:
    assert proposal_of("tonight", CONNECTION) == "proposed__tonight__kafka_eu"
    long = [proposal_of("y" * 250, connection) for connection in (CONNECTION, "kafka_us")]
    assert [len(name) for name in long] == [250, 250]
    assert long[0] != long[1]
