"""What becomes of a coordinator's answer. Answers are as kafka-python decodes them from brokers."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition as ClientTopicPartition
from kafka.errors import (
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    NodeNotReadyError,
    UnstableOffsetCommitError,
)

from kafka_rebalance.admin import group_members
from kafka_rebalance.admin.access import first_contact
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.consumer_groups import GroupMember
from kafka_rebalance.model.partition import TopicPartition

KAFKA = KafkaConnection("127.0.0.1:9092")


def member(name: Any, subscription: Any, assigned: Any = ()) -> Any:
    return {
        "member_id": f"{name}-uuid",
        "client_id": name,
        "client_host": "/10.0.0.1",
        "member_metadata": subscription,
        "member_assignment": {
            "assigned_partitions": [{"topic": topic, "partitions": list(ids)} for topic, ids in assigned],
            "user_data": "",
        }
        if subscription != ""
        else "",
    }


def described(name: Any, state: Any, *members: Any, assignor: Any = "range", error: Any = None) -> Any:
    return {
        "group_id": name,
        "group_state": state,
        "protocol_type": "consumer",
        "protocol_data": assignor if state == "Stable" else "",
        "members": list(members),
        "error": error,
    }


class Client:
    """Each call takes the next answer; an exception is raised, the last answer stays."""

    log_dirs = ("/data",)
    offsets: Any = None  # {group: {partition: offset}} if all offsets are asked for; an exception is raised

    def __init__(self, listed: Any, *descriptions: Any, committed: Any = None) -> None:
        self.listed, self.descriptions = list(listed), list(descriptions)
        self.committed = committed or {}
        self.asked = []

    def describe_log_dirs(self, topics: Any) -> Any:
        return [{"broker": broker, "log_dirs": self.log_dirs} for broker in (1, 2)]

    def list_groups(self, brokers: Any = None) -> Any:
        self.asked += [] if brokers is None else [brokers]
        return self._next(self.listed)

    def describe_groups(self, names: Any) -> Any:
        self.asked.append(tuple(names))
        return self._next(self.descriptions)

    def list_group_offsets(self, specs: Any) -> Any:
        if self.offsets is not None:
            assert set(specs.values()) == {None}
            found = self._next(self.offsets)
            return {name: found[name] for name in specs if name in found}
        return {
            name: {
                asked: SimpleNamespace(offset=self.committed.get((name, asked.partition), -1)) for asked in partitions
            }
            for name, partitions in specs.items()
        }

    def _next(self, answers: Any) -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the module meet this client; patience is over at once, except where a test gives some."""

    def use(client: Any, patience: Any = 0.0) -> Any:
        @contextmanager
        def opened(kafka: Any) -> Any:
            yield client

        monkeypatch.setattr(group_members, "open_kafka_python", opened)
        monkeypatch.setattr(group_members, "_SETTLE_SECONDS", patience)
        monkeypatch.setattr(group_members, "_PAUSE_SECONDS", 0.0)
        return client

    return use


def listing(*names: Any, protocol: Any = "consumer") -> Any:
    return [{"group_id": name, "protocol_type": protocol} for name in names]


def test_a_subscription_that_cannot_be_decoded_gives_way_to_the_assigned_topics(answering: Any) -> None:
    odd = member("a", b"\x00", [("u", [0]), ("t", [1, 0])])
    answering(Client([listing("g")], {"g": described("g", "Stable", odd)}))
    (found,) = group_members.read_groups(KAFKA, "t", [0, 1])
    assert found.members == (
        GroupMember(
            "a-uuid",
            "a",
            "10.0.0.1",
            ("t", "u"),
            (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)),
            None,
        ),
    )


def test_a_group_that_settles_is_asked_again_and_alone(answering: Any) -> None:
    done = member("a", {"topics": ["t"]})
    client = answering(
        Client(
            [listing("calm", "g")],
            {"calm": described("calm", "Empty"), "g": described("g", "PreparingRebalance", member("a", ""))},
            {"g": described("g", "Stable", done)},
        ),
        patience=30,
    )
    (found,) = group_members.read_groups(KAFKA, "t", [0])
    assert (found.group, found.state, found.members[0].topics) == ("g", "Stable", ("t",))
    assert client.asked == [("calm", "g"), ("g",)]


def test_a_group_that_does_not_settle_is_given_since_it_may_read_the_topic(answering: Any) -> None:
    answering(Client([listing("g")], {"g": described("g", "CompletingRebalance", member("a", ""))}))
    (found,) = group_members.read_groups(KAFKA, "t", [0])
    assert (found.state, found.assignor, found.members[0].topics) == ("CompletingRebalance", "", ())


