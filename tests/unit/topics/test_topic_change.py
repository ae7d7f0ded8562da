"""What kafka_topics says: lists as kafka-topics prints them, and the text of an approval request."""

from __future__ import annotations

import copy
from dataclasses import asdict, replace
from typing import Any

from markdown_it import MarkdownIt

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.model.consumer_groups import ConsumerGroup, GroupMember
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.topics.forecast import KeyForecast, TopicForecast, forecast_groups
from kafka_rebalance.topics.read import TopicFound
from kafka_rebalance.topics.request import (
    approval_body,
    approval_subject,
    change_lines,
    describe_lines,
    forecast_lines,
    list_lines,
)
from kafka_rebalance.topics.rules import TOPIC_FILE, RequestedChange

ENTRY: dict[str, Any] = {
    "topic": "orders",
    "partition_count": 2,
    "replication_factor": 2,
    "configs": {"flush.ms": "7"},
    "marked_for_deletion": False,
    "size_bytes": 3 * 1024**2,
    "under_replicated": 1,
    "unavailable": 1,
    "partitions": [
        {
            "partition": 0,
            "leader": 1,
            "replicas": [1, 2],
            "isr": [1],
            "adding": [],
            "removing": [],
            "size_bytes": 1024,
            "under_replicated": True,
            "unavailable": False,
        },
        {
            "partition": 1,
            "leader": None,
            "replicas": [2, 3],
            "isr": [2, 3],
            "adding": [3],
            "removing": [1],
            "size_bytes": None,
            "under_replicated": False,
            "unavailable": True,
        },
    ],
}


def found(**changes: Any) -> TopicFound:
    return decode(TopicFound, ENTRY | changes, "topics.json")


DOCUMENT: dict[str, Any] = {
    "connection_id": "kafka_eu",
    "cluster_id": "abc",
    "policy_digest": "p" * 64,
    "nonce": "n",
    "observed_at": "2026-05-03T14:32:10+00:00",
    "dag_id": "kafka_topics",
    "run_id": "one",
    "dry_run": False,
    "needs_approval": True,
    "assignment": "room",
    "replica_bytes": 1024,
    "groups_unread": None,
    "requested_by": "olive",
    "reason": "more consumers",
    "digest": "9f3a1c2e" * 8,
    "size_bytes": 5 * 1024**3,
    "groups": ["billing"],
    "costs": [
        {
            "broker": 1,
            "replicas": 2,
            "leaders": 1,
            "bytes": 2048,
            "disk_fraction_after": 0.51,
            "disk_capacity_bytes": None,
            "disk_used_bytes": None,
        }
    ],
    "notes": ["broker 9 is down: the deletion waits until it is back"],
    "change": {
        "action": "alter",
        "topic": "orders",
        "cluster_id": "abc",
        "kafka_version": "2.0",
        "partitions_before": 2,
        "new_partitions": {"10": [3, 1], "2": [1, 2]},
        "configs_before": {"retention.ms": "5"},
        "config_changes": {"retention.ms": None, "flush.ms": "7"},
    },
}


def test_a_list_has_one_name_a_line_and_says_what_is_being_deleted() -> None:
    assert list_lines([found(), found(topic="old", marked_for_deletion=True)]) == (
        "orders",
        "old - marked for deletion",
    )


def test_a_description_has_kafkas_form_with_sizes_and_what_is_wrong() -> None:
    assert describe_lines([found()]) == (
        "Topic:orders\tPartitionCount:2\tReplicationFactor:2\tConfigs:flush.ms=7\tSize:3.00 MiB\tUnderReplicated:1\t"
        "Unavailable:1",
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tSize: 1.00 KiB\tunder replicated",
        "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 2,3\tIsr: 2,3\tSize: unknown\t"
        "unavailable, adding 3, removing 1",
    )


def test_the_log_shows_what_will_be_written_in_the_order_of_partitions() -> None:
    lines = change_lines(TOPIC_FILE.decode(DOCUMENT))
    assert lines[:2] == ("partition 2: replicas 1,2", "partition 10: replicas 3,1")
    assert "config retention.ms: 5 -> not set" in lines
    assert "config flush.ms: not set -> 7" in lines
    assert "broker 1: 2 replicas, 1 of them leaders, 2.00 KiB expected, disk 51 % after" in lines


FORECAST = TopicForecast(
    KeyForecast(
        "orders",
        2,
        3,
        2 / 3,
        "2/3",
        "Keys were not sampled: no sample was asked for.",
        "no sample was asked for",
    ),
    None,
    "Consumer groups cannot be read",
)


