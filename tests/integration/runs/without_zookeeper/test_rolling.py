"""Moves of later batches beside those in flight, on real brokers without ZooKeeper."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.watch_batch import BatchState
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.kafka.on_versions import without_zookeeper
from support.runs.cancel_run import CancelRun
from support.runs.janitor_run import Airflow
from support.runs.rebalance_run import InProcessRun
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

MEGABYTE = 1_000_000
FAST, SLOW = 50 * MEGABYTE, 1 * MEGABYTE  # bytes per second
AFTER = {0: (1, 3), 1: (1, 3), 2: (1, 3), 3: (1, 3)}


cluster = without_zookeeper(brokers=3)


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> str:
    """Partition 0 is large: all others end while it is copied."""
    name = fresh_topic_name()
    cluster.create_topic(name, dict.fromkeys(AFTER, (1, 2)))
    cluster.produce(name, {0: 20 * MEGABYTE, 1: MEGABYTE // 4, 2: MEGABYTE // 2, 3: MEGABYTE // 4})
    return name


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, topic: str) -> InProcessRun:
    """Approved, with two copies a broker at once, so with two batches."""
    made = InProcessRun(tmp_path, cluster, monkeypatch)
    made.plan_lists(topic, AFTER, copies_per_broker=2)
    made.approve("given", SLOW)
    return made


def of_batch(run: InProcessRun, number: int) -> set[int]:
    moves = read_candidate(run.folder, "given").moves
    return {move.topic_partition.partition for move in moves if move.batch == number}


def notes(run: InProcessRun) -> dict[int, Any]:
    document = json.loads((run.folder / "batches.json").read_text())
    return {entry["number"]: entry for entry in document["batches"]}


def test_a_move_of_the_next_batch_is_requested_while_one_of_the_first_is_copied(
    run: InProcessRun, kafka: WatchedCluster, topic: str
) -> None:
    assert 0 in of_batch(run, 1)
    run.hold()
    batch = run.request()
    assert {partition for _, partition in kafka.moving()} <= of_batch(run, 1)
    seen: Counter[BatchState] = Counter()
    beside = set[int]()
    while batch is not None:
        event, _ = run.follow(batch)
        assert event is not None
        seen[event.state] += 1
        batch = run.resume(event)
        moving = {partition for name, partition in kafka.moving() if name == topic}
        assert len(moving) <= 2
        if 0 in moving:
            beside |= moving
        if beside & of_batch(run, 2):
            change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    assert beside & of_batch(run, 2), "nothing of the second batch ran beside the large partition"
    assert seen[BatchState.ROOM] >= 1
    assert run.finish()["passed"] is True
    assert kafka.lists(topic) == AFTER
    assert {number: entry["state"] for number, entry in notes(run).items()} == {1: "done", 2: "done"}
    assert all("asked" not in entry for entry in notes(run).values())


def test_a_worker_that_is_killed_in_between_is_followed_by_one_that_asks_for_nothing_twice(
    run: InProcessRun, kafka: WatchedCluster, topic: str
) -> None:
    run.hold()
    batch = run.request()
    assert batch is not None
    event, _ = run.follow(batch)  # the small partition of the batch has ended, there is room
    assert event is not None
    run.resume(event)
    before = kafka.moving()
    first, second = (notes(run)[number] for number in (1, 2))
    assert "asked" not in first
    assert [name in {f"{topic}-{number}" for number in of_batch(run, 2)} for name in second["asked"]] == [True]
    assert run.request() == 1, "cleared, so it looks again"
    assert {partition for _, partition in set(kafka.moving()) - set(before)} <= of_batch(run, 2)
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    while (batch := run.request()) is not None:
        wait("what is in flight has ended", lambda: not kafka.moving())
    assert run.finish()["passed"] is True
    assert kafka.lists(topic) == AFTER


def test_a_stop_lets_what_is_in_flight_end_and_adds_nothing(
    run: InProcessRun, kafka: WatchedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    batch = run.request()
    assert batch is not None
    Airflow.answering(monkeypatch)
    canceller = CancelRun(monkeypatch)
    canceller.request("stop_after_batch")
    canceller.stop()
    change_rate(airflow_deployment(), run.folder, FAST, by="olive")
    event, _ = run.follow(batch)
    assert event is not None
    with pytest.raises(Exception, match=r"No further batch was requested, as .* asked"):
        run.resume(event)
    run.release()
    assert kafka.lists(topic) == {number: (1, 3) if number in of_batch(run, 1) else (1, 2) for number in AFTER}
