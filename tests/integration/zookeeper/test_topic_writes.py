"""Topics of real clusters, made, expanded, configured and deleted by us: every version comes to the end it should."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource
from kazoo.security import OPEN_ACL_UNSAFE

from kafka_rebalance.errors import KafkaRuleError, StaleProposalError, WriteError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition, topic_identities
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view, read_topic_configs
from kafka_rebalance.zookeeper.topic_writes import (
    Created,
    Deletion,
    create_topic,
    delete_topic,
    read_deletion,
    set_topic_configs,
    write_more_partitions,
)
from kafka_rebalance.zookeeper.writer import commit
from support.waiting import wait
from support.zookeeper.fake_zookeeper import fake_cluster
from support.zookeeper.new_partitions import are_led

WAIT_SECONDS = 60
JUTE_MAXBUFFER_BYTES = 0xFFFFF  # the default of ZooKeeper
REASSIGN = "/admin/reassign_partitions"
GONE = Deletion(marked=False, topic_left=False, config_left=False)
NEW, MORE = {0: (3, 1), 1: (4, 2)}, {2: (1, 4), 3: (2, 3)}


@pytest.fixture
def topic(cluster: LocalCluster, client: Any, fresh_topic_name: Callable[[], str]) -> str:
    """A topic of ours whose partitions are all led."""
    name = fresh_topic_name()
    create(cluster, client, name)
    wait("it is led", lambda: are_led(client, name, NEW))
    return name


def create(cluster: Any, client: Any, name: str, configs: dict[str, str] | None = None) -> Created:
    return create_topic(client, name, NEW, configs or {}, version=cluster.version, registered=cluster.brokers)


def identity(client: Any, name: str) -> TopicIdentity:
    return topic_identities(read_cluster_view(client, [name]).partitions)[name]


def wait_for_config(cluster: Any, name: str, key: str, value: str | None) -> None:
    """Until a broker says that this applies to the topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def applies() -> bool:
        try:
            found = admin.describe_configs([resource])[resource].result(WAIT_SECONDS)[key]
        except KafkaException:  # a broker that has not heard of the topic yet
            return False
        return found.is_default if value is None else found.value == value

    wait(f"{key} of {name} is {value or 'the default'}", applies)


def test_topics_assignment_triggers_the_controllers_topic_change_handling(
    cluster: LocalCluster, client: Any, fresh_topic_name: Callable[[], str]
) -> None:
    """Seed 004, rows 8 and 17: the assignment makes the controller start the topic; the first replica leads."""
    name = fresh_topic_name()
    assert create(cluster, client, name, {"retention.ms": "3600000"}) == Created(Outcome.CREATED)
    wait("every partition is led", lambda: are_led(client, name, NEW))
    view = read_cluster_view(client, [name])
    for partition, replicas in NEW.items():
        found = view.partitions[TopicPartition(name, partition)]
        assert (found.replicas, found.leader, found.isr) == (replicas, replicas[0], replicas)
        assert (found.topic_id is None) == cluster.version.startswith("2.0")
    wait_for_config(cluster, name, "retention.ms", "3600000")
    assert create(cluster, client, name, {"retention.ms": "3600000"}) == Created(Outcome.ALREADY_THERE)
    cluster.produce(name, {0: 1_000, 1: 1_000})


def test_added_partitions_are_led_and_the_others_stay_as_they_were(
    cluster: LocalCluster, client: Any, topic: str
) -> None:
    cluster.produce(topic, {0: 1_000})
    before, approved = read_cluster_view(client, [topic]).partitions, identity(client, topic)
    for _ in range(2):
        write_more_partitions(client, topic, MORE, expected=approved, registered=cluster.brokers)
    wait("the new ones are led", lambda: are_led(client, topic, MORE))
    after = read_cluster_view(client, [topic]).partitions
    assert {key.partition: view.replicas for key, view in after.items()} == NEW | MORE
    for key, view in before.items():
        assert (after[key].state, after[key].topic_id) == (view.state, view.topic_id)
    assert identity(client, topic).znode_version == approved.znode_version + 1
    cluster.produce(topic, {2: 1_000, 3: 1_000})


def test_brokers_apply_changed_configs_and_forget_removed_ones(cluster: LocalCluster, client: Any, topic: str) -> None:
    for changes, wanted in (
        ({"segment.bytes": "1048576", "retention.ms": "5"}, "1048576"),
        ({"segment.bytes": None}, None),
    ):
        set_topic_configs(client, topic, changes, version=cluster.version, expected=identity(client, topic))
        wait_for_config(cluster, topic, "segment.bytes", wanted)
    assert read_topic_configs(client, [topic]) == {topic: {"retention.ms": "5"}}
    newest = sorted(client.get_children("/config/changes"))[-1]
    assert json.loads(client.get(f"/config/changes/{newest}")[0]) == {"version": 2, "entity_path": f"topics/{topic}"}
    applied = (
        (cluster.folder / "kafka.log").read_text(errors="replace").count(f"entityPath: topics/{topic} with config")
    )
    assert applied >= len(cluster.brokers), "each broker was told, and not only asked"


