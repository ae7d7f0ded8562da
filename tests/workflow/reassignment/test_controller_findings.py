"""What goes wrong beside a batch: said by whoever follows it, an error where a person has to act, never a write."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.rebalance.controller_findings import UNHEARD_SECONDS
from kafka_rebalance.rebalance.follow import BatchFollower
from kafka_rebalance.workflow.hooks import read_connection
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, batched_run
from support.zookeeper.fake_zookeeper import REASSIGN


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    made = batched_run(tmp_path, cluster, monkeypatch)
    made.hold()
    assert made.request() == 1
    return made


@pytest.fixture
def follower(run: SimulatedRun) -> BatchFollower:
    return BatchFollower(read_connection(CONNECTION), run.folder, run.decision["choice"], 1, 1800.0)


def anomalies(run: SimulatedRun) -> str:
    return "\n".join(json_files.read_json(run.folder, json_files.PROGRESS)["anomalies"])


def test_a_deaf_controller_ends_in_an_error_and_nothing_is_written(
    run: SimulatedRun, cluster: SimulatedCluster, follower: BatchFollower
) -> None:
    said: list[str] = []
    before = cluster.tree()
    assert follower.look(1000.0, said.append) is None
    assert follower.look(999.0 + UNHEARD_SECONDS, said.append) is None
    event = follower.look(1000.0 + UNHEARD_SECONDS, said.append)
    assert event is not None
    assert "(0 of 2 partitions started)" in event.message
    assert any("Restart the broker that is controller" in line for line in said)
    assert cluster.tree() == before
    with pytest.raises(ExecutionError, match="needs a person"):
        run.resume(event)
    assert cluster.tree() == before
    assert cluster.config("topics/orders"), "the throttle stays on what is requested"


def test_once_another_controller_is_elected_the_run_goes_on(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    assert run.request() == 1, "a retry follows the same request"
    cluster.controller.run()
    run.reassign()
    assert run.finish()["passed"] is True


def test_a_deletion_that_is_queued_in_mid_move_stops_the_run(
    run: SimulatedRun, cluster: SimulatedCluster, follower: BatchFollower
) -> None:
    cluster.step()
    topic = run.candidate.batches[0].moves[0].topic_partition.topic
    cluster.fake.create(f"/admin/delete_topics/{topic}")
    event = follower.look(0.0, lambda line: None)
    assert event is not None
    assert f"Topic {topic} is queued for deletion in mid-move" in event.message


def test_what_another_tool_does_is_said_while_the_batch_goes_on(
    run: SimulatedRun, cluster: SimulatedCluster, follower: BatchFollower
) -> None:
    cluster.step()
    asked = cluster.fake.json(REASSIGN)
    more = {"topic": "idle", "partition": 0, "replicas": [3, 1]}
    cluster.fake.put_json(REASSIGN, {**asked, "partitions": [*asked["partitions"], more]})
    said: list[str] = []
    assert follower.look(0.0, said.append) is None
    assert "asks for idle-0, which this batch does not" in anomalies(run)
    follower.look(1.0, said.append)
    assert sum("idle-0" in line for line in said) == 1, "said once"


def test_an_entry_that_is_taken_away_in_mid_move_is_said_and_the_batch_goes_on(
    run: SimulatedRun, cluster: SimulatedCluster, follower: BatchFollower
) -> None:
    cluster.step()
    assert follower.look(0.0, lambda line: None) is None
    moving = [one for one in run.candidate.batches[0].moves if one.topic_partition.topic == "orders"]
    assert moving
    path = "/brokers/topics/orders"
    document = cluster.fake.json(path)
    for one in moving:
        key = str(one.topic_partition.partition)
        document["partitions"][key] = [*one.after, *one.removed]
        document["adding_replicas"][key], document["removing_replicas"][key] = list(one.added), list(one.removed)
    cluster.fake.put_json(path, document)
    cluster.fake.delete(REASSIGN)
    assert follower.look(1.0, lambda line: None) is None
    assert "out of /admin/reassign_partitions in mid-move. That cancels nothing" in anomalies(run)
