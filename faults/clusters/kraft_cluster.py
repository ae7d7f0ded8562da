"""The cluster of the cases without ZooKeeper, read and changed by Kafka's own requests."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import KafkaError as KafkaErrorCode
from confluent_kafka import TopicPartition as LogPartition
from kafka import KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaError, UnknownBrokerIdError
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from faults.clusters.fault_cluster import BROKERS, WAIT_SECONDS, FaultCluster, Truth, is_throttle
from kafka_rebalance.local_cluster import LocalCluster

LOCK_TOPIC = "__kafka_rebalance"
_TIMEOUT_MS, _ANSWER_SECONDS = 10_000, 10.0
_TOPIC, _BROKER, _SET, _DELETE = 2, 4, 0, 1
_SET_BY_SOMEBODY = (1, 2)  # DescribeConfigsResponse.ConfigSource: on the topic, on the broker
_SETTLED_SECONDS = 1.0  # brokers tell what the controller has done half a second later at most


class KraftFaultCluster(FaultCluster):
    has_zookeeper = False

    def __init__(self, local: LocalCluster, disks: Path) -> None:
        super().__init__(local, disks)
        self._client: KafkaAdminClient | None = None

    def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
            self._client = None

    def request_deletion(self, topic: str) -> None:
        state = DeleteTopicsRequest.DeleteTopicState(name=topic, topic_id=None)
        self._ask(DeleteTopicsRequest(topics=[state], topic_names=[topic], timeout_ms=_TIMEOUT_MS))

    def wait_deleted(self, topic: str) -> None:
        self.wait(f"topic {topic} is gone", lambda: not self._partitions(topic))

    def add_partitions(self, topic: str, added: Mapping[int, tuple[int, ...]]) -> None:
        more = CreatePartitionsRequest.CreatePartitionsTopic
        # Each new partition must have as many replicas as the first one, which in mid-move has more than it will have.
        count = len(self._partitions(topic)[0].replica_nodes)
        padded = [[*added[number], *(one for one in BROKERS if one not in added[number])] for number in sorted(added)]
        lists = [more.CreatePartitionsAssignment(broker_ids=brokers[:count]) for brokers in padded]
        wanted = more(name=topic, count=max(added) + 1, assignments=lists)
        answer = self._ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS, validate_only=False))
        if answer.results[0].error_code:
            raise RuntimeError(f"{topic} was not expanded: {answer.results[0].error_message}")

    def remove_rates(self) -> None:
        for broker in sorted(self.registered()):
            entity = f"brokers/{broker}"
            rates = {key: None for key in self._set_on(_BROKER, str(broker)) if key.endswith("throttled.rate")}
            self._alter(entity, rates)

    def configure(self, entity: str, config: Mapping[str, str]) -> None:
        self._alter(entity, dict(config))

    def elect_controller(self) -> None:
        raise RuntimeError("no client can elect a controller without ZooKeeper")

    def registered(self) -> frozenset[int]:
        answer = self._ask(DescribeClusterRequest(include_fenced_brokers=True))
        return frozenset(one.broker_id for one in answer.brokers if not getattr(one, "is_fenced", False))

    def controller(self) -> int | None:
        data = DescribeQuorumRequest.TopicData
        asked = data(topic_name="__cluster_metadata", partitions=[data.PartitionData(partition_index=0)])
        answer = self._ask(DescribeQuorumRequest(topics=[asked]))
        if answer.error_code or answer.topics[0].partitions[0].leader_id < 0:
            return None
        return int(answer.topics[0].partitions[0].leader_id)

    def reassignment(self) -> int | None:
        """Kafka does not tell when a move was requested, so a second request looks like the first."""
        return 1 if self._moving() else None

    def is_locked(self) -> bool:
        consumer = Consumer(
            {
                "bootstrap.servers": self.local.bootstrap_servers,
                "group.id": "faults",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )
        last = None
        try:
            _, high = consumer.get_watermark_offsets(LogPartition(LOCK_TOPIC, 0), timeout=_ANSWER_SECONDS)
            consumer.assign([LogPartition(LOCK_TOPIC, 0, max(0, high - 50))])
            while (message := consumer.poll(_ANSWER_SECONDS)) is not None and message.error() is None:
                last = message.value() if message.key() is None else last
        except KafkaException as away:
            if away.args[0].code() in (KafkaErrorCode._UNKNOWN_PARTITION, KafkaErrorCode.UNKNOWN_TOPIC_OR_PART):
                return False  # no run has ever held this cluster
            raise KafkaConnectionError(str(away)) from away
        finally:
            consumer.close()
        return last is not None and json.loads(last)["state"]["lock"] is not None

    def isr(self, topic: str, partition: int) -> frozenset[int]:
        found = self._partitions(topic).get(partition)
        return frozenset(found.isr_nodes) if found is not None else frozenset()

    def read(self, topic: str) -> Truth:
        moving = self._moving()
        partitions = self._partitions(topic)
        return Truth(
            replicas={number: tuple(one.replica_nodes) for number, one in partitions.items()},
            isr={number: frozenset(one.isr_nodes) for number, one in partitions.items()},
            leaders={number: one.leader_id for number, one in partitions.items()},
            marked=topic in moving,
            reassigning=bool(moving),
            throttles=self.throttles(),
            locked=self.is_locked(),
        )

    def settled(self, topic: str) -> Truth:
        """When all brokers are back, because each alone tells its configs, and no broker tells what was before."""
        give_up = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < give_up:
            with suppress(KafkaError, OSError):
                if self.registered() == set(BROKERS):
                    before = self.read(topic)
                    time.sleep(_SETTLED_SECONDS)
                    if before == (now := self.read(topic)):
                        return now
            time.sleep(0.1)
        raise TimeoutError(f"the cluster has not settled within {WAIT_SECONDS} s")

    def throttles(self) -> dict[str, dict[str, str]]:
        topics = [one.name for one in self._ask(MetadataRequest(topics=None, allow_auto_topic_creation=False)).topics]
        found = {f"topics/{name}": self._set_on(_TOPIC, name) for name in topics}
        found |= {f"brokers/{broker}": self._set_on(_BROKER, str(broker)) for broker in sorted(self.registered())}
        throttled = {
            entity: {key: value for key, value in values.items() if is_throttle(key) and value}
            for entity, values in found.items()
        }
        return {entity: values for entity, values in throttled.items() if values}

    def _moving(self) -> frozenset[str]:
        """The topics of which Kafka moves partitions."""
        answer = self._ask(ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None))
        if answer.error_code:
            raise KafkaError(f"the list of moves: error {answer.error_code}")
        return frozenset(topic.name for topic in answer.topics)

    def _partitions(self, topic: str) -> dict[int, Any]:
        asked = MetadataRequest.MetadataRequestTopic(name=topic)
        (found,) = self._ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False)).topics
        return {one.partition_index: one for one in found.partitions}

    def _set_on(self, kind: int, name: str) -> dict[str, str]:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        wanted = [resource(resource_type=kind, resource_name=name, configuration_keys=None)]
        request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
        (result,) = self._ask(request, int(name) if kind == _BROKER else None).results
        return {one.name: one.value for one in result.configs if one.config_source in _SET_BY_SOMEBODY}

    def _alter(self, entity: str, changes: Mapping[str, str | None]) -> None:
        if not changes:
            return
        kind, _, name = entity.partition("/")
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        operations = [
            resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in changes.items()
        ]
        of = resource(resource_type=_BROKER if kind == "brokers" else _TOPIC, resource_name=name, configs=operations)
        request = IncrementalAlterConfigsRequest(resources=[of], validate_only=False)
        (result,) = self._ask(request, int(name) if kind == "brokers" else None).responses
        if result.error_code:
            raise RuntimeError(f"{entity} was not changed: {result.error_message}")
        self.wait(f"{entity} tells its configs", lambda: self._tells(entity, changes))

    def _tells(self, entity: str, changes: Mapping[str, str | None]) -> bool:
        """A broker takes a config from the controllers' log, a moment after the controller has written it there."""
        kind, _, name = entity.partition("/")
        now = self._set_on(_BROKER if kind == "brokers" else _TOPIC, name)
        return all(now.get(key) == value for key, value in changes.items())

    def _ask(self, request: Any, broker: int | None = None) -> Any:
        """The answer of this broker or of any one. Raises KafkaError or OSError if nobody answers."""
        if self._client is None:
            self._client = KafkaAdminClient(
                bootstrap_servers=self.local.bootstrap_servers.split(","),
                request_timeout_ms=_TIMEOUT_MS,
                bootstrap_timeout_ms=_TIMEOUT_MS,
            )
        manager = self._client._manager

        async def send() -> Any:
            return await manager.send(request, node_id=broker)

        try:
            try:
                return manager.run(send)
            except UnknownBrokerIdError:  # it knows the brokers of its first look
                manager.run(manager.cluster.refresh_metadata)
                return manager.run(send)
        except (KafkaError, OSError):
            self.close()  # it keeps brokers that are gone
            raise
