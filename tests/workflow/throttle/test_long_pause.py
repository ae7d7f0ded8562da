"""A run that waits between two batches for more than an hour, under its throttle, alerts. The cluster is simulated."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import UnwatchedError
from kafka_rebalance.rebalance.progress_notes import write_waiting
from kafka_rebalance.throttle import suspend_throttle
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import (
    FEWER_TOPICS,
    TOPICS,
    SimulatedCluster,
    SimulatedRun,
    approved_run,
    batched_run,
    freeze,
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, TOPICS)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """Approved, in several batches."""
    return batched_run(tmp_path, cluster, monkeypatch)


@pytest.mark.parametrize("clock_ahead", [-86_400.0, 0.0, 86_400.0])
def test_a_pause_of_more_than_an_hour_alerts_and_a_shorter_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock_ahead: float
) -> None:
    run = approved_run(tmp_path, SimulatedCluster(monkeypatch, FEWER_TOPICS), monkeypatch)
    Airflow.answering(monkeypatch)
    monkeypatch.setattr(
        "kafka_rebalance.throttle.lease_copies.now_text",
        lambda: time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + clock_ahead)),
    )
    run.hold()
    began = time.time() + clock_ahead + 5
    for seconds in (0, 1800, 3500):
        write_waiting(run.folder, began + seconds, ["Broker 3 is not registered."])
        assert tend()["alerts"] == []
    write_waiting(run.folder, began + 3700, ["Broker 3 is not registered."])
    with pytest.raises(UnwatchedError, match=r"has waited for 1\.0 h: Broker 3 is not registered"):
        tend()


def test_the_policy_says_how_long_a_pause_may_last_before_it_alerts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = approved_run(tmp_path, SimulatedCluster(monkeypatch, FEWER_TOPICS), monkeypatch)
    Airflow.answering(monkeypatch)
    run.hold()
    began = time.time() + 5
    for seconds in (0, 200):
        write_waiting(run.folder, began + seconds, ["Broker 3 is not registered."])
    assert tend()["alerts"] == []
    run.policy_file.write_text(f"{POLICY}long_pause_seconds: 180\n")
    with pytest.raises(UnwatchedError, match=r"Broker 3 is not registered"):
        tend()


def test_a_pause_until_a_window_opens_alerts_only_once_the_window_has_been_open_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimulatedCluster(monkeypatch, FEWER_TOPICS)
    run = approved_run(tmp_path, cluster, monkeypatch)
    Airflow.answering(monkeypatch)
    run.hold()
    began, hour = time.time() + 5, 3600
    opens_at = datetime.fromtimestamp(began + 20 * hour, UTC)
    for hours in (0, 10, 19.9, 20.9):
        write_waiting(run.folder, began + hours * hour, ["No batch begins before 22:00."], opens_at)
        report = tend()
        assert report["alerts"] == []
        assert any("is paused until" in line for line in report["lines"]) == (hours < 20)
        assert cluster.throttles() == {}, "the janitor finishes what a worker could not put back"
    write_waiting(run.folder, began + 21.1 * hour, ["No batch begins before 22:00."], opens_at)
    with pytest.raises(UnwatchedError, match=r"has waited for 1\.1 h: No batch begins before 22:00"):
        tend()


OTHERS = {"leader.replication.throttled.rate": "777"}
LIST = {"leader.replication.throttled.replicas": "7:1"}


def put_config(cluster: SimulatedCluster, entity: str, values: dict[str, str]) -> None:
    cluster.fake.put_json(f"/config/{entity}", {"version": 1, "config": values})


def between_batches(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> dict[str, dict[str, str]]:
    """The first batch is done, and the next one has waited for two hours; returns the throttle that was set."""
    Airflow.answering(monkeypatch)
    run.hold()
    held = cluster.throttles()
    assert run.request() == 1
    cluster.controller.run()
    assert run.follow(1)[0] is not None
    began = time.time() + 5
    for seconds in (0, 7200):
        write_waiting(run.folder, began + seconds, ["Broker 4 is not registered."])
    return held


def brokers(throttles: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """The rates; lists are those of one batch."""
    return {entity: values for entity, values in throttles.items() if entity.startswith("brokers/")}


def suspended(run: SimulatedRun) -> object:
    return json_files.read_json(run.folder, json_files.THROTTLE)["suspended_at"]


def test_a_throttle_is_put_back_in_a_long_pause_and_set_again_before_the_next_batch(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_config(cluster, "brokers/1", OTHERS)
    held = between_batches(run, cluster, monkeypatch)
    with pytest.raises(UnwatchedError, match="Its throttle is put back meanwhile"):
        tend()
    assert cluster.throttles() == {"brokers/1": OTHERS}
    assert suspended(run) is not None
    assert cluster.leftovers()[0] == "/kafka_rebalance/run", "the run keeps the cluster"
    seen = cluster.tree()
    report = tend()  # it was told, and nothing is left to do
    assert report["findings"] == []
    assert cluster.tree() == seen
    # What others change meanwhile is what comes back.
    put_config(cluster, "brokers/1", {})
    put_config(cluster, "brokers/3", OTHERS)
    put_config(cluster, "topics/orders", LIST)
    assert run.request() == 2
    assert suspended(run) is None
    now = cluster.throttles()
    assert brokers(now) == brokers(held)
    assert now["topics/orders"]["leader.replication.throttled.replicas"].startswith("7:1,")
    assert now["brokers/3"] == held["brokers/3"]
    cluster.controller.run()
    assert run.resume(run.follow(2)[0] or {}) is None
    run.release()
    assert cluster.throttles() == {"brokers/3": OTHERS, "topics/orders": LIST}


def test_a_throttle_that_is_put_back_for_now_is_held_again_where_its_setup_is_cleared(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = between_batches(run, cluster, monkeypatch)
    with pytest.raises(UnwatchedError):
        tend()
    put_config(cluster, "topics/orders", LIST)
    run.hold()
    assert suspended(run) is None
    assert brokers(cluster.throttles()) == brokers(held)
    run.release()
    assert cluster.throttles() == {"topics/orders": LIST}


def test_a_rate_that_is_changed_in_a_long_pause_is_the_one_of_the_next_batch(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_batches(run, cluster, monkeypatch)
    with pytest.raises(UnwatchedError):
        tend()
    change_rate(airflow_deployment(), run.folder, 3_000_000, by="olive")
    assert cluster.throttles() == {}
    assert run.request() == 2
    assert {value for values in cluster.throttles().values() for key, value in values.items() if "rate" in key} == {
        "3000000"
    }
    cluster.controller.run()
    run.resume(run.follow(2)[0] or {})
    run.release()
    assert cluster.throttles() == {}


def test_a_run_that_goes_on_at_the_moment_in_which_the_janitor_looks_keeps_its_throttle(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = between_batches(run, cluster, monkeypatch)
    freeze(monkeypatch, suspend_throttle, "copying_of", run.request)
    with pytest.raises(UnwatchedError):
        tend()
    assert suspended(run) is None
    assert brokers(cluster.throttles()) == brokers(held)
