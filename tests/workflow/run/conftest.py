"""A simulated cluster of Kafka 2.8, and an approved run of several batches on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batched_run


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, TOPICS)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return batched_run(tmp_path, cluster, monkeypatch)
