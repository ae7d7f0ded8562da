"""Short batches on a simulated cluster, requested and followed in one visit of a worker, without a trigger between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance import request_batch
from kafka_rebalance.run import stop_and_cancel_requests
from kafka_rebalance.workflow.triggers import BatchTrigger, PauseTrigger
from support.runs import rebalance_run
from support.runs.simulated_cluster import RACKS, RATE, SimulatedCluster, SimulatedRun
from support.zookeeper.fake_zookeeper import REASSIGN, register

STATE = "/brokers/topics/{}/partitions/{}/state"


class Clock:
    """Time goes by in sleeps alone; `meanwhile` happens in each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
        self.slept: list[float] = []
        self.meanwhile = meanwhile
        stands_for = SimpleNamespace(time=time.time, monotonic=lambda: sum(self.slept), sleep=self.sleep)
        monkeypatch.setattr("kafka_rebalance.rebalance.follow.time", stands_for)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.meanwhile()


@pytest.fixture
def clock(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The controller takes a step in each sleep."""
    return Clock(monkeypatch, cluster.step)


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """A run that is to empty broker 2 in four batches of one partition, whose throttle is held."""
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    made.policy_file.write_text(rebalance_run.POLICY + "partitions_per_batch: 1\n")
    made.plan(job="drain", drain=[2], topics_out=["idle"])
    made.approve("light", RATE)
    made.hold()
    made.stay_seconds = 60
    assert [len(batch.moves) for batch in made.candidate.batches] == [1, 1, 1, 1]
    return made


def moved(run: SimulatedRun, number: int) -> TopicPartition:
    tp: TopicPartition = run.candidate.batches[number - 1].moves[0].topic_partition
    return tp


def test_short_batches_follow_each_other_without_a_trigger(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    assert run.request() is None
    assert run.deferred is None
    assert [list(request) for request in cluster.requests] == [[moved(run, number)] for number in (1, 2, 3, 4)]
    assert run.finish()["passed"] is True
    assert cluster.leftovers() == []


def test_a_batch_that_takes_longer_is_left_to_a_trigger_at_once(run: SimulatedRun, clock: Clock) -> None:
    run.stay_seconds = 5.4  # at this rate a partition takes half a second, and the controller five
    assert run.request() == 1
    assert isinstance(run.deferred, TaskDeferred)
    assert isinstance(run.deferred.trigger, BatchTrigger)
    assert clock.slept == []


def test_a_batch_that_outlasts_the_visit_is_left_to_a_trigger(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    clock.meanwhile = lambda: None
    assert run.request() == 1
    assert 0 < sum(clock.slept) <= run.stay_seconds
    cluster.controller.run()
    clock.meanwhile = cluster.step
    assert run.resume({"state": "done", "batch": 1, "message": ""}) is None
    assert len(cluster.requests) == 4


def test_the_end_of_a_batch_is_seen_at_the_next_look_and_settled_soon_after(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    at: dict[str, list[float]] = {"create": [], "delete": []}

    def note(call: str, path: str) -> None:
        if path == REASSIGN and call in at:
            at[call].append(sum(clock.slept))

    cluster.fake.after_write.append(note)
    assert run.request() is None
    assert len(at["delete"]) == 4
    for ended, following in zip(at["delete"], at["create"][1:], strict=False):
        assert following - ended == pytest.approx(0.2), "seen at once, and twice more before it is believed"


def test_a_visit_reads_again_what_has_moved_and_what_comes_next(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    read_before: list[set[str]] = []

    def note(call: str, path: str) -> None:
        if (call, path) == ("create", REASSIGN):
            read_before.append({path for _, path in cluster.fake.reads if path.endswith("/state")})
            cluster.fake.reads.clear()

    cluster.fake.after_write.append(note)
    run.request()
    every = {STATE.format(*moved(run, number)) for number in (1, 2, 3, 4)}
    assert every <= read_before[0]
    for number in (2, 3, 4):
        assert read_before[number - 1] == {STATE.format(*moved(run, n)) for n in (number - 1, number)}


def test_who_is_in_sync_elsewhere_is_not_remembered_for_long(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_batch, "READ_AGAIN_SECONDS", 0)
    path = STATE.format(*moved(run, 1))

    def falls_out() -> None:
        cluster.step()
        if len(cluster.requests) == 2:
            cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [cluster.fake.json(path)["leader"]]})

    clock.meanwhile = falls_out
    assert run.request() is None
    assert isinstance(run.deferred, TaskDeferred)
    assert isinstance(run.deferred.trigger, PauseTrigger), "the next batch waits for the replica that fell out"
    assert len(cluster.requests) == 2


def test_what_was_read_before_a_broker_was_restarted_is_read_again(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    last = run.candidate.batches[3].moves[0]
    path, restarted = STATE.format(*last.topic_partition), next(one for one in last.before if one in last.after)

    def restarts() -> None:
        if not cluster.step() and len(cluster.requests) == 2:
            cluster.fake.delete(f"/brokers/ids/{restarted}")
            register(cluster.fake, restarted, RACKS[restarted])
            cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [2], "leader": 2})

    clock.meanwhile = restarts
    assert run.request() is None
    assert isinstance(run.deferred, TaskDeferred)
    assert isinstance(run.deferred.trigger, PauseTrigger), "it is to hold a partition of the last batch"
    assert len(cluster.requests) == 2


def test_a_broker_that_leaves_between_two_short_batches_holds_the_next_one_back(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    path = f"/brokers/ids/{run.candidate.batches[0].moves[0].after[-1]}"

    def leaves() -> None:
        if not cluster.step() and path in cluster.fake.znodes:
            cluster.fake.delete(path)

    clock.meanwhile = leaves
    run.request()
    assert isinstance(run.deferred, TaskDeferred)
    assert isinstance(run.deferred.trigger, PauseTrigger)
    assert len(cluster.requests) == 1


def test_a_run_that_is_asked_to_stop_requests_no_further_short_batch(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    clock.meanwhile = lambda: (cluster.step(), stop_and_cancel_requests.ask_stop(run.folder, "olive"))
    with pytest.raises(AirflowFailException, match="1 of 4 batches"):
        run.request()
    assert len(cluster.requests) == 1
