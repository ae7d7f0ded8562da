"""What the tests of this folder share costs each of them little."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batched_run


def test_clusters_that_look_alike_are_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "another"):
        folder = tmp_path / name
        folder.mkdir()
        batched_run(folder, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
        monkeypatch.setattr(SimulatedRun, "plan", lambda *_, **__: pytest.fail("it was planned again"))
