"""The lists of throttled replicas from batch to batch: those of the batch under way. The cluster is simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.kafka.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kafka_rebalance.zookeeper import config_writes
from support.runs.janitor_run import Airflow, tend
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batched_run, freeze

THEIRS = "7:1"
STATE = "/brokers/topics/{}/partitions/{}/state"


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, TOPICS, request.param)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return batched_run(tmp_path, cluster, monkeypatch)


def listed(cluster: SimulatedCluster) -> set[tuple[str, str, str]]:
    """(topic, key, entry) of every list."""
    return {
        (entity.removeprefix("topics/"), key, entry)
        for entity, values in cluster.throttles().items()
        for key, value in values.items()
        if key in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
        for entry in value.split(",")
    }


def of_batch(run: SimulatedRun, number: int) -> set[tuple[str, str, str]]:
    return {
        (move.topic_partition.topic, key, f"{move.topic_partition.partition}:{broker}")
        for move in run.candidate.batches[number - 1].moves
        for key, those in ((LEADER_REPLICAS, move.before), (FOLLOWER_REPLICAS, move.added))
        for broker in those
    }


def rates(cluster: SimulatedCluster) -> dict[str, dict[str, str]]:
    return {entity: values for entity, values in cluster.throttles().items() if entity.startswith("brokers/")}


def first_batch_over(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()


def test_the_throttled_lists_are_those_of_the_batch_under_way(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    cluster.fake.put_json("/config/topics/orders", {"version": 1, "config": {LEADER_REPLICAS: THEIRS}})
    theirs = {("orders", LEADER_REPLICAS, THEIRS)}
    run.hold()
    assert listed(cluster) == of_batch(run, 1) | theirs
    held = rates(cluster)
    assert run.request() == 1
    cluster.controller.run()
    assert run.resume(run.follow(1)[0] or {}) == 2
    assert listed(cluster) == of_batch(run, 2) | theirs
    assert rates(cluster) == held, "rates stay for the whole run"
    run.hold()  # cleared in mid-copy: nothing of the batch under way is lost
    assert listed(cluster) == of_batch(run, 2) | theirs
    cluster.controller.run()
    assert run.resume(run.follow(2)[0] or {}) is None
    run.release()
    assert listed(cluster) == theirs


def test_no_batch_is_requested_where_somebody_has_lifted_a_rate(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    first_batch_over(run, cluster)
    entity = next(iter(rates(cluster)))
    cluster.fake.put_json(f"/config/{entity}", {"version": 1, "config": {}})
    with pytest.raises(ThrottleError, match="is not in force"):
        run.request()
    assert len(cluster.requests) == 1
    assert listed(cluster) == of_batch(run, 1)


def test_a_worker_that_stood_still_takes_no_list_of_the_next_batch_off(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_batch_over(run, cluster)
    freeze(monkeypatch, config_writes, "merge_config", run.request)
    assert run.request() == 2, "it finds what the other has requested"
    assert listed(cluster) == of_batch(run, 2)
    assert len(cluster.requests) == 2


def test_nobody_is_accused_where_a_broker_of_a_batch_that_is_over_catches_up(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    Airflow.answering(monkeypatch)
    first_batch_over(run, cluster)
    assert run.resume(run.follow(1)[0] or {}) == 2
    move = run.candidate.batches[0].moves[0]
    path = STATE.format(*move.topic_partition)
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [b for b in move.after if b not in move.added]})
    run.follow(2, until=lambda: True)
    assert tend()["alerts"] == []
