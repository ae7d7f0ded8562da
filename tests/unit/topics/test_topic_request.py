"""What a run of kafka_topics may be asked, and what it is told where it may not."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.topics.rules import TopicRequest

CREATE = {"action": "create", "topic": "orders", "partitions": 3, "replication_factor": 2}
ALTER = {"action": "alter", "topic": "orders", "partitions": 6}


def request(**params: Any) -> Any:
    return TopicRequest.from_params(params)


def test_a_creation_reads_as_kafka_topics_would_read_it() -> None:
    asked = request(**CREATE, config=["retention.ms = 1000", "cleanup.policy=compact,delete"], if_not_exists=True)
    assert (asked.action, asked.topic, asked.partitions, asked.replication_factor) == ("create", "orders", 3, 2)
    assert asked.configs == {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
    assert asked.if_not_exists
    assert (asked.assignment, asked.rack_mode) == ("room", "enforced")
    assert not asked.is_read_only


def test_an_assignment_by_hand_says_every_replica() -> None:
    asked = request(action="create", topic="orders", replica_assignment="1:2,2:3,3:1")
    assert asked.replica_assignment == {0: (1, 2), 1: (2, 3), 2: (3, 1)}


@pytest.mark.parametrize("action", ["list", "describe"])
def test_list_and_describe_need_nothing_and_write_nothing(action: str) -> None:
    assert request(action=action).is_read_only
    assert request(action=action, only="under_replicated").only == "under_replicated"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({**CREATE, "partitions": 3.0}, "partitions must be an integer"),
        ({**CREATE, "partitions": True}, "partitions must be an integer"),
        ({**CREATE, "partitions": "3"}, "partitions must be an integer"),
        ({**CREATE, "partitions": [3]}, "partitions must be an integer"),
        ({**CREATE, "partitions": float("nan")}, "partitions must be an integer"),
        ({**CREATE, "partitions": 2**31}, "partitions must be an integer"),
        ({**CREATE, "replication_factor": 2.0}, "replication_factor must be an integer"),
        ({**ALTER, "partitions": 5.0}, "partitions must be an integer"),
        ({**CREATE, "bytes_in_per_second": 5.0}, "bytes_in_per_second must be an integer"),
        ({**CREATE, "bytes_in_per_second": 2**63}, "bytes_in_per_second must be an integer"),
        ({**CREATE, "bytes_in_per_second": -1}, "bytes_in_per_second must be an integer"),
        ({**CREATE, "sample_rows": "x"}, "sample_rows must be an integer"),
        ({**CREATE, "sample_hours": 1e308}, "sample_hours must be an integer"),
        ({**CREATE, "assignment": "zzz"}, "assignment must be one of room, kafka"),
        ({**CREATE, "rack_mode": {}}, "rack_mode must be one of"),
        ({**CREATE, "if_not_exists": "no"}, "if_not_exists must be true or false"),
        ({**CREATE, "dry_run": "false"}, "dry_run must be true or false"),
        ({**CREATE, "topic": 5}, "topic must be a text"),
        ({**CREATE, "action": ["create"]}, "action must be a text"),
        ({**ALTER, "config": "retention.ms=1"}, "config must be a list of texts"),
        ({**ALTER, "config": [None]}, "config must be a list of texts"),
        ({**ALTER, "delete_config": [5]}, "delete_config must be a list of texts"),
        ({"action": "create", "topic": "orders", "replica_assignment": ["1:2"]}, "replica_assignment must be a text"),
    ],
)
def test_a_value_of_another_kind_is_refused_in_words(params: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=f"^{said}.*Nothing was read or written"):
        request(**params)


def test_fields_that_nobody_filled_in_count_for_nothing() -> None:
    asked = request(action="delete", topic="orders", partitions=None, config=[], if_not_exists=False, only="all")
    assert asked == TopicRequest("delete", "orders", sample_rows=0)


def test_altering_configs_alone_adds_no_partitions() -> None:
    assert not request(action="alter", topic="t", config=["retention.ms=1"]).adds_partitions
    assert request(**ALTER).adds_partitions


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"action": "create"}, 'Missing required argument "[topic]"'),
        ({"action": "delete"}, 'Missing required argument "[topic]"'),
        (
            {**CREATE, "replica_assignment": "1:2"},
            'Option "[replica-assignment]" can\'t be used with option"[partitions]"',
        ),
        ({**CREATE, "delete_config": ["a"]}, 'Option "[delete-config]" can\'t be used with option"[create]"'),
        ({**CREATE, "if_exists": True}, 'Option "[if-exists]" can\'t be used with option"[create]"'),
        ({**CREATE, "only": "unavailable"}, 'Option "[only]" can\'t be used with option"[create]"'),
        ({**ALTER, "replication_factor": 3}, 'Option "[replication-factor]" can\'t be used with option"[alter]"'),
        ({**ALTER, "if_not_exists": True}, 'Option "[if-not-exists]" can\'t be used with option"[alter]"'),
        (
            {"action": "delete", "topic": "t", "partitions": 3},
            'Option "[partitions]" can\'t be used with option"[delete]"',
        ),
        (
            {"action": "delete", "topic": "t", "config": ["a=b"]},
            'Option "[config]" can\'t be used with option"[delete]"',
        ),
        ({"action": "list", "partitions": 0}, 'Option "[partitions]" can\'t be used with option"[list]"'),
    ],
)
def test_options_go_with_the_actions_that_kafka_topics_takes_them_with(params: Any, message: str) -> None:
    with pytest.raises(KafkaRuleError, match="Nothing was read or written") as wrong:
        request(**params)
    assert wrong.value.kafka_message == message


def test_an_alteration_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing to alter"):
        request(action="alter", topic="t")


def test_no_arguments_at_all_are_refused_with_the_actions_there_are() -> None:
    """Seed 004, row 2: no arguments give the usage."""
    with pytest.raises(KafkaRuleError, match="--list, --describe, --create, --alter or --delete"):
        request()


@pytest.mark.parametrize("missing", ["partitions", "replication_factor"])
def test_without_an_assignment_partitions_and_replication_factor_are_required(missing: str) -> None:
    """Seed 004, row 7."""
    with pytest.raises(KafkaRuleError) as wrong:
        request(**{key: value for key, value in CREATE.items() if key != missing})
    assert wrong.value.kafka_message == f'Missing required argument "[{missing.replace("_", "-")}]"'


def test_zero_partitions_are_an_answer_that_kafka_judges() -> None:
    assert request(**{**CREATE, "partitions": 0}).partitions == 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"config": ["retention.ms"]}, 'all configs to be added must be in the format "key=val"'),
        ({"config": ["retention.ms=1"], "delete_config": ["retention.ms"]}, "Invalid config"),
        ({"replica_assignment": "1:1"}, "may not contain duplicate entries"),
    ],
)
def test_what_kafka_topics_cannot_parse_is_refused_in_its_words(params: Any, message: str) -> None:
    with pytest.raises(KafkaRuleError) as wrong:
        request(action="alter", topic="t", **params)
    assert message in wrong.value.kafka_message
