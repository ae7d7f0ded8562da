"""A cluster that has changed since the approval: what stops a run, what is left out of it, and what does not matter."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance.report import read_report
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import (
    ON_ANY_VERSION,
    RACKS,
    RATE,
    TOPICS,
    SimulatedCluster,
    SimulatedRun,
    batches,
    given_run,
)
from support.zookeeper.fake_zookeeper import put_topic, register

LENIENT = POLICY + "partitions_per_batch: 2\non_conflict: leave_out\n"
FOLLOWERS = "follower.replication.throttled.replicas"


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """As a controller of that version behaves."""
    return SimulatedCluster(monkeypatch, TOPICS, request.param)


@pytest.fixture
def lenient(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """The same plan under a policy that leaves partitions in conflict out."""
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    made.policy_file.write_text(LENIENT)
    made.plan(job="drain", drain=[2], topics_out=["idle"])
    made.approve("light", RATE)
    return made


def set_lists(cluster: SimulatedCluster, topic: str, lists: dict[str, list[int]]) -> None:
    """What another tool would leave behind."""
    path = f"/brokers/topics/{topic}"
    document = cluster.fake.json(path)
    document["partitions"].update(lists)
    cluster.fake.put_json(path, document)
    for partition, replicas in lists.items():
        state = f"{path}/partitions/{partition}/state"
        cluster.fake.put_json(state, {**cluster.fake.json(state), "isr": replicas, "leader": replicas[0]})


def left_out(run: SimulatedRun) -> dict[str, Any]:
    return json_files.read_json(run.folder, json_files.LEFT_OUT)


def named(document: dict[str, Any]) -> list[tuple[str, int]]:
    return [(one["topic"], one["partition"]) for one in document["partitions"]]


def restart(cluster: SimulatedCluster, broker: int) -> None:
    """It was away for a moment, and nothing fell out of sync."""
    cluster.fake.delete(f"/brokers/ids/{broker}")
    register(cluster.fake, broker, RACKS[broker])


def refused(run: SimulatedRun, cluster: SimulatedCluster, match: str) -> None:
    with cluster.unchanged(), pytest.raises(AirflowFailException, match=match):
        run.hold()


def test_partitions_that_were_added_and_a_broker_that_was_restarted_stop_nothing(
    run: SimulatedRun, cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    put_topic(cluster.fake, "orders", {**TOPICS["orders"], 3: (1, 3)}, version=cluster.controller.version)
    restart(cluster, 3)
    caplog.set_level(logging.INFO, "kafka_rebalance.run.checks_before_write")
    run.hold()
    assert run.reassign() == 2
    assert run.finish()["passed"] is True
    said = [record.getMessage() for record in caplog.records if "without harm" in record.getMessage()]
    drifted = [one for one in run.candidate.moves if one.topic_partition.topic == "orders" or 3 in one.after]
    assert drifted
    assert len(said) == len({one.batch for one in drifted}), "each batch says it once"
    assert any("1 partition added (orders-3)" in line for line in said)
    assert any("broker 3: it has registered again since the snapshot, with its data" in line for line in said)


@ON_ANY_VERSION
def test_partitions_that_have_grown_must_be_approved_again(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    cluster.size_bytes = 2_000_000
    refused(run, cluster, r"7\.63 MiB to copy, 3\.81 MiB were approved.*Start a new Dag run, and ask")


@ON_ANY_VERSION
def test_growth_once_the_first_batch_runs_stops_nothing(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    cluster.size_bytes = 2_000_000
    assert run.request() == 2


@ON_ANY_VERSION
def test_an_approval_that_has_expired_before_the_first_write_must_be_asked_again(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    decision = json_files.read_json(run.folder, json_files.DECISION)
    decision["approved_at"] = (datetime.now(UTC) - timedelta(seconds=86_401)).isoformat()
    run.decision["decision_digest"] = json_files.write_json(run.folder, json_files.DECISION, decision)
    refused(run, cluster, r"has expired.*approval_expires_after_seconds is 86400.*Start a new Dag run")


@ON_ANY_VERSION
def test_a_target_that_lost_its_disks_stops_the_run(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    restart(cluster, 3)
    cluster.empty_disks.add(3)
    refused(run, cluster, r"broker 3: it has registered again .* its disks hold nothing of what they held \(")


EMPTIES_BROKER_1 = {
    TopicPartition("audit", 0): (2, 3),
    TopicPartition("idle", 0): (4, 3),
    TopicPartition("orders", 0): (3, 2),
    TopicPartition("orders", 1): (3, 1),
}


@ON_ANY_VERSION
@pytest.mark.parametrize("requested", [2, 3], ids=["most of its replicas", "all of them"])
def test_a_broker_that_the_run_itself_has_emptied_did_not_come_back_empty(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, requested: int
) -> None:
    run = given_run(tmp_path, cluster, monkeypatch, EMPTIES_BROKER_1)
    run.hold()
    for number in range(1, requested + 1):
        assert run.request() == number
        cluster.controller.run()
    restart(cluster, 1)
    assert run.reassign() == 4 - requested
    assert run.finish()["passed"] is True


@ON_ANY_VERSION
def test_a_broker_that_lost_what_the_run_has_left_to_it_came_back_empty(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = given_run(tmp_path, cluster, monkeypatch, EMPTIES_BROKER_1)
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    restart(cluster, 1)
    cluster.empty_disks.add(1)
    with pytest.raises(
        AirflowFailException, match=r"broker 1: .* its disks hold nothing of what they held \(orders-1\)"
    ):
        run.request()
    assert len(cluster.requests) == 1


def test_partitions_in_conflict_are_left_out_and_the_rest_is_done_as_approved(
    lenient: SimulatedRun, cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    approved = {one.topic_partition: list(one.after) for one in lenient.candidate.moves}
    set_lists(cluster, "orders", {"1": [3, 1]})
    lenient.hold()
    document = left_out(lenient)
    assert named(document) == [("orders", 1)]
    assert document["partitions"][0]["why"] == [
        "orders-1: replicas are now [3, 1], the approved proposal starts from [3, 2]"
    ]
    assert document["source_digest"] == lenient.candidate.digest
    assert "left out from now on (on_conflict: leave_out of the policy): orders-1: replicas are now" in caplog.text
    throttled: set[str] = set()

    def note(call: str, path: str) -> None:
        if (call, path) == ("create", "/admin/reassign_partitions"):
            throttled.update(cluster.config("topics/orders").get(FOLLOWERS, "").split(","))

    cluster.fake.after_write.append(note)
    lenient.reassign()
    assert {"0:4", "0:3", "2:4", "2:1"} & throttled
    assert not [entry for entry in throttled if entry.startswith("1:")]
    requested = {tp: replicas for request in cluster.requests for tp, replicas in request.items()}
    assert requested == {tp: replicas for tp, replicas in approved.items() if tp != TopicPartition("orders", 1)}
    verification = lenient.finish()
    assert verification["passed"] is True
    warnings = [check for check in verification["checks"] if check["name"] == "left_out"]
    assert [(check["subject"], check["severity"]) for check in warnings] == [("orders-1", "warning")]
    assert "left out on purpose: orders-1: replicas are now [3, 1]" in warnings[0]["finding"]
    assert [str(move.topic_partition) for move in read_report(lenient.folder).left_out] == ["orders-1"], (
        "the page has it"
    )
    assert cluster.replicas("orders")[1] == [3, 1]
    assert cluster.leftovers() == []


@ON_ANY_VERSION
def test_what_remains_is_scored_by_the_planners_scorer(lenient: SimulatedRun, cluster: SimulatedCluster) -> None:
    planned = json.loads((lenient.folder / json_files.PROPOSALS).read_text())["candidates"]
    after = next(one for one in planned if one["name"] == "light")["scores"]["after"]
    set_lists(cluster, "orders", {"1": [2, 3]})
    lenient.hold()
    scored = left_out(lenient)["scores"]
    assert scored["approved"]["replicas"] == after["replicas"]
    assert scored["remaining"]["replicas"] != after["replicas"]


def test_a_topic_that_is_deleted_between_batches_is_left_out_of_what_comes(
    lenient: SimulatedRun, cluster: SimulatedCluster
) -> None:
    lenient.hold()
    assert lenient.request() == 1
    cluster.controller.run()
    later = lenient.candidate.batches[1].moves
    gone = next(topic for topic in ("audit", "orders") if topic in {one.topic_partition.topic for one in later})
    cluster.fake.delete(f"/brokers/topics/{gone}", recursive=True)
    if f"/config/topics/{gone}" in cluster.fake.znodes:
        cluster.fake.delete(f"/config/topics/{gone}")
    while lenient.request() is not None:
        cluster.controller.run()
    assert {topic for topic, _ in named(left_out(lenient))} == {gone}
    assert all(batch["state"] == "done" for batch in batches(lenient))
    verification = lenient.finish()
    assert verification["passed"] is True
    assert {check["subject"] for check in verification["checks"] if check["name"] == "left_out"} == {
        f"{topic}-{partition}" for topic, partition in named(left_out(lenient))
    }


@ON_ANY_VERSION
def test_the_batch_after_one_that_is_left_out_is_looked_at_as_any_other(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = given_run(tmp_path, cluster, monkeypatch, EMPTIES_BROKER_1, "on_conflict: leave_out\n")
    run.hold()
    assert run.request() == 1
    cluster.controller.run()
    set_lists(cluster, "idle", {"0": [1, 4]})
    state = "/brokers/topics/orders/partitions/2/state"
    cluster.fake.put_json(state, {**cluster.fake.json(state), "isr": [2]})
    assert run.request() is None
    assert named(left_out(run)) == [("idle", 0)], "all of the second batch"
    assert len(cluster.requests) == 1, "the third copies to broker 3, which is still catching up"
    cluster.fake.put_json(state, {**cluster.fake.json(state), "isr": [2, 3]})
    assert run.resume({"state": "ready"}) == 3


def test_what_was_left_out_stays_out_after_a_retry(lenient: SimulatedRun, cluster: SimulatedCluster) -> None:
    set_lists(cluster, "orders", {"1": [3, 1]})
    lenient.hold()
    set_lists(cluster, "orders", {"1": [3, 2]})
    lenient.hold()
    assert named(left_out(lenient)) == [("orders", 1)]
    lenient.reassign()
    with pytest.raises(
        AirflowFailException, match=r"1 of \d+ checks failed; first emptied of broker 2: .* orders \(1\)"
    ):
        lenient.finish()  # all that was left to do is done, and the broker that was to be emptied is not
    assert cluster.replicas("orders")[1] == [3, 2]


@ON_ANY_VERSION
def test_a_plan_of_which_nothing_is_left_stops(lenient: SimulatedRun, cluster: SimulatedCluster) -> None:
    set_lists(cluster, "orders", {"0": [1, 3], "1": [3, 1], "2": [3, 1]})
    set_lists(cluster, "audit", {"0": [4, 1]})
    refused(lenient, cluster, "no longer the one that was approved")
    assert not (lenient.folder / json_files.LEFT_OUT).exists()


@ON_ANY_VERSION
@pytest.mark.parametrize(
    "change",
    [
        {"source_digest": "of another plan"},
        {"partitions": [{"topic": "idle", "partition": 0, "why": [], "at": ""}]},
        {"partitions": [{"topic": "orders"}]},
        {"partitions": None},
    ],
)
def test_a_list_of_what_is_left_out_that_somebody_changed_stops_every_step(
    lenient: SimulatedRun, cluster: SimulatedCluster, change: dict[str, Any]
) -> None:
    set_lists(cluster, "orders", {"1": [3, 1]})
    lenient.hold()
    (lenient.folder / json_files.LEFT_OUT).write_text(json.dumps({**left_out(lenient), **change}))
    before = cluster.tree()
    for step in (lenient.hold, lenient.request, lenient.release):
        with pytest.raises(AirflowFailException, match=r"left_out\.json.*had changed nothing"):
            step()
    assert cluster.tree() == before


@ON_ANY_VERSION
def test_the_approved_moves_are_the_same_however_much_is_left_out(
    lenient: SimulatedRun, cluster: SimulatedCluster
) -> None:
    before = read_candidate(lenient.folder, "light")
    set_lists(cluster, "orders", {"1": [3, 1]})
    lenient.hold()
    assert read_candidate(lenient.folder, "light") == before