def test_an_approver_reads_what_happens_to_which_topic() -> None:
    assert (
        approval_subject(TOPIC_FILE.decode(DOCUMENT))
        == "Kafka kafka_eu: alter orders: 2 to 4 partitions and 2 configs?"
    )
    body = approval_body(TOPIC_FILE.decode(DOCUMENT), FORECAST)
    for words in (
        "| 2 | 1,2 |",
        "| 1 | +2 | +1 | 2.00 KiB | 51 % |",
        "`olive`",
        "67 % of all keys",
        DOCUMENT["digest"],
    ):
        assert str(words) in body


def deletion(**changes: Any) -> RequestedChange:
    document = copy.deepcopy(DOCUMENT)
    document["change"] = {**document["change"], "action": "delete", "new_partitions": {}, "config_changes": {}}
    return TOPIC_FILE.decode({**document, **changes})


def test_a_deletion_says_what_is_lost_and_who_uses_it() -> None:
    body = approval_body(deletion(), None)
    assert "**All of its data is lost**: 5.00 GiB in one replica of each partition." in body
    assert "1 consumer group of it: `billing`" in body
    assert "No consumer group has members or offsets for it." in approval_body(deletion(groups=[]), None)
    assert "Whether consumers use it is not known: the consumer groups could not be read." in approval_body(
        deletion(groups=None), None
    )


UNREAD = Finding("share group `<b>`", "it cannot be read", "Grant Describe on it")


def test_a_deletion_names_groups_of_other_types_and_those_that_could_not_be_read() -> None:
    body = approval_body(deletion(groups=["billing", "work"], group_types={"work": "share"}), None)
    assert "2 consumer groups of it: `billing`, `work` (share group)." in body
    body = approval_body(deletion(groups=[], groups_not_read=[asdict(UNREAD)]), None)
    assert "No consumer group has" not in body
    assert "Of the groups that could be read, none has members or offsets for it." in body
    assert "**Whether these use it is not known**" in body
    assert "it cannot be read. Grant Describe on it" in body
    assert "<b>" not in MarkdownIt("commonmark").render(body)
    many = approval_body(deletion(groups=["billing"], groups_not_read=[asdict(UNREAD)] * 20), None)
    assert "and 8 more" in many


def test_a_forecast_names_what_could_not_be_read() -> None:
    lines = forecast_lines(replace(FORECAST, groups=(), groups_not_read=(UNREAD,)))
    assert lines[-2] == "of the groups that could be read, none reads this topic"
    assert lines[-1].startswith("not known whether it reads this topic: share group")


def test_what_comes_from_people_is_shown_and_never_marked_up() -> None:
    hostile = deletion(reason="<img src=x> **`bold`** | {{ secret }}", notes=["[x](javascript:alert(1))"])
    page = (
        MarkdownIt("commonmark")
        .enable("table")
        .render(approval_body(hostile, replace(FORECAST, groups_unread="<b>www.example.org</b>")))
    )
    assert "<img" not in page
    assert "<b>" not in page
    assert "<a " not in page
    assert "{{" not in page


def test_a_forecast_says_what_each_group_gets_under_both_assignors() -> None:
    members = tuple(GroupMember(f"c-{number}", "c", "/h", ("orders", "refunds"), ()) for number in range(3))
    groups = [ConsumerGroup("billing", "Stable", "range", members, ()), ConsumerGroup("idle", "Empty", "", (), (0,))]
    groups_then = forecast_groups("orders", 3, groups, {"orders": 2, "refunds": 2})
    lines = forecast_lines(replace(FORECAST, groups=groups_then, groups_unread=None))
    assert lines[-2] == (
        "group billing: 3 members, range; range (in use) imbalance 1.50 to 1.20, idle 1 to 0; roundrobin imbalance "
        "1.50 to 1.20, idle 0 to 0; refunds had the same number of partitions and will not: a join with them by key "
        "breaks"
    )
    assert lines[-1] == "group idle: no members now, its offsets stay"
    assert forecast_lines(replace(FORECAST, groups=()))[-1] == "no consumer group reads this topic"


def test_a_forecast_does_not_divide_partitions_among_members_that_share_them() -> None:
    members = (GroupMember("c-1", "c", "/h", ("orders",), ()),)
    groups = [ConsumerGroup(name, "Stable", "x", members, (), type=name) for name in ("share", "streams")]
    groups_then = forecast_groups("orders", 3, groups, {"orders": 2})
    assert [group.assignors for group in groups_then] == [(), ()]
    lines = forecast_lines(replace(FORECAST, groups=groups_then, groups_unread=None))
    assert lines[-2] == "share group share: 1 member, which share the records of all partitions, new ones too"
    assert "the application must be reset" in lines[-1]
