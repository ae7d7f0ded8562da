"""A reassignment as the controllers of three versions carry it out, step by step. Acceptance rows of seed 001."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_rebalance.admin.log_dirs import read_replica_sizes
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import VERSIONS
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.moves.move_progress import Phase, is_complete, partition_progress
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.writer import create_reassignment
from support import waiting

DIGEST = "d" * 64
wait = partial(waiting.wait, seconds=30)


def watched_paths(zookeeper: str) -> set[str]:
    """What sessions watch, as ZooKeeper itself says it (its command `wchp`)."""
    host, port = zookeeper.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"wchp")
        said = b"".join(iter(lambda: connection.recv(65536), b""))
    return {line for line in said.decode().splitlines() if line.startswith("/")}


def epoch(view: ClusterView, move: Move) -> int:
    state = view.partitions[move.topic_partition].state
    assert state is not None
    return state.leader_epoch


@dataclass(frozen=True)
class Moved:
    """One partition before, while the controller waits for the target broker that is down, and after."""

    move: Move
    before: ClusterView
    during: ClusterView
    after: ClusterView
    watched: set[str]
    old_folder: Path  # the replica's on the broker that leaves

    def partition(self, view: ClusterView) -> PartitionView:
        return view.partitions[self.move.topic_partition]


@pytest.fixture(scope="module")
def moved(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> Iterator[Moved]:
    """[leaves, stays] → [stays, gained], the leader leaving. Waiting for a broker makes the first phase last."""
    topic = fresh_topic_name()
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:

        def view() -> ClusterView:
            return read_cluster_view(client, [topic])

        controller = view().controller
        assert controller is not None
        gained = next(broker for broker in cluster.brokers if broker != controller.broker)
        leaves, stays = [broker for broker in cluster.brokers if broker != gained][:2]
        cluster.create_topic(topic, {0: (leaves, stays)})
        cluster.produce(topic, {0: 500_000})
        move = Move(TopicPartition(topic, 0), (leaves, stays), (stays, gained), 500_000)
        before = view()
        cluster.stop_broker(gained)
        try:
            # It counts as registered here: nobody may request this but a test.
            create_reassignment(client, Batch(1, (move,), DIGEST), DIGEST, [leaves, stays, gained])
            state, watched = f"/brokers/topics/{topic}/partitions/0/state", set[str]()

            def watches_state() -> bool:
                # A watch is gone when it fires, until the controller sets the next: what was once seen counts.
                watched.update(watched_paths(cluster.zookeeper))
                return state in watched

            if cluster.version == "2.0.1":
                wait("the controller watches the state", watches_state)
            wait("the leader has a new epoch", lambda: epoch(view(), move) > epoch(before, move))
            during = view()
            watches_state()
        finally:
            cluster.start_broker(gained)
        wait("the move is complete", lambda: is_complete(move, view()))
        folder = cluster.folder / f"data-{leaves}" / f"{topic}-0"
        wait("the reassignment znode is gone", lambda: client.exists("/admin/reassign_partitions") is None)
        yield Moved(move, before, during, view(), watched, folder)


def test_reassignment_request_becomes_old_and_new_replicas(moved: Moved) -> None:
    """Seed 001, row 11: the listener turns the znode into a context with new replicas and an ISR listener."""
    during = moved.partition(moved.during)
    assert set(during.replicas) - set(moved.move.before) == set(moved.move.added)
    assert moved.during.reassignments == {moved.move.topic_partition: moved.move.after}


def test_reassignment_names_target_original_and_assigned_replicas(moved: Moved) -> None:
    """Seed 001, row 12: RAR (the target), OAR (the original list), AR (the list that is stored now)."""
    target, original = moved.move.after, moved.move.before
    assert moved.partition(moved.before).replicas == original
    assert set(moved.partition(moved.during).replicas) == set(target) | set(original)
    assert moved.partition(moved.after).replicas == target


def test_reassignment_step_1_watches_the_partitions_state(moved: Moved, cluster: LocalCluster) -> None:
    """Seed 001, row 13: step 1: register on `…/partitions/P/state`."""
    if cluster.version != "2.0.1":
        pytest.skip("since 2.7 the partition's leader tells the controller itself of its ISR (AlterIsr)")
    assert f"/brokers/topics/{moved.move.topic_partition.topic}/partitions/0/state" in moved.watched


def test_reassignment_step_2_keeps_the_leader_while_new_replicas_fetch(moved: Moved) -> None:
    """Seed 001, row 14: step 2: AR := RAR+OAR; new replicas fetch from the unchanged leader (in OAR)."""
    before, during = moved.partition(moved.before), moved.partition(moved.during)
    assert during.leader == before.leader == moved.move.before[0]
    assert set(during.isr) == set(moved.move.before)
    assert epoch(moved.during, moved.move) == epoch(moved.before, moved.move) + 1
    assert partition_progress(moved.move, moved.during).phase is Phase.COPYING


def test_reassignment_step_3_elects_a_leader_of_the_target_and_removes_the_rest(
    moved: Moved, cluster: LocalCluster
) -> None:
    """Seed 001, row 15: step 3 when all RAR in ISR: elect leader from RAR if needed, remove OAR−RAR:
    Online→Offline→NonExistent, UpdateMetadata to all brokers.
    """
    # The old leader leaves, so one of the target has to be elected: by a new epoch, and by nobody's election but this.
    assert moved.move.before[0] in moved.move.removed
    after = moved.partition(moved.after)
    assert after.leader in moved.move.after
    assert epoch(moved.after, moved.move) > epoch(moved.during, moved.move)
    assert set(after.isr) == set(moved.move.after)
    assert is_complete(moved.move, moved.after)
    # NonExistent: the files go too, renamed first and deleted later, and the broker tells of them no more.
    wait("the old replica's folder is gone", lambda: not moved.old_folder.exists())
    told = read_replica_sizes(
        KafkaConnection(cluster.bootstrap_servers), moved.move.removed, [moved.move.topic_partition]
    )
    assert not told.silent
    assert moved.move.topic_partition not in told.replicas
    for broker, registration in moved.after.brokers.items():
        server = registration.endpoints[0]
        client = AdminClient({"bootstrap.servers": f"{server.host}:{server.port}", "log_level": 0})
        found = client.list_topics(moved.move.topic_partition.topic, timeout=10).topics
        shown = found[moved.move.topic_partition.topic].partitions[0]
        assert (shown.leader, tuple(shown.replicas)) == (after.leader, moved.move.after), f"broker {broker}"


def test_reassignment_routine_runs_twice_for_a_partition(
    cluster: LocalCluster, fresh_topic_name: Callable[[], str]
) -> None:
    """Seed 001, row 16: the reassignment routine runs twice per partition; each run writes the list once.

    Once to start it, once when the target is in the ISR. (A target broker that starts meanwhile is one run more.)
    """
    topic = fresh_topic_name()
    cluster.create_topic(topic, {0: (1, 2)})
    move = Move(TopicPartition(topic, 0), (1, 2), (2, 3), 0)
    with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
        before = read_cluster_view(client, [topic])
        create_reassignment(client, Batch(1, (move,), DIGEST), DIGEST, [1, 2, 3])
        wait("the move is complete", lambda: is_complete(move, read_cluster_view(client, [topic])))
        after = read_cluster_view(client, [topic])
        wait("the reassignment znode is gone", lambda: client.exists("/admin/reassign_partitions") is None)
    written = [view.partitions[move.topic_partition].topic_znode_version for view in (before, after)]
    assert written[1] == written[0] + 2


def test_a_move_is_followed_from_untouched_over_its_copies_to_its_end(moved: Moved) -> None:
    views = (moved.before, moved.during, moved.after)
    followed = [partition_progress(moved.move, view, requested=view is not moved.before).phase for view in views]
    assert followed == [Phase.QUEUED, Phase.COPYING, Phase.DONE]
    assert [is_complete(moved.move, view) for view in views] == [False, False, True]


@pytest.mark.parametrize("version", VERSIONS)
def test_reassignment_brokers_are_not_rebalanced_when_added(version: str) -> None:
    """Seed 001, row 1: brokers are never rebalanced automatically when added."""
    with LocalCluster(version, brokers=1, one_jvm=True) as cluster:
        cluster.create_topic("orders", {0: (1,), 1: (1,)})
        with open_client(ZooKeeperConnection(cluster.zookeeper)) as client:
            before = read_cluster_view(client, ["orders"]).partitions
            added = cluster.add_broker()
            # That this topic gets its leader shows that the controller knows the broker.
            cluster.create_topic("elsewhere", {0: (added,)})
            assert read_cluster_view(client, ["orders"]).partitions == before
            assert client.exists("/admin/reassign_partitions") is None
