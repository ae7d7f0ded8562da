"""What brokers have reported holds for a while, as long as they are the same brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin import configs, log_dirs, wire
from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run import checks_before_write
from kafka_rebalance.run.checks_before_write import READ_AGAIN_SECONDS, BrokerReports

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
MOVES = [Move(ORDERS, (1,), (2,), 0, 1, "", 1), Move(AUDIT, (2,), (1,), 0, 2, "", 2)]


class Brokers:
    """Notes what is read: everything, or the log dirs with these partitions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[str | set[TopicPartition]] = []
        self.seconds = 100.0
        self.names = [1, 2]
        monkeypatch.setattr(configs, "read_effective_configs", lambda *_: {})
        monkeypatch.setattr(wire, "read_api_versions", lambda *_: {})
        monkeypatch.setattr(log_dirs, "read_log_dirs", self._all)
        monkeypatch.setattr(log_dirs, "read_log_dirs_again", self._again)
        monkeypatch.setattr(checks_before_write, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        self._reports = BrokerReports()

    def check(self, *now: TopicPartition, moves: Collection[Move] = MOVES) -> None:
        view: Any = SimpleNamespace(brokers=dict.fromkeys(self.names))
        self._reports.read(self, KafkaConnection("b1:9092"), view, list(moves), now)  # type: ignore[arg-type]

    def check_controller_stable(self, ask: Callable[[], None]) -> None:
        ask()

    def read_topic_names(self) -> frozenset[str]:
        return frozenset()

    def _all(self, kafka: KafkaConnection, brokers: Collection[int]) -> BrokerDisks:
        self.reads.append("all")
        return BrokerDisks({}, {broker: (LogDir("/a"),) for broker in brokers})

    def _again(self, kafka: KafkaConnection, known: BrokerDisks, partitions: Collection[TopicPartition]) -> BrokerDisks:
        self.reads.append(set(partitions))
        return known


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_between_batches_only_what_has_moved_since_and_what_comes_next_is_read(brokers: Brokers) -> None:
    brokers.check(ORDERS)
    brokers.check(AUDIT)
    assert brokers.reads == ["all", {ORDERS, AUDIT}]


def test_everything_is_read_again_after_a_while(brokers: Brokers) -> None:
    brokers.check(ORDERS)
    brokers.seconds += READ_AGAIN_SECONDS
    brokers.check(AUDIT)
    brokers.check(AUDIT)
    assert brokers.reads == ["all", "all", {AUDIT}]


def test_everything_is_read_again_when_a_broker_has_come_or_gone(brokers: Brokers) -> None:
    brokers.check(ORDERS)
    brokers.names = [1, 2, 3]
    brokers.check(ORDERS)
    assert brokers.reads == ["all", "all"]


def test_everything_is_read_again_when_the_plan_touches_other_brokers(brokers: Brokers) -> None:
    brokers.names = [1, 2, 3]
    brokers.check(ORDERS)
    brokers.check(ORDERS, moves=[*MOVES, Move(TopicPartition("late", 0), (1,), (3,), 0, 3, "", 1)])
    assert brokers.reads == ["all", "all"]
