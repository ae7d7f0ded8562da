"""The controller of real clusters: who it is, and what waits for it, as a snapshot says it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.documents.snapshot import controller_document
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.reader import check_controller_stable, read_cluster_view
from kafka_rebalance.zookeeper.writer import create_reassignment
from support.documents.as_in_a_file import in_json
from support.waiting import wait

DIGEST = "d" * 64


def described(client: KazooClient, pause: Callable[[], None] = lambda: None) -> dict[str, Any]:
    settled = check_controller_stable(client, pause)
    document = controller_document(read_cluster_view(client), settled)
    assert document is not None
    return in_json(document)


def test_the_controller_is_described_as_its_znodes_have_it(cluster: LocalCluster, client: KazooClient) -> None:
    document = described(client)
    assert document["broker"] in cluster.brokers
    assert document["host"] == "127.0.0.1"
    assert document["epochs_read"] == [document["epoch"]] * 2
    assert document["kraft_epoch"] == -1
    age = datetime.now(UTC) - datetime.fromisoformat(document["since"])
    assert timedelta(0) <= age < timedelta(hours=1)
    assert [queue["count"] for queue in document["queued"].values()] == [0, 0, 0]


def test_a_failover_between_the_reads_shows_in_their_epochs(client: KazooClient) -> None:
    def fail_over() -> None:
        client.delete("/controller")
        wait("there is a controller", lambda: client.exists("/controller") is not None)

    before = described(client)
    after = described(client, fail_over)
    assert after["epochs_read"][0] == before["epoch"]
    assert after["epoch"] > before["epoch"]


def test_what_waits_for_a_broker_that_is_down_is_queued_and_then_no_more(
    cluster: LocalCluster, client: KazooClient, fresh_topic_name: Callable[[], str]
) -> None:
    moving, deleted = fresh_topic_name(), fresh_topic_name()
    cluster.create_topic(moving, {0: [1, 2]})
    cluster.create_topic(deleted, {0: [1, 4]})
    move = Move(TopicPartition(moving, 0), (1, 2), (1, 4), 1)
    cluster.stop_broker(4)
    try:
        # Broker 4 counts as registered here: nobody may request this but a test.
        create_reassignment(client, Batch(1, (move,), DIGEST), DIGEST, [1, 2, 4])
        client.create(f"/admin/delete_topics/{deleted}")
        queued = described(client)["queued"]
        assert queued["reassignments"] == {"count": 1, "first": [f"{moving}-0"]}
        assert queued["deletions"] == {"count": 1, "first": [deleted]}
    finally:
        cluster.start_broker(4)
    wait("nothing is queued", lambda: not any(queue["count"] for queue in described(client)["queued"].values()))
