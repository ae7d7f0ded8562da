"""What a real cluster shows a test, with ZooKeeper or without, and what others do to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from kafka import KafkaAdminClient, TopicPartition

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import PartitionView
from kafka_rebalance.zookeeper.client import open_client
from support.waiting import wait

REASSIGN = "/admin/reassign_partitions"


class WatchedCluster:
    def __init__(self, cluster: LocalCluster) -> None:
        self.local = cluster
        zookeeper = None if cluster.kraft else ZooKeeperConnection(cluster.zookeeper)
        self.connection = ClusterConnection("kafka_test", zookeeper, KafkaConnection(cluster.bootstrap_servers))

    def partitions(self, topic: str) -> dict[int, PartitionView]:
        with open_cluster(self.connection) as opened:
            view = opened.read_view([topic])
        return {tp.partition: one for tp, one in sorted(view.partitions.items())}

    def controller_epoch(self) -> int:
        with open_cluster(self.connection) as opened:
            controller = opened.read_view().controller
        assert controller is not None
        return controller.epoch

    def leaders(self) -> Counter[int | None]:
        """How many partitions each broker leads."""
        with open_cluster(self.connection) as opened:
            return Counter(one.leader for one in opened.read_view().partitions.values())

    def lists(self, topic: str) -> dict[int, tuple[int, ...]]:
        return {number: one.replicas for number, one in self.partitions(topic).items()}

    def is_in_sync(self, topic: str, brokers: int) -> bool:
        found = self.partitions(topic).values()
        return bool(found) and all(len(one.isr) == brokers and not one.in_motion for one in found)

    def moving(self) -> list[tuple[str, int]]:
        """All that is being reassigned, whoever asked for it."""
        with open_cluster(self.connection) as opened:
            return sorted(opened.read_view().moving)

    def throttles(self) -> dict[str, dict[str, str]]:
        """Every throttle key that is set, by entity. An empty list throttles nothing."""
        with open_cluster(self.connection) as opened:
            configs, _ = opened.read_all_configs()
        found = {
            entity: {key: value for key, value in values.items() if "throttled" in key and value}
            for entity, values in configs.items()
        }
        return {entity: values for entity, values in found.items() if values}

    def holder(self) -> LockOwner | None:
        with open_cluster(self.connection) as opened:
            return opened.lock.read()

    def reassign(self, topic: str, targets: Mapping[int, Sequence[int] | None]) -> None:
        """By another tool; None cancels, through Kafka's API alone."""
        if not self.local.kraft:
            entries = [{"topic": topic, "partition": number, "replicas": after} for number, after in targets.items()]
            with open_client(self.connection.zookeeper) as client:
                client.create(REASSIGN, json.dumps({"version": 1, "partitions": entries}).encode())
            return
        asked = {TopicPartition(topic, number): after and list(after) for number, after in targets.items()}
        with self._client() as client:
            answers = client.alter_partition_reassignments(asked)
        assert not any(answers.values()), answers

    def request_mark(self) -> int | None:
        """What another request would change: the transaction that made the znode of today's; None without ZooKeeper."""
        if self.local.kraft:
            return None
        with open_client(self.connection.zookeeper) as client:
            found = client.exists(REASSIGN)
        return None if found is None else found.czxid

    def delete(self, topic: str) -> None:
        with self._client() as client:
            client.delete_topics([topic])
        wait(f"topic {topic} is gone", lambda: not self.lists(topic))

    def expand(self, topic: str, partitions: int) -> None:
        with self._client() as client:
            client.create_partitions({topic: partitions})

    def leftovers(self) -> list[object]:
        """What no run may leave behind."""
        return [found for found in (self.moving(), self.throttles(), self.holder()) if found]

    def _client(self) -> _Client:
        return _Client(self.local.bootstrap_servers)


class _Client:
    def __init__(self, servers: str) -> None:
        self._client = KafkaAdminClient(bootstrap_servers=servers.split(","))

    def __enter__(self) -> KafkaAdminClient:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()
