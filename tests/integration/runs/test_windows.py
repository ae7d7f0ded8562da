"""A run whose window closes before its last batch, on real brokers: it pauses, and goes on in the next opening.

The window is real, around the moment of the approval. The clock that decides whether it is open is set by the test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS, VERSIONS
from kafka_rebalance.model.recurring_window import openings, read_recurring_window
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.triggers import PauseTrigger
from support.runs.rebalance_run import CONNECTION, POLICY, InProcessRun
from support.runs.set_clock import Clock

MEGABYTE = 1_000_000
FAST, SLOW = 50 * MEGABYTE, 1 * MEGABYTE  # bytes per second
BEFORE, AFTER = (1, 2), (1, 3)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((VERSIONS[-1], False), id=VERSIONS[-1], marks=pytest.mark.long),
        pytest.param((KRAFT_VERSIONS[-1], True), id=f"{KRAFT_VERSIONS[-1]}-kraft"),
    ],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    version, kraft = request.param
    with LocalCluster(version, brokers=3, racks=0, kraft=kraft) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> str:
    """Partition 0 is large: without ZooKeeper it is still copied when the others of its batch have ended."""
    name = fresh_topic_name()
    cluster.create_topic(name, dict.fromkeys(range(4), BEFORE))
    cluster.produce(name, {0: 10 * MEGABYTE, 1: MEGABYTE // 4, 2: MEGABYTE // 2, 3: MEGABYTE // 4})
    return name


def look(deferred: TaskDeferred | None, at: datetime) -> BatchSeen | None:
    """One look of any triggerer, from the trigger's arguments alone."""
    assert deferred is not None
    _, arguments = deferred.trigger.serialize()
    watcher = PauseTrigger(**arguments)._watcher(read_connection(CONNECTION))
    try:
        return watcher.look(at.timestamp(), lambda _: None)
    finally:
        watcher.close()


def seen(topic: str) -> tuple[dict[int, tuple[int, ...]], set[str], str | None]:
    """The lists, the entities that a throttle slows down, and the run that holds the cluster."""
    with open_cluster(read_connection(CONNECTION)) as opened:
        lists = {tp.partition: one.replicas for tp, one in opened.read_view([topic]).partitions.items()}
        configs, _ = opened.read_all_configs()
        holder = opened.lock.read()
    slow = {
        entity for entity, values in configs.items() for key, value in values.items() if "throttled" in key and value
    }
    return lists, slow, None if holder is None else holder.run


def test_a_run_pauses_without_a_throttle_when_its_window_closes_and_goes_on_in_the_next(
    tmp_path: Path, cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    text = f"daily {now - HOUR:%H:%M}-{now + HOUR:%H:%M} UTC"
    opening, following, *_ = openings([read_recurring_window(text)], now)
    clock = Clock.set_in(monkeypatch)
    clock.now = now
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    (tmp_path / "policies" / f"{CONNECTION}.yaml").write_text(f"{POLICY}windows: ['{text}']\n")
    run.plan_lists(topic, dict.fromkeys(range(4), AFTER), copies_per_broker=2)
    run.approve("given", SLOW)
    moves = read_candidate(run.folder, "given").moves
    first = {move.topic_partition.partition for move in moves if move.batch == 1}
    assert first < set(range(4))
    run.hold()
    batch = run.request()
    assert batch == 1
    clock.now = opening.closes_at - 5 * SECOND
    while batch is not None:
        event, _ = run.follow(batch)
        assert event is not None
        change_rate(airflow_deployment(), run.folder, FAST, by="olive")
        batch = run.resume(event)
    half_way = {number: AFTER if number in first else BEFORE for number in range(4)}
    assert seen(topic) == (half_way, set(), "kafka_rebalance/one")
    assert look(run.deferred, following.opens_at - SECOND) is None
    ready = look(run.deferred, following.opens_at)
    assert ready == BatchSeen(BatchState.READY)
    clock.now = following.opens_at
    batch = run.resume(ready)
    assert batch == 2
    assert seen(topic)[1] >= {"brokers/1", "brokers/3"}
    while batch is not None:
        event, _ = run.follow(batch)
        assert event is not None
        batch = run.resume(event)
    verification: dict[str, Any] = run.finish()
    assert verification["passed"] is True, verification
    assert seen(topic) == (dict.fromkeys(range(4), AFTER), set(), None)
    notes = json.loads((run.folder / "batches.json").read_text())
    assert [pause["ended_at"] is not None for pause in notes["pauses"]] == [True]
