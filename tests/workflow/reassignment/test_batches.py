"""Between batches on a simulated cluster: pauses, time windows and stops."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.pages.read_fleet import read_run_state
from kafka_rebalance.pages.run_state import RunState
from kafka_rebalance.rebalance.verify import verify
from kafka_rebalance.run import stop_and_cancel_requests
from kafka_rebalance.run.check_result import VERIFICATION_FILE
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.workflow.triggers import BatchTrigger, PauseTrigger
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import ON_ANY_VERSION, RACKS, TOPICS, SimulatedCluster, SimulatedRun, given_run
from support.zookeeper.fake_zookeeper import register

STATE = "/brokers/topics/{}/partitions/{}/state"


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """As a controller of that version behaves."""
    return SimulatedCluster(monkeypatch, TOPICS, request.param)


def first_batch_done(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()


def trigger(run: SimulatedRun) -> BatchTrigger | PauseTrigger:
    """What `reassign` has deferred to."""
    assert isinstance(run.deferred, TaskDeferred)
    found: BatchTrigger | PauseTrigger = run.deferred.trigger
    return found


def one_look(run: SimulatedRun) -> tuple[BatchSeen | None, list[str]]:
    """One look of a pause, as any triggerer would take it: from the trigger's arguments alone."""
    path, arguments = trigger(run).serialize()
    assert path == "kafka_rebalance.workflow.triggers.PauseTrigger"
    said: list[str] = []
    watcher = PauseTrigger(**arguments)._watcher(read_connection(CONNECTION))
    try:
        event = watcher.look(time.time(), said.append)
    finally:
        watcher.close()
    return event, said


def set_isr(cluster: SimulatedCluster, topic: str, partition: int, isr: list[int]) -> None:
    path = STATE.format(topic, partition)
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": isr, "leader": isr[0]})


def give_window(run: SimulatedRun, **times: datetime) -> None:
    """As the params `not_before` and `finish_by` would have."""
    run.approve_within(**{name: at.isoformat() for name, at in times.items()})


def stop_broker(cluster: SimulatedCluster, broker: int) -> None:
    """It is registered no more, and out of every ISR."""
    cluster.fake.delete(f"/brokers/ids/{broker}")
    set_in_sync(cluster, broker, False)


def set_in_sync(cluster: SimulatedCluster, broker: int, in_sync: bool) -> None:
    for topic in cluster.fake.get_children("/brokers/topics"):
        for partition, replicas in cluster.replicas(topic).items():
            isr = cluster.fake.json(STATE.format(topic, partition))["isr"]
            others = [one for one in isr if one != broker]
            set_isr(cluster, topic, partition, others + [broker] * (in_sync and broker in replicas))


# Pauses


