"""Log dirs of a simulated cluster: brokers that copy a stage at each `step`, and others who meddle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_rebalance.admin.log_dirs import BrokerDisks, FutureReplica, LogDir
from kafka_rebalance.documents.log_dir_plan import Replica
from kafka_rebalance.errors import ReadError
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from support.runs.log_dir_run import LogDirRun
from support.runs.simulated_cluster import SIZE_BYTES, SimulatedCluster

DIRS = ("/a", "/b", "/c")
DRAIN = {"job": "drain", "broker": 2, "log_dir": "/a"}  # four replicas


class SimulatedLogDirs:
    """All replicas lie in /a of their broker. Each disk has room for 100 of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: SimulatedCluster) -> None:
        self.paths = {
            Replica(topic, number, broker): "/a"
            for topic in cluster.fake.get_children("/brokers/topics")
            for number, held in cluster.replicas(topic).items()
            for broker in held
        }
        self.future: dict[Replica, tuple[str, int]] = {}
        self.offline: set[tuple[int, str]] = set()
        self.size_bytes = SIZE_BYTES  # of each replica
        self.usable_bytes = 200 * SIZE_BYTES
        self.refused: set[TopicPartition] = set()
        self.asked: list[tuple[int, dict[TopicPartition, str]]] = []
        self._cluster = cluster
        monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", self.read)
        monkeypatch.setattr("kafka_rebalance.log_dirs.copies.alter_log_dirs", self.alter)
        monkeypatch.setattr("kafka_rebalance.log_dirs.copies.open_wire", _no_wire)
        monkeypatch.setattr("kafka_rebalance.log_dirs.rate.open_wire", _no_wire)
        monkeypatch.setattr("kafka_rebalance.cluster.announced_requests.open_wire", _no_wire)
        monkeypatch.setattr("kafka_rebalance.cluster.announced_requests.alter_log_dirs", self.alter)

    def read(self, _: object, brokers: Collection[int], *, of_the_rest: bool = False) -> BrokerDisks:
        answering = set(brokers) - self._cluster.silent
        if len(answering) < len(brokers) and not (of_the_rest and answering):
            raise ReadError(f"Broker {min(self._cluster.silent)} does not answer.")
        shown = {
            replica: path
            for replica, path in self.paths.items()
            if replica.broker in answering and (replica.broker, path) not in self.offline
        }
        replicas: dict[TopicPartition, dict[int, int]] = {}
        paths: dict[TopicPartition, dict[int, str]] = {}
        future: dict[TopicPartition, dict[int, FutureReplica]] = {}
        for replica, path in shown.items():
            replicas.setdefault(replica.topic_partition, {})[replica.broker] = self.size_bytes
            paths.setdefault(replica.topic_partition, {})[replica.broker] = path
            if replica in self.future:
                future.setdefault(replica.topic_partition, {})[replica.broker] = FutureReplica(*self.future[replica])
        dirs = {
            broker: tuple(
                LogDir(path, 1000 * SIZE_BYTES, self.usable_bytes, online=(broker, path) not in self.offline)
                for path in DIRS
            )
            for broker in answering
        }
        return BrokerDisks(replicas, dirs, paths, future)

    def alter(
        self, _: object, broker: int, targets: Mapping[TopicPartition, str], **limits: Any
    ) -> dict[TopicPartition, str]:
        self.asked.append((broker, dict(targets)))
        assert set(targets) <= set(limits["held"])
        assert set(targets.values()) <= set(limits["log_dirs"])
        for tp, path in targets.items():
            replica = Replica(*tp, broker)
            if tp in self.refused:
                continue
            if self.paths[replica] == path:
                self.future.pop(replica, None)
            else:
                self.future.setdefault(replica, (path, 0))
        return dict.fromkeys(set(targets) & self.refused, "KafkaStorageError")

    def step(self) -> None:
        """Each copy grows by half, and takes the place of its replica at its end."""
        for replica, (path, size) in list(self.future.items()):
            if size < self.size_bytes:
                self.future[replica] = path, size + self.size_bytes // 2
            else:
                self.paths[replica] = path
                del self.future[replica]

    def held(self, broker: int) -> dict[str, int]:
        """Replicas by log dir."""
        found = dict.fromkeys(DIRS, 0)
        for replica, path in self.paths.items():
            found[path] += replica.broker == broker
        return found


def log_dir_rates(cluster: SimulatedCluster) -> dict[int, str]:
    """Of the brokers that have one."""
    found = {broker: cluster.config(f"brokers/{broker}").get(LOG_DIR_RATE) for broker in (1, 2, 3)}
    return {broker: rate for broker, rate in found.items() if rate is not None}


def to_the_end(run: LogDirRun, dirs: SimulatedLogDirs) -> None:
    copying = run.move()
    while copying is not None:
        dirs.step()
        copying = run.move(BatchSeen(BatchState.READY))
    run.release()
    run.verify()


@contextmanager
def _no_wire(_: object) -> Iterator[None]:
    yield None
