"""How large a znode, and what the controller rewrites for one batch, may be."""

from __future__ import annotations

JUTE_MAXBUFFER_BYTES = 0xFFFFF  # ZooKeeper's default limit of one request
# kazoo has no limit of its own; ours is ZooKeeper's default, since what a server was given cannot be read from outside.
JUTE_MAXBUFFER_PLACES = (
    "kafka-rebalance keeps to ZooKeeper's default limit. To move the topic with Kafka's own tools, raise "
    "-Djute.maxbuffer in SERVER_JVMFLAGS of every ZooKeeper server, then in KAFKA_OPTS of every broker"
)
# What the controller may rewrite for one batch. A MiB takes it about a second on 2.0.1 and a sixth of one from 2.8 on
# (`make bench-controller`, two cores), so a broker that dies in the midst of a batch waits for its successors about
# as long again as ZooKeeper takes to notice (zookeeper.session.timeout.ms, 6 s on 2.0), and no longer.
CONTROLLER_BYTES_PER_BATCH = 8 * 2**20
