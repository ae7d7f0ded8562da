"""Runs of two Dags may have one id: each keeps its rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow import airflow_state
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun


def test_the_samples_of_a_check_and_of_a_rebalance_of_one_id_are_both_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_state, "is_active", lambda *_: False)
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    run.plan(job="drain", drain=[2])
    of_the_run = ledger.read(airflow_deployment(), "metrics", CONNECTION, 1).rows
    checking = SimpleNamespace(**{**vars(run.dag_run), "dag_id": "kafka_balance_check"})
    for _ in range(2):  # a second try of the check replaces the rows of the first
        run_step(check_cluster.check, checking, CONNECTION)
    rows = ledger.read(airflow_deployment(), "metrics", CONNECTION, 1).rows
    assert len(of_the_run) > 0
    assert len(rows) == 2 * len(of_the_run)
