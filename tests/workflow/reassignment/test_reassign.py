"""Batches, one after the other, on a simulated cluster: what is requested, refused, resumed and followed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.exceptions import ConnectionLoss

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ExecutionError, NotInSyncError, RebalanceError, ThrottleError
from kafka_rebalance.model.lock_owner import Fence
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning import planner
from kafka_rebalance.rebalance.elect_leaders import elect_leaders, elect_preferred
from kafka_rebalance.rebalance.verify import verify
from kafka_rebalance.run.run_lock import lock_owner
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import ON_ANY_VERSION, TOPICS, SimulatedCluster, SimulatedRun, batches
from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN, put_topic, register

STATE = "/brokers/topics/{}/partitions/{}/state"


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """As a controller of that version behaves."""
    return SimulatedCluster(monkeypatch, TOPICS, request.param)


def asked_for(run: SimulatedRun) -> list[dict[Any, list[int]]]:
    """What each batch has to request."""
    return [{move.topic_partition: list(move.after) for move in batch.moves} for batch in run.candidate.batches]


def test_the_approved_batches_are_requested_one_after_the_other(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.reassign() == 2
    assert cluster.requests == asked_for(run)
    verification = run.finish()
    assert verification["passed"] is True
    assert cluster.leftovers() == []
    for move in run.candidate.moves:
        topic, partition = move.topic_partition
        assert cluster.replicas(topic)[partition] == list(move.after)
        assert cluster.leaders(topic)[partition] == move.after[0]
    assert cluster.replicas("idle") == {0: [1, 3]}
    assert [(batch["number"], batch["state"]) for batch in batches(run)] == [(1, "done"), (2, "done")]
    assert all(batch["finished_at"] >= batch["created_at"] for batch in batches(run))


def test_a_task_that_is_restarted_at_every_step_requests_no_batch_twice(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    """Nothing is remembered between two calls: each finds out from ZooKeeper."""
    run.hold()
    seen = []
    while (batch := run.request()) is not None:
        seen.append(batch)
        assert len(seen) < 100
        cluster.step()
    assert seen == sorted(seen)
    assert set(seen) == {1, 2}
    assert cluster.requests == asked_for(run)
    assert run.request() is None
    assert [batch["state"] for batch in batches(run)] == ["done", "done"]
    assert run.finish()["passed"] is True
    assert cluster.leftovers() == []


@pytest.mark.parametrize("took_effect", [False, True])
def test_a_connection_lost_over_the_request_makes_one_request(
    run: SimulatedRun, cluster: SimulatedCluster, took_effect: bool
) -> None:
    run.hold()
    cluster.fake.fail_next("create", REASSIGN, took_effect=took_effect)
    assert run.request() == 1
    assert cluster.requests == asked_for(run)[:1]


def test_a_task_that_dies_over_the_request_finds_it_when_it_is_started_again(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    cluster.fake.fail_next("create", REASSIGN, took_effect=True, error=SystemExit())
    with pytest.raises(SystemExit):
        run.request()
    assert run.request() == 1
    assert len(cluster.requests) == 1


def test_after_a_batch_that_ended_while_the_task_was_down_the_next_is_requested(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    assert run.request() == 2
    assert [batch["state"] for batch in batches(run)] == ["done", "requested"]
    cluster.controller.run()
    assert run.request() is None
    assert run_step(elect_leaders, run.dag_run, run.decision) == [], (
        "leaders of batches nobody followed are elected at the end"
    )
    run.release()
    run_step(verify, run.dag_run, run.decision)


def test_leaders_of_a_batch_are_elected_before_the_next_one_is_requested(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    move = run.candidate.batches[0].moves[0]
    path = STATE.format(*move.topic_partition)
    cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": move.after[1]})
    cluster.fake.writes.clear()
    assert run.resume({"state": "done", "batch": 1, "message": ""}) == 2
    requests = [path for call, path in cluster.fake.writes if call == "create" and path in {ELECTION, REASSIGN}]
    assert requests == [ELECTION, REASSIGN]
    topic, partition = move.topic_partition
    assert cluster.leaders(topic)[partition] == move.after[0]


@ON_ANY_VERSION
def test_without_its_throttle_no_batch_is_requested(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match="does not hold the cluster any more"):
        run.request()
    ZooKeeperLock(cluster.fake).acquire(lock_owner(airflow_deployment(), run.candidate.digest, run.dag_run))  # type: ignore[arg-type]
    before = cluster.tree()
    with pytest.raises(ThrottleError, match="This run holds no throttle"):
        run.request()
    assert cluster.tree() == before


@ON_ANY_VERSION
def test_a_throttle_that_somebody_removed_stops_the_next_batch(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    cluster.fake.put_json("/config/brokers/1", {"version": 1, "config": {}})
    before = cluster.tree()
    with pytest.raises(ThrottleError, match=r"not in force: brokers/1: .* is not set.*No further move was requested"):
        run.request()
    assert cluster.tree() == before


def move_by_hand(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    document = cluster.fake.json("/brokers/topics/orders")
    document["partitions"]["1"] = [3, 1]
    cluster.fake.put_json("/brokers/topics/orders", document)


def make_again(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    cluster.fake.delete("/brokers/topics/audit", recursive=True)
    put_topic(cluster.fake, "audit", {0: (2, 1)}, version=cluster.controller.version)


def register_again(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    cluster.fake.delete("/brokers/ids/4")
    register(cluster.fake, 4, "rack-9")


def add_partition(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    put_topic(cluster.fake, "orders", {**TOPICS["orders"], 3: (1, 3)}, version=cluster.controller.version)


def other_tool(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    asked = {"version": 1, "partitions": [{"topic": "idle", "partition": 0, "replicas": [3, 1]}]}
    cluster.fake.put_json(REASSIGN, asked)


def election(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    cluster.fake.after_write.clear()
    asked = {"version": 1, "partitions": [{"topic": "idle", "partition": 0}]}
    cluster.fake.put_json("/admin/preferred_replica_election", asked)


CHANGES: list[tuple[Callable[[SimulatedRun, SimulatedCluster], object], str]] = [
    (move_by_hand, r"orders-1: replicas are now \[3, 1\], the approved proposal starts from \[3, 2\]"),
    (lambda run, cluster: cluster.fake.delete("/brokers/topics/audit", recursive=True), "topic audit: it was deleted"),
    (make_again, "topic audit: it was deleted and made again"),
    (lambda run, cluster: cluster.fake.create("/admin/delete_topics/orders"), "topic orders: it is being deleted"),
    (lambda run, cluster: cluster.fake.delete("/brokers/ids/4"), "broker 4: it is to receive replicas"),
    (register_again, "broker 4: it has registered again since the snapshot, and its rack is rack-9"),
    (lambda run, cluster: cluster.fake.delete("/controller"), "there is no controller"),
    (election, "a preferred election is under way"),
    (other_tool, "Another reassignment is under way: idle-0"),
    (lambda run, cluster: cluster.fake.put_json("/cluster/id", {"version": "1", "id": "b"}), "expects cluster simul"),
    (lambda run, cluster: run.policy_file.write_text(POLICY + "partitions_per_batch: 3\n"), "The policy has changed"),
    (lambda run, cluster: run.policy_file.unlink(), "no policy any more"),
    (lambda run, cluster: cluster.fake.set("/brokers/topics/orders", b"{"), "/brokers/topics/orders"),
]


@ON_ANY_VERSION
@pytest.mark.parametrize(("change", "named"), CHANGES, ids=[named[:30] for _, named in CHANGES])
@pytest.mark.parametrize("step", ["hold", "request"])
def test_a_cluster_that_is_not_the_approved_one_is_not_written_to(
    run: SimulatedRun,
    cluster: SimulatedCluster,
    change: Callable[[SimulatedRun, SimulatedCluster], object],
    named: str,
    step: str,
) -> None:
    if step == "request":
        run.hold()
    change(run, cluster)
    before = cluster.tree()
    with pytest.raises((RebalanceError, AirflowFailException), match=named):
        run.hold() if step == "hold" else run.request()
    assert cluster.tree() == before


@ON_ANY_VERSION
@pytest.mark.parametrize("name", [json_files.DECISION, "moves/part-0.parquet", "nonce.json", json_files.PROPOSALS])
def test_files_that_are_not_the_approved_ones_stop_every_step(
    run: SimulatedRun, cluster: SimulatedCluster, name: str
) -> None:
    path = run.folder / name
    if name.endswith(".parquet"):
        settings = json_files.read_json(run.folder, json_files.SETTINGS)
        proposals = (run.folder / json_files.PROPOSALS).read_bytes()
        other = Settings.from_mapping({**settings, "partitions_per_batch": 1})
        planner.run(run.folder / "snapshot", run.folder, other)
        (run.folder / json_files.PROPOSALS).write_bytes(proposals)
    else:
        document = json.loads(path.read_text())
        changes: dict[str, Any] = {
            json_files.DECISION: {"throttle_bytes_per_second": 90_000_000},
            "nonce.json": {"nonce": "another"},
            json_files.PROPOSALS: {"settings": {}},
        }
        path.write_text(json.dumps({**document, **changes[name]}))
    before = cluster.tree()
    for step in (
        run.hold,
        run.request,
        run.release,
        lambda: run_step(elect_leaders, run.dag_run, run.decision),
    ):
        with pytest.raises(AirflowFailException, match=r"Nothing was|nothing was|changed nothing"):
            step()
    assert cluster.tree() == before


def test_another_tools_request_between_two_batches_is_waited_for_by_hand(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    other_tool(run, cluster)
    requested = len(cluster.requests)
    with pytest.raises(ExecutionError, match=r"idle-0 to .*which this run was not approved to move.*changed nothing"):
        run.request()
    assert len(cluster.requests) == requested
    cluster.controller.run()
    assert run.request() == 2


def test_the_end_is_held_against_what_was_approved(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    run.reassign()
    run.release()
    state = STATE.format("audit", 0)
    cluster.fake.put_json(state, {**cluster.fake.json(state), "isr": cluster.fake.json(state)["isr"][:1]})
    with pytest.raises(NotInSyncError, match="in_sync of audit-0"):
        run_step(verify, run.dag_run, run.decision)
    found = json_files.read_json(run.folder, json_files.VERIFICATION)
    assert found["passed"] is False
    failed = [check for check in found["checks"] if not check["passed"]]
    assert {check["subject"] for check in failed} == {"audit-0"}


def test_leaders_of_a_topic_that_is_gone_are_not_waited_for(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    run.reassign()
    cluster.fake.delete("/brokers/topics/audit", recursive=True)
    assert run_step(elect_leaders, run.dag_run, run.decision) == ["audit-0"]


def test_a_connection_lost_for_good_fails_with_what_to_do(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    for _ in range(5):
        cluster.fake.fail_next("create", REASSIGN, took_effect=False, error=ConnectionLoss())
    with pytest.raises(RebalanceError, match=r"whether the request was made is unknown.*Clear this task"):
        run.request()
    assert run.request() == 1
    assert len(cluster.requests) == 1


def test_an_election_does_not_wait_for_a_partition_that_cannot_be_elected(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    run.reassign()
    lagging, other = run.candidate.moves[:2]
    for move, isr in ((lagging, list(lagging.after[1:])), (other, list(other.after))):
        path = STATE.format(*move.topic_partition)
        cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": move.after[1], "isr": isr})

    def waits(_: float) -> None:
        raise AssertionError("waits for a partition that nobody asked to elect")

    left = elect_preferred(cluster.opened(), run.candidate.moves, most=1000, allowed=Fence, pause=waits)
    assert left == (lagging.topic_partition,)
    assert cluster.leaders(other.topic_partition.topic)[other.topic_partition.partition] == other.after[0]
