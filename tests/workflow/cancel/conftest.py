"""A rebalance in two batches on a simulated cluster, as 2.0 and 2.8 behave, and a run that stops or cancels it."""

from __future__ import annotations

import pytest

from support.runs.cancel_run import CancelRun, begin, cancellable_cluster
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return cancellable_cluster(monkeypatch, request.param)


@pytest.fixture
def canceller(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> CancelRun:
    return CancelRun(monkeypatch)


@pytest.fixture
def begun(run: SimulatedRun, cluster: SimulatedCluster, canceller: CancelRun) -> CancelRun:
    """The first batch is being copied, and nothing is requested of its end yet."""
    begin(run, cluster)
    return canceller


@pytest.fixture
def approved(begun: CancelRun) -> CancelRun:
    """The cancelling of the first batch is approved."""
    begun.approved()
    return begun
