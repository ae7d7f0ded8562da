"""Retries, events of the past and workers in each other's way, on a simulated cluster: nothing is requested twice."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.errors import ExecutionError, NotInSyncError, RebalanceError, ThrottleError, WriteError
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.rebalance.verify import verify
from kafka_rebalance.run.watch_batch import BatchSeen
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.zookeeper import writer
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batches
from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN, register

STATE = "/brokers/topics/{}/partitions/{}/state"


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """As a controller of that version behaves."""
    return SimulatedCluster(monkeypatch, TOPICS, request.param)


def first_batch_done(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()


# Refusals and stalls


def test_a_retry_does_not_request_again_what_the_controller_dropped(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.fake.delete(REASSIGN)
    event, _ = run.follow(1)
    assert event is not None
    with pytest.raises(AirflowFailException, match="RefusedError"):
        run.resume(event)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=r"did not take it up.*It was not requested again"):
            run.request()
    assert len(cluster.requests) == 1
    cluster.fake.set("/controller_epoch", b"2")
    assert run.request() == 1, "another controller reads everything anew"
    assert len(cluster.requests) == 2


def test_a_request_that_outlives_its_topics_is_told_with_what_clears_it(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    """From 2.4 on a controller may never end it. Whoever starts a new run instead would only meet the request."""
    run.hold()
    assert run.request() == 1
    for topic in {one["topic"] for one in json.loads(cluster.fake.get(REASSIGN)[0])["partitions"]}:
        cluster.fake.delete(f"/brokers/topics/{topic}", recursive=True)
    event, _ = run.follow(1)
    assert event is not None
    with pytest.raises(AirflowFailException, match=r"deleted its topic.*If the request stays.*elect_controller"):
        run.resume(event)


def test_what_was_dropped_while_nobody_looked_is_not_requested_again(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.fake.delete(REASSIGN)
    with pytest.raises(AirflowFailException, match=r"the controller refused them.*It was not requested again"):
        run.request()
    assert len(cluster.requests) == 1


def test_a_task_that_died_before_its_request_makes_it(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    cluster.fake.fail_next("create", REASSIGN, took_effect=False, error=SystemExit())
    with pytest.raises(SystemExit):
        run.request()
    assert batches(run)[0]["state"] == "requesting"
    assert run.request() == 1
    assert len(cluster.requests) == 1


def test_a_retry_after_a_stall_does_not_wait_the_whole_time_again(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.step()
    cluster.fake.delete("/brokers/ids/4")

    def watch(*times: float) -> BatchSeen | None:
        follower = BatchFollower(read_connection(CONNECTION), run.folder, "light", 1, 1000)
        event = None
        for now in times:
            event = event or follower.look(now, lambda _: None)
        follower.close()
        return event

    assert watch(0, 900) is None
    stalled = watch(910, 990, 1011)
    assert stalled is not None, "another watcher goes on counting"
    assert stalled.state == "stalled"
    with pytest.raises(ExecutionError, match="made no progress for 1011 s"):
        run.resume(stalled)
    assert run.request() == 1
    assert watch(1100, 1199) is None, "what was mended meanwhile gets a moment to show"
    assert watch(1200, 1301) is not None
    register(cluster.fake, 4, "rack-0")
    cluster.step()
    assert watch(1400, 1600) is None, "it moves again"


# Events of the past, and workers in each other's way


@pytest.mark.parametrize("state", ["done", "refused", "stalled", "unreadable", "cancelled", "of a later version"])
def test_an_event_of_an_older_batch_neither_elects_nor_requests(
    run: SimulatedRun, cluster: SimulatedCluster, state: str
) -> None:
    first_batch_done(run, cluster)
    assert run.request() == 2
    cluster.fake.writes.clear()
    assert run.resume({"state": state, "batch": 1, "message": "long ago"}) == 2
    assert cluster.fake.writes == []


def test_an_event_that_calls_a_batch_done_too_early_is_not_believed(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.step()
    cluster.fake.writes.clear()
    assert run.resume({"state": "done", "batch": 1, "message": ""}) == 1
    assert cluster.fake.writes == []
    assert batches(run)[0]["state"] == "requested"


def test_leaders_are_elected_after_a_batch_that_nobody_followed(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    first_batch_done(run, cluster)
    move = run.candidate.batches[0].moves[0]
    path = STATE.format(*move.topic_partition)
    cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": move.after[1]})
    cluster.fake.writes.clear()
    assert run.request() == 2
    requests = [path for call, path in cluster.fake.writes if call == "create" and path in {ELECTION, REASSIGN}]
    assert requests == [ELECTION, REASSIGN]


def test_a_worker_that_was_frozen_before_its_request_writes_nothing(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers wake for the same batch; while one stands still the other requests it and it comes to its end."""
    run.hold()
    create, woken = writer._create_if, []

    def frozen(*arguments: Any) -> None:
        monkeypatch.setattr(writer, "_create_if", create)
        assert run.request() == 1
        cluster.controller.run()
        woken.append(len(cluster.fake.writes))
        create(*arguments)

    monkeypatch.setattr(writer, "_create_if", frozen)
    with pytest.raises(WriteError, match=r"changed between reading and writing\."):
        run.request()
    assert len(cluster.requests) == 1
    assert len(cluster.fake.writes) == woken[0]
    assert run.request() == 2


