"""Brokers and log dirs that somebody has cordoned (KIP-1066), from the snapshot to the verification on real brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kafka_rebalance.admin.replica_sizes import LogDir, read_log_dirs
from kafka_rebalance.documents import json_files
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.planning.tables.snapshot_files import BROKERS
from kafka_rebalance.steps.nightly.check_cluster import check
from kafka_rebalance.steps.rebalance.plan_drift import read_drift
from kafka_rebalance.steps.run import checks_before_write
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from support.runs.api_cluster import ApiCluster
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.runs.topic_run import TopicRun
from support.waiting import wait

FAST = 50_000_000  # bytes per second
UNEVEN = {number: [(1, 2), (2, 3), (3, 1)][number % 3] for number in range(12)}  # broker 4 is empty


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """4.4.0, four brokers with two log dirs each; the quorum has a node of its own."""
    dirs = {"log.dirs": "{data}/a,{data}/b"}
    with LocalCluster("4.4.0", brokers=4, racks=0, kraft=True, controllers=1, broker_config=dirs) as running:
        yield running


@pytest.fixture
def kafka(cluster: LocalCluster) -> Iterator[ApiCluster]:
    found = ApiCluster(cluster)
    yield found
    assert found.leftovers() == []


@pytest.fixture
def topic(cluster: LocalCluster, kafka: ApiCluster, fresh_topic_name: Callable[[], str]) -> Iterator[str]:
    name = fresh_topic_name()
    cluster.create_topic(name, UNEVEN)
    cluster.produce(name, dict.fromkeys(UNEVEN, 200_000))
    yield name
    kafka.delete(name)


@pytest.fixture
def run(tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> InProcessRun:
    return InProcessRun(tmp_path, cluster, monkeypatch)


def log_dirs(cluster: LocalCluster, broker: int) -> tuple[LogDir, ...]:
    return read_log_dirs(KafkaConnection(cluster.bootstrap_servers), [broker]).log_dirs[broker]


@pytest.fixture
def cordon(cluster: LocalCluster) -> Iterator[Callable[[int, str | None], None]]:
    """Sets `cordoned.log.dirs` of a broker, as an operator of the cluster would; None removes it."""
    admin, touched = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), set[int]()

    def change(broker: int, value: str | None) -> None:
        how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry("cordoned.log.dirs", value or "", incremental_operation=how)
        asked = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        for answer in admin.incremental_alter_configs([asked]).values():
            answer.result()
        touched.add(broker)
        count = {None: 0, "*": 2}.get(value, 1)
        wait("the broker tells it", lambda: sum(one.cordoned for one in log_dirs(cluster, broker)) == count)

    yield change
    for broker in touched:
        change(broker, None)


def received(run: InProcessRun, candidate: str) -> set[int]:
    return {broker for move in read_candidate(run.folder, candidate).moves for broker in move.added}


def carry_out(run: InProcessRun, choice: str) -> dict[str, Any]:
    run.approve(choice, FAST)
    run.hold()
    run.reassign()
    return run.finish()


def test_a_plan_leaves_a_cordoned_broker_alone_and_ends_as_approved(
    run: InProcessRun, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    cordon(4, "*")
    proposals = run.plan(job="drain", drain=[3], topics_in=[topic])
    rows = {row["broker"]: row for row in pq.read_table(run.folder / json_files.SNAPSHOT_FOLDER / BROKERS).to_pylist()}
    assert [len(rows[broker]["cordoned_log_dirs"]) for broker in (1, 2, 3, 4)] == [0, 0, 0, 2]
    chosen = proposals["recommended"]
    assert chosen is not None
    assert received(run, chosen) == {1, 2}
    assert all("broker 4 is cordoned" in one["note"].lower() for one in proposals["candidates"])
    assert carry_out(run, chosen)["passed"]


def test_kafka_refuses_even_a_new_order_of_a_list_with_a_cordoned_broker_so_it_is_not_offered(
    run: InProcessRun, kafka: ApiCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    cordon(3, "*")
    for number, after in ((1, (3, 4)), (2, (1, 3))):  # of (2, 3) and (3, 1)
        with pytest.raises(AssertionError, match="InvalidReplicationAssignment"):
            kafka.reassign(topic, {number: after})
    lists = [{"topic": topic, "partition": 2, "replicas": [1, 3]}]
    (candidate,) = run.plan(plan=json.dumps({"version": 1, "partitions": lists}), candidates=[])["candidates"]
    assert candidate["status"] == "infeasible"
    proposals = run.plan(topics_in=[topic])
    for one in proposals["candidates"]:
        assert all(3 not in move.after for move in read_candidate(run.folder, one["name"]).moves)
        assert "partitions stay as they are" in one["note"]


def test_with_one_of_two_log_dirs_cordoned_the_other_gets_all(
    run: InProcessRun, cluster: LocalCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    shut, taking = log_dirs(cluster, 4)
    cordon(4, shut.path)
    proposals = run.plan(topics_in=[topic])
    chosen = proposals["recommended"]
    assert 4 in received(run, chosen)
    assert f"{shut.path} of broker 4 is cordoned" in proposals["candidates"][0]["note"]
    assert carry_out(run, chosen)["passed"]
    now = {one.path: one.replicas for one in log_dirs(cluster, 4)}
    assert now[shut.path] == shut.replicas
    assert now[taking.path] > taking.replicas


def test_a_broker_that_is_cordoned_after_the_approval_stops_the_run_before_its_first_write(
    run: InProcessRun, kafka: ApiCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    run.plan(topics_in=[topic])
    run.approve("balanced", FAST)
    assert 4 in received(run, "balanced")
    cordon(4, "*")
    drift = read_drift(airflow_deployment(), run.folder)
    assert any("broker 4" in line and "cordoned" in line for one in drift.candidates for line in one.conflicts)
    with pytest.raises(AirflowFailException, match="broker 4: it is to receive replicas and is cordoned"):
        run.hold()
    assert kafka.throttles() == {}
    assert kafka.lists(topic) == UNEVEN


def test_what_kafka_refuses_is_told_with_kafkas_own_words(
    run: InProcessRun,
    kafka: ApiCluster,
    topic: str,
    cordon: Callable[[int, str | None], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after = {0: (1, 4), 1: (2, 1)}  # 1 is possible, 0 is not
    lists = [{"topic": topic, "partition": number, "replicas": list(held)} for number, held in after.items()]
    run.plan(plan=json.dumps({"version": 1, "partitions": lists}), candidates=[])
    run.approve("given", FAST)
    run.hold()
    monkeypatch.setattr(checks_before_write, "who_is_shut", lambda *_: {})  # as if it came between check and request
    cordon(4, "*")
    words = rf"{topic}-0: InvalidReplicationAssignmentError: .*broker 4, but all its log directories are cordoned"
    with pytest.raises(AirflowFailException, match=words):
        run.reassign()
    assert kafka.lists(topic)[0] == UNEVEN[0]
    assert kafka.lists(topic)[1] == after[1]
    with pytest.raises(AirflowFailException, match=words):  # a cleared task says the same, and asks for nothing
        run.reassign()
    run.release()


def test_the_nightly_check_proposes_nothing_for_a_broker_that_is_empty_because_it_is_cordoned(
    run: InProcessRun, cluster: LocalCluster, topic: str, cordon: Callable[[int, str | None], None]
) -> None:
    cordon(4, "*")
    found = run_step(check, run.dag_run, CONNECTION)
    assert found["propose"] is False, found["text"]


def test_new_partitions_go_to_other_brokers(
    cluster: LocalCluster,
    kafka: ApiCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cordon: Callable[[int, str | None], None],
    fresh_topic_name: Callable[[], str],
) -> None:
    cordon(4, "*")
    name = fresh_topic_name()
    made = TopicRun(tmp_path, cluster, monkeypatch)
    verification = made.carry_out(action="create", topic=name, partitions=6, replication_factor=3)
    assert verification["passed"]
    assert {broker for held in kafka.lists(name).values() for broker in held} == {1, 2, 3}
    kafka.delete(name)
