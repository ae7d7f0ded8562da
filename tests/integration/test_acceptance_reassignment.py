"""A reassignment as the controllers of three versions carry it out, step by step. Acceptance rows of seed 001."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import waiting
from kafka_rebalance.execution.progress import Phase, is_complete, partition_progress
from kafka_rebalance.kafka.reassignment_json import ReassignmentStatus, verify_status
from kafka_rebalance.model.cluster import ClusterView
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.model.proposal import Batch, Move
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.writer import create_reassignment
from local_cluster import LocalCluster
from local_cluster.locks import VERSIONS

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


def test_reassignment_step_3_elects_a_leader_of_the_target_and_removes_the_rest(moved: Moved) -> None:
    """Seed 001, row 15: step 3 when all RAR in ISR: elect leader from RAR if needed, remove OAR−RAR."""
    after = moved.partition(moved.after)
    assert after.leader == moved.move.after[0]
    assert set(after.isr) == set(moved.move.after)
    # Online, Offline, NonExistent: the files go too, renamed first and deleted later.
    wait("the old replica's folder is gone", lambda: not moved.old_folder.exists())


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


def test_verify_follows_it_from_in_progress_to_completed(moved: Moved) -> None:
    wanted = {moved.move.topic_partition: moved.move.after}
    statuses = [
        verify_status(wanted, {moved.move.topic_partition: moved.partition(view).replicas}, view.reassignments or {})
        for view in (moved.before, moved.during, moved.after)
    ]
    assert [status[moved.move.topic_partition].status for status in statuses] == [
        ReassignmentStatus.FAILED,
        ReassignmentStatus.IN_PROGRESS,
        ReassignmentStatus.COMPLETED,
    ]


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
