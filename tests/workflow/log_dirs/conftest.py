"""A run between log dirs on a simulated cluster, before its plan and after its approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs.log_dir_run import LogDirRun
from support.runs.simulated_cluster import SimulatedCluster
from support.runs.simulated_log_dirs import DRAIN, SimulatedLogDirs


@pytest.fixture
def dirs(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedLogDirs:
    return SimulatedLogDirs(monkeypatch, cluster)


@pytest.fixture
def run(
    tmp_path: Path, cluster: SimulatedCluster, dirs: SimulatedLogDirs, monkeypatch: pytest.MonkeyPatch
) -> LogDirRun:
    made = LogDirRun(tmp_path, cluster, monkeypatch)  # type: ignore[arg-type]
    monkeypatch.setattr("kafka_rebalance.run.snapshot_reader.STORM_PAUSE_SECONDS", 0)
    return made


@pytest.fixture
def approved(run: LogDirRun) -> LogDirRun:
    run.plan(**DRAIN, copies_per_broker=2)
    run.answer()
    return run
