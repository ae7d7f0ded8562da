"""A topic is what a change was to make of it, or a check says what it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.topics.rules import check_configs, check_deleted, check_new_partitions
from support.kafka.small_clusters import partition, view


def failed(checks: Any) -> Any:
    return [f"{check.subject}: {check.finding}" for check in checks if not check.passed]


def test_partitions_are_there_when_stored_in_order_led_and_in_sync() -> None:
    cluster = view({"t-0": partition([1, 2]), "t-1": partition([2, 3])})
    assert failed(check_new_partitions("t", {1: (2, 3)}, 2, cluster)) == []


@pytest.mark.parametrize(
    ("found", "finding"),
    [
        ({}, "t-0: it does not exist yet"),
        ({"t-0": partition([2, 1])}, "t-0: replicas [2, 1], leader 2, [1, 2] in sync"),
        ({"t-0": partition([1, 2], isr=[1])}, "t-0: replicas [1, 2], leader 1, [1] in sync"),
        ({"t-0": partition([1, 2], leader=-1)}, "t-0: replicas [1, 2], leader -1, [1, 2] in sync"),
    ],
)
def test_a_partition_that_is_not_yet_what_was_approved_fails(found: Any, finding: str) -> None:
    assert finding in failed(check_new_partitions("t", {0: (1, 2)}, 1, view(found)))


def test_a_partition_that_the_controller_dropped_again_shows_in_the_count() -> None:
    cluster = view({"t-0": partition([1, 2])})
    assert "t: 1 partitions" in failed(check_new_partitions("t", {1: (2, 3)}, 2, cluster))


def test_only_the_configs_that_were_to_change_are_looked_at() -> None:
    wanted = {"retention.ms": "5", "flush.ms": None}
    assert failed(check_configs("t", wanted, {"retention.ms": "5", "segment.bytes": "1"})) == []
    assert failed(check_configs("t", wanted, {"retention.ms": "6", "flush.ms": "1"})) == [
        "t flush.ms: '1'",
        "t retention.ms: '6'",
    ]


def deleted(cluster: Any, *, marked: Any = False, topic_left: Any = False, config_left: Any = False) -> Any:
    return failed(check_deleted("t", cluster, marked=marked, topic_left=topic_left, config_left=config_left))


def test_a_topic_is_deleted_when_assignment_config_and_marker_are_gone() -> None:
    assert deleted(view({})) == []
    assert deleted(view({}), config_left=True) == ["/config/topics/t: it is there"]
    assert deleted(view({}), marked=True) == ["/admin/delete_topics/t: it is there"]


def test_a_deletion_that_waits_names_the_broker_it_waits_for() -> None:
    cluster = view({"t-0": partition([1, 9])}, deletions=["t"])
    assert deleted(cluster, marked=True, topic_left=True)[0] == (
        "/brokers/topics/t: it is there, waits for broker 9, which is down"
    )


def test_a_deletion_that_the_brokers_refuse_is_told_from_one_that_takes_long() -> None:
    assert "no longer requested" in deleted(view({"t-0": partition([1, 2])}), topic_left=True)[0]


def test_a_topic_that_was_made_again_under_the_name_does_not_count() -> None:
    assert deleted(view({"t-0": partition([1, 2])})) == []
