"""Share groups and the topic in which Kafka keeps their state, on a version that has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.admin.cluster_view import read_internal_topics, read_view
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.kafka.topics import BY_NAME
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.kafka.java.group_members import ShareMember
from support.kafka.java.kafka_classes import KafkaClasses
from support.runs.rebalance_run import InProcessRun
from support.runs.topic_run import TopicRun
from support.waiting import wait

VERSION = "4.4.0"
SHARED_STATE = "__share_group_state"


@pytest.fixture(scope="module", params=[pytest.param(VERSION, id=f"{VERSION}-kraft")])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """`orders` with a share group. Broker 4 is new and empty."""
    with LocalCluster(request.param, brokers=3, racks=3, kraft=True, one_jvm=True) as running:
        running.create_topic("orders", {0: (1, 2), 1: (2, 3), 2: (3, 1), 3: (1, 3)})
        running.produce("orders", dict.fromkeys(range(4), 200_000))
        with KafkaClasses(VERSION) as classes, ShareMember(classes, running.bootstrap_servers, "sharers", "orders"):
            kafka = KafkaConnection(running.bootstrap_servers)
            wait("Kafka has made the topic of its share groups", lambda: SHARED_STATE in read_internal_topics(kafka))
            running.add_broker(rack="rack-0")
            yield running


def test_the_brokers_call_internal_what_is_known_by_name(cluster: LocalCluster) -> None:
    with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
        view = read_view(wire)
    assert SHARED_STATE in view.internal
    assert view.internal == {tp.topic for tp in view.partitions if BY_NAME.is_internal(tp.topic)}


def test_no_plan_moves_the_state_of_share_groups(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    proposals = run.plan()
    rows = pq.read_table(run.folder / "snapshot" / "partitions.parquet").to_pylist()
    assert {row["topic"] for row in rows if not row["excluded"]} == {"orders"}
    moving = [one["name"] for one in proposals["candidates"] if one["moved_replicas"]]
    assert moving
    for name in moving:
        assert {move.topic_partition.topic for move in read_candidate(run.folder, name).moves} == {"orders"}


@pytest.mark.parametrize("params", [{"action": "alter", "partitions": 53}, {"action": "delete"}])
@pytest.mark.parametrize("policy", ["approvers: [uma]\n", "approvers: [uma]\ninternal_topics: true\n"])
def test_nobody_is_asked_to_expand_or_delete_the_state_of_share_groups(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, object], policy: str
) -> None:
    run = TopicRun(tmp_path, cluster, monkeypatch, policy)
    with pytest.raises(AirflowFailException, match="internal topic"):
        run.request(topic=SHARED_STATE, **params)
