"""Which partitions of a large topic are read, where few of them are wanted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.admin import cluster_view
from kafka_rebalance.admin.cluster_view import read_batch_view
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

LARGE, SMALL = 20_000, 50


def partitions(*numbers: int, topic: str = "large") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


@pytest.fixture
def wire() -> Wire:
    client: Any = SimpleNamespace(_manager=None)
    opened = Wire(KafkaConnection("b1:9092"), client)
    cluster_view._partitions_of[opened] = {"large": LARGE, "small": SMALL}
    return opened


def test_partitions_that_lie_together_are_one_range(wire: Wire) -> None:
    found = cluster_view._ranges_worth_it(wire, partitions(7, 3, 5, 9_000, 9_100))
    assert found == {"large": [range(3, 8), range(9_000, 9_101)]}


def test_no_range_is_longer_than_a_page(wire: Wire) -> None:
    found = cluster_view._ranges_worth_it(wire, partitions(*range(0, 4_100, 100)))
    assert found["large"][:2] == [range(0, 1_901), range(2_000, 3_901)]
    assert all(len(each) <= 2_000 for each in found["large"])


def test_a_small_topic_and_one_with_partitions_everywhere_are_read_as_a_whole(wire: Wire) -> None:
    everywhere = partitions(*range(0, LARGE, 202))
    assert cluster_view._ranges_worth_it(wire, [*everywhere, *partitions(3, topic="small")]) == {}


def test_a_topic_that_was_never_read_is_read_as_a_whole(wire: Wire) -> None:
    assert cluster_view._ranges_worth_it(wire, partitions(3, topic="new")) == {}


def test_a_batch_has_no_partition_that_was_not_asked_for(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(replicas=(1,), adding=(), removing=())
    whole = dict.fromkeys(partitions(*range(SMALL), topic="small"), told)
    found = SimpleNamespace(partitions=whole, brokers={1: None}, controller=None)
    monkeypatch.setattr(cluster_view, "_read", lambda *_: found)
    assert set(read_batch_view(wire, partitions(3, 99, topic="small")).partitions) == {TopicPartition("small", 3)}
