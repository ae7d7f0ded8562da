"""A throttle that somebody lifts or changes while copies run under it is told within 15 s. The cluster is simulated."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ThrottleError, UnwatchedError
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.throttle.put_back import LOOK_SECONDS
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun, batched_run


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, TOPICS)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """Its first batch copies."""
    made = batched_run(tmp_path, cluster, monkeypatch)
    made.hold()
    assert made.request() == 1
    cluster.step()
    return made


def follower_of(run: SimulatedRun) -> BatchFollower:
    return BatchFollower(read_connection(CONNECTION), run.folder, run.decision["choice"], 1, 1800.0)


def change(cluster: SimulatedCluster, kind: str, how: Callable[[str, str], str | None]) -> None:
    """Somebody gives throttle keys of all topics or brokers another value; None takes the key away."""
    for entity, values in cluster.throttles().items():
        if entity.startswith(kind):
            found = {key: new for key, value in values.items() if (new := how(key, value)) is not None}
            cluster.fake.put_json(f"/config/{entity}", {"version": 1, "config": found})


def told(run: SimulatedRun) -> str:
    return "\n".join(json_files.read_json(run.folder, json_files.PROGRESS)["anomalies"])


@pytest.mark.parametrize("kind", ["brokers", "topics"])
def test_a_throttle_that_verify_lifts_in_mid_copy_is_told_within_fifteen_seconds(
    run: SimulatedRun, cluster: SimulatedCluster, kind: str
) -> None:
    follower, said = follower_of(run), list[str]()
    follower.look(1000.0, said.append)
    assert told(run) == ""
    change(cluster, kind, lambda key, value: None)
    before = cluster.tree()
    follower.look(1000.0 + LOOK_SECONDS, said.append)
    assert "Somebody has lifted or changed the throttle of copies that run now" in told(run)
    assert "Clear hold_throttle" in told(run)
    assert sum("lifted or changed" in line for line in said) == 1
    assert cluster.tree() == before, "a follower writes nothing"
    events = [event["text"] for event in json_files.read_json(run.folder, json_files.PROGRESS)["events"]]
    assert any("lifted or changed" in text for text in events)


def test_another_rate_is_told_and_one_that_people_asked_for_is_not(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    follower = follower_of(run)
    change_rate(airflow_deployment(), run.folder, RATE + 1, by="olive")
    follower.look(1000.0, lambda _: None)
    assert told(run) == ""
    change(cluster, "brokers", lambda key, value: "999999999")
    follower.look(1000.0 + LOOK_SECONDS, lambda _: None)
    assert "is '999999999', it must be" in told(run)


def test_more_entries_in_a_list_and_one_of_all_replicas_are_no_difference(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    change(cluster, "topics/orders", lambda key, value: "*")
    change(cluster, "topics/audit", lambda key, value: f"{value},9:9")
    follower_of(run).look(1000.0, lambda _: None)
    assert told(run) == ""


def test_it_is_over_once_the_throttle_is_held_again_and_no_batch_follows_before(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    follower = follower_of(run)
    change(cluster, "brokers", lambda key, value: None)
    follower.look(1000.0, lambda _: None)
    assert "lifted or changed" in told(run)
    run.hold()
    follower.look(1000.0 + LOOK_SECONDS, lambda _: None)
    assert told(run) == ""
    change(cluster, "brokers", lambda key, value: None)
    cluster.controller.run()
    with pytest.raises(ThrottleError, match="not in force"):
        run.request()


def test_the_janitor_alerts_where_a_throttle_was_lifted_from_copies_that_run(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    follower_of(run).look(time.time(), lambda _: None)
    assert tend()["alerts"] == []
    change(cluster, "brokers", lambda key, value: None)
    with pytest.raises(UnwatchedError, match="lifted or changed the throttle"):
        tend()
