"""What the brokers tell of their log dirs, as plan, follower and verification use it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TypeVar

from kafka_rebalance.admin import log_dirs
from kafka_rebalance.documents.log_dir_plan import Replica
from kafka_rebalance.errors import ReadError
from kafka_rebalance.kafka.who_may_receive import open_log_dirs
from kafka_rebalance.log_dirs.evened_dirs import Dir
from kafka_rebalance.log_dirs.next_copies import DirsNow, DiskOfDir
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

log = logging.getLogger(__name__)
T = TypeVar("T")


def read_disks(kafka: KafkaConnection, brokers: Collection[int]) -> log_dirs.BrokerDisks:
    """Of all these brokers. Raises ReadError naming one that does not answer."""
    return log_dirs.read_log_dirs(kafka, sorted(brokers))


def read_disks_of_the_rest(kafka: KafkaConnection, brokers: Collection[int]) -> log_dirs.BrokerDisks:
    """Of those of these brokers that answer."""
    try:
        return log_dirs.read_log_dirs(kafka, sorted(brokers), of_the_rest=True)
    except ReadError as silent:
        log.warning("%s Nothing is moved there, so its bytes count as none", silent)
        return log_dirs.BrokerDisks({}, {})


def dirs_now(disks: log_dirs.BrokerDisks) -> DirsNow:
    return DirsNow(
        disks={
            broker: {
                log_dir.path: DiskOfDir(log_dir.total_bytes, log_dir.usable_bytes, log_dir.online, log_dir.cordoned)
                for log_dir in dirs
            }
            for broker, dirs in disks.log_dirs.items()
        },
        paths=_by_replica(disks.paths),
        sizes=_by_replica(disks.replicas),
        future={replica: (log_dir.path, log_dir.size_bytes) for replica, log_dir in _by_replica(disks.future).items()},
    )


def _by_replica(by_partition: Mapping[TopicPartition, Mapping[int, T]]) -> dict[Replica, T]:
    return {
        Replica(*tp, broker): value for tp, by_broker in by_partition.items() for broker, value in by_broker.items()
    }


def dirs_of(disks: log_dirs.BrokerDisks) -> dict[int, list[Dir]]:
    """The log dirs of each broker, with their replicas, for the planner."""
    replicas_in: dict[tuple[int, str], dict[Replica, int]] = {}
    for tp, by_broker in disks.paths.items():
        for broker, path in by_broker.items():
            replicas_in.setdefault((broker, path), {})[Replica(*tp, broker)] = disks.replicas[tp][broker]
    return {
        broker: [
            Dir(
                log_dir.path,
                replicas_in.get((broker, log_dir.path), {}),
                log_dir.total_bytes,
                log_dir.usable_bytes,
                may_receive=bool(open_log_dirs([log_dir])),
            )
            for log_dir in sorted(dirs, key=lambda log_dir: log_dir.path)
        ]
        for broker, dirs in disks.log_dirs.items()
    }
