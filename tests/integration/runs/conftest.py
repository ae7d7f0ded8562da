"""What a whole run of a real cluster needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_rebalance.local_cluster import LocalCluster
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> InProcessRun:
    return InProcessRun(tmp_path, cluster, monkeypatch)


@pytest.fixture
def kafka(cluster: LocalCluster) -> Iterator[WatchedCluster]:
    """Afterwards nothing of any run may be left on the cluster."""
    watched = WatchedCluster(cluster)
    yield watched
    assert watched.leftovers() == []
