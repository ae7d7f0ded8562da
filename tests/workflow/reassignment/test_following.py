"""One batch in motion on a simulated cluster: progress, and the verdict when it is over or goes no further."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.cancel.set_throttle import change_rate
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ExecutionError, ReadError, ThrottleError
from kafka_rebalance.moves.eta import predicted_seconds
from kafka_rebalance.rebalance import progress_notes
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.rebalance.verify import record, verify
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.workflow.triggers import BatchTrigger
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun, batches
from support.zookeeper.fake_zookeeper import REASSIGN, register


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """As a controller of that version behaves."""
    return SimulatedCluster(monkeypatch, TOPICS, request.param)


def test_a_partition_that_the_controller_dropped_fails_the_batch_by_name(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    batch = run.request()
    cluster.fake.delete(REASSIGN)  # as a controller that refuses the whole request
    assert batch is not None
    event, said = run.follow(batch)
    assert event is not None
    assert event.state == "refused"
    assert "refused" in said[-1]
    with pytest.raises(AirflowFailException, match="left /admin/reassign_partitions with its replicas unchanged"):
        run.resume(event)
    assert batches(run)[0]["state"] == "refused"
    run.release()
    assert cluster.leftovers() == []
    with pytest.raises(AirflowFailException, match=r"VerificationError: .*checks failed"):
        run_step(verify, run.dag_run, run.decision)
    with pytest.raises(AirflowFailException, match="did not reach the approved end"):
        run_step(record, run.dag_run, run.decision)


def test_a_partition_that_somebody_else_moves_is_not_called_unchanged(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    batch = run.request()
    assert batch is not None
    topic, partition = run.candidate.batches[0].moves[0].topic_partition
    cluster.fake.delete(f"/brokers/topics/{topic}", recursive=True)
    event, said = run.follow(batch, until=lambda: not (cluster.step() or True))
    assert event is not None
    assert event.state == "refused"
    assert f"{topic}-{partition} no longer exists" in event.message
    assert "1 refused" in said[0], "said at once, while the others of the batch go on"
    assert "as before" not in event.message


def test_a_target_that_is_away_is_named_stalls_the_batch_and_keeps_the_throttle(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    batch = run.request()
    assert batch is not None
    cluster.step()
    cluster.fake.delete("/brokers/ids/4")
    event, said = run.follow(batch, stall_seconds=0)
    assert event is not None
    assert event.state == "stalled"
    assert "waiting for broker 4" in said[-1]
    progress = json_files.read_json(run.folder, json_files.PROGRESS)
    assert any("Broker 4 is not registered" in anomaly for anomaly in progress["anomalies"])
    with pytest.raises(ExecutionError, match=r"made no progress for 0 s: Broker 4 is not registered.*Then clear this"):
        run.resume(event)
    with pytest.raises(ThrottleError, match="Copies are still in flight"):
        run.release()
    waiting = [move.topic_partition for move in run.candidate.batches[0].moves if 4 in move.after]
    assert waiting
    for topic, partition in waiting:
        kept = cluster.throttles()[f"topics/{topic}"]["follower.replication.throttled.replicas"]
        assert f"{partition}:4" in kept.split(",")
    assert cluster.throttles()["brokers/4"] == {"follower.replication.throttled.rate": str(RATE)}
    register(cluster.fake, 4, "rack-0")
    assert run.request() == batch, "the copies go on by themselves, and so does the task"
    assert len(cluster.requests) == 1


def test_a_cluster_that_cannot_be_read_for_long_gives_the_task_back(run: SimulatedRun, tmp_path: Path) -> None:
    run.hold()
    assert run.request() == 1
    event = follower(run, stall_seconds=10)
    said: list[str] = []
    assert event.away(100.0, "ZooKeeper is away", said.append) is None
    assert event.away(109.0, "ZooKeeper is away", said.append) is None
    assert said == ["ZooKeeper is away"], "said once, not at every look"
    given_up = event.away(110.0, "ZooKeeper is away", said.append)
    assert given_up is not None
    assert given_up.message == "The cluster could not be read for 10 s: ZooKeeper is away"
    assert run.resume(given_up) == 1, "it can be read again, so the batch is followed again"


def follower(run: SimulatedRun, stall_seconds: float) -> BatchFollower:
    return BatchFollower(read_connection(CONNECTION), run.folder, "light", 1, stall_seconds)


def test_progress_covers_the_whole_plan(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    watching = follower(run, stall_seconds=60)
    said: list[str] = []
    watching.look(100.0, said.append)
    first = json_files.read_json(run.folder, json_files.PROGRESS)
    assert (first["partitions_done"], first["partitions_total"]) == (0, 4)
    assert (first["bytes_copied"], first["bytes_total"]) == (0, 4_000_000)
    assert (first["busiest_bytes"], first["later_busiest_bytes"]) == (1_000_000, [1_000_000])
    assert first["phases"]["queued"] == 2
    while cluster.step():
        pass
    assert watching.look(109.0, said.append) is None, "in place, and not yet seen to stay so"
    assert watching.look(109.5, said.append) is None
    event = watching.look(110.0, said.append)
    assert event == BatchSeen(BatchState.DONE, 1)
    last = json_files.read_json(run.folder, json_files.PROGRESS)
    assert (last["partitions_done"], last["bytes_copied"], last["batches"]) == (2, 2_000_000, 2)
    assert last["bytes_per_second"] == pytest.approx(200_000)
    assert last["eta_seconds"] == pytest.approx(10)
    assert last["this_batch"] == {
        "partitions_done": 2,
        "partitions_total": 2,
        "bytes_copied": 2_000_000,
        "bytes_total": 2_000_000,
        "measured_bytes": None,  # nobody has seen it copy
    }
    assert sum(one["received"] for one in last["brokers"]) == sum(one["sent"] for one in last["brokers"]) == 2_000_000
    assert sum(one["to_receive"] for one in last["brokers"]) == 4_000_000
    rates = [one["received_per_second"] for one in last["brokers"] if one["received_per_second"]]
    assert sum(rates) == pytest.approx(200_000)
    assert len(said) == 2
    watching.close()


def test_the_total_of_a_run_stays_and_each_batch_is_measured_at_its_end(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    """Partitions have grown by a fifth since the plan, and the last look at sizes is older than the new leaders."""
    run.hold()
    cluster.size_bytes = 1_200_000
    noted, brokers = [], []
    now, batch = 100.0, run.request()
    while batch is not None:
        watching = BatchFollower(read_connection(CONNECTION), run.folder, "light", batch, 6000)
        event = None
        while event is None:
            event, now = watching.look(now, lambda _: None), now + 1
            noted.append(json_files.read_json(run.folder, json_files.PROGRESS))
            brokers.append(sum(one["to_receive"] for one in noted[-1]["brokers"]))
            cluster.step()
        watching.close()
        batch = run.resume(event)
    assert {one["bytes_total"] for one in noted} == set(brokers) == {4_000_000}
    assert [one["bytes_copied"] for one in noted] == sorted(one["bytes_copied"] for one in noted)
    assert noted[-1]["bytes_copied"] == 4_000_000
    assert {one["this_batch"]["bytes_total"] for one in noted} == {2_000_000, 2_400_000}, (
        "sizes of now once they are read"
    )
    assert [entry["measured_bytes"] for entry in batches(run)] == [2_400_000, 2_400_000]


def test_brokers_that_are_silent_at_the_end_leave_a_batch_unmeasured_and_its_total_as_it_was(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.size_bytes = 1_200_000
    cluster.step()
    watching = follower(run, stall_seconds=6000)
    watching.look(100.0, lambda _: None)
    cluster.tells_sizes = False
    while cluster.step():
        pass
    event, now = None, 110.0
    while event is None:
        event, now = watching.look(now, lambda _: None), now + 1
    watching.close()
    this_batch = json_files.read_json(run.folder, json_files.PROGRESS)["this_batch"]
    assert (this_batch["bytes_total"], this_batch["measured_bytes"]) == (2_400_000, None)
    run.resume(event)
    assert batches(run)[0]["measured_bytes"] is None


def test_a_look_reads_little_and_only_what_is_in_flight(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    batch = run.request()
    assert batch is not None
    watching = follower(run, stall_seconds=60)
    moves = run.candidate.batches[0].moves
    topics = {move.topic_partition.topic for move in moves}
    most = []
    for now in range(100, 110):
        cluster.fake.reads.clear()
        if watching.look(float(now), lambda _: None) is not None:
            break
        most.append(len(cluster.fake.reads))
        cluster.step()
    brokers = {broker for move in moves for broker in (*move.before, *move.after)}
    configs = len(topics) + len(brokers) + 1  # of the throttle, read every 15 s, and so in one of these looks
    assert most[0] <= len(topics) + len(moves) + configs + 10
    assert max(most[1:]) <= len(topics) + len(moves) + 10
    states = {path for _, path in cluster.fake.reads if path.endswith("/state")}
    assert states == {f"/brokers/topics/{t}/partitions/{p}/state" for t, p in (move.topic_partition for move in moves)}
    watching.close()


def test_progress_names_the_partitions_of_the_batch_with_their_phase_and_what_comes_next(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.step()
    watching = follower(run, stall_seconds=6000)
    said: list[str] = []
    for now in (100.0, 130.0, 1000.0):
        watching.look(now, said.append)
    watching.close()
    noted = json_files.read_json(run.folder, json_files.PROGRESS)
    assert {one["partition"]: one["phase"] for one in noted["partitions"]} == {
        str(move.topic_partition): "copying" for move in run.candidate.batches[0].moves
    }
    assert all(one["seconds"] == 900 for one in noted["partitions"])
    assert noted["partitions"][0]["next"] == "the copy reaches its leader's end and joins the ISR"
    overdue = [text for text in noted["anomalies"] if "has been copying for 15 min; the plan gives its batch" in text]
    assert len(overdue) == 2
    assert [text for text in said if text in overdue], "said as well"
    assert all(one["late_behind"] >= 0 for one in noted["partitions"]), "the leader, for tools that act on it"


def test_a_batch_whose_rate_was_lowered_meanwhile_is_given_the_time_that_takes(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.step()
    watching = follower(run, stall_seconds=6000)
    watching.look(100.0, lambda _: None)
    change_rate(airflow_deployment(), run.folder, RATE // 2, by="olive")
    slower = predicted_seconds(run.candidate.batches[0].moves, RATE // 2)
    watching.look(101.0, lambda _: None)
    assert watching.planned_seconds == slower
    change_rate(airflow_deployment(), run.folder, RATE * 10, by="olive")
    watching.look(102.0, lambda _: None)
    assert watching.planned_seconds == slower, "what was slow for a while is not late because it is fast now"
    watching.close()


def test_what_happens_is_noted_once_with_its_time_whoever_looks(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.step()
    cluster.fake.delete("/brokers/ids/4")
    for now in (100.0, 130.0):  # another worker each time
        watching = follower(run, stall_seconds=6000)
        watching.look(now, lambda _: None)
        watching.look(now + 5, lambda _: None)
    watching.away(140.0, "ZooKeeper is away.", lambda _: None)
    register(cluster.fake, 4, "rack-0")
    watching.look(150.0, lambda _: None)
    progress_notes.write_waiting(run.folder, 200.0, ["Broker 3 is not registered."])
    progress_notes.write_waiting(run.folder, 215.0, ["Broker 3 is not registered."])
    watching.close()
    events = json_files.read_json(run.folder, json_files.PROGRESS)["events"]
    seconds = [datetime.fromisoformat(event["at"]).timestamp() for event in events]
    told = [re.sub("Broker 4 is not registered.*", "Broker 4", event["text"]) for event in events]
    assert list(zip(seconds, told, strict=True)) == [
        (100, "Broker 4"),
        (140, "ZooKeeper is away."),
        (150, "No longer: broker 4 is not registered"),
        (150, "No longer: the cluster cannot be read"),
        (200, "Broker 3 is not registered."),
    ]


def test_the_fullest_disk_is_remembered_from_watcher_to_watcher(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.step()
    told = []
    for now, fractions in ((100.0, {3: 0.5, 4: 0.75}), (200.0, {3: 0.625, 4: 0.25}), (300.0, {3: 0.875})):
        cluster.disk_fractions = fractions
        watching = follower(run, stall_seconds=6000)
        watching.look(now, lambda _: None)
        watching.close()
        told.append(json_files.read_json(run.folder, json_files.PROGRESS)["fullest_disk"])
    assert told == [{"broker": 4, "fraction": 0.75}, {"broker": 4, "fraction": 0.75}, {"broker": 3, "fraction": 0.875}]


def test_a_look_is_soon_followed_by_another_when_a_batch_is_young_or_about_to_end(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    watching = follower(run, stall_seconds=6000)
    waits = []
    for now in (100.0, 105.0, 150.0, 1000.0):
        watching.look(now, lambda _: None)
        waits.append(watching.seconds_to_next_look(0.5, 15))
    cluster.controller.run()
    watching.look(1010.0, lambda _: None)
    assert [*waits, watching.seconds_to_next_look(0.5, 15)] == [0.5, 0.5, 5.0, 15, 0.1]
    watching.close()


def test_the_trigger_survives_a_zookeeper_that_is_away_for_a_while(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    assert run.request() == 1
    path, arguments = BatchTrigger(
        connection_id=CONNECTION,
        run_folder=str(run.folder),
        candidate="light",
        batch=1,
        poll_seconds=0,
        stall_seconds=60,
    ).serialize()
    assert path == "kafka_rebalance.workflow.triggers.BatchTrigger"
    looks: list[str] = []
    look = BatchFollower.look

    def sometimes(self: BatchFollower, now: float, say: Callable[[str], object]) -> Any:
        cluster.step()
        looks.append("away" if len(looks) == 1 else "seen")
        if looks[-1] == "away":
            raise ReadError("ZooKeeper simulated:2181 cannot be read")
        return look(self, now, say)

    monkeypatch.setattr(BatchFollower, "look", sometimes)

    async def fire() -> list[Any]:
        return [event.payload async for event in BatchTrigger(**arguments).run()]

    assert asyncio.run(fire()) == [{"state": "done", "batch": 1, "message": ""}]
    assert looks.count("away") == 1
