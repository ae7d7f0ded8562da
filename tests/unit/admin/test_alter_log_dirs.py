"""Requests to copy replicas into other log dirs: what is sent, what is never sent, and what the answer tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from kafka_rebalance.admin.log_dirs import alter_log_dirs
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import LockLostError, ReadError, WriteDeniedError, WriteError
from kafka_rebalance.model.cluster_writes import ClusterWrite, Kind, noted
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.partition import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Manager:
    """Answers each request with these codes, or raises the error. A code of None leaves the partition out."""

    def __init__(self, codes: dict[TopicPartition, int | None] | Exception) -> None:
        self.codes = codes
        self.sent: list[tuple[dict[str, dict[str, list[int]]], int]] = []

    def run(self, send: Any, request: Any, broker: int) -> Any:
        asked = {one.path: {topic.name: list(topic.partitions) for topic in one.topics} for one in request.dirs}
        self.sent.append((asked, broker))
        if isinstance(self.codes, Exception):
            raise self.codes
        return SimpleNamespace(
            results=[
                SimpleNamespace(
                    topic_name=tp.topic,
                    partitions=[SimpleNamespace(partition_index=tp.partition, error_code=code)],
                )
                for tp, code in self.codes.items()
                if code is not None
            ]
        )


def asked(manager: Manager, targets: dict[TopicPartition, str], **more: Any) -> dict[TopicPartition, str]:
    client: Any = SimpleNamespace(_manager=manager)
    wire = Wire(KafkaConnection("b1:9092"), client)
    return alter_log_dirs(wire, 3, targets, held={T0, T1, U0}, log_dirs={"/a", "/b"}, **more)


def test_one_request_goes_to_the_broker_itself_by_log_dir_and_topic() -> None:
    manager = Manager({T0: 0, T1: 0, U0: 0})
    with noted() as writes:
        assert asked(manager, {T1: "/a", U0: "/b", T0: "/a"}) == {}
    assert manager.sent == [({"/a": {"t": [0, 1]}, "/b": {"u": [0]}}, 3)]
    assert writes == [ClusterWrite(Kind.LOG_DIRS, "3")]


def test_nothing_is_sent_where_nothing_is_asked_for() -> None:
    manager = Manager({})
    assert asked(manager, {}) == {}
    assert manager.sent == []


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ({TopicPartition("t", 9): "/a"}, "broker 3 does not have t-9"),  # else the broker remembers the log dir for it
        ({T0: "/c"}, "broker 3 has no log dir /c"),
    ],
)
def test_what_the_broker_does_not_have_is_never_sent(targets: dict[TopicPartition, str], said: str) -> None:
    manager = Manager({})
    with pytest.raises(WriteError, match=said):
        asked(manager, targets)
    assert manager.sent == []


def test_what_a_broker_refuses_or_leaves_out_of_its_answer_is_named_beside_what_it_does() -> None:
    targets = {T0: "/a", T1: "/a", U0: "/a"}
    refused = asked(Manager({T0: 56, T1: 0, U0: None}), targets)
    assert refused == {T0: "KafkaStorageError", U0: "the broker's answer does not name it"}


@pytest.mark.parametrize("code", [3, 9])
def test_a_replica_that_has_left_the_broker_is_no_refusal(code: int) -> None:
    assert asked(Manager({T0: code, T1: 0}), {T0: "/a", T1: "/a"}) == {}


def test_a_user_who_may_not_is_told_what_it_needs() -> None:
    with noted() as writes, pytest.raises(WriteDeniedError, match="needs Alter on the cluster"):
        asked(Manager({T0: 31}), {T0: "/a"})
    assert writes == []


def test_without_an_answer_the_outcome_is_unknown() -> None:
    with noted() as writes, pytest.raises(ReadError, match="whether it was carried out is unknown"):
        asked(Manager(KafkaConnectionError()), {T0: "/a"})
    assert writes == [ClusterWrite(Kind.LOG_DIRS, "3", is_certain=False)]


def test_a_worker_that_stood_still_sends_nothing() -> None:
    manager = Manager({T0: 0})
    with pytest.raises(LockLostError, match="Nothing was sent"):
        asked(manager, {T0: "/a"}, not_later_than=0.0)
    assert manager.sent == []
