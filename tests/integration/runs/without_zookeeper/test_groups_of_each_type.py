"""Groups of each of Kafka's types, and the topic in which Kafka keeps what share groups have done, on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.admin.cluster_view import read_internal_topics, read_view
from kafka_rebalance.admin.groups import read_committed_offsets, read_groups
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.documents import json_files
from kafka_rebalance.kafka.topics import BY_NAME
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.consumer_groups import TopicGroups
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.kafka.consuming import consuming
from support.kafka.java.group_members import ShareMember
from support.kafka.java.kafka_classes import KafkaClasses
from support.kafka.streams_member import StreamsMember
from support.runs.rebalance_run import InProcessRun
from support.runs.topic_run import TopicRun
from support.waiting import wait

VERSION = "4.4.0"
SHARED_STATE = "__share_group_state"
TYPES = {"classics": "classic", "moderns": "consumer", "patterns": "consumer", "sharers": "share", "tasks": "streams"}


@pytest.fixture(scope="module", params=[pytest.param(VERSION, id=f"{VERSION}-kraft")])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """`orders` is read by a group of each type, and `idle` by none. Broker 4 is new and empty."""
    with LocalCluster(request.param, brokers=3, racks=3, kraft=True, one_jvm=True) as running, ExitStack() as members:
        running.create_topic("orders", {0: (1, 2), 1: (2, 3), 2: (3, 1), 3: (1, 3)})
        running.create_topic("idle", {0: (1, 2)})
        running.produce("orders", dict.fromkeys(range(4), 200_000))
        kafka, servers = KafkaConnection(running.bootstrap_servers), running.bootstrap_servers
        classes = members.enter_context(KafkaClasses(VERSION))
        members.enter_context(ShareMember(classes, servers, "sharers", "orders"))
        members.enter_context(consuming(running, "classics", "orders"))
        members.enter_context(consuming(running, "moderns", "orders", group_protocol="consumer"))
        members.enter_context(consuming(running, "patterns", "^ord.*", group_protocol="consumer"))
        members.enter_context(StreamsMember(kafka, "tasks", "orders"))
        wait("Kafka has made the topic of its share groups", lambda: SHARED_STATE in read_internal_topics(kafka))
        wait("all groups have members", lambda: groups_of(kafka, "orders") == TYPES, seconds=120)
        running.add_broker(rack="rack-0")
        yield running


@pytest.fixture
def kafka(cluster: LocalCluster) -> KafkaConnection:
    return KafkaConnection(cluster.bootstrap_servers)


def groups_of(kafka: KafkaConnection, topic: str) -> dict[str, str]:
    return {one.group: one.type for one in read_groups(kafka, topic, range(4)).groups}


# --- groups ---


def test_groups_of_each_type_are_read_with_their_members(kafka: KafkaConnection) -> None:
    found = read_groups(kafka, "orders", range(4))
    assert found.unread == ()
    assert {one.group: one.type for one in found.groups} == TYPES
    assert {one.group: len(one.members) for one in found.groups} == dict.fromkeys(TYPES, 1)
    assert {member.topics for one in found.groups for member in one.members} == {("orders",)}
    by_name = {one.group: one for one in found.groups}
    all_of_it = tuple(TopicPartition("orders", partition) for partition in range(4))
    for name in ("classics", "moderns", "patterns"):
        assert by_name[name].members[0].assigned == all_of_it
        assert by_name[name].committed


def test_groups_of_every_type_of_another_topic_are_left_out_and_none_is_unread(kafka: KafkaConnection) -> None:
    assert read_groups(kafka, "idle", [0]) == TopicGroups(())


def test_a_group_of_each_type_is_found_by_what_it_has_done_when_its_members_have_left(
    cluster: LocalCluster, kafka: KafkaConnection
) -> None:
    cluster.create_topic("left", {0: (1, 2)})
    cluster.produce("left", {0: 100_000})
    with consuming(cluster, "left-moderns", "left", group_protocol="consumer"):
        pass
    with (
        KafkaClasses(VERSION) as classes,
        ShareMember(classes, cluster.bootstrap_servers, "left-sharers", "left"),
    ):

        def has_begun() -> bool:
            """It begins at the end of the topic."""
            cluster.produce("left", {0: 10_000})
            return "left-sharers" in committed(kafka, "left")

        wait("the share group has begun", has_begun, seconds=120)
    found = read_groups(kafka, "left", [0])
    assert found.unread == ()
    assert {one.group: (one.type, one.committed) for one in found.groups} == {
        "left-moderns": ("consumer", (0,)),
        "left-sharers": ("share", (0,)),
    }


def committed(kafka: KafkaConnection, topic: str) -> dict[str, int]:
    return read_committed_offsets(kafka, [1, 2, 3]).get(TopicPartition(topic, 0), {})


def test_a_request_to_delete_names_the_groups_of_each_type(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TopicRun(tmp_path, cluster, monkeypatch)
    run.request(action="delete", topic="orders")
    body = run.ask().body or ""
    assert "5 consumer groups of it" in body
    assert "`sharers` (share group)" in body
    assert "`tasks` (streams group)" in body
    other = TopicRun(tmp_path, cluster, monkeypatch)
    other.request(action="delete", topic="idle")
    assert "No consumer group has members or offsets for it" in (other.ask().body or "")


def test_the_forecast_of_an_expansion_says_what_it_means_to_each_type(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TopicRun(tmp_path, cluster, monkeypatch)
    run.request(action="alter", topic="orders", partitions=6)
    body = run.ask().body or ""
    forecast = json_files.read_json(run.folder, json_files.FORECAST)
    assert {group["group"]: group["type"] for group in forecast["groups"]} == TYPES
    assert {group["group"] for group in forecast["groups"] if group["assignors"]} == {"classics", "moderns", "patterns"}
    assert "share group sharers: 1 member, which share the records" in body
    assert "streams group tasks: 1 member; its tasks" in body


# --- the topic of share groups ---


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
    # The run makes the lock's topic, and with it the one of transactions, before it looks.
    held_back = {SHARED_STATE, "__consumer_offsets", "__transaction_state", "__kafka_rebalance"}
    assert {row["topic"] for row in rows if row["excluded"]} == held_back
    moving = [one["name"] for one in proposals["candidates"] if one["moved_replicas"]]
    assert moving
    for name in moving:
        moved = {move.topic_partition.topic for move in read_candidate(run.folder, name).moves}
        assert not moved & held_back


@pytest.mark.parametrize("params", [{"action": "alter", "partitions": 53}, {"action": "delete"}])
@pytest.mark.parametrize("policy", ["approvers: [uma]\n", "approvers: [uma]\ninternal_topics: true\n"])
def test_nobody_is_asked_to_expand_or_delete_the_state_of_share_groups(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, object], policy: str
) -> None:
    run = TopicRun(tmp_path, cluster, monkeypatch, policy)
    with pytest.raises(AirflowFailException, match="internal topic"):
        run.request(topic=SHARED_STATE, **params)