def test_a_deleted_topic_leaves_nothing_behind(cluster: LocalCluster, client: Any, topic: str) -> None:
    approved = identity(client, topic)
    assert delete_topic(client, topic, expected=approved) is Outcome.CREATED
    wait("it is gone", lambda: read_deletion(client, topic, expected=approved) == GONE)
    for path in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
        assert client.exists(f"{path}/{topic}") is None
    assert delete_topic(client, topic, expected=approved) is Outcome.ALREADY_THERE
    create(cluster, client, topic)
    wait("its name is free", lambda: are_led(client, topic, NEW))
    with pytest.raises(StaleProposalError, match="deleted and made again"):
        delete_topic(client, topic, expected=approved)
    assert read_deletion(client, topic, expected=approved) == GONE


def test_a_creation_that_crashed_between_its_two_writes_is_finished_by_a_re_run(
    cluster: LocalCluster, client: Any, fresh_topic_name: Callable[[], str]
) -> None:
    name = fresh_topic_name()
    left: dict[str, Any] = {"version": 1, "config": {"retention.ms": "1", "cleanup.policy": "compact"}}
    client.create(f"/config/topics/{name}", json.dumps(left).encode())
    assert create(cluster, client, name, {"retention.ms": "7200000"}) == Created(Outcome.CREATED, left["config"])
    wait("it is led", lambda: are_led(client, name, NEW))
    wait_for_config(cluster, name, "retention.ms", "7200000")
    wait_for_config(cluster, name, "cleanup.policy", None)


@pytest.fixture
def moving(cluster: LocalCluster, client: Any, topic: str) -> Iterator[str]:
    """A topic on its way to a broker that is down; its move ends with the broker's return."""
    cluster.stop_broker(1)
    try:
        wait(
            "the others lead",
            lambda: all(p.leader != 1 for p in read_cluster_view(client, [topic]).partitions.values()),
        )
        request = {"version": 1, "partitions": [{"topic": topic, "partition": 1, "replicas": [4, 1]}]}
        client.create(REASSIGN, json.dumps(request).encode())
        on_its_way = (2, 4, 1)
        wait(
            "it moves",
            lambda: (
                set(read_cluster_view(client, [topic]).partitions[TopicPartition(topic, 1)].replicas) == set(on_its_way)
            ),
        )
        yield topic
    finally:
        cluster.start_broker(1)
        wait("the move has ended", lambda: client.exists(REASSIGN) is None)


def test_while_its_reassignment_runs_a_topic_is_neither_expanded_nor_deleted(
    cluster: LocalCluster, client: Any, moving: str
) -> None:
    approved = identity(client, moving)
    before = client.get(f"/brokers/topics/{moving}"), client.get(REASSIGN)
    with pytest.raises(WriteError, match=r"it is being reassigned\."):
        write_more_partitions(client, moving, {2: (3, 4)}, expected=approved, registered={2, 3, 4})
    with pytest.raises(WriteError, match=r"it is being reassigned\."):
        delete_topic(client, moving, expected=approved)
    assert (client.get(f"/brokers/topics/{moving}"), client.get(REASSIGN)) == before
    assert client.exists(f"/admin/delete_topics/{moving}") is None


@pytest.fixture
def below(cluster: LocalCluster, client: Any, fresh_topic_name: Callable[[], str]) -> Iterator[str]:
    """Hosts with a chroot of the real ZooKeeper, for a cluster that has brokers in name only."""
    path = f"/{fresh_topic_name()}"
    for name, znode in fake_cluster({}).znodes.items():
        client.create(path + name.rstrip("/"), znode.data, makepath=True)
    yield cluster.zookeeper + path
    client.delete(path, recursive=True)


def test_of_two_creators_at_once_one_wins_with_its_assignment_and_its_config(cluster: LocalCluster, below: str) -> None:
    rounds, outcomes, refusals = 40, [], set()
    start = threading.Barrier(2)

    def creator(number: int) -> None:
        replicas, configs = {0: (number,)}, {"retention.ms": str(number)}
        with open_client(ZooKeeperConnection(below)) as own:
            for turn in range(rounds):
                start.wait(WAIT_SECONDS)
                try:
                    create_topic(own, f"t{turn}", replicas, configs, version=cluster.version, registered={1, 2})
                    outcomes.append((turn, number))
                except KafkaRuleError as lost:
                    refusals.add(lost.kafka_message)

    threads = [threading.Thread(target=creator, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = dict(outcomes)
    assert len(outcomes) == len(winners) == rounds
    assert refusals == {f"Topic 't{turn}' already exists." for turn in range(rounds)}
    with open_client(ZooKeeperConnection(below)) as client:
        for turn, winner in winners.items():
            assert json.loads(client.get(f"/brokers/topics/t{turn}")[0])["partitions"] == {"0": [winner]}
            assert json.loads(client.get(f"/config/topics/t{turn}")[0])["config"] == {"retention.ms": str(winner)}


def test_the_largest_transaction_that_is_let_through_is_one_that_zookeeper_takes(below: str) -> None:
    """The limit is of the whole request: of a topic's config and assignment together."""
    acl = list(OPEN_ACL_UNSAFE)
    with open_client(ZooKeeperConnection(below)) as client:

        def fits(size: int) -> bool:
            transaction = client.transaction()
            transaction.create("/config/topics/large", b"x" * size, acl=acl)
            transaction.create("/brokers/topics/large", b"y" * 500_000, acl=acl)
            try:
                commit(client, "/brokers/topics/large", transaction)
            except WriteError:
                return False
            return True

        sizes = range(JUTE_MAXBUFFER_BYTES - 500_000, JUTE_MAXBUFFER_BYTES - 501_000, -1)
        largest = next(size for size in sizes if fits(size))
        assert largest < sizes[0]
        assert len(client.get("/config/topics/large")[0]) == largest
