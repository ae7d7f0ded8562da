"""How long `kafka-rebalance check` takes on real brokers, and with how much memory: `make bench-first-look`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION
from kafka_rebalance.model.connection import KafkaConnection

BROKERS, PARTITIONS_OF_A_TOPIC = 3, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20_000, help="of all topics together, all of them empty")
    parser.add_argument("--zookeeper", action="store_true", help="a cluster with ZooKeeper, not in KRaft mode")
    asked = parser.parse_args()
    with LocalCluster(DEFAULT_VERSION, brokers=BROKERS, racks=3, kraft=not asked.zookeeper, one_jvm=False) as cluster:
        began = time.monotonic()
        for number in range(asked.partitions // PARTITIONS_OF_A_TOPIC):
            # Two brokers lead all: there is something to plan.
            lists = {each: (1 + (number + each) % (BROKERS - 1),) for each in range(PARTITIONS_OF_A_TOPIC)}
            cluster.create_topic(f"topic-{number:04}", lists)
            if number % 20 == 19:
                print(
                    f"{(number + 1) * PARTITIONS_OF_A_TOPIC} partitions, {time.monotonic() - began:.0f} s", flush=True
                )
        if not asked.zookeeper:
            with open_wire(KafkaConnection(cluster.bootstrap_servers)) as wire:
                while len(read_view(wire).partitions) < asked.partitions:
                    time.sleep(1)
        with tempfile.TemporaryDirectory() as out:
            command = [str(Path(sys.executable).with_name("kafka-rebalance")), "check", "--out", out]
            command += ["--bootstrap-servers", cluster.bootstrap_servers]
            command += ["--zookeeper", cluster.zookeeper] if asked.zookeeper else []
            began = time.monotonic()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as check:
                assert check.stdout is not None
                print(check.stdout.read())
                _, status, used = os.wait4(check.pid, 0)
                seconds, check.returncode = time.monotonic() - began, os.waitstatus_to_exitcode(status)
        mode = "ZooKeeper" if asked.zookeeper else "KRaft"
        print(f"Kafka {DEFAULT_VERSION}, {mode}, {asked.partitions:,} partitions: {seconds:.1f} s")
        print(f"exit code {check.returncode}, {used.ru_maxrss / 1024:.0f} MiB of memory at most")


if __name__ == "__main__":
    main()