def test_a_run_whose_lock_went_to_another_requests_nothing(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    first_batch_done(run, cluster)
    lock = cluster.fake.json("/kafka_rebalance/run")
    cluster.fake.put_json("/kafka_rebalance/run", {**lock, "run": "kafka_rebalance/another"})
    with pytest.raises((AirflowFailException, RebalanceError), match="another"):
        run.request()
    cluster.fake.delete("/kafka_rebalance/run")
    with pytest.raises((AirflowFailException, RebalanceError)):
        run.request()
    assert len(cluster.requests) == 1


def test_two_triggers_that_watch_one_batch_give_one_next_request(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    watching = [BatchFollower(read_connection(CONNECTION), run.folder, "light", 1, 60) for _ in range(2)]
    cluster.controller.run()
    events = []
    while len(events) < 2:
        events += [event for one in watching if (event := one.look(time.time(), lambda _: None)) is not None]
    assert [run.resume(event) for event in events[:2]] == [2, 2]
    assert len(cluster.requests) == 2
    for one in watching:
        one.close()


@pytest.mark.parametrize("led", [True, False], ids=["follower", "leader"])
def test_a_broker_that_is_restarted_at_the_very_end_is_verified_when_it_is_back(
    run: SimulatedRun, cluster: SimulatedCluster, led: bool
) -> None:
    run.hold()
    run.reassign()
    run_step(elect_leaders, run.dag_run, run.decision)
    run.release()
    move = run.candidate.moves[0]
    topic, partition = move.topic_partition
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    left = list(move.after[:-1]) if led else list(move.after[1:])
    cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": left[0], "isr": left})
    with pytest.raises(NotInSyncError, match="in_sync of"):
        run_step(verify, run.dag_run, run.decision)  # which Airflow repeats
    written = json.loads((run.folder / "verification.json").read_text())
    assert (written["passed"], written["again"]) == (False, True)
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": list(move.after)})
    cluster.fake.after_write.append(lambda call, at: cluster.controller.run() if at == ELECTION else None)
    assert run_step(verify, run.dag_run, run.decision)["warnings"] == 0
    assert cluster.fake.json(path)["leader"] == move.after[0]


def test_marking_reassign_as_done_in_mid_flight_elects_and_lifts_nothing_in_motion(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    """Whoever does that in the UI: what follows `reassign` runs while copies are under way."""
    run.hold()
    assert run.request() == 1
    cluster.step()
    cluster.fake.writes.clear()
    run_step(elect_leaders, run.dag_run, run.decision)
    assert ("create", ELECTION) not in cluster.fake.writes
    with pytest.raises(ThrottleError, match="still in flight"):
        run.release()
    with pytest.raises(AirflowFailException, match="VerificationError"):
        run_step(verify, run.dag_run, run.decision)
    assert cluster.throttles()
    cluster.controller.run()
    run.hold()
    assert run.request() == 2, "cleared, it goes on where it stands"
