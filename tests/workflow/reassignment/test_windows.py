"""A run in the windows of its policy: it begins, pauses and goes on with them. The cluster is simulated.

The windows are real ones around the moment of the approval; the clock that decides is set by each test.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import LockHeldError
from kafka_rebalance.model.recurring_window import Opening
from kafka_rebalance.rebalance.verify import outcome_row
from kafka_rebalance.run.ledger import ESTIMATE_FILE, Estimate
from kafka_rebalance.run.run_lock import lock_owner, take_lock
from kafka_rebalance.run.running_rebalance import approved_in
from kafka_rebalance.run.stop_and_cancel_requests import ask_stop
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.operators.moves import HoldThrottleOperator
from kafka_rebalance.workflow.triggers import BatchTrigger, PauseTrigger
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import CONNECTION
from support.runs.set_clock import DAY, HOUR, MINUTE, SECOND, Clock
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, other_dag_run

LOCK = "/kafka_rebalance/run"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.set_in(monkeypatch)


def give_windows(run: SimulatedRun, clock: Clock, days: str = "daily") -> tuple[Opening, Opening]:
    """A window from an hour before the approval until an hour after it; this opening and the next one."""
    text, now, following = clock.window_around(days)
    run.approve_within(recurring=[text])
    return now, following


def hold(run: SimulatedRun) -> Any:
    return HoldThrottleOperator(task_id="hold_throttle", decision=run.decision).execute({"dag_run": run.dag_run})


def first_batch_done(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    assert hold(run)["entities"] > 0
    assert run.request() == 1
    cluster.controller.run()


def rates(cluster: SimulatedCluster) -> dict[str, dict[str, str]]:
    return {entity: values for entity, values in cluster.throttles().items() if entity.startswith("brokers/")}


def take_the_cluster(cluster: SimulatedCluster) -> None:
    """As a task of another run."""
    deployment = airflow_deployment()
    take_lock(deployment, cluster.opened(), CONNECTION, lock_owner(deployment, "d" * 64, other_dag_run("two")))


def lead_by_last(cluster: SimulatedCluster, topic: str, partition: int) -> None:
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    state = cluster.fake.json(path)
    cluster.fake.put_json(path, {**state, "leader": cluster.replicas(topic)[partition][-1]})


def look(deferred: TaskDeferred | None, at: datetime) -> BatchSeen | None:
    """One look of any triggerer, from the trigger's arguments alone."""
    assert deferred is not None
    path, arguments = deferred.trigger.serialize()
    assert path == "kafka_rebalance.workflow.triggers.PauseTrigger"
    watcher = PauseTrigger(**arguments)._watcher(read_connection(CONNECTION))
    try:
        return watcher.look(at.timestamp(), lambda _: None)
    finally:
        watcher.close()


