"""A rebalance of a cluster without ZooKeeper, up to the plan: a run reads and plans there, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.steps.approval_request import EndsHere, RunLinks, ask
from kafka_rebalance.steps.janitor.look_after_cluster import look_after_cluster
from kafka_rebalance.steps.nightly.check_cluster import check
from kafka_rebalance.steps.rebalance.ask_for_approval import CandidateApproval
from kafka_rebalance.steps.rebalance.plan_drift import read_drift
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from local_cluster import LocalCluster
from local_cluster.jars.locked_jars import KRAFT_VERSIONS
from support.kafka.kafka_classes import KafkaClasses
from support.kafka.reassign_tool import ReassignPartitions
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.waiting import wait

UNEVEN = {0: (1, 2), 1: (1, 2), 2: (2, 1), 3: (1, 2)}  # of brokers 1 to 4
LINKS = RunLinks("https://airflow/run", "https://airflow/picture")


@pytest.fixture(scope="module", params=KRAFT_VERSIONS)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """The quorum has a node of its own, so the controller is no broker."""
    with LocalCluster(request.param, brokers=4, racks=2, kraft=True, controllers=1) as running:
        running.create_topic("orders", UNEVEN, config={"retention.ms": "86400000"})
        running.produce("orders", dict.fromkeys(UNEVEN, 300_000))
        yield running


@pytest.fixture
def run(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessRun:
    return InProcessRun(tmp_path, cluster, monkeypatch)


def view_of(cluster: LocalCluster) -> ClusterView:
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
        return read_view(wire)


def test_a_plan_is_made_and_not_offered_and_kafkas_own_tool_carries_it_out(
    run: InProcessRun, cluster: LocalCluster
) -> None:
    proposals = run.plan()
    chosen = next(one["name"] for one in proposals["candidates"] if one["moved_replicas"])
    snapshot = json_files.read_json(run.folder, json_files.SNAPSHOT)
    assert snapshot["controller"]["broker"] == 101
    assert not snapshot["has_zookeeper"]

    asked = run_step(ask, run.dag_run, CandidateApproval(), str(run.folder), run.xcom["nonce"], LINKS)
    assert isinstance(asked, EndsHere)
    assert "has no ZooKeeper" in asked.why
    assert {tp.partition: one.replicas for tp, one in view_of(cluster).partitions.items()} == UNEVEN
    drift = read_drift(airflow_deployment(), run.folder)
    assert not drift.in_the_way
    assert all(one.unchanged and not one.harmless + one.conflicting for one in drift.candidates)

    after = {move.topic_partition: move.after for move in read_candidate(run.folder, chosen).moves}
    with KafkaClasses("3.9.2") as classes:  # whose tool speaks with later brokers too
        file = run.folder / "reassignments" / f"{chosen}.json"
        said = ReassignPartitions(classes, cluster)("--reassignment-json-file", str(file), "--execute")
    assert "Successfully started" in said
    wait("the plan is in place", lambda: after.items() <= lists_of(view_of(cluster)).items())
    drift = read_drift(airflow_deployment(), run.folder)
    assert any(one.harmless + one.conflicting for one in drift.candidates), (
        "the page does not tell that the cluster has changed"
    )


def lists_of(view: ClusterView) -> dict[tuple[str, int], tuple[int, ...]]:
    """Of partitions that are in sync and not in motion."""
    return {tp: one.replicas for tp, one in view.partitions.items() if set(one.isr) == set(one.replicas)}


def test_the_nightly_check_measures_the_cluster_and_proposes_nothing(run: InProcessRun) -> None:
    found = run_step(check, run.dag_run, CONNECTION)
    assert found["cluster_id"]
    assert not found["propose"]


def test_the_janitor_has_nothing_to_look_after(run: InProcessRun) -> None:
    with pytest.raises(AirflowSkipException, match="has no ZooKeeper"):
        run_step(look_after_cluster, run.dag_run, CONNECTION, {})
