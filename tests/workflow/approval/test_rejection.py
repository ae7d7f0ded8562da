"""A proposal beside the one that was rejected before: what the next approver is told."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.rebalance.report import read_report
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def planned(folder: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, run_id: str) -> SimulatedRun:
    made = SimulatedRun(folder, cluster, monkeypatch, run_id)
    made.plan(job="drain", drain=[2], topics_out=["idle"], candidates=["light"])
    return made


def answered(run_id: str, choice: str | None, **answer: Any) -> None:
    now = datetime.now(UTC)
    row = {"dag_id": "kafka_rebalance", "run_id": run_id, "choice": choice, "by": "uma", "at": AT, **answer}
    ledger.append(airflow_deployment(), "decisions", CONNECTION, f"{run_id}{choice}", now, [row])


def rejected(run: SimulatedRun) -> Any:
    return json_files.read_json(run.folder, json_files.REJECTION)["rejected"]


def test_the_same_proposal_again_is_told_with_who_rejected_it_and_why(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned(tmp_path, cluster, monkeypatch, "one")
    assert rejected(first) is None
    json_files.write_json(
        first.folder, json_files.DECISION, {"choice": "Reject", "approved_by": {"id": "3", "name": "uma"}}
    )
    answered("one", "Reject", note="not on a Friday", by="3")
    found = rejected(planned(tmp_path, cluster, monkeypatch, "two"))
    assert (found["run_id"], found["by"], found["note"]) == ("one", "uma", "not on a Friday")
    assert found["at"] == AT.isoformat()
    assert found["then"] == found["now"]
    assert found["now"]["partitions"] == len(first_moves(first))
    assert found["same_moves"] == 1.0


def first_moves(run: SimulatedRun) -> Any:
    report = read_report(run.folder)
    return next(one for one in report.candidates if one.name == report.recommended).largest_moves


def test_what_changed_since_is_told_and_the_report_has_it(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(tmp_path, cluster, monkeypatch, "one")
    answered("one", "Reject")
    second = SimulatedRun(tmp_path, cluster, monkeypatch, "two")
    second.plan(job="drain", drain=[3], candidates=["light"])
    found = read_report(second.folder).rejection
    assert found is not None
    assert found.then is not None
    assert found.same_moves is not None
    assert found.same_moves < 1
    assert (found.came, found.went) == ((), ())


def test_an_approval_since_then_or_an_answer_that_did_not_count_changes_who_is_named(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(tmp_path, cluster, monkeypatch, "one")
    answered("one", "Reject")
    answered("expired", None)
    assert rejected(planned(tmp_path, cluster, monkeypatch, "two"))["run_id"] == "one"
    answered("two", "light")
    assert rejected(planned(tmp_path, cluster, monkeypatch, "three")) is None


def test_a_run_whose_folder_is_gone_is_still_named(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned(tmp_path, cluster, monkeypatch, "one")
    answered("one", "Reject")
    shutil.rmtree(first.folder.parent)
    found = rejected(planned(tmp_path, cluster, monkeypatch, "two"))
    assert (found["run_id"], found["then"], found["same_moves"]) == ("one", None, None)


def test_a_damaged_file_of_the_rejected_run_stops_no_plan(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned(tmp_path, cluster, monkeypatch, "one")
    answered("one", "Reject")
    (first.folder / "moves" / "part-0.parquet").write_bytes(b"no Parquet")
    found = rejected(planned(tmp_path, cluster, monkeypatch, "two"))
    assert (found["run_id"], found["then"], found["same_moves"]) == ("one", None, None)
