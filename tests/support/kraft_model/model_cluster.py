"""A cluster without ZooKeeper in memory, behind the product's own `open_cluster`.

Simulated are kafka-python's client, the topic of the lock, the clock, and the calls to brokers that go through
librdkafka. Wire, lock, views, moves and config changes are the product's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin.log_lock import LogLock
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.cluster.with_admin_api import AdminApiCluster
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.pages.plots import Plot
from kafka_rebalance.run.checks.cluster_ready import ELECT_LEADERS
from support.documents.segment_configs import KAFKAS_DEFAULTS
from support.kraft_model.model_log import ModelLog
from support.kraft_model.model_wire import model_wire
from support.runs import rebalance_run
from support.runs.simulated_cluster import RACKS

DEFAULTS = KAFKAS_DEFAULTS | {"min.insync.replicas": "1"}
SERVERS = "model:9092"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
# Modules that measure time, or wait.
TIMED = (
    "kafka_rebalance.admin.wire",
    "kafka_rebalance.admin.quorum",
    "kafka_rebalance.admin.cluster_view",
    "kafka_rebalance.cluster.with_admin_api",
    "kafka_rebalance.cluster.announced_requests",
)


class ModelCluster:
    """Looks like a `LocalCluster` to an `InProcessRun`."""

    kraft = True
    bootstrap_servers = SERVERS

    def __init__(self, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        for opens in ("kafka_rebalance.cluster.open_cluster", "kafka_rebalance.admin.log_dirs"):
            monkeypatch.setattr(f"{opens}.open_wire", self._open_wire)
        monkeypatch.setattr("kafka_rebalance.admin.log_lock.TransactionLog", self._open_log)
        clock = SimpleNamespace(time=lambda: self.now().timestamp(), monotonic=lambda: world.seconds, sleep=world.sleep)
        for module in TIMED:
            monkeypatch.setattr(f"{module}.time", clock)
        monkeypatch.setattr("kafka_rebalance.admin.wire.read_api_versions", self._spoken)
        for name, offset in (("read_end_offsets", 1), ("read_start_offsets", 0)):
            monkeypatch.setattr(f"kafka_rebalance.admin.offsets.{name}", _offsets(offset))
        monkeypatch.setattr("kafka_rebalance.admin.groups.read_committed_offsets", lambda *_: {})
        for module in ("kafka_rebalance.admin.configs", "kafka_rebalance.segments.segment_configs_now"):
            monkeypatch.setattr(f"{module}.read_effective_configs", self._effective)
        monkeypatch.setattr(rebalance_run, "LOOK_SECONDS", 0)
        monkeypatch.setattr(Plot, "source", "")  # to draw the pictures takes most of a page's time

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.world.seconds)

    def opened(self) -> AdminApiCluster:
        """As a task finds it behind its connection, with nothing in its way."""
        kafka = KafkaConnection(SERVERS)
        wire = model_wire(kafka, self.world, None)
        return AdminApiCluster(kafka, wire, LogLock(kafka, wire))

    @contextlib.contextmanager
    def _open_wire(self, kafka: KafkaConnection) -> Iterator[Wire]:
        yield model_wire(kafka, self.world, self.world.process)

    def _open_log(self, _: KafkaConnection, wire: Wire) -> ModelLog:
        return ModelLog(self.world, self.world.process, wire.forget_fresh)

    def _spoken(self, _: object, brokers: Collection[int]) -> dict[int, dict[int, tuple[int, int]]]:
        return {broker: {0: (0, 12), 18: (0, 4), ELECT_LEADERS: (0, 2)} for broker in brokers}

    def _effective(
        self, _: object, brokers: Collection[int], *, of_the_rest: bool = False
    ) -> dict[int, dict[str, ConfigValue]]:
        values = {key: ConfigValue(value, "DEFAULT_CONFIG") for key, value in DEFAULTS.items()}
        return {broker: dict(values) for broker in brokers}


def _offsets(offset: int) -> Callable[..., Any]:
    return lambda _, partitions, of_the_rest=False: dict.fromkeys(partitions, offset)


def racks() -> dict[int, str | None]:
    return dict(RACKS)
