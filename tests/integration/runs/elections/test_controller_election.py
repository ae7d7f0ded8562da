"""A request that does not end needs another controller: it outlives its topic on 2.8, or the controller has lost
ZooKeeper's answer to the write of an ISR. The controller is elected as approved.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kazoo.client import KazooClient

from kafka_rebalance.admin.log_dirs import read_replica_sizes
from kafka_rebalance.cancel import elect_controller
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.reader import check_controller_stable, read_cluster_view
from support.kafka.on_versions import NEWEST
from support.runs.cancel_run import CancelRun
from support.runs.rebalance_run import InProcessRun
from support.waiting import wait

MEGABYTE = 1_000_000
SLOW, FAST = 1 * MEGABYTE, 50 * MEGABYTE  # bytes per second
SIZE = 16 * MEGABYTE  # more than a quota lets through at once
LISTS = {0: (2, 1), 1: (1, 2)}


@pytest.fixture(autouse=True)
def _no_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storm of controllers would show in this time as well."""
    monkeypatch.setattr(elect_controller, "PAUSE_SECONDS", 0.5)


def drain(run: InProcessRun, topic: str, rate: int) -> None:
    run.plan(topics_in=[topic], job="drain", drain=[2])
    run.approve("light", rate)


@pytest.mark.parametrize("cluster", ["2.8.2"], indirect=True)
def test_a_request_that_outlives_its_topic_is_cleared_and_the_next_rebalance_runs(
    cluster: LocalCluster,
    client: KazooClient,
    fresh_topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deleted, other = fresh_topic_name(), fresh_topic_name()
    for topic in (deleted, other):
        cluster.create_topic(topic, LISTS)
        cluster.produce(topic, dict.fromkeys(LISTS, SIZE))
    following = InProcessRun(tmp_path, cluster, monkeypatch, "following")
    drain(following, other, FAST)

    run = InProcessRun(tmp_path, cluster, monkeypatch)
    drain(run, deleted, SLOW)
    run.hold()
    batch = run.request()
    assert batch is not None
    wait(
        "the copies have begun",
        lambda: all(p.adding for p in read_cluster_view(client, [deleted]).partitions.values()),
    )
    client.create(znodes.deletion_path(deleted))
    wait(
        "the topic is gone",
        lambda: not any(map(client.exists, (znodes.topic_path(deleted), znodes.deletion_path(deleted)))),
    )
    assert client.exists(znodes.REASSIGN_PARTITIONS) is not None, "the request outlives its topic"
    before = check_controller_stable(client, lambda: None).controller

    canceller = CancelRun(monkeypatch)
    assert canceller.request("elect_controller")["next"] == "approve_election"
    assert {entry[-1] for entry in canceller.document["plan"]["requested"]} == {"gone"}
    assert canceller.document["run"].startswith("kafka_rebalance/one"), "the run holds the cluster, and keeps it"
    assert check_controller_stable(client, lambda: None).controller == before, "asking changes nothing"
    canceller.answer("elect_controller", consent=canceller.document["consent"])
    found = canceller.elect_controller()
    assert (found["deleted"], found["epoch"], found["request"]) == (True, before.epoch + 1, "cleared")
    assert canceller.elect_controller() == {**found, "deleted": False}
    assert client.exists(znodes.REASSIGN_PARTITIONS) is None
    with pytest.raises(AirflowFailException, match="it was deleted"):
        run.reassign()  # what it was approved to move is gone
    run.release()

    following.hold()
    following.reassign()
    assert following.finish()["passed"] is True
    assert all(2 not in p.replicas for p in read_cluster_view(client, [other]).partitions.values())


@NEWEST
def test_a_move_that_the_controller_does_not_end_is_ended_by_another(
    cluster: LocalCluster,
    client: KazooClient,
    fresh_topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when ZooKeeper has written an ISR, and its answer to the controller was lost (seen on 3.9.2): the controller's
    version of the state is an old one, so it refuses the leader's ISR, and does not see the one that is written.
    """
    topic = fresh_topic_name()
    cluster.create_topic(topic, LISTS)
    cluster.produce(topic, dict.fromkeys(LISTS, SIZE))
    run = InProcessRun(tmp_path, cluster, monkeypatch)
    drain(run, topic, 6 * SLOW)
    run.hold()
    assert run.request() is not None
    stuck, other = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def now(tp: TopicPartition) -> PartitionView:
        return read_cluster_view(client, [topic]).partitions[tp]

    wait("the copies have begun", lambda: bool(now(stuck).adding))
    state, (new,) = znodes.state_path(stuck), now(stuck).adding
    client.set(state, client.get(state)[0])  # a version that the controller does not know of
    wait("the other partition has ended", lambda: 2 not in now(other).replicas)
    connection = KafkaConnection(cluster.bootstrap_servers)

    def copied() -> bool:
        held = read_replica_sizes(connection, {new, now(stuck).leader}, [stuck]).replicas[stuck]
        return held.get(new) == held[now(stuck).leader]

    wait("the copy is whole", copied)
    written = json.loads(client.get(state)[0])
    client.set(state, json.dumps({**written, "isr": [*written["isr"], new]}).encode())
    before = check_controller_stable(client, lambda: None).controller

    canceller = CancelRun(monkeypatch)
    assert canceller.request("elect_controller")["next"] == "approve_election"
    assert {entry[-1] for entry in canceller.document["plan"]["requested"]} == {"in_sync"}
    canceller.answer("elect_controller", consent=canceller.document["consent"])
    found = canceller.elect_controller()
    assert (found["deleted"], found["epoch"], found["request"]) == (True, before.epoch + 1, "cleared")
    run.reassign()
    run.release()
    assert run.finish()["passed"] is True
    assert set(now(stuck).isr) == set(now(stuck).replicas) == {1, new}
