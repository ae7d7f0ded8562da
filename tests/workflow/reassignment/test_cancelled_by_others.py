"""Somebody else cancels our batch in mid-copy: that is told as such, and the batch is not requested again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.run import stop_and_cancel_requests
from kafka_rebalance.workflow.hooks import read_connection
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, batches, given_run
from support.zookeeper.fake_zookeeper import REASSIGN

LISTS = {"same order": ((1, 2), (1, 4), (1, 2)), "another order": ((1, 2), (4, 2), (2, 1))}  # before, after, back


@pytest.fixture(params=LISTS)
def lists(request: pytest.FixtureRequest) -> tuple[Sequence[int], ...]:
    return LISTS[request.param]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, lists: tuple[Sequence[int], ...]) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, {"orders": {0: lists[0], 1: (1, 3)}})


@pytest.fixture
def run(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, lists: tuple[Sequence[int], ...]
) -> SimulatedRun:
    approved = {TopicPartition("orders", 0): lists[1], TopicPartition("orders", 1): (2, 3)}
    made = given_run(tmp_path, cluster, monkeypatch, approved)
    made.hold()
    assert made.request() == 1
    return made


def follower_of(run: SimulatedRun) -> BatchFollower:
    return BatchFollower(read_connection(CONNECTION), run.folder, "given", 1, 600)


def cancel_by_api(cluster: SimulatedCluster, back: Sequence[int]) -> None:
    """As the controller of 2.4 or later answers AlterPartitionReassignments without a target."""
    path = "/brokers/topics/orders"
    document = cluster.fake.json(path)
    document["partitions"]["0"] = list(back)
    for name in ("adding_replicas", "removing_replicas"):
        document[name] = {}
    cluster.controller._targets.clear()
    cluster.fake.put_json(path, document)
    state = cluster.fake.json(f"{path}/partitions/0/state")
    cluster.fake.put_json(f"{path}/partitions/0/state", {**state, "isr": list(back)})
    cluster.fake.delete(REASSIGN)


@pytest.mark.parametrize("watcher", ["the same", "another"])
def test_a_follower_says_that_somebody_else_cancelled_and_not_that_it_was_dropped(
    run: SimulatedRun, cluster: SimulatedCluster, lists: tuple[Sequence[int], ...], watcher: str
) -> None:
    said: list[str] = []
    follower = follower_of(run)
    cluster.step()
    assert follower.look(time.time(), said.append) is None
    if watcher == "another":
        follower.close()
        follower = follower_of(run)
    cancel_by_api(cluster, lists[2])
    event = follower.look(time.time(), said.append)
    follower.close()
    assert event is not None
    assert event.state == "taken_back"
    assert "Somebody else cancelled batch 1 while it was under way" in event.message
    assert "did not take it up" not in event.message
    shown = json_files.read_json(run.folder, json_files.PROGRESS)
    assert shown["state"] == "taken_back"
    assert shown["phases"] == {"taken_back": 1, "queued": 1}
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=r"RefusedError: Somebody else cancelled.*not requested again"):
            run.resume(event)
        with pytest.raises(AirflowFailException, match=r"RefusedError: Somebody else cancelled.*not requested again"):
            run.request()
    assert batches(run)[0]["state"] == "taken_back"
    assert len(cluster.requests) == 1
    cluster.fake.set("/controller_epoch", b"2")
    with pytest.raises(AirflowFailException, match="Somebody else cancelled"):
        run.request()  # another controller has no other answer: it was a person's
    run.release()
    assert cluster.leftovers() == []


def test_a_cancel_that_nobody_saw_is_told_by_who_comes_next(
    run: SimulatedRun, cluster: SimulatedCluster, lists: tuple[Sequence[int], ...]
) -> None:
    cluster.step()
    follower = follower_of(run)
    assert follower.look(time.time(), lambda _: None) is None
    follower.close()
    cancel_by_api(cluster, lists[2])
    with pytest.raises(AirflowFailException, match=r"Somebody else cancelled batch 1 while it was under way.*orders-0"):
        run.request()
    assert len(cluster.requests) == 1


def test_a_cancel_of_ours_is_not_told_as_somebody_elses(
    run: SimulatedRun, cluster: SimulatedCluster, lists: tuple[Sequence[int], ...]
) -> None:
    said: list[str] = []
    follower = follower_of(run)
    cluster.step()
    assert follower.look(time.time(), said.append) is None
    stop_and_cancel_requests.ask_cancel(run.folder, "uma")
    cancel_by_api(cluster, lists[2])
    event = follower.look(time.time(), said.append)
    follower.close()
    assert event is not None
    assert event.state == "cancelled"
    assert "omebody else" not in " ".join([event.message, *said])
    assert json_files.read_json(run.folder, json_files.PROGRESS)["anomalies"] == []