def test_a_closed_window_opens_before_lock_and_throttle_are_taken(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    before, (_, opening) = cluster.tree(), give_windows(run, clock)
    clock.now += 2 * HOUR
    with pytest.raises(TaskDeferred) as deferred:
        hold(run)
    assert cluster.tree() == before
    assert look(deferred.value, opening.opens_at - SECOND) is None
    assert look(deferred.value, opening.opens_at) == BatchSeen(BatchState.READY)
    clock.now = opening.opens_at
    assert hold(run)["entities"] > 0


def test_a_run_whose_first_batch_would_not_end_in_time_takes_nothing_until_the_next_opening(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    """The plan says 6 s, and 9 s at the slow estimate, which is what counts."""
    before, (opening, following) = cluster.tree(), give_windows(run, clock)
    clock.now = opening.closes_at - 8 * SECOND
    with pytest.raises(TaskDeferred) as deferred:
        hold(run)
    assert cluster.tree() == before
    assert deferred.value.trigger.not_before == following.opens_at.isoformat()
    clock.now = opening.closes_at - 9 * SECOND
    assert hold(run)["entities"] > 0


def test_a_run_pauses_when_its_window_closes_and_goes_on_when_the_next_one_opens(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Airflow.answering(monkeypatch)
    opening, following = give_windows(run, clock)
    first_batch_done(run, cluster)
    throttled = rates(cluster)
    clock.now = opening.closes_at - 8 * SECOND
    assert run.request() is None
    assert len(cluster.requests) == 1
    assert cluster.throttles() == {}
    assert LOCK in cluster.fake.znodes
    assert look(run.deferred, following.opens_at - HOUR) is None
    progress = json_files.read_json(run.folder, json_files.PROGRESS)
    assert (progress["state"], progress["waiting_until"]) == ("waiting", following.opens_at.isoformat())
    with pytest.raises(
        LockHeldError, match=r"held by run kafka_rebalance/one .* That run pauses until 20.*, stop it with"
    ):
        take_the_cluster(cluster)
    report = tend()
    assert report["alerts"] == []
    assert any("is paused until" in line for line in report["lines"])
    assert look(run.deferred, following.opens_at) == BatchSeen(BatchState.READY)
    clock.now = following.opens_at + SECOND
    assert run.resume({"state": "ready"}) == 2
    assert rates(cluster) == throttled
    cluster.controller.run()
    assert run.request() is None
    assert run.deferred is None
    assert run.finish()["passed"]
    assert cluster.leftovers() == []


def test_a_run_that_is_looked_at_in_its_pause_by_another_worker_pauses_on(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    """A worker or triggerer that died: the task is started anew, and reads everything again."""
    opening, following = give_windows(run, clock)
    first_batch_done(run, cluster)
    for clock.now in (opening.closes_at, opening.closes_at + HOUR, following.opens_at - SECOND):
        assert run.request() is None
        elected = len(cluster.elections)
        topic, partition = run.candidate.batches[0].moves[0].topic_partition
        lead_by_last(cluster, topic, partition)  # as after the restart of a broker
        assert run.deferred is not None
        assert run.deferred.trigger.not_before == following.opens_at.isoformat()
        assert cluster.throttles() == {}
        assert run.request() is None
        assert len(cluster.elections) == elected
    assert len(json_files.read_json(run.folder, json_files.BATCHES)["pauses"]) == 1
    clock.now = following.opens_at
    assert run.request() == 2
    assert len(cluster.elections) == elected + 1


def test_what_is_in_flight_when_the_window_closes_is_followed_to_its_end_under_its_throttle(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    opening, _ = give_windows(run, clock)
    assert hold(run)["entities"] > 0
    assert run.request() == 1
    held = cluster.throttles()
    clock.now = opening.closes_at + MINUTE
    assert run.request() == 1
    assert isinstance(run.deferred, TaskDeferred)
    assert isinstance(run.deferred.trigger, BatchTrigger)
    assert cluster.throttles() == held
    cluster.controller.run()
    assert run.resume({"state": "done", "batch": 1}) is None
    assert cluster.throttles() == {}


def test_hold_throttle_waits_for_no_window_while_a_batch_is_in_flight(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    opening, _ = give_windows(run, clock)
    assert hold(run)["entities"] > 0
    assert run.request() == 1
    clock.now = opening.closes_at + HOUR
    assert hold(run)["entities"] > 0


def test_the_time_of_a_pause_is_not_the_time_that_a_run_took(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    opening, following = give_windows(run, clock)
    first_batch_done(run, cluster)
    clock.now = opening.closes_at
    assert run.request() is None
    clock.now = following.opens_at
    assert run.request() == 2
    cluster.controller.run()
    assert run.request() is None
    notes = json_files.read_json(run.folder, json_files.BATCHES)
    first = datetime.fromisoformat(notes["batches"][0]["finished_at"])
    notes["batches"][0]["created_at"] = (first - MINUTE).isoformat()
    for batch in notes["batches"][1:]:
        batch["created_at"], batch["finished_at"] = ((first + DAY + s * SECOND).isoformat() for s in (1, 61))
    notes["pauses"] = [{"at": first.isoformat(), "ended_at": (first + DAY).isoformat(), "until": None}]
    json_files.write_json(run.folder, json_files.BATCHES, notes)
    plan = approved_in(run.folder, None)
    assert plan is not None
    assert 61 <= outcome_row(plan, "one")["actual_seconds"] < 600


def test_a_run_ends_at_once_if_its_approval_ends_before_the_next_opening(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    """The policy's approvals are good for a day, and this window opens once a week."""
    opening, _ = give_windows(run, clock, days=f"{clock.now - HOUR:%a}")
    first_batch_done(run, cluster)
    clock.now = opening.closes_at
    with pytest.raises(AirflowFailException, match=r"The approval ends before that, at .* 1 of 2 batches"):
        run.request()
    assert len(cluster.requests) == 1
    run.release()
    assert cluster.leftovers() == []
    assert LOCK not in cluster.fake.znodes


def test_a_run_that_wakes_in_a_later_opening_than_its_approval_allows_ends(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    """No triggerer ran for a day."""
    opening, following = give_windows(run, clock)
    first_batch_done(run, cluster)
    clock.now = opening.closes_at
    assert run.request() is None
    clock.now = following.opens_at + DAY
    with pytest.raises(AirflowFailException, match="The approval ends before that"):
        run.resume({"state": "ready"})
    assert len(cluster.requests) == 1


def test_a_batch_that_no_opening_can_hold_stops_the_run_and_says_what_to_change(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    """Earlier runs here took 2,000 times as long as planned."""
    give_windows(run, clock)
    first_batch_done(run, cluster)
    ESTIMATE_FILE.write(run.folder, Estimate((2000.0,) * 5, (), ()))
    with pytest.raises(
        AirflowFailException, match=r"open for 2 h.* at most\. Start a new Dag run with a higher throttle"
    ):
        run.request()
    assert len(cluster.requests) == 1


def test_a_run_that_is_asked_to_stop_does_not_wait_for_its_window(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    opening, following = give_windows(run, clock)
    first_batch_done(run, cluster)
    clock.now = opening.closes_at
    assert run.request() is None
    ask_stop(run.folder, "olive")
    assert look(run.deferred, following.opens_at - HOUR) == BatchSeen(BatchState.READY)
    with pytest.raises(AirflowFailException, match=r"as olive at .* asked"):
        run.resume({"state": "ready"})
    run.release()
    assert cluster.leftovers() == []


def test_a_run_that_is_stopped_before_its_first_window_takes_nothing(
    run: SimulatedRun, cluster: SimulatedCluster, clock: Clock
) -> None:
    before, _ = cluster.tree(), give_windows(run, clock)
    clock.now += 2 * HOUR
    ask_stop(run.folder, "olive")
    with pytest.raises(AirflowFailException, match=r"before its window opened.*Neither lock nor throttle was taken"):
        hold(run)
    assert cluster.tree() == before


def test_a_wait_for_a_broker_ends_with_the_window(run: SimulatedRun, cluster: SimulatedCluster, clock: Clock) -> None:
    opening, following = give_windows(run, clock)
    first_batch_done(run, cluster)
    cluster.fake.delete("/brokers/ids/4")
    assert run.request() is None
    assert look(run.deferred, opening.closes_at) == BatchSeen(BatchState.READY)
    clock.now = opening.closes_at
    assert run.resume({"state": "ready"}) is None
    assert run.deferred is not None
    assert run.deferred.trigger.not_before == following.opens_at.isoformat()
    assert cluster.throttles() == {}
