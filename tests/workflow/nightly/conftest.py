"""A nightly check of a simulated cluster, all of which lies on brokers 1 and 2 of four."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_rebalance.documents.verdict import VERDICT_FILE, Verdict
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.workflow import airflow_state
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, Step


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Two brokers hold twice their share, and two nothing. Broker 1 leads everything."""
    return SimulatedCluster(monkeypatch, {"orders": dict.fromkeys(range(4), (1, 2))})


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """Only for its connection, policy and folders: the check is a Dag of its own."""
    return SimulatedRun(tmp_path, cluster, monkeypatch, run_id="scheduled__1")


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The runs of `kafka_rebalance` that Airflow would call running: none."""
    running: set[str] = set()
    monkeypatch.setattr(airflow_state, "is_active", lambda dag_id, run_id: run_id in running)
    return running


@pytest.fixture
def check(run: SimulatedRun, active: set[str]) -> Step:
    """The task `check`, and what it returns."""
    return lambda: run_step(check_cluster.check, run.dag_run, CONNECTION)


@pytest.fixture
def written(check: Step, tmp_path: Path) -> Callable[[], Verdict]:
    """The verdict.json of a check."""

    def read() -> Verdict:
        check()
        return VERDICT_FILE.read(max((tmp_path / "runs" / CONNECTION / "scheduled__1").iterdir()))

    return read
