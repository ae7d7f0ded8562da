"""The limits for the size of a znode, and for what the controller rewrites for one batch."""

from __future__ import annotations

JUTE_MAXBUFFER_BYTES = 0xFFFFF  # ZooKeeper's default limit of one request
# kazoo has no limit of its own. Ours is ZooKeeper's default, because nobody can read a server's setting from outside.
JUTE_MAXBUFFER_PLACES = (
    "kafka-rebalance keeps to ZooKeeper's default limit. To move the topic with Kafka's own tools, raise "
    "-Djute.maxbuffer in SERVER_JVMFLAGS of every ZooKeeper server, then in KAFKA_OPTS of every broker"
)
# What one batch may cost the controller, as `planning/batches/controller_bytes.py` counts it: about eight seconds. One
# MiB takes about a second on 2.0.1, and a sixth of it from 2.8 on (`make bench-controller`, two cores). So if a broker
# dies meanwhile, its partitions get new leaders at the latest after about twice the time that ZooKeeper needs to notice
# (zookeeper.session.timeout.ms, 6 s on 2.0).
CONTROLLER_BYTES_PER_BATCH = 8 * 2**20
CONTROLLER_BYTES_PER_BATCH_FROM_2_8 = 48 * 2**20
