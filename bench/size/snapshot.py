"""`python -m bench.size.snapshot HOSTS FOLDER`: the task `snapshot` without Airflow. Brokers' answers are simulated.

FOLDER/tables has the cluster: its sizes are what brokers answer. Prints when ZooKeeper was read, as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir
from kafka_rebalance.admin.offsets import LocalStarts
from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.command.first_look import deployment_without_airflow
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection, ZooKeeperConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.run import snapshot_reader
from kafka_rebalance.run.inputs import StartedRun, StepInputs

LOG_DIR, DISK_BYTES, CONFIGS = "/kafka/data", 8_000_000_000_000, 250
RECORD_BYTES = 1_000


class Brokers:
    """What 300 brokers would answer, made at once and without a network."""

    def __init__(self, tables: Path) -> None:
        self._tables = tables

    def log_dirs(self, kafka: KafkaConnection, brokers: Collection[int], *, of_the_rest: bool = False) -> BrokerDisks:
        replicas: dict[TopicPartition, dict[int, int]] = {}
        paths: dict[TopicPartition, dict[int, str]] = {}
        columns = pq.read_table(
            self._tables / "partitions.parquet", columns=["topic", "partition", "replicas", "size_bytes"]
        )
        for batch in columns.to_batches(1_000):
            for row in batch.to_pylist():
                tp = TopicPartition(row["topic"], row["partition"])
                replicas[tp] = dict.fromkeys(row["replicas"], row["size_bytes"])
                paths[tp] = dict.fromkeys(row["replicas"], LOG_DIR)
        log_dir = LogDir(LOG_DIR, DISK_BYTES, DISK_BYTES // 3)
        return BrokerDisks(replicas, dict.fromkeys(brokers, (log_dir,)), paths)

    def offsets(
        self, kafka: KafkaConnection, partitions: Collection[TopicPartition], *, of_the_rest: bool = False
    ) -> dict[TopicPartition, int]:
        return {tp: RECORD_BYTES + tp.partition for tp in partitions}

    def configs(
        self, kafka: KafkaConnection, brokers: Collection[int], *, of_the_rest: bool = False
    ) -> dict[int, dict[str, ConfigValue]]:
        return {
            broker: {
                f"config.{number}": ConfigValue(f"{broker}-{number}", "DEFAULT_CONFIG") for number in range(CONFIGS)
            }
            for broker in brokers
        }


def main() -> None:
    hosts, folder = sys.argv[1], Path(sys.argv[2])
    brokers = Brokers(folder / "tables")
    simulated: Any = snapshot_reader
    simulated.sizes = SimpleNamespace(read_log_dirs=brokers.log_dirs, BrokerDisks=BrokerDisks)
    simulated.metadata = SimpleNamespace(
        read_start_offsets=brokers.offsets,
        read_end_offsets=brokers.offsets,
        read_local_starts=lambda _, leaders: LocalStarts(),
    )
    simulated.broker_configs = SimpleNamespace(read_effective_configs=brokers.configs)
    times: dict[str, float] = {}

    def begin(*_: Any) -> None:
        """The last call before the brokers are asked is this check, which would ask one of them."""
        times["ended"] = time.monotonic()

    plain = ZooKeeperCluster.check_controller_stable

    def noted(self: ZooKeeperCluster, pause: Any) -> Any:
        settled = plain(self, pause)
        times["began"] = time.monotonic()
        return settled

    ZooKeeperCluster.check_same_cluster = begin  # type: ignore[assignment, method-assign]
    ZooKeeperCluster.check_controller_stable = noted  # type: ignore[method-assign]
    connection = ClusterConnection("large", ZooKeeperConnection(hosts), KafkaConnection("127.0.0.1:1"))
    with tempfile.TemporaryDirectory(dir=folder) as runs:
        deployment = deployment_without_airflow(connection, Path(runs))
        run = StartedRun("kafka_rebalance", "manual__size", "olive")
        take_snapshot(StepInputs(run, deployment, lambda key, value: None), {"kafka_conn_id": "large"})
    pause = snapshot_reader.STORM_PAUSE_SECONDS
    print(json.dumps({"zookeeper": [times["began"], times["ended"]], "pause": pause}), flush=True)


if __name__ == "__main__":
    main()
