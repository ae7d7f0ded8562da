"""What a run of kafka_topics may be asked, and what it is told where it may not."""

from __future__ import annotations

import pytest

from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.execution.topic_request import TopicRequest

CREATE = {"action": "create", "topic": "orders", "partitions": 3, "replication_factor": 2}
ALTER = {"action": "alter", "topic": "orders", "partitions": 6}


def request(**params):
    return TopicRequest.from_params(params)


def test_a_creation_reads_as_kafka_topics_would_read_it():
    asked = request(**CREATE, config=["retention.ms = 1000", "cleanup.policy=compact,delete"], if_not_exists=True)
    assert (asked.action, asked.topic, asked.partitions, asked.replication_factor) == ("create", "orders", 3, 2)
    assert asked.configs == {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
    assert asked.if_not_exists
    assert (asked.assignment, asked.rack_mode) == ("room", "enforced")
    assert not asked.is_read_only


def test_an_assignment_by_hand_says_every_replica():
    asked = request(action="create", topic="orders", replica_assignment="1:2,2:3,3:1")
    assert asked.replica_assignment == {0: (1, 2), 1: (2, 3), 2: (3, 1)}


@pytest.mark.parametrize("action", ["list", "describe"])
def test_list_and_describe_need_nothing_and_write_nothing(action):
    assert request(action=action).is_read_only
    assert request(action=action, only="under_replicated").only == "under_replicated"


def test_fields_that_nobody_filled_in_count_for_nothing():
    asked = request(action="delete", topic="orders", partitions=None, config=[], if_not_exists=False, only="all")
    assert asked == TopicRequest("delete", "orders", sample_rows=0)


def test_altering_configs_alone_adds_no_partitions():
    assert not request(action="alter", topic="t", config=["retention.ms=1"]).adds_partitions
    assert request(**ALTER).adds_partitions


@pytest.mark.parametrize("action", [None, "", "drop", "create,delete"])
def test_exactly_one_of_kafkas_five_actions_is_asked_for(action):
    """Seed 004, row 1: five actions, exactly one, else an error."""
    with pytest.raises(KafkaRuleError) as wrong:
        request(action=action, topic="t")
    assert wrong.value.kafka_message == (
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"action": "create"}, "'topic' is missing"),
        ({"action": "create", "topic": "t", "partitions": 1}, "'replication_factor' is missing"),
        ({**CREATE, "replica_assignment": "1:2"}, "excludes 'partitions' and 'replication_factor'"),
        ({**CREATE, "delete_config": ["a"]}, "'delete_config' goes with alter, not with create"),
        ({**CREATE, "if_exists": True}, "'if_exists' goes with alter or delete, not with create"),
        ({**CREATE, "only": "unavailable"}, "'only' goes with list or describe, not with create"),
        ({**ALTER, "replication_factor": 3}, "'replication_factor' goes with create, not with alter"),
        ({**ALTER, "if_not_exists": True}, "'if_not_exists' goes with create, not with alter"),
        ({"action": "alter", "topic": "t"}, "there is nothing to alter"),
        ({"action": "delete", "topic": "t", "partitions": 3}, "'partitions' goes with create or alter"),
        ({"action": "delete", "topic": "t", "config": ["a=b"]}, "'config' goes with create or alter"),
        ({"action": "delete"}, "'topic' is missing"),
        ({"action": "list", "partitions": 0}, "'partitions' goes with create or alter, not with list"),
    ],
)
def test_options_go_with_the_actions_that_kafka_topics_takes_them_with(params, words):
    with pytest.raises(SettingsError, match=words) as wrong:
        request(**params)
    assert "Nothing was read or written" in str(wrong.value)


def test_no_arguments_at_all_are_refused_with_the_actions_there_are():
    """Seed 004, row 2: no arguments give the usage."""
    with pytest.raises(KafkaRuleError, match="--list, --describe, --create, --alter or --delete"):
        request()


@pytest.mark.parametrize("missing", ["partitions", "replication_factor"])
def test_without_an_assignment_partitions_and_replication_factor_are_required(missing):
    """Seed 004, row 7."""
    with pytest.raises(SettingsError, match=f"'{missing}' is missing"):
        request(**{key: value for key, value in CREATE.items() if key != missing})


def test_zero_partitions_are_an_answer_that_kafka_judges():
    assert request(**{**CREATE, "partitions": 0}).partitions == 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"config": ["retention.ms"]}, 'all configs to be added must be in the format "key=val"'),
        ({"config": ["a=b=c"]}, 'all configs to be added must be in the format "key=val"'),
        ({"config": ["retention.ms=1"], "delete_config": ["retention.ms"]}, "Invalid config"),
        ({"replica_assignment": "1:1"}, "may not contain duplicate entries"),
        ({"replica_assignment": "1:2,3"}, "has different replication factor"),
        ({"replica_assignment": "1:x"}, 'For input string: "x"'),
    ],
)
def test_what_kafka_topics_cannot_parse_is_refused_in_its_words(params, message):
    with pytest.raises(KafkaRuleError) as wrong:
        request(action="alter", topic="t", **params)
    assert message in wrong.value.kafka_message
