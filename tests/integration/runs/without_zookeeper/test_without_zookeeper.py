"""Plans, drift, the nightly check and topics of a cluster without ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.nightly.check_cluster import check
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance.drift import read_drift
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.java.reassign_tool import ReassignPartitions
from support.kafka.on_versions import NEWEST_WITHOUT_ZOOKEEPER
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.runs.topic_run import TopicRun
from support.waiting import wait

UNEVEN = {0: (1, 2), 1: (1, 2), 2: (2, 1), 3: (1, 2)}  # of brokers 1 to 4


@pytest.fixture(scope="module", params=NEWEST_WITHOUT_ZOOKEEPER)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """The quorum has a node of its own, so the controller is no broker."""
    with LocalCluster(request.param, brokers=4, racks=2, kraft=True, controllers=1) as running:
        running.create_topic("orders", UNEVEN, config={"retention.ms": "86400000"})
        running.produce("orders", dict.fromkeys(UNEVEN, 300_000))
        yield running


def view_of(cluster: LocalCluster) -> ClusterView:
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
        return read_view(wire)


def test_a_plan_is_told_to_be_in_place_when_kafkas_own_tool_carries_it_out(
    run: InProcessRun, cluster: LocalCluster
) -> None:
    proposals = run.plan()
    chosen = next(one["name"] for one in proposals["candidates"] if one["moved_replicas"])
    snapshot = json_files.read_json(run.folder, json_files.SNAPSHOT)
    assert snapshot["controller"]["broker"] == 101

    drift = read_drift(airflow_deployment(), run.folder)
    assert not drift.in_the_way
    for one in drift.candidates:
        # A busy machine may hold up a follower, or move a leader, between snapshot and look. Nothing else has changed.
        assert not one.conflicts
        assert all("in sync" in text or "leads" in text for text in one.changes)
        assert one.unchanged + one.harmless == len(read_candidate(run.folder, one.name).moves)

    after = {move.topic_partition: move.after for move in read_candidate(run.folder, chosen).moves}
    with KafkaClasses("3.9.2") as classes:  # whose tool speaks with later brokers too
        file = run.folder / "reassignments" / f"{chosen}.json"
        said = ReassignPartitions(classes, cluster)("--reassignment-json-file", str(file), "--execute")
    assert "Successfully started" in said
    wait("the plan is in place", lambda: after.items() <= lists_of(view_of(cluster)).items())
    drift = read_drift(airflow_deployment(), run.folder)
    assert any(one.conflicting for one in drift.candidates), "the page does not tell that the cluster has changed"


def lists_of(view: ClusterView) -> dict[tuple[str, int], tuple[int, ...]]:
    """Of partitions that are in sync and not in motion."""
    return {tp: one.replicas for tp, one in view.partitions.items() if set(one.isr) == set(one.replicas)}


def test_the_nightly_check_measures_the_cluster_and_proposes_a_rebalance_past_the_limit(
    run: InProcessRun, cluster: LocalCluster
) -> None:
    cluster.create_topic("lopsided", dict.fromkeys(range(8), (1, 2)))
    cluster.produce("lopsided", dict.fromkeys(range(8), 200_000))
    found = run_step(check, run.dag_run, CONNECTION)
    assert found["past_limit"]
    assert found["propose"], found["not_proposed"]


# --- kafka_topics ---


def described(cluster: LocalCluster, folder: Path, monkeypatch: pytest.MonkeyPatch, topic: str) -> list[dict[str, Any]]:
    asked = TopicRun(folder, cluster, monkeypatch)
    asked.request(action="describe", topic=topic)
    return list(json_files.read_json(asked.folder, json_files.TOPICS)["topics"])


def test_a_topic_lives_from_creation_to_deletion(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carry_out(**params: Any) -> dict[str, Any]:
        return TopicRun(tmp_path, cluster, monkeypatch).carry_out(topic="payments", **params)

    made = carry_out(action="create", partitions=4, replication_factor=2, config=["retention.ms=60000"])
    assert made["passed"]
    (entry,) = described(cluster, tmp_path, monkeypatch, "payments")
    assert (entry["partition_count"], entry["replication_factor"]) == (4, 2)
    assert entry["configs"] == {"retention.ms": "60000"}

    more = {"partitions": 7, "config": ["cleanup.policy=compact"], "delete_config": ["retention.ms"]}
    assert carry_out(action="alter", **more)["passed"]
    (entry,) = described(cluster, tmp_path, monkeypatch, "payments")
    assert (entry["partition_count"], entry["configs"]) == (7, {"cleanup.policy": "compact"})
    assert all(len(partition["isr"]) == 2 for partition in entry["partitions"])

    assert carry_out(action="delete")["passed"]
    assert described(cluster, tmp_path, monkeypatch, "payments") == []


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"config": ["retention.ms=a week"]}, "a week"),
        ({"config": ["no.such.config=1"]}, "no.such.config"),
        ({"replication_factor": 9}, "larger than available brokers"),
    ],
)
def test_what_kafka_would_refuse_is_refused_before_anybody_is_asked(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], said: str
) -> None:
    run = TopicRun(tmp_path, cluster, monkeypatch)
    given = {"partitions": 2, "replication_factor": 2, **params}
    with pytest.raises(AirflowFailException, match=said):
        run.request(action="create", topic="refused", **given)
    assert described(cluster, tmp_path, monkeypatch, "refused") == []


def test_a_change_is_written_once_and_only_to_the_topic_that_was_shown(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make() -> TopicRun:
        return TopicRun(tmp_path, cluster, monkeypatch)

    created = make()
    created.request(action="create", topic="twice", partitions=2, replication_factor=2)
    created.ask()
    assert created.write()["written"] == "created"
    wait("all know the topic", lambda: bool(described(cluster, tmp_path, monkeypatch, "twice")))
    assert created.write()["written"] == "already_there"

    grows, deletes = make(), make()
    grows.request(action="alter", topic="twice", partitions=5)
    deletes.request(action="delete", topic="twice")
    for run, choice in ((grows, "alter"), (deletes, "delete")):
        run.answer(choice)
    assert make().carry_out(action="delete", topic="twice")["passed"]
    assert make().carry_out(action="create", topic="twice", partitions=2, replication_factor=2)["passed"]
    with pytest.raises(AirflowFailException, match="deleted and made again"):
        grows.write()
    assert deletes.write()["written"] == "already_there", "the topic of the request is gone"
    (entry,) = described(cluster, tmp_path, monkeypatch, "twice")
    assert entry["partition_count"] == 2
    assert make().carry_out(action="delete", topic="twice")["passed"]
