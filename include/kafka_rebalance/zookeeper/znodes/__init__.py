"""What each znode holds: path, decoder and encoder, as in Kafka's ZkData.scala.

Decoders take any order of keys, unknown keys and unknown higher versions, and raise `CorruptZnodeError`, naming the
path, for everything else. Encoders raise `WriteError` instead of encoding what would harm the cluster.
"""

from kafka_rebalance.zookeeper.znodes.controller_requests import (
    decode_election,
    decode_reassignment,
    encode_election,
    encode_reassignment,
)
from kafka_rebalance.zookeeper.znodes.entity_configs import (
    decode_config,
    encode_config,
    encode_config_change,
    throttle_problem,
)
from kafka_rebalance.zookeeper.znodes.registrations import (
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
)
from kafka_rebalance.zookeeper.znodes.topic_assignment import (
    decode_partition_state,
    decode_topic,
    encode_added_partitions,
    encode_topic,
)

__all__ = [
    "decode_broker",
    "decode_cluster_id",
    "decode_config",
    "decode_controller",
    "decode_controller_epoch",
    "decode_election",
    "decode_partition_state",
    "decode_reassignment",
    "decode_topic",
    "encode_added_partitions",
    "encode_config",
    "encode_config_change",
    "encode_election",
    "encode_reassignment",
    "encode_topic",
    "throttle_problem",
]
