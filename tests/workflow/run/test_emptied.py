"""After a drain the verification looks at all topics of the (simulated) cluster, not at those of the plan alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.report import read_report
from kafka_rebalance.rebalance.request import approval_body
from kafka_rebalance.rebalance.verify import verify
from kafka_rebalance.workflow.run_step import run_step
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun, approved_run


def moved(run: SimulatedRun) -> None:
    run.hold()
    run.reassign()
    run_step(elect_leaders, run.dag_run, run.decision)
    run.release()


def test_a_drained_broker_that_holds_nothing_passes(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = approved_run(tmp_path, cluster, monkeypatch)
    moved(run)
    run_step(verify, run.dag_run, run.decision)
    checks = json_files.read_json(run.folder, json_files.VERIFICATION)["checks"]
    assert [(one["subject"], one["passed"]) for one in checks if one["name"] == "emptied"] == [("broker 2", True)]


def test_a_topic_made_meanwhile_on_a_drained_broker_fails_the_verification_by_name(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = approved_run(tmp_path, cluster, monkeypatch)
    moved(run)
    cluster.fake.put_json("/brokers/topics/late", {"version": 1, "partitions": {"0": [2, 3]}})
    with pytest.raises(AirflowFailException, match=r"emptied of broker 2: it holds 1 replicas of late \(1\)"):
        run_step(verify, run.dag_run, run.decision)


def test_the_approver_reads_what_stays_on_the_broker_and_why(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.plan(job="drain", drain=[2], topics_out=["audit"])
    asked = approval_body(read_report(run.folder))
    assert "1 replica stays on broker 2 (" in asked
    page = (run.folder / "report.html").read_text()
    for words in ("Stays on brokers to be emptied", "Broker 2 keeps 1 replica", "topics_out of the run"):
        assert words in page
    run.approve("light", RATE)
    moved(run)
    with pytest.raises(AirflowFailException, match=r"it holds 1 replicas of audit \(1\)"):
        run_step(verify, run.dag_run, run.decision)
