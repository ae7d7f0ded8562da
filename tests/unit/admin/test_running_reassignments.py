"""Cancelling through Kafka's API: what is asked for, and what each answer is called. The client is simulated."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import (
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaTimeoutError,
    NoReassignmentInProgressError,
)

from kafka_rebalance.admin import reassignments
from kafka_rebalance.errors import ReadError, WriteError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

KAFKA = KafkaConnection("127.0.0.1:9092")
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 3)


class Client:
    def __init__(self) -> None:
        self.asked, self.answers, self.listed, self.error = [], {}, {}, None

    def _answer(self, value: Any) -> Any:
        if self.error is not None:
            raise self.error
        return value

    def list_partition_reassignments(self, partitions: Any = None) -> Any:
        return self._answer(self.listed)

    def alter_partition_reassignments(self, wanted: Any) -> Any:
        self.asked.append(wanted)
        return self._answer({KafkaTopicPartition(*tp): error for tp, error in self.answers.items()})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Client()

    @contextmanager
    def opened(kafka: Any) -> Any:
        yield made

    monkeypatch.setattr(reassignments, "open_kafka_python", opened)
    return made


def test_exactly_the_given_partitions_are_cancelled(client: Any) -> None:
    client.answers = {ORDERS: None, AUDIT: None}
    assert reassignments.cancel_reassignments(KAFKA, [ORDERS, AUDIT]) == {ORDERS, AUDIT}
    assert client.asked == [{AUDIT: None, ORDERS: None}]


def test_nothing_is_asked_for_nothing(client: Any) -> None:
    assert reassignments.cancel_reassignments(KAFKA, []) == frozenset()
    assert client.asked == []


def test_a_partition_that_ended_meanwhile_is_no_error(client: Any) -> None:
    client.answers = {ORDERS: NoReassignmentInProgressError, AUDIT: None}
    assert reassignments.cancel_reassignments(KAFKA, [ORDERS, AUDIT]) == {AUDIT}


def test_each_partitions_error_is_named_and_so_is_one_without_an_answer(client: Any) -> None:
    client.answers = {ORDERS: ClusterAuthorizationFailedError}
    with pytest.raises(WriteError) as refused:
        reassignments.cancel_reassignments(KAFKA, [ORDERS, AUDIT])
    assert "2 of 2" in str(refused.value)
    assert "audit-3 (no answer), orders-0 (ClusterAuthorizationFailedError)" in str(refused.value)


@pytest.mark.parametrize(
    "error", [KafkaTimeoutError(), OSError(), RuntimeError("Failed to find active controller id!")]
)
def test_no_answer_at_all_is_neither_success_nor_failure(client: Any, error: Any) -> None:
    client.error = error
    with pytest.raises(ReadError, match="whether Kafka cancelled them is unknown"):
        reassignments.cancel_reassignments(KAFKA, [ORDERS])


def test_a_cluster_below_2_4_is_told_from_one_that_does_not_answer(client: Any) -> None:
    assert reassignments.can_cancel(KAFKA) is True
    client.error = IncompatibleBrokerVersion()
    assert reassignments.can_cancel(KAFKA) is False
    with pytest.raises(WriteError, match=r"below Kafka 2\.4"):
        reassignments.cancel_reassignments(KAFKA, [ORDERS])
    client.error = KafkaTimeoutError()
    with pytest.raises(ReadError):
        reassignments.can_cancel(KAFKA)


def test_what_is_reassigned_is_told_with_the_list_that_it_goes_to(client: Any) -> None:
    lists = {"replicas": [3, 2, 1], "adding_replicas": [3], "removing_replicas": [1]}
    client.listed = {KafkaTopicPartition(*ORDERS): lists}
    assert reassignments.read_reassignments(KAFKA) == {ORDERS: (3, 2)}


@pytest.mark.parametrize(
    ("error", "found"),
    [(IncompatibleBrokerVersion("old"), {}), (ClusterAuthorizationFailedError("not you"), None)],
    ids=["below 2.4 nothing is reassigned through the API", "who may not ask is told that nobody knows"],
)
def test_brokers_that_do_not_tell_what_is_reassigned(client: Any, error: Any, found: Any) -> None:
    client.error = error
    assert reassignments.read_reassignments(KAFKA) == found


@pytest.mark.parametrize("error", [KafkaTimeoutError("slow"), RuntimeError("no controller"), OSError("gone")])
def test_reassignments_that_cannot_be_read_are_not_none(client: Any, error: Any) -> None:
    client.error = error
    with pytest.raises(ReadError, match="cannot be read"):
        reassignments.read_reassignments(KAFKA)
