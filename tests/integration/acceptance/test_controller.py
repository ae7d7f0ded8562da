"""The controller of real clusters: how it is elected, and what it looks after. Acceptance rows of seed 002."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from functools import partial

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.kafka.assignment import assign_replicas
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import PartitionView, TopicPartition, topic_identities
from kafka_rebalance.rebalance.elect_leaders import elect_preferred, led_by_first
from kafka_rebalance.run.checks.cluster_ready import readiness_findings
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.reader import check_controller_stable, read_cluster_view
from kafka_rebalance.zookeeper.topic_writes import create_topic, delete_topic
from kafka_rebalance.zookeeper.writer import create_election
from kafka_rebalance.zookeeper.znodes import decode_controller
from support import waiting
from support.zookeeper.new_partitions import are_led

WAIT_SECONDS = 30
wait = partial(waiting.wait, seconds=WAIT_SECONDS)
NO_BROKER = b'{"version":1,"brokerid":99,"timestamp":"1"}'


def controller_of(client: KazooClient) -> int | None:
    """The broker that `/controller` names; None while there is none."""
    controller = read_cluster_view(client, []).controller
    return None if controller is None else controller.broker


def epoch_of(client: KazooClient) -> int:
    return int(client.get("/controller_epoch")[0])


def partition_of(client: KazooClient, topic: str, partition: int = 0) -> PartitionView:
    return read_cluster_view(client, [topic]).partitions[TopicPartition(topic, partition)]


def test_controller_is_any_broker_and_only_one_at_a_time(cluster: LocalCluster, client: KazooClient) -> None:
    """Seed 002, row 2: the controller coordinates; any broker can be it; only one at a time."""
    seen = {controller_of(client)}
    give_up = time.monotonic() + WAIT_SECONDS
    while len(seen) < 3:
        assert time.monotonic() < give_up, f"only {seen} of four brokers became controller"
        epoch = epoch_of(client)
        client.delete(znodes.CONTROLLER)
        wait("there is a controller", lambda: controller_of(client) is not None and epoch_of(client) > epoch)  # noqa: B023
        assert epoch_of(client) == epoch + 1, "more than one broker took over"
        seen.add(controller_of(client))
    assert seen <= set(cluster.brokers)


def test_controller_is_the_first_to_create_the_znode(client: KazooClient) -> None:
    """Seed 002, row 3: the first to create `/controller` wins. To us it is who registered in the winner's session."""
    before = check_controller_stable(client, lambda: None).controller
    with pytest.raises(NodeExistsError):
        client.create(znodes.CONTROLLER, NO_BROKER, ephemeral=True)
    assert check_controller_stable(client, lambda: None).controller == before
    client.delete(znodes.CONTROLLER)
    wait("one of the brokers was first", lambda: controller_of(client) is not None)
    wait("it has taken over", lambda: epoch_of(client) > before.epoch)
    winner = check_controller_stable(client, lambda: None).controller
    session = client.get(znodes.broker_path(winner.broker))[1].ephemeralOwner
    assert client.get(znodes.CONTROLLER)[1].ephemeralOwner == session


def test_controller_elects_leaders_on_failure_and_handles_added_partitions(
    cluster: LocalCluster, client: KazooClient, fresh_topic_name: Callable[[], str]
) -> None:
    """Seed 002, row 4: elects leaders on failure, tells all brokers about ISR changes, handles added partitions."""
    topic = fresh_topic_name()
    leader, follower, other = [broker for broker in cluster.brokers if broker != controller_of(client)][:3]
    cluster.create_topic(topic, {0: (leader, follower)})
    cluster.stop_broker(leader)
    try:
        wait("the follower leads", lambda: partition_of(client, topic).leader == follower)
        wait("it alone is in sync", lambda: partition_of(client, topic).isr == (follower,))
        # What clients ask of any other broker is what the controller has told it.
        cluster.produce(topic, {0: 1000})
    finally:
        cluster.start_broker(leader)
    wait("both are in sync again", lambda: set(partition_of(client, topic).isr) == {leader, follower})
    path = f"/brokers/topics/{topic}"
    data, stat = client.get(path)
    document = json.loads(data)
    document["partitions"]["1"] = [other, follower]
    client.set(path, json.dumps(document).encode(), version=stat.version)
    wait("the added partition is led", lambda: partition_of(client, topic, 1).leader == other)


def test_controller_znode_is_ephemeral_and_names_broker_and_time(cluster: LocalCluster, client: KazooClient) -> None:
    """Seed 002, row 5: `/controller` is ephemeral; content version 1, brokerid, timestamp sample 1529210278988."""
    sample = decode_controller(b'{"version":1,"brokerid":0,"timestamp":"1529210278988"}', 1)
    assert (sample.broker, sample.since_ms) == (0, 1529210278988)
    data, stat = client.get(znodes.CONTROLLER)
    broker = json.loads(data)["brokerid"]
    assert stat.ephemeralOwner == client.get(f"/brokers/ids/{broker}")[1].ephemeralOwner != 0
    assert decode_controller(data, epoch_of(client)).since_ms == int(json.loads(data)["timestamp"])
    assert json.loads(data)["version"] == (2 if cluster.version == "3.9.2" else 1)


