"""A topic is created whole or not at all, and is there when each of its partitions is led."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import (
    CorruptZnodeError,
    KafkaRuleError,
    WriteError,
)
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.topic_change import Created
from support.zookeeper.fake_zookeeper import fake_cluster
from support.zookeeper.topic_changes import CONFIG, TOPIC, create, mark, put


@pytest.fixture(params=["2.0", "2.8"])
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def empty(version: Any) -> Any:
    """A cluster that has other topics."""
    return fake_cluster({"audit": {0: [3, 1]}}, version=version)


def test_topics_config_and_assignment_are_stored_in_different_znodes(empty: Any, version: Any) -> None:
    """Seed 004, row 16: config and assignment are stored in different znodes."""
    assert create(empty, version) == Created(Outcome.CREATED)
    assert empty.json(CONFIG) == {"version": 1, "config": {"retention.ms": "1000"}}
    assert empty.json(TOPIC)["partitions"] == {"0": [1, 2], "1": [2, 3]}
    assert empty.writes == [("create", CONFIG), ("create", TOPIC)]
    assert empty.znodes[CONFIG].czxid == empty.znodes[TOPIC].czxid, "one transaction"


@pytest.mark.parametrize(
    ("release", "rest"),
    [
        ("2.0.1", {"version": 1}),
        ("2.3", {"version": 1}),
        ("2.4", {"version": 2, "adding_replicas": {}, "removing_replicas": {}}),
        ("2.7.2", {"version": 2, "adding_replicas": {}, "removing_replicas": {}}),
        ("2.8", {"version": 3, "adding_replicas": {}, "removing_replicas": {}}),
        ("3.9.2", {"version": 3, "adding_replicas": {}, "removing_replicas": {}}),
    ],
)
def test_each_kafka_version_gets_the_document_that_its_own_tool_writes(release: str, rest: Any) -> None:
    fake = fake_cluster({})
    create(fake, release)
    assert fake.json(TOPIC) == {"partitions": {"0": [1, 2], "1": [2, 3]}, **rest}


def test_the_config_is_written_even_when_it_is_empty(empty: Any, version: Any) -> None:
    create(empty, version, configs={})
    assert empty.json(CONFIG) == {"version": 1, "config": {}}


def test_brokers_are_not_told_of_the_config_of_a_new_topic(empty: Any, version: Any) -> None:
    create(empty, version)
    assert empty.get_children("/config/changes") == []


def test_where_kafka_protects_its_znodes_a_topic_is_its_users(empty: Any, version: Any) -> None:
    protected = [make_acl("sasl", "kafka", all=True), make_acl("world", "anyone", read=True)]
    empty.znodes["/brokers/topics"].acl = protected
    empty.znodes["/config/topics"].acl = list(OPEN_ACL_UNSAFE)
    create(empty, version)
    assert empty.znodes[TOPIC].acl == protected
    assert empty.znodes[CONFIG].acl == OPEN_ACL_UNSAFE


def test_creating_the_same_topic_again_finds_what_the_first_attempt_made(empty: Any, version: Any) -> None:
    create(empty, version)
    writes = list(empty.writes)
    assert create(empty, version) == Created(Outcome.ALREADY_THERE)
    empty.put_json(TOPIC, {**empty.json(TOPIC), "topic_id": "A" * 22})  # as the controller does from 2.8 on
    writes.append(("set", TOPIC))
    assert create(empty, version) == Created(Outcome.ALREADY_THERE)
    assert empty.writes == writes


@pytest.mark.parametrize(
    "other", [{"assignment": {0: [1, 2], 1: [3, 2]}}, {"configs": {}}, {"configs": {"retention.ms": "2"}}]
)
def test_another_topic_of_that_name_is_left_alone(empty: Any, version: Any, other: Any) -> None:
    create(empty, version)
    before = {path: empty.znodes[path].data for path in (TOPIC, CONFIG)}
    empty.writes.clear()
    with pytest.raises(KafkaRuleError) as refused:
        create(empty, version, **other)
    assert refused.value.kafka_message == "Topic 'orders' already exists."
    assert "This request changed nothing" in str(refused.value)
    assert empty.writes == []
    assert before == {path: empty.znodes[path].data for path in (TOPIC, CONFIG)}


def test_a_config_that_a_crash_left_without_a_topic_is_replaced_and_told(empty: Any, version: Any) -> None:
    put(empty, CONFIG, {"version": 1, "config": {"cleanup.policy": "compact"}})
    assert create(empty, version) == Created(Outcome.CREATED, {"cleanup.policy": "compact"})
    assert empty.json(CONFIG) == {"version": 1, "config": {"retention.ms": "1000"}}
    assert TOPIC in empty.znodes


def test_a_config_that_cannot_be_read_is_named_and_left_alone(empty: Any, version: Any) -> None:
    empty.create(CONFIG, b"{")
    empty.writes.clear()
    with pytest.raises(CorruptZnodeError, match=CONFIG):
        create(empty, version)
    assert empty.writes == []


@pytest.mark.parametrize("left", [(TOPIC, CONFIG), (CONFIG,), ()], ids=["all", "config", "marker alone"])
def test_while_a_topic_of_that_name_is_being_deleted_none_is_created(empty: Any, version: Any, left: Any) -> None:
    for path in left:
        put(empty, path, {"version": 1, "config": {}, "partitions": {"0": [1, 2], "1": [2, 3]}})
    mark(empty)
    with pytest.raises(WriteError, match=r"orders: a topic of that name is being deleted\."):
        create(empty, version)
    assert empty.writes == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": "audit"}, "Topic 'audit' already exists."),
        ({"topic": "a/b"}, "illegal"),
        ({"assignment": {0: [1, 2], 1: [2]}}, "All partitions should have the same number of replicas"),
        ({"assignment": {0: [1, 1]}}, "Duplicate replica assignment found"),
        ({"assignment": {1: [1, 2], 2: [2, 3]}}, "consecutive 0-based"),
        ({"assignment": {0: []}}, "replication factor of 0"),
        ({"assignment": {0: [1, 9]}}, "Some brokers specified for partition id 0 are not available"),
        ({"registered": {1, 2}}, "Some brokers specified for partition id 1 are not available"),
        ({"configs": {"log.segment.bytes": "1"}}, "Unknown topic config name: log.segment.bytes"),
        ({"configs": {"segment.bytes": "13"}}, "Invalid value 13"),
    ],
)
def test_what_kafka_refuses_to_create_is_not_written(empty: Any, version: Any, given: Any, said: str) -> None:
    with pytest.raises(KafkaRuleError, match=said):
        create(empty, version, **given)
    assert empty.writes == []


def test_a_name_that_collides_with_a_topic_is_not_written(version: Any) -> None:
    fake = fake_cluster({"a.b": {0: [1]}}, version=version)
    with pytest.raises(KafkaRuleError, match=r"Topic 'a_b' collides with existing topics: a\.b"):
        create(fake, version, topic="a_b")
    assert fake.writes == []


@pytest.mark.parametrize("replicas", [[1, True], [1, "2"], [1, 2.0], "12", (1, None), [-1, 2], [1, 2**31]])
def test_what_is_not_a_broker_id_never_reaches_zookeeper(empty: Any, version: Any, replicas: Any) -> None:
    with pytest.raises((WriteError, KafkaRuleError)):
        create(empty, version, assignment={0: replicas}, registered={1, 2, -1, "2", "1", 2**31, None})  # type: ignore[arg-type]
    assert empty.writes == []


@pytest.mark.slow
def test_a_topic_beyond_zookeepers_limit_is_refused_with_the_figures(empty: Any, version: Any) -> None:
    huge = {partition: [1, 2, 3, 4] for partition in range(60_000)}
    with pytest.raises(WriteError, match=r"1,\d{3},\d{3} bytes, but ZooKeeper takes 1,048,511"):
        create(empty, version, assignment=huge)
    assert empty.writes == []


@pytest.mark.slow
def test_config_and_assignment_count_together_towards_zookeepers_limit(empty: Any, version: Any) -> None:
    half = {partition: [1, 2, 3, 4] for partition in range(35_000)}
    key = "follower.replication.throttled.replicas"
    pairs = {key: ",".join(f"{partition}:1" for partition in range(60_000))}
    create(empty, version, topic="fits-1", assignment=half)
    create(empty, version, topic="fits-2", configs=pairs)
    empty.writes.clear()
    with pytest.raises(WriteError, match="bytes, but ZooKeeper takes"):
        create(empty, version, assignment=half, configs=pairs)
    assert empty.writes == []
