"""What an error names: the run whose copies are in the way, who may lead, and a topic that was made again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.errors import ClusterNotReadyError, StaleProposalError, WriteError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.checks.cluster_ready import readiness_findings, refuse
from support.kafka.on_versions import NEWEST_WITHOUT_ZOOKEEPER
from support.runs.watched_cluster import WatchedCluster
from support.waiting import wait

DIGEST = "d" * 64
ONE = LockOwner("kafka_rebalance/one", DIGEST, "airflow (a1)", "2026-11-23T00:00:00+00:00")
TWO = LockOwner("kafka_rebalance/two", DIGEST, "airflow (a1)")
AWAY = 4  # takes no copy, so what goes there stays in motion


@pytest.fixture(scope="module", params=NEWEST_WITHOUT_ZOOKEEPER)
def kafka(request: pytest.FixtureRequest) -> Iterator[WatchedCluster]:
    with LocalCluster(request.param, brokers=4, racks=0, kraft=True, controllers=1) as cluster:
        cluster.stop_broker(AWAY)
        yield WatchedCluster(cluster)


def batch_of(topic: str) -> Batch:
    move = Move(TopicPartition(topic, 0), (1, 2), (AWAY, 2), 0)
    return Batch(1, (move,), DIGEST)


def test_a_topic_that_was_made_again_between_check_and_request_is_not_moved(kafka: WatchedCluster) -> None:
    kafka.local.create_topic("again", {0: (1, 2)})
    with open_cluster(kafka.connection) as cluster:
        view = cluster.read_view(["again"])
        fence = cluster.lock.acquire(ONE)
        kafka.delete("again")
        kafka.local.create_topic("again", {0: (1, 2)})
        with pytest.raises(StaleProposalError, match=r"again \(topic id .*taken back \(1 of 1"):
            cluster.request_moves(batch_of("again"), DIGEST, [1, 2, 3, AWAY], view=view, fence=fence)
        cluster.lock.release(ONE)
    assert kafka.moving() == []
    assert set(kafka.lists("again")[0]) == {1, 2}, "a cancel keeps the brokers, and may change their order"


def test_the_run_whose_copies_are_in_the_way_is_named(kafka: WatchedCluster) -> None:
    kafka.local.create_topic("theirs", {0: (1, 2)})
    kafka.local.create_topic("tools", {0: (1, 2)})
    with open_cluster(kafka.connection) as cluster:
        view = cluster.read_view(["theirs"])
        fence = cluster.lock.acquire(TWO)
        cluster.request_moves(batch_of("theirs"), DIGEST, [1, 2, 3, AWAY], view=view, fence=fence)
        cluster.lock.release(TWO)
        kafka.reassign("tools", {0: [AWAY, 2]})
        moving = [TopicPartition("theirs", 0), TopicPartition("tools", 0)]
        assert cluster.read_movers(moving) == {moving[0]: TWO.name}
        assert cluster.read_movers(moving, besides=TWO) == {}
        with pytest.raises(ClusterNotReadyError, match=r"run kafka_rebalance/two of airflow \(a1\).*tools-0: cancel"):
            refuse(readiness_findings(cluster.read_view(), who_moves=cluster.read_movers))
        fence = cluster.lock.acquire(ONE)
        elsewhere = Batch(1, (Move(moving[0], (1, 2), (3, 2), 0),), DIGEST)
        with pytest.raises(WriteError, match=r"theirs-0: somebody else.*run kafka_rebalance/two of airflow \(a1\)"):
            cluster.request_moves(elsewhere, DIGEST, [1, 2, 3, AWAY], view=cluster.read_view(), fence=fence)
        cluster.lock.release(ONE)
        cluster.cancel_moves(moving)


def test_where_the_isr_is_empty_the_brokers_that_may_lead_are_named(kafka: WatchedCluster) -> None:
    kafka.local.create_topic("eligible", {0: (3, 2)}, {"min.insync.replicas": "2"})
    wait("the topic is in sync", lambda: kafka.is_in_sync("eligible", 2))
    for broker in (2, 3):
        kafka.local.stop_broker(broker)
    try:
        tp = TopicPartition("eligible", 0)
        with open_cluster(kafka.connection) as cluster:
            one = cluster.read_view(["eligible"]).partitions[tp]
            assert one.leader == -1
            assert 3 in one.may_lead
            (found,) = (
                one
                for one in readiness_findings(cluster.read_view(["eligible"]), may_be_down=[2, 3], needed=[tp])
                if "without a live leader" in one.subject
            )
        assert one.isr or "eligible-0 [" in found.remedy
    finally:
        for broker in (2, 3):
            kafka.local.start_broker(broker)
