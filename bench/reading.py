"""How long it takes to read a cluster without ZooKeeper, by each part of a snapshot: `make bench-reading`."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.configs import read_broker_configs, read_effective_configs, read_topic_configs
from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.admin.offsets import read_end_offsets
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS
from kafka_rebalance.model.connection import KafkaConnection

BROKERS, PARTITIONS_OF_A_TOPIC, REPEATS = 4, 100, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", choices=KRAFT_VERSIONS, default=KRAFT_VERSIONS[0], help="Kafka's version")
    parser.add_argument("--partitions", type=int, default=10_000, help="of all topics together")
    asked = parser.parse_args()
    with LocalCluster(asked.version, brokers=BROKERS, racks=2, kraft=True, one_jvm=False) as cluster:
        topics = [f"topic-{number:04}" for number in range(asked.partitions // PARTITIONS_OF_A_TOPIC)]
        for number, topic in enumerate(topics):
            lists = {each: (1 + (number + each) % BROKERS,) for each in range(PARTITIONS_OF_A_TOPIC)}
            cluster.create_topic(topic, lists)
            if number % 10 == 9:
                print(f"{(number + 1) * PARTITIONS_OF_A_TOPIC} partitions", flush=True)
        kafka = KafkaConnection(cluster.bootstrap_servers)
        with open_wire(kafka) as wire:
            while len(read_view(wire).partitions) < asked.partitions:
                time.sleep(1)
            partitions, brokers = sorted(read_view(wire).partitions), sorted(cluster.brokers)
            parts: dict[str, Callable[[], object]] = {
                "partitions, brokers, quorum, moves": lambda: read_view(wire),
                "configs of topics": lambda: read_topic_configs(wire, topics),
                "dynamic configs of brokers": lambda: read_broker_configs(wire, brokers),
                "log dirs and sizes": lambda: read_log_dirs(kafka, brokers),
                "effective configs of brokers": lambda: read_effective_configs(kafka, brokers),
                "end offsets": lambda: read_end_offsets(kafka, partitions),
            }
            print(f"Kafka {asked.version}, {len(partitions)} partitions, the median of {REPEATS} reads:")
            for name, read in parts.items():
                print(f"{statistics.median(_seconds(read) for _ in range(REPEATS)):8.2f} s  {name}", flush=True)


def _seconds(read: Callable[[], object]) -> float:
    began = time.monotonic()
    read()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
