"""A run of one batch, which takes its throttle, and an Airflow that the janitor asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs.janitor_run import Airflow
from support.runs.simulated_cluster import FEWER_TOPICS, SimulatedCluster, SimulatedRun, approved_run


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, FEWER_TOPICS)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return approved_run(tmp_path, cluster, monkeypatch)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    return Airflow.answering(monkeypatch)
