"""A broker that is dead for good, and alone held what nobody can copy: the rest is planned, and this is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.nightly import check_cluster
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import RATE, SimulatedCluster, SimulatedRun

RACKS: dict[int, str | None] = dict.fromkeys((1, 2, 3, 4, 5))
DEAD, EMPTY = 4, 5
TOPICS: dict[str, dict[int, tuple[int, ...]]] = {
    "solid": {0: (1, 4), 1: (2, 4), 2: (4, 3), 3: (3, 1)},
    "scratch": {0: (4,), 1: (1,)},
    "calm": {0: (1, 2), 1: (2, 1), 2: (1, 2), 3: (2, 3)},
}
LOST = "left out: scratch-0, lost unless broker 4 returns"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = SimulatedCluster(monkeypatch, TOPICS, racks=RACKS)
    die(made, DEAD)
    return made


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    return SimulatedRun(tmp_path, cluster, monkeypatch)


def die(cluster: SimulatedCluster, broker: int) -> None:
    """What the controller writes when a broker has lost its session."""
    cluster.fake.delete(f"/brokers/ids/{broker}")
    for topic in cluster.fake.get_children("/brokers/topics"):
        for partition in cluster.replicas(topic):
            path = f"/brokers/topics/{topic}/partitions/{partition}/state"
            state = cluster.fake.json(path)
            isr = [one for one in state["isr"] if one != broker]
            leader = state["leader"] if state["leader"] != broker else isr[0] if isr else -1
            cluster.fake.put_json(path, {**state, "isr": isr or state["isr"], "leader": leader})


def delete(cluster: SimulatedCluster, topic: str) -> None:
    cluster.fake.create(f"/admin/delete_topics/{topic}", b"")


@pytest.mark.parametrize(
    "asked",
    [
        {"job": "drain", "drain": [DEAD]},
        {"job": "replace", "replace": {str(DEAD): EMPTY}},
        {"job": "leaders", "drain": [DEAD]},
        {"job": "repair_racks", "drain": [DEAD]},
        {"job": "drain", "drain": [DEAD], "topics_in": ["s*"]},
    ],
)
def test_each_emergency_job_plans_what_can_be_copied_and_names_what_is_lost(
    run: SimulatedRun, asked: dict[str, Any]
) -> None:
    proposals = run.plan(**asked)
    searched = [one for one in proposals["candidates"] if one["status"] != "infeasible"]
    assert searched
    for one in searched:
        assert one["status"] == "partial"
        assert LOST in f"{one['note'][0].lower()}{one['note'][1:]}"
        waiting = {"brokers": [DEAD], "being_deleted": False, "named": ["scratch-0"], "count": 1}
        assert one["left_waiting"] == [waiting], "the request tells it by this"
        moved = {str(move.topic_partition) for move in read_candidate(run.folder, one["name"]).moves}
        assert "scratch-0" not in moved


def test_a_drain_ends_as_approved_with_a_warning_about_what_is_lost(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    proposals = run.plan(job="drain", drain=[DEAD])
    chosen = proposals["recommended"]
    assert chosen is not None
    run.approve(chosen, RATE)
    run.hold()
    run.reassign()
    verification = run.finish()
    assert verification["passed"], verification
    held = [topic for topic in TOPICS for one in cluster.replicas(topic).values() if DEAD in one]
    assert held == ["scratch"]
    warned = [one for one in verification["checks"] if one["name"] == "emptied"]
    assert [(one["severity"], "scratch-0" in one["finding"]) for one in warned] == [("warning", True)]


def test_a_topic_whose_deletion_waits_for_the_broker_is_left_out(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    delete(cluster, "scratch")
    proposals = run.plan(job="drain", drain=[DEAD])
    note = proposals["candidates"][0]["note"]
    assert "eft out: scratch, being deleted, which waits for broker 4" in note


def test_a_deletion_that_no_broker_holds_up_is_waited_for(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    delete(cluster, "calm")
    with pytest.raises(ClusterNotReadyError, match=r"topics are being deleted \(calm\)"):
        run.plan(job="drain", drain=[DEAD])


@pytest.mark.parametrize("asked", [{"topics_in": ["calm"]}, {"topics_out": ["s*"]}])
def test_topics_that_are_well_are_planned_beside_others_that_are_not(
    run: SimulatedRun, cluster: SimulatedCluster, asked: dict[str, Any]
) -> None:
    delete(cluster, "scratch")
    proposals = run.plan(**asked)
    assert proposals["recommended"] is not None
    run.approve(proposals["recommended"], RATE)
    run.hold()
    run.reassign()
    assert run.finish()["passed"]


def test_a_dead_broker_that_nobody_empties_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the emptiest of all: what it holds is not selected."""
    crowded = {number: (1, 2) if number % 2 else (2, 3) for number in range(12)}
    cluster = SimulatedCluster(monkeypatch, {"scratch": {0: (DEAD,)}, "calm": crowded}, racks=RACKS)
    die(cluster, DEAD)
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    receiving = {}
    for one in run.plan(topics_in=["calm"])["candidates"]:
        if one["status"] != "infeasible":
            moves = read_candidate(run.folder, one["name"]).moves
            receiving[one["name"]] = {broker for move in moves for broker in move.added}
    assert EMPTY in receiving["balanced"]
    assert all(DEAD not in brokers for brokers in receiving.values())


def test_a_partition_that_waits_for_a_broker_that_stays_is_still_refused(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    die(cluster, 3)
    path = "/brokers/topics/calm/partitions/3/state"
    cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": -1, "isr": [3]})
    with pytest.raises(ClusterNotReadyError, match="2 partitions without a live leader: calm-3, solid-2"):
        run.plan(job="drain", drain=[DEAD])


def test_what_loses_its_last_replica_after_the_approval_is_not_left_out_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimulatedCluster(monkeypatch, TOPICS, racks=RACKS)
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.plan(job="drain", drain=[DEAD])
    run.approve("light", RATE)
    die(cluster, DEAD)
    with pytest.raises(ClusterNotReadyError, match="1 partition without a live leader: scratch-0"):
        run.hold()


def test_a_cluster_without_topics_has_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, {}), monkeypatch)
    for act in (empty.plan, lambda: run_step(check_cluster.check, empty.dag_run, CONNECTION)):
        with pytest.raises(AirflowSkipException, match="has no topics, so there is nothing to do"):
            act()
    with pytest.raises(AirflowFailException, match=r"matches none of 0 topics"):
        empty.plan(topics_in=["orders"])


def test_of_a_cluster_with_internal_topics_alone_the_check_says_that_nothing_may_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More partitions of such a topic would lose what is in it: Kafka finds it by a hash modulo their number."""
    cluster = SimulatedCluster(monkeypatch, {"__consumer_offsets": {0: (1, 2), 1: (1, 2), 2: (1, 3)}})
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    found = run_step(check_cluster.check, run.dag_run, CONNECTION)
    assert found["propose"] is False
    assert "no topic may be moved: Kafka's own topics stay where they are" in found["text"]
    assert "More partitions" not in found["text"]
