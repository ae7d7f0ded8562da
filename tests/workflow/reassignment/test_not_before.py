"""Before the run's `not_before` neither lock nor throttle is taken. The cluster is simulated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.rebalance.follow import Waiter
from kafka_rebalance.run.stop_and_cancel_requests import ask_stop
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow.operators.moves import HoldThrottleOperator
from kafka_rebalance.workflow.triggers import PauseTrigger
from support.runs.simulated_cluster import FEWER_TOPICS, SimulatedCluster, SimulatedRun, approved_run
from support.zookeeper import fake_zookeeper

LOCK = "/kafka_rebalance/run"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return SimulatedCluster(monkeypatch, FEWER_TOPICS)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return approved_run(tmp_path, cluster, monkeypatch)


def begins(run: SimulatedRun, at: datetime) -> None:
    run.approve_within(not_before=at.isoformat())


def hold(run: SimulatedRun) -> Any:
    return HoldThrottleOperator(task_id="hold_throttle", decision=run.decision).execute({"dag_run": run.dag_run})


def test_neither_lock_nor_throttle_is_taken_before_the_time_has_come(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    before, at = cluster.tree(), datetime.now(UTC) + timedelta(hours=9)
    begins(run, at)
    with pytest.raises(TaskDeferred) as deferred:
        hold(run)
    assert cluster.tree() == before
    assert LOCK not in cluster.fake.znodes
    trigger = deferred.value.trigger
    assert isinstance(trigger, PauseTrigger)
    watcher = trigger._watcher(None)  # type: ignore[arg-type]
    assert isinstance(watcher, Waiter)
    assert watcher.look((at - timedelta(seconds=1)).timestamp(), lambda _: None) is None
    assert watcher.look(at.timestamp(), lambda _: None) == BatchSeen(BatchState.READY)


def test_once_the_time_has_come_lock_and_throttle_are_taken(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    begins(run, datetime.now(UTC) - timedelta(seconds=1))
    operator = HoldThrottleOperator(task_id="hold_throttle", decision=run.decision)
    assert operator.resume({"dag_run": run.dag_run}, {"state": "ready"})["entities"] > 0  # type: ignore[arg-type]
    assert LOCK in cluster.fake.znodes
    assert cluster.throttles()


def test_a_run_that_is_stopped_before_its_time_takes_nothing(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    before = cluster.tree()
    begins(run, datetime.now(UTC) + timedelta(hours=9))
    ask_stop(run.folder, "olive")
    with pytest.raises(AirflowFailException, match="Neither lock nor throttle was taken"):
        hold(run)
    assert cluster.tree() == before
    assert LOCK not in cluster.fake.znodes


def test_an_approval_of_long_ago_is_executed_when_its_time_has_just_come(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    now = datetime.now(UTC)
    begins(run, now - timedelta(minutes=1))
    old = (now - timedelta(days=3)).isoformat()
    decided = {**json_files.read_json(run.folder, json_files.DECISION), "approved_at": old}
    json_files.write_json(run.folder, json_files.DECISION, decided)
    written = json_files.read_json(run.folder, json_files.DECISION)
    run.xcom["decision"] = {**run.decision, "decision_digest": digest_of(written), "approved_at": old}
    run.decision = run.xcom["decision"]
    assert hold(run)["entities"] > 0


def of_zookeeper(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    """What ZooKeeper's clock says."""
    monkeypatch.setattr(fake_zookeeper, "time", SimpleNamespace(time=now.timestamp))


@pytest.mark.parametrize("hours", [24, -24])
def test_where_a_clock_is_a_day_off_no_window_is_held_and_nothing_is_kept(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """A worker's clock that is ahead would begin before the window opens. ZooKeeper's own clock tells."""
    before, now = cluster.leftovers(), datetime.now(UTC)
    begins(run, now + timedelta(hours=min(hours, 0) - 1))
    of_zookeeper(monkeypatch, now - timedelta(hours=hours))
    with pytest.raises(ClusterNotReadyError, match=r"clock says .* the cluster's says .* No move was requested"):
        hold(run)
    assert cluster.leftovers() == before
    assert LOCK not in cluster.fake.znodes


def test_a_clock_that_goes_wrong_between_two_batches_stops_the_next_one(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    begins(run, now - timedelta(minutes=1))
    assert hold(run)["entities"] > 0
    of_zookeeper(monkeypatch, now - timedelta(days=1))
    with pytest.raises(ClusterNotReadyError, match="No move was requested"):
        run.request()
    assert cluster.requests == []


def test_without_a_window_a_clock_that_differs_stops_nothing(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_zookeeper(monkeypatch, datetime.now(UTC) - timedelta(days=1))
    assert hold(run)["entities"] > 0
    assert run.request() == 1