def test_no_batch_is_requested_while_a_broker_is_away_and_the_run_goes_on_by_itself(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    first_batch_done(run, cluster)
    cluster.fake.delete("/brokers/ids/4")
    assert run.request() is None
    event, said = one_look(run)
    assert event is None
    assert said == ["Broker 4 is not registered. Start it. The run requests the next batch when it is back."]
    assert json_files.read_json(run.folder, json_files.PROGRESS)["state"] == "waiting"
    assert len(cluster.requests) == 1
    register(cluster.fake, 4, "rack-0")
    event, _ = one_look(run)
    assert event == BatchSeen(BatchState.READY)
    assert run.resume(event) == 2


def test_no_batch_is_requested_while_a_moved_partition_is_out_of_sync(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    first_batch_done(run, cluster)
    move = run.candidate.batches[0].moves[0]
    topic, partition = move.topic_partition
    set_isr(cluster, topic, partition, [move.after[0]])
    assert run.request() is None
    event, said = one_look(run)
    assert (event, f"{topic}-{partition} (needs 2)" in said[0]) == (None, True)
    set_isr(cluster, topic, partition, list(move.after))
    event, _ = one_look(run)
    assert event is not None
    assert run.resume(event) == 2


LISTS = {TopicPartition("audit", 0): (4, 1), TopicPartition("orders", 0): (1, 4), TopicPartition("orders", 2): (3, 2)}


@pytest.mark.parametrize("policy", ["", "on_conflict: leave_out\n"])
@pytest.mark.parametrize("broker", [1, 3], ids=["of the next batch, and receives nothing", "of a later batch alone"])
def test_a_broker_that_is_restarted_between_batches_is_waited_for_until_it_is_in_sync_again(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, broker: int, policy: str
) -> None:
    run = given_run(tmp_path, cluster, monkeypatch, LISTS, policy)
    assert [[(*move.after,) for move in batch.moves] for batch in run.candidate.batches] == [
        [(4, 1)],
        [(1, 4)],
        [(3, 2)],
    ]
    first_batch_done(run, cluster)
    stop_broker(cluster, broker)
    assert run.request() is None
    event, said = one_look(run)
    assert event is None
    assert said[0] == f"Broker {broker} is not registered. Start it. The run requests the next batch when it is back."
    register(cluster.fake, broker, RACKS[broker])
    assert run.request() is None
    event, said = one_look(run)
    assert event is None
    assert f"Broker {broker} is behind: if that lasts, its log says why." in said[0]
    with pytest.raises(ClusterNotReadyError, match=rf"The next batch waits, so it is not requested\..*{broker}"):
        run.hold()
    assert len(cluster.requests) == 1
    set_in_sync(cluster, broker, True)
    event, _ = one_look(run)
    assert event == BatchSeen(BatchState.READY)
    assert run.resume(event) == 2
    cluster.controller.run()
    assert run.reassign() == 1
    assert run.finish()["passed"] is True
    assert not (run.folder / json_files.LEFT_OUT).exists()


def test_a_broker_that_is_back_in_another_rack_ends_the_run_once_it_is_in_sync(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    first_batch_done(run, cluster)
    stop_broker(cluster, 1)
    register(cluster.fake, 1, "rack-2")
    assert run.request() is None
    set_in_sync(cluster, 1, True)
    with pytest.raises(
        AirflowFailException, match=r"broker 1: it has registered again .* its rack is rack-2, was rack-0"
    ):
        run.request()
    assert len(cluster.requests) == 1


@ON_ANY_VERSION
def test_a_pause_is_said_once_and_notes_that_somebody_waits(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    first_batch_done(run, cluster)
    cluster.fake.delete("/brokers/ids/4")
    run.request()
    waiting = trigger(run)._watcher(read_connection(CONNECTION))
    said: list[str] = []
    for now in (1000.0, 1015.0):
        assert waiting.look(now, said.append) is None
    assert len(said) == 1
    noted = json_files.read_json(run.folder, json_files.PROGRESS)
    assert noted["updated_at"] == datetime.fromtimestamp(1015, UTC).isoformat()
    assert noted["waiting_for"] == said
    waiting.close()


def test_the_trigger_of_a_pause_fires_when_the_broker_is_back(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_batch_done(run, cluster)
    cluster.fake.delete("/brokers/ids/4")
    run.request()
    _, arguments = trigger(run).serialize()
    waits: list[float] = []

    async def comes_back(seconds: float) -> None:
        waits.append(seconds)
        register(cluster.fake, 4, "rack-0")

    monkeypatch.setattr(asyncio, "sleep", comes_back)

    async def fire() -> list[Any]:
        return [event.payload async for event in PauseTrigger(**arguments).run()]

    assert asyncio.run(fire()) == [{"state": "ready"}]
    assert waits == [15.0]


# Time windows


@ON_ANY_VERSION
def test_a_run_waits_deferred_until_its_time(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    opens_at = datetime.now(UTC) + timedelta(hours=1)
    give_window(run, not_before=opens_at)
    assert run.request() is None
    event, said = one_look(run)
    assert event is None
    assert said == [f"The run requests nothing before {opens_at:%Y-%m-%d %H:%M} UTC"]
    assert cluster.requests == []
    give_window(run, not_before=datetime.now(UTC) - timedelta(seconds=1))
    assert run.resume({"state": "ready"}) == 1


@ON_ANY_VERSION
def test_no_batch_begins_that_could_not_finish_in_time(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    """By the plan it takes 5.6 s. Without earlier runs, half as long again is assumed."""
    first_batch_done(run, cluster)
    give_window(run, finish_by=datetime.now(UTC) + timedelta(seconds=7))
    with pytest.raises(AirflowFailException, match=r"StoppedError: Batch 2 was not requested: it may take up to 8 s "):
        run.request()
    assert len(cluster.requests) == 1
    run.release()
    assert cluster.leftovers() == []


@ON_ANY_VERSION
def test_a_pause_ends_with_the_time_window(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    first_batch_done(run, cluster)
    cluster.fake.delete("/brokers/ids/4")
    give_window(run, finish_by=datetime.now(UTC) + timedelta(hours=1))
    assert run.request() is None
    waiting = trigger(run)._watcher(read_connection(CONNECTION))
    assert waiting.look(time.time() + 3601, lambda _: None) == BatchSeen(BatchState.READY)
    waiting.close()
    give_window(run, finish_by=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(AirflowFailException, match="may end after finish_by"):
        run.resume({"state": "ready"})


@ON_ANY_VERSION
def test_a_time_without_zone_fails_before_anything_is_read(run: SimulatedRun) -> None:
    with pytest.raises(AirflowFailException, match=r"finish_by: .* is not a time with its zone"):
        run.plan(finish_by="2026-11-21T22:00:00")


# Stop after this batch


def test_a_run_that_is_asked_to_stop_ends_the_batch_and_says_what_is_not_moved(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    stop_and_cancel_requests.ask_stop(run.folder, "olive")
    event, said = run.follow(1, until=lambda: not (cluster.step() or True))
    assert event == BatchSeen(BatchState.DONE, 1)
    noted = re.compile(r"No batch will be requested after this one, as olive at [\d-]{10} [\d:]{8} UTC asked")
    assert any(noted.search(text) for text in said)
    with pytest.raises(
        AirflowFailException, match=r"as olive at .* asked\. 1 of 2 batches \(2 partitions\) are in place"
    ):
        run.resume(event)
    assert len(cluster.requests) == 1
    run.release()
    assert cluster.leftovers() == []
    with pytest.raises(AirflowFailException, match="2 approved partitions were not moved: No further batch"):
        run_step(verify, run.dag_run, run.decision)
    found = VERIFICATION_FILE.read(run.folder).not_moved
    assert found is not None
    assert found.partitions == tuple(sorted(str(move.topic_partition) for move in run.candidate.batches[1].moves))
    assert "olive" in found.why
    state = read_run_state(run.folder, is_active=False, has_open_request=False)
    assert state is RunState.NOT_AS_APPROVED, "the run's page and the clusters' page can read it"


@ON_ANY_VERSION
def test_a_run_that_is_asked_to_stop_while_it_waits_stops(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    first_batch_done(run, cluster)
    cluster.fake.delete("/brokers/ids/4")
    run.request()
    stop_and_cancel_requests.ask_stop(run.folder, "olive")
    event, _ = one_look(run)
    assert event == BatchSeen(BatchState.READY)
    with pytest.raises(AirflowFailException, match="StoppedError"):
        run.resume(event)
