"""Where the local log of a tiered partition begins, as the brokers tell, or do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import IncompatibleBrokerVersion

from kafka_rebalance.admin import offsets
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

KAFKA = KafkaConnection("broker-1:9092")
ORDERS, MORE = TopicPartition("orders", 0), TopicPartition("orders", 1)
Answers = Callable[[int, Any], Any]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], list[tuple[int, Any]]]:
    """Lets brokers answer so. Returns the requests that they have got."""
    requests: list[tuple[int, Any]] = []

    def use(answers: Answers) -> list[tuple[int, Any]]:
        def read(request: Any, broker: int, **_: object) -> Any:
            requests.append((broker, request))
            return answers(broker, request)

        @contextmanager
        def open_wire(_: KafkaConnection) -> Iterator[Any]:
            yield SimpleNamespace(read=read)

        monkeypatch.setattr(offsets, "open_wire", open_wire)
        return requests

    return use


def answer(*partitions: tuple[TopicPartition, int, int]) -> Any:
    """(partition, error code, offset)"""
    topics = [
        SimpleNamespace(
            name=tp.topic, partitions=[SimpleNamespace(partition_index=tp.partition, error_code=code, offset=offset)]
        )
        for tp, code, offset in partitions
    ]
    return SimpleNamespace(topics=topics)


def test_each_leader_is_asked_for_its_own_by_the_version_that_knows_of_it(asked: Any) -> None:
    requests = asked(lambda broker, _: answer((ORDERS if broker == 1 else MORE, 0, 100 * broker)))
    found = offsets.read_local_starts(KAFKA, {ORDERS: 1, MORE: 2})
    assert (found.offsets, found.untold) == ({ORDERS: 100, MORE: 200}, {})
    assert [broker for broker, _ in requests] == [1, 2]
    request = requests[0][1]
    assert [one.timestamp for topic in request.topics for one in topic.partitions] == [-4]
    # An older broker takes -4 for a time before all records, and answers with the first offset of the whole log.
    assert (request._min_version, request._max_version) == (8, 8)


def test_without_tiered_topics_no_broker_is_asked() -> None:
    assert offsets.read_local_starts(KafkaConnection("127.0.0.1:1"), {}) == offsets.LocalStarts()


def test_a_broker_that_cannot_tell_or_does_not_answer_leaves_its_partitions_unknown_and_says_so(
    asked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def answers(broker: int, _: object) -> Any:
        if broker == 1:
            raise IncompatibleBrokerVersion("ListOffsets")
        if broker == 2:
            raise ReadError("Broker 2 cannot be read.")
        return answer((TopicPartition("orders", 2), 0, 7))

    asked(answers)
    found = offsets.read_local_starts(KAFKA, {ORDERS: 1, MORE: 2, TopicPartition("orders", 2): 3})
    assert found.offsets == {TopicPartition("orders", 2): 7}
    assert found.untold == {
        ORDERS: "broker 1 is of a release before 3.6, which cannot tell it",
        MORE: "Broker 2 cannot be read.",
    }
    assert "What the disks hold of the tiered partition orders-0 is unknown: broker 1 is of a release" in caplog.text


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (answer((ORDERS, 6, -1)), "broker 1 answers NotLeaderForPartitionError"),
        (answer((ORDERS, 0, -1)), "the answer of broker 1 does not name it"),
        (answer(), "the answer of broker 1 does not name it"),
        (answer((ORDERS, 9999, -1)), "broker 1 answers UnrecognizedBrokerError"),
    ],
)
def test_no_answer_is_never_a_log_that_begins_at_its_first_record(asked: Any, told: Any, why: str) -> None:
    asked(lambda *_: told)
    found = offsets.read_local_starts(KAFKA, {ORDERS: 1})
    assert (found.offsets, found.untold) == ({}, {ORDERS: why})
