"""The paths of the znodes (Kafka's ZkData.scala). A chroot is part of the connect string, never of these paths."""

from __future__ import annotations

from kafka_rebalance.model.partition import TopicPartition

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
ADMIN = "/admin"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"  # ZooKeeper appends ten digits
DEFAULT_ENTITY = "<default>"  # /config/brokers/<default>: dynamic values for all brokers
RUN_LOCK_PARENT = "/kafka_rebalance"
RUN_LOCK = "/kafka_rebalance/run"
LEASE = "/kafka_rebalance/lease"
LEASE_PART_PREFIX = "/kafka_rebalance/lease-"
ANNOUNCED_PREFIX = "/kafka_rebalance/announced-"
CLOCK = "/kafka_rebalance/clock"


def broker_path(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def state_path(topic_partition: TopicPartition) -> str:
    topic, partition = topic_partition
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def deletion_path(topic: str) -> str:
    """The marker that asks the controller to delete the topic."""
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity: str) -> str:
    """`entity` is `topics/T`, `brokers/N` or `brokers/<default>`."""
    return f"{CONFIG}/{entity}"


def lease_part_path(generation: str, number: int) -> str:
    """The znode for a part of a lease's record that does not fit into `LEASE`; paths sort by generation."""
    return f"{LEASE_PART_PREFIX}{generation}-{number:03d}"
