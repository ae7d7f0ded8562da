"""What is wrong on other brokers than those on which replicas move between log dirs. The cluster is simulated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.errors import ClusterNotReadyError
from support.runs.log_dir_run import LogDirRun
from support.runs.simulated_cluster import SimulatedCluster
from support.runs.simulated_log_dirs import DRAIN, SimulatedLogDirs


def a_dead_broker(cluster: SimulatedCluster, broker: int, *, alone_in_sync: str | None = None) -> None:
    """Others lead, but for the partition in which it was alone in sync."""
    cluster.fake.delete(f"/brokers/ids/{broker}")
    for topic in cluster.fake.get_children("/brokers/topics"):
        for number, held in cluster.replicas(topic).items():
            path = f"/brokers/topics/{topic}/partitions/{number}/state"
            left = [one for one in held if one != broker]
            stuck = f"{topic}-{number}" == alone_in_sync
            now = {"leader": -1, "isr": [broker]} if stuck else {"leader": left[0], "isr": left}
            cluster.fake.put_json(path, cluster.fake.json(path) | now)


def a_dead_broker_elsewhere(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    a_dead_broker(cluster, 3)
    for replica in [one for one in dirs.paths if one.broker == 3]:
        del dirs.paths[replica]


def a_silent_broker_elsewhere(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    cluster.silent.add(4)


def a_failed_dir_elsewhere(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    dirs.offline.add((3, "/b"))


def a_copy_elsewhere(cluster: SimulatedCluster, dirs: SimulatedLogDirs) -> None:
    dirs.future[next(one for one in dirs.paths if one.broker == 3)] = "/b", 0


@pytest.mark.parametrize(
    "spoil", [a_dead_broker_elsewhere, a_silent_broker_elsewhere, a_failed_dir_elsewhere, a_copy_elsewhere]
)
def test_what_is_wrong_on_other_brokers_keeps_nobody_from_emptying_a_disk(
    run: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs, spoil: Callable[..., None]
) -> None:
    spoil(cluster, dirs)
    run.plan(**DRAIN, copies_per_broker=4)
    run.answer()
    run.hold()
    run.move()
    assert sum(len(targets) for _, targets in dirs.asked) == 4


def test_a_replica_that_waits_for_a_dead_broker_is_named_and_stays(
    run: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    a_dead_broker(cluster, 3, alone_in_sync="orders-1")
    said = "orders-1 on broker 2 cannot move unless brokers that are away come back"
    with pytest.raises(AirflowFailException, match=said):
        run.plan(**DRAIN)
    run.plan(job="balance", broker=2)
    assert "orders-1" not in {str(move.replica.topic_partition) for move in run.written.plan.moves}
    assert run.written.plan.moves


def test_a_broker_that_is_to_be_emptied_and_is_away_is_named(run: LogDirRun, cluster: SimulatedCluster) -> None:
    a_dead_broker(cluster, 2)
    with pytest.raises(ClusterNotReadyError, match="broker 2: it is not registered and holds 4 replicas"):
        run.plan(**DRAIN)


def test_a_move_whose_partition_lost_its_leader_since_the_approval_does_not_begin(
    approved: LogDirRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    a_dead_broker(cluster, 3, alone_in_sync="orders-1")
    with pytest.raises(ClusterNotReadyError, match="1 partition without a live leader: orders-1"):
        approved.hold()
    assert dirs.asked == []