def test_groups_of_other_topics_and_of_other_protocols_are_left_out(answering: Any) -> None:
    client = answering(
        Client(
            [listing("connect-sink", protocol="connect") + listing("other", "left") + listing("simple", protocol="")],
            {
                "other": described("other", "Stable", member("a", {"topics": ["u"]}, [("u", [0])])),
                "left": described("left", "Empty"),
                "simple": described("simple", "Empty"),
            },
            committed={("simple", 1): 7},
        )
    )
    assert [(found.group, found.committed) for found in group_members.read_groups(KAFKA, "t", [0, 1])] == [
        ("simple", (1,))
    ]
    assert client.asked == [("left", "other", "simple")]


def test_a_coordinator_that_is_loading_is_asked_again(answering: Any) -> None:
    answering(Client([CoordinatorLoadInProgressError(), listing()]), patience=30)
    assert group_members.read_groups(KAFKA, "t", [0]) == ()


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Client([GroupAuthorizationFailedError()]), "Grant it Describe on the cluster"),
        (Client([NodeNotReadyError()]), "cannot be read"),
        (Client([CoordinatorLoadInProgressError()]), "cannot be read"),
        (Client([listing("g")], {"g": described("g", "Dead", error="GroupAuthorizationFailedError")}), "group g"),
        (Client([listing("g")], GroupAuthorizationFailedError()), "may not read about consumer group g"),
    ],
)
def test_what_cannot_be_read_is_not_an_absence_of_groups(answering: Any, client: Any, said: str) -> None:
    answering(client)
    with pytest.raises(ReadError, match=said):
        group_members.read_groups(KAFKA, "t", [0])


def test_brokers_that_may_leave_out_groups_are_not_asked_for_them(answering: Any) -> None:
    client = answering(Client([AssertionError("asked")]))
    client.log_dirs = ()
    with pytest.raises(ReadError, match="silently leave out consumer groups"):
        group_members.read_groups(KAFKA, "t", [0])


def committed(**offsets: int) -> Any:
    """The answer for one group: `t_0` is partition 0 of topic t."""
    partitions = {tuple(name.rsplit("_", 1)): offset for name, offset in offsets.items()}
    return {
        ClientTopicPartition(topic, int(number)): SimpleNamespace(offset=offset)
        for (topic, number), offset in partitions.items()
    }


def test_the_offsets_of_all_groups_come_by_partition_from_every_broker(answering: Any) -> None:
    """Kafka Connect's own groups have none, and those that share records keep theirs elsewhere."""
    groups = listing("billing", "audit") + listing("old", protocol="") + listing("queue", protocol="share")
    client = answering(Client([groups + listing("workers", protocol="connect")]))
    client.offsets = [
        {
            "billing": committed(t_0=7, t_1=-1, u_0=0),
            "audit": committed(t_0=5),
            "old": committed(t_1=3),
            "workers": {},
        }
    ]
    assert group_members.read_committed_offsets(KAFKA, {2, 1}) == {
        TopicPartition("t", 0): {"audit": 5, "billing": 7},
        TopicPartition("t", 1): {"old": 3},
        TopicPartition("u", 0): {"billing": 0},
    }
    assert client.asked == [[1, 2]]


def test_a_cluster_without_groups_has_no_offsets(answering: Any) -> None:
    answering(Client([listing("queue", protocol="share")]))
    assert group_members.read_committed_offsets(KAFKA, {1}) == {}


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        (GroupAuthorizationFailedError(), "may not read the offsets of consumer group a and 1 others"),
        (UnstableOffsetCommitError(), "cannot be read"),
        ({"a": committed(t_0=1)}, "no offsets of consumer group b"),
    ],
)
def test_one_group_that_cannot_be_read_leaves_none_of_the_offsets(answering: Any, offsets: Any, said: str) -> None:
    client = answering(Client([listing("a", "b")]))
    client.offsets = [offsets]
    with pytest.raises(ReadError, match=said):
        group_members.read_committed_offsets(KAFKA, {1})


def test_offsets_are_not_read_where_brokers_may_leave_out_groups(answering: Any) -> None:
    client = answering(Client([AssertionError("asked")]))
    client.log_dirs = ()
    with pytest.raises(ReadError, match="silently leave out consumer groups"):
        group_members.read_committed_offsets(KAFKA, {1})


def test_brokers_that_do_not_answer_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_contact, "FIRST_SECONDS", 0.2)
    with pytest.raises(ReadError, match=r"127\.0\.0\.1:1 "):
        group_members.read_groups(KafkaConnection("127.0.0.1:1"), "t", [0])
