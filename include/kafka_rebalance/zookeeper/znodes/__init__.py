"""What each znode holds: path, decoder and encoder, as in Kafka's ZkData.scala.

Decoders accept any order of keys, unknown keys and unknown higher versions. For everything else they raise
`CorruptZnodeError`, which names the path. Encoders raise `WriteError` instead of encoding what would harm the cluster.
"""

from kafka_rebalance.zookeeper.znodes.controller_requests import encode_reassignment
from kafka_rebalance.zookeeper.znodes.registrations import decode_broker
from kafka_rebalance.zookeeper.znodes.topic_assignment import decode_partition_state, decode_topic

# The names that docs/tables.md promises to scripts. The package itself imports from the modules.
__all__ = ["decode_broker", "decode_partition_state", "decode_topic", "encode_reassignment"]