def test_controller_candidates_give_up_where_there_is_one_and_race_where_there_is_none(client: KazooClient) -> None:
    """Seed 002, row 6: brokerid ≠ -1 → give up candidacy; missing → try to create; losers fail.

    We do not race, but hold to the same: under a winner that is no broker nothing is planned or written.
    """
    epoch = epoch_of(client)
    # In one step, so that no broker can be first; the old controller sees that it is no longer the one.
    swap = client.transaction()
    swap.delete(znodes.CONTROLLER)
    swap.create(znodes.CONTROLLER, NO_BROKER, ephemeral=True)
    assert swap.commit() == [True, znodes.CONTROLLER]
    owner = client.get(znodes.CONTROLLER)[1].ephemeralOwner
    wait("every broker watches the winner's znode", lambda: watchers(client, znodes.CONTROLLER) >= 4)
    assert client.get(znodes.CONTROLLER)[1].ephemeralOwner == owner
    assert epoch_of(client) == epoch
    with pytest.raises(ClusterNotReadyError, match="names broker 99, which is not registered"):
        check_controller_stable(client, lambda: None)
    assert [f.subject for f in readiness_findings(read_cluster_view(client, []), topics=())] == ["controller 99"]
    client.delete(znodes.CONTROLLER)
    wait("a broker is controller again", lambda: controller_of(client) not in {None, 99})
    wait("it has taken over", lambda: epoch_of(client) == epoch + 1)
    assert check_controller_stable(client, lambda: None).epochs == (epoch + 1, epoch + 1)
    assert readiness_findings(read_cluster_view(client, []), topics=()) == ()


def wchp(client: KazooClient) -> dict[str, int]:
    """How many sessions watch each path, as ZooKeeper itself says it (its command `wchp`)."""
    host, port = client.hosts[0]
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(b"wchp")
        lines = b"".join(iter(lambda: connection.recv(65536), b"")).decode().splitlines()
    found: dict[str, int] = {}
    path = ""
    for line in lines:
        if line.startswith("/"):
            path = line
            found[path] = 0
        elif line.strip():
            found[path] += 1
    return found


def watchers(client: KazooClient, path: str) -> int:
    return wchp(client).get(path, 0)


def test_controller_watches_what_others_request_of_it(
    cluster: LocalCluster, client: KazooClient, fresh_topic_name: Callable[[], str]
) -> None:
    """Seed 002, row 7: watches on reassignments, ISR changes, elections, topics, deletions, brokers and each topic."""
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1,)})  # led, so topics are watched; brokers: see row 4
    data = {znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_ELECTION, znodes.topic_path(topic)}
    wait("all that holds data is watched where we write it", lambda: data <= wchp(client).keys())
    # ZooKeeper does not tell who watches children; the controller takes away what it has seen.
    notice = client.create("/isr_change_notification/isr_change_", b'{"version":1,"partitions":[]}', sequence=True)
    wait("the change of an ISR was seen", lambda: client.exists(notice) is None)
    view = read_cluster_view(client, [topic])
    create_election(client, [TopicPartition(topic, 0)], view)
    wait("our election was seen", lambda: read_cluster_view(client, []).elections is None)
    delete_topic(client, topic, expected=topic_identities(view.partitions)[topic])
    wait("our deletion was seen", lambda: read_cluster_view(client, [topic]).partitions == {})
    wait("and ended", lambda: topic not in read_cluster_view(client, []).deletions)


def test_controller_keeps_the_state_of_partitions_and_replicas(
    cluster: LocalCluster, client: KazooClient, fresh_topic_name: Callable[[], str]
) -> None:
    """Seed 002, row 8: maintains metadata, partition and replica states, optional auto-leader-rebalance-task."""
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2), 1: (2, 3)})
    for partition in (0, 1):
        found = partition_of(client, topic, partition)
        assert found.leader == found.replicas[0]
        assert set(found.isr) == set(found.replicas)
        assert found.state is not None
        assert found.state.leader_epoch == 0
    # The task is switched off in these clusters: a leader that came back gets its partitions back when we ask for it.
    cluster.stop_broker(2)
    cluster.start_broker(2)
    wait("both are in sync", lambda: set(partition_of(client, topic, 1).isr) == {2, 3})
    before = partition_of(client, topic, 1)
    assert before.leader == 3
    at_rest = Move(TopicPartition(topic, 1), (2, 3), (2, 3), 0)
    connection = ClusterConnection(
        "kafka_test", ZooKeeperConnection(cluster.zookeeper), KafkaConnection(cluster.bootstrap_servers)
    )
    opened = ZooKeeperCluster(connection, client)
    assert not led_by_first(read_cluster_view(client, [topic]), at_rest)
    assert elect_preferred(opened, [at_rest], most=1, allowed=opened.lock.read_fence) == ()
    after = partition_of(client, topic, 1)
    assert (after.leader, after.isr) == (2, before.isr)
    assert after.state is not None
    assert before.state is not None
    assert after.state.leader_epoch == before.state.leader_epoch + 1


def test_assignment_head_is_the_leader(
    cluster: LocalCluster, client: KazooClient, fresh_topic_name: Callable[[], str]
) -> None:
    """Seed 000, row 13: the head of the list is the leader, of a topic that we assign and create."""
    topic = fresh_topic_name()
    lists = assign_replicas(sorted(cluster.brokers), 8, 3, start_index=2, replica_shift=1)
    create_topic(client, topic, lists, {}, version=cluster.version, registered=cluster.brokers)
    wait("every partition is led", lambda: are_led(client, topic, lists))
    found = {partition: partition_of(client, topic, partition) for partition in lists}
    assert {partition: view.replicas for partition, view in found.items()} == lists
    heads = {partition: replicas[0] for partition, replicas in lists.items()}
    assert {partition: view.leader for partition, view in found.items()} == heads
    assert list(heads.values()) == [3, 4, 1, 2, 3, 4, 1, 2]
