"""What real controllers do when somebody touches request or topic in mid-move, and that it is told from ZooKeeper.

Each looks as a trigger does, by reading alone; the seconds that a condition has to hold are counted, not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.controller_findings import (
    UNHEARD_SECONDS,
    ZOMBIE_SECONDS,
    BatchFinding,
    FindingKind,
    Watch,
    detect,
)
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.reader import read_batch_view
from kafka_rebalance.zookeeper.znodes import encode_election, encode_reassignment
from support.kafka.small_clusters import move
from support.waiting import wait


@dataclass
class Look:
    """One who follows the batch of this move, at a clock that a test moves on."""

    client: KazooClient
    move: Move
    now: float = 0.0
    watch: Watch | None = None

    def again(self, seconds: float = 1.0) -> dict[FindingKind, BatchFinding]:
        self.now += seconds
        view = read_batch_view(self.client, [self.move.topic_partition])
        self.watch, found = detect(self.watch, self.now, [self.move], view)
        return {anomaly.kind: anomaly for anomaly in found}


def request(client: KazooClient, *moves: Move) -> None:
    client.create(znodes.REASSIGN_PARTITIONS, encode_reassignment({one.topic_partition: one.after for one in moves}))


def replicas(client: KazooClient, one: Move) -> tuple[int, ...]:
    return read_batch_view(client, [one.topic_partition]).partitions[one.topic_partition].replicas


def asked(client: KazooClient) -> set[TopicPartition]:
    return set(read_batch_view(client, []).reassignments or ())


def is_requested(client: KazooClient) -> bool:
    return client.exists(znodes.REASSIGN_PARTITIONS) is not None


def let_the_controller_finish(client: KazooClient, one: Move) -> None:
    """Waits for its answer to an election: it handles one event after the other.

    After the list that tests wait for, a controller of 2.0 writes the request once more. What it takes up it sets, or
    creates again; at the end of a move it deletes whatever is there, also a request that somebody has just made
    (KafkaController.removePartitionsFromReassignedPartitions).
    """
    client.create(znodes.PREFERRED_ELECTION, encode_election([one.topic_partition]))
    wait("the election is answered", lambda: client.exists(znodes.PREFERRED_ELECTION) is None)


def fail_over(client: KazooClient) -> None:
    epoch = client.get(znodes.CONTROLLER_EPOCH)[0]
    client.delete(znodes.CONTROLLER)
    wait(
        "another controller is elected",
        lambda: client.exists(znodes.CONTROLLER) is not None and client.get(znodes.CONTROLLER_EPOCH)[0] != epoch,
    )


@pytest.fixture
def moves(
    cluster: LocalCluster, client: KazooClient, fresh_topic_name: Callable[[], str]
) -> Iterator[tuple[Move, Move, Move]]:
    """Three moves of one partition each, to a broker that is not the controller."""
    controller = read_batch_view(client, []).controller
    assert controller is not None
    source, other, target = [broker for broker in cluster.brokers if broker != controller.broker][:3]
    made = []
    for _ in range(3):
        topic = fresh_topic_name()
        cluster.create_topic(topic, {0: (source, other)})
        made.append(move(f"{topic}-0", [source, other], [source, target]))
    yield made[0], made[1], made[2]
    if not cluster.is_running(target):
        cluster.start_broker(target)
    if is_requested(client):  # a test has failed: the cluster is others', too
        client.delete(znodes.REASSIGN_PARTITIONS)
        fail_over(client)


def begin(cluster: LocalCluster, client: KazooClient, one: Move) -> Look:
    """A move that stays half-way, since its target is down; nothing is wrong with it."""
    cluster.stop_broker(one.added[0])
    request(client, one)
    wait("the move is in motion", lambda: one.added[0] in replicas(client, one))
    let_the_controller_finish(client, one)
    look = Look(client, one)
    assert look.again() == {}
    return look


def end(cluster: LocalCluster, client: KazooClient, one: Move) -> None:
    cluster.start_broker(one.added[0])
    wait("the move goes on by itself and ends", lambda: replicas(client, one) == one.after)
    let_the_controller_finish(client, one)


def test_a_request_deleted_in_mid_move_is_told_and_the_controller_hears_again_when_the_move_has_ended(
    cluster: LocalCluster, client: KazooClient, moves: tuple[Move, Move, Move]
) -> None:
    first, second, _ = moves
    look = begin(cluster, client, first)
    client.delete(znodes.REASSIGN_PARTITIONS)
    found = look.again()
    assert list(found) == [FindingKind.DEAF_CONTROLLER]
    assert f"{first.topic_partition} out of" in found[FindingKind.DEAF_CONTROLLER].text
    assert not is_requested(client)
    end(cluster, client, first)
    assert look.again() == {}
    request(client, second)
    wait("now it hears of the next request", lambda: replicas(client, second) == second.after)
    wait("and takes it away", lambda: not is_requested(client))


@pytest.mark.parametrize("cluster", ["2.8.2", "3.9.2"], indirect=True)
def test_after_somebody_wrote_into_the_request_no_other_is_heard_until_a_failover_and_each_step_is_told(
    cluster: LocalCluster, client: KazooClient, moves: tuple[Move, Move, Move]
) -> None:
    """Setting the znode is what the controller never sees, and what stops it from hearing of the next (2.4+)."""
    first, foreign, second = moves
    look = begin(cluster, client, first)
    both = {one.topic_partition: one.after for one in (first, foreign)}
    client.set(znodes.REASSIGN_PARTITIONS, encode_reassignment(both))
    found = look.again()
    assert list(found) == [FindingKind.FOREIGN_REASSIGNMENT]
    assert str(foreign.topic_partition) in found[FindingKind.FOREIGN_REASSIGNMENT].text
    end(cluster, client, first)
    wait("its entry is taken out, and the other stays", lambda: asked(client) == {foreign.topic_partition})
    assert replicas(client, foreign) == foreign.before, "what was set was not seen"
    assert list(look.again()) == [FindingKind.FOREIGN_REASSIGNMENT]

    client.delete(znodes.REASSIGN_PARTITIONS)  # by hand
    request(client, first, second)  # each followed as a batch of its own; the first has nothing left to do
    before = client.get(znodes.REASSIGN_PARTITIONS)
    zombie, unheard = Look(client, first), Look(client, second)
    assert not {FindingKind.ZOMBIE_ENTRY, FindingKind.UNHEARD_REQUEST} & {*zombie.again(), *unheard.again()}
    told = {**zombie.again(ZOMBIE_SECONDS), **unheard.again(UNHEARD_SECONDS)}
    for kind, one in ((FindingKind.ZOMBIE_ENTRY, first), (FindingKind.UNHEARD_REQUEST, second)):
        assert told[kind].stops, "it ends in an error"
        assert "The next controller reads the request anew" in told[kind].text
        assert replicas(client, one) == (first.after if one is first else second.before)
    assert client.get(znodes.REASSIGN_PARTITIONS) == before, "looking writes nothing"
    fail_over(client)  # the remedy
    wait("the next controller has heard of it", lambda: replicas(client, second) == second.after)
    wait("and takes it away", lambda: not is_requested(client))
    assert (zombie.again(), unheard.again()) == ({}, {})


@pytest.mark.parametrize("cluster", ["3.9.2"], indirect=True)
def test_a_topic_queued_for_deletion_in_mid_move_is_told_while_it_can_still_be_taken_back(
    cluster: LocalCluster, client: KazooClient, moves: tuple[Move, Move, Move]
) -> None:
    first, _, second = moves
    topic = first.topic_partition.topic
    look = begin(cluster, client, first)
    client.create(f"{znodes.DELETE_TOPICS}/{topic}")
    found = look.again()
    assert list(found) == [FindingKind.TOPIC_DELETION]
    assert found[FindingKind.TOPIC_DELETION].stops
    # The remedy.
    client.delete(f"{znodes.DELETE_TOPICS}/{topic}")
    fail_over(client)
    assert look.again() == {}
    end(cluster, client, first)
    wait("the request is taken away", lambda: not is_requested(client))
    assert look.again() == {}
    request(client, second)
    wait("the next request is heard of", lambda: replicas(client, second) == second.after)
    wait("and taken away", lambda: not is_requested(client))
