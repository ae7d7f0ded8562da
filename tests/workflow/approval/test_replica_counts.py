"""`replicas_per_broker` of the policy, from planning to each batch: whoever made the plan, and whatever came since."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.policy import Policy
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun
from support.zookeeper.fake_zookeeper import put_topic

PARTITIONS = range(4)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, {"orders": dict.fromkeys(PARTITIONS, (1, 2))})


def planned(folder: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, limit: int) -> SimulatedRun:
    """A run that gives broker 4 a replica of each partition, one in a batch."""
    run = SimulatedRun(folder, cluster, monkeypatch, "orders")
    run.policy_file.write_text(f"{POLICY}partitions_per_batch: 1\nreplicas_per_broker: {limit}\n")
    entries = [{"topic": "orders", "partition": n, "replicas": [1, 4]} for n in PARTITIONS]
    run.plan(plan=json.dumps({"version": 1, "partitions": entries}), candidates=["leaders_only"])
    run.approve("given", RATE)
    return run


def test_a_plan_beyond_replicas_per_broker_is_not_begun_whatever_made_it(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a planner of before this limit, or one that does not heed it."""
    real = Policy.tighten
    heedless = lambda policy, asked, **about: dataclasses.replace(  # noqa: E731
        real(policy, asked, **about), replicas_per_broker=None
    )
    monkeypatch.setattr(Policy, "tighten", heedless)
    run = planned(tmp_path, cluster, monkeypatch, limit=3)
    before = cluster.tree()
    said = r"goes beyond the policy: broker 4 would hold 4 replicas, the policy allows 3 \(replicas_per_broker\)"
    with pytest.raises(AirflowFailException, match=said):
        run.hold()
    assert cluster.tree() == before


def test_replicas_that_came_since_the_snapshot_stop_the_batch_that_would_end_beyond_the_limit(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path, cluster, monkeypatch, limit=4)
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    put_topic(cluster.fake, "others", {0: (4,)}, version="2.8")
    # One of the plan, and the new one. The plan brings three more.
    said = r"broker 4: 2 replicas lie there today\. With what the approved plan still brings it would hold 5, and"
    with pytest.raises(ClusterNotReadyError, match=said):
        run.request()


def test_replicas_that_came_elsewhere_or_fit_stop_nothing(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 1 has more than the limit, and the plan brings it none."""
    run = planned(tmp_path, cluster, monkeypatch, limit=5)
    put_topic(cluster.fake, "others", {0: (4,), 1: (1,), 2: (1,)}, version="2.8")
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    assert run.request() == 2
