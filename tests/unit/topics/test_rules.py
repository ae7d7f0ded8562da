"""A change of a topic: what this house forbids, when it is stale, and what the topic lacks of it afterwards."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafka_rebalance.documents.json_files import decode
from kafka_rebalance.errors import ArtifactError, StaleProposalError
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.topics.rules import check_configs, check_deleted, check_new_partitions, check_still, house_problems
from support.documents.as_in_a_file import in_json
from support.kafka.small_clusters import partition, view

RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}
CREATED = TopicChange(
    action="create",
    topic="orders",
    cluster_id="abc",
    kafka_version="2.8-IV1",
    new_partitions={0: (1, 2), 1: (2, 3)},
    replication_factor=2,
    config_changes={"retention.ms": "5"},
)
EXPANDED = TopicChange(
    action="alter",
    topic="orders",
    cluster_id="abc",
    kafka_version="3.9-IV0",
    new_partitions={2: (1, 2)},
    partitions_before=2,
    replication_factor=2,
    configs_before={"retention.ms": "5", "segment.bytes": "100"},
    config_changes={"retention.ms": None, "flush.ms": "7"},
    identity=TopicIdentity(3, 44, "id"),
)


def problems(
    change: Any,
    *,
    racks: Any = RACKS,
    replicas: Any = None,
    min_insync_replicas: Any = 1,
    told: frozenset[str] = frozenset(),
    **policy: Any,
) -> Any:
    return house_problems(
        change,
        policy=Policy.from_mapping({"approvers": ["uma"], **policy}, "test"),
        racks=racks,
        replicas=replicas or {},
        min_insync_replicas=min_insync_replicas,
        kafkas_own=KafkasOwn(told),
    )


@pytest.mark.parametrize("change", [CREATED, EXPANDED])
def test_a_change_reads_back_as_written_with_the_same_digest(change: Any) -> None:
    back = decode(TopicChange, in_json(change), "topic.json")
    assert back == change
    assert back.digest == change.digest


def test_anything_that_would_be_written_otherwise_changes_the_digest() -> None:
    changed: dict[str, Any] = {
        "action": "delete",
        "topic": "other",
        "cluster_id": "x",
        "kafka_version": "2.0-IV1",
        "new_partitions": {2: (2, 1)},
        "partitions_before": 9,
        "replication_factor": 1,
        "configs_before": {},
        "config_changes": {"flush.ms": "8"},
        "identity": TopicIdentity(4, 44, "id"),
    }
    assert set(changed) == {field.name for field in dataclasses.fields(TopicChange)}
    digests = {dataclasses.replace(EXPANDED, **{key: value}).digest for key, value in changed.items()}
    assert len(digests | {EXPANDED.digest}) == len(changed) + 1


@pytest.mark.parametrize("given", [{}, {**in_json(EXPANDED), "new_partitions": 3}])
def test_a_file_that_holds_no_change_is_an_error_of_the_file(given: Any) -> None:
    with pytest.raises(ArtifactError, match=r"topic\.json: "):
        decode(TopicChange, given, "topic.json")


def test_the_topic_afterwards_has_the_old_and_the_new() -> None:
    assert EXPANDED.partitions_after == 3
    assert EXPANDED.configs_after == {"flush.ms": "7", "segment.bytes": "100"}
    assert dataclasses.replace(EXPANDED, action="delete").partitions_after == 0
    assert dataclasses.replace(EXPANDED, new_partitions={}, config_changes={}).changes_nothing


def test_a_sound_creation_breaks_no_rule_of_the_house() -> None:
    assert problems(CREATED) == ()


def test_more_replicas_than_racks_are_refused_with_the_reason() -> None:
    wide = dataclasses.replace(CREATED, replication_factor=3, new_partitions={0: (1, 2, 3)})
    assert "replication factor 3 is above the 2 racks" in problems(wide)[0]
    assert problems(wide, racks=dict.fromkeys(RACKS)) == ()
    assert problems(wide, racks={**RACKS, 5: None}) == ()


def test_with_the_policys_key_more_replicas_than_racks_must_be_as_even_as_the_racks_allow() -> None:
    three = dataclasses.replace(CREATED, replication_factor=3, new_partitions={0: (1, 2, 3), 1: (2, 4, 1)})
    assert problems(three, more_replicas_than_racks=True) == ()
    racks = {**RACKS, 5: "a", 6: "b"}
    uneven = dataclasses.replace(CREATED, replication_factor=4, new_partitions={0: (1, 2, 3, 4), 1: (1, 3, 5, 2)})
    assert problems(uneven, racks=racks, more_replicas_than_racks=True) == (
        "1 new partitions, first 1, are not spread over the 2 racks as evenly as these allow "
        "(more_replicas_than_racks): use assignment room",
    )
    assert problems(uneven, racks={**RACKS, 5: "a"}, more_replicas_than_racks=True) != ()
    one_there = {1: "a", 2: "b", 3: "a", 5: "a"}  # rack b has one broker, and holds what it can
    assert (
        problems(
            dataclasses.replace(uneven, new_partitions={0: (1, 3, 5, 2)}),
            racks=one_there,
            more_replicas_than_racks=True,
        )
        == ()
    )
    expanded = dataclasses.replace(EXPANDED, replication_factor=4, new_partitions={2: (1, 3, 5, 2)})
    assert problems(expanded, racks=racks) == (), "only a creation chooses the factor"
    assert problems(expanded, racks=racks, more_replicas_than_racks=True) != ()


def test_new_partitions_stay_in_the_pool_of_their_topic() -> None:
    pool = {"topics": ["orders"], "brokers": [1, 2]}
    assert problems(EXPANDED, broker_pools=[pool]) == ()
    assert problems(CREATED, broker_pools=[pool]) == (
        "broker 3 is not in the pool of topic orders (broker_pools of the policy)",
    )
    assert problems(EXPANDED, broker_pools=[{"topics": ["audit"], "brokers": [2]}]) == (
        "broker 2 is not in the pool of topic orders (broker_pools of the policy)",
    )
    twice = [{"topics": ["ord*"], "brokers": [1, 2, 3]}, {"topics": ["*ers"], "brokers": [4]}]
    assert "topic orders would be in the pools of 'ord*' and '*ers'" in problems(CREATED, broker_pools=twice)[0]
    one_rack = [{"topics": ["orders"], "brokers": [1, 3]}]
    same_rack = dataclasses.replace(CREATED, new_partitions={0: (1, 3)})
    assert "replication factor 2 is above the 1 racks" in problems(same_rack, broker_pools=one_rack)[0]


@pytest.mark.parametrize(("least", "factor", "refused"), [(1, 1, False), (1, 2, False), (2, 2, True), (2, 1, True)])
def test_producers_must_survive_one_broker_that_is_down(least: int, factor: int, refused: bool) -> None:
    change = dataclasses.replace(CREATED, replication_factor=factor)
    assert bool(problems(change, min_insync_replicas=least)) is refused
    assert problems(dataclasses.replace(EXPANDED, replication_factor=factor), min_insync_replicas=least) == ()


def test_the_policy_limits_topics_and_brokers() -> None:
    assert "partitions_per_topic 1" in problems(CREATED, partitions_per_topic=1)[0]
    assert (
        "broker 1, 2, 3 would hold more replicas"
        in problems(CREATED, replicas_per_broker=1, replicas={1: 1, 3: 1, 2: 0})[0]
    )
    assert "the policy's topics_out 'ord*' keeps out" in problems(EXPANDED, topics_out=["ord*"])[0]
    assert "brokers_out keeps out broker 2" in problems(CREATED, brokers_out=[2])[0]
    internal = dataclasses.replace(EXPANDED, topic="__consumer_offsets")
    assert "internal" in problems(internal)[0]
    assert problems(internal, internal_topics=True) == ()
    assert problems(EXPANDED) == ()
    assert "internal" in problems(EXPANDED, told=frozenset({"orders"}))[0]


def test_throttle_lists_are_left_to_reassignments() -> None:
    change = dataclasses.replace(EXPANDED, config_changes={"leader.replication.throttled.replicas": "0:1"})
    assert "belong to reassignments" in problems(change)[0]


def test_values_that_somebody_else_changed_meanwhile_make_it_stale() -> None:
    still = {"retention.ms": "5", "segment.bytes": "999"}
    check_still(EXPANDED, configs_now=still, registered=[1, 2])
    with pytest.raises(StaleProposalError, match=r"retention.ms is now '6', shown was '5'.*Start a new Dag run"):
        check_still(EXPANDED, configs_now={**still, "retention.ms": "6"}, registered=[1, 2])
    with pytest.raises(StaleProposalError, match="broker 2 is not registered any more"):
        check_still(EXPANDED, configs_now=still, registered=[1])


def test_values_that_an_attempt_of_ours_already_changed_do_not() -> None:
    check_still(EXPANDED, configs_now={"flush.ms": "7", "segment.bytes": "100"}, registered=[1, 2])


# --- a topic is what a change was to make of it, or a check says what it lacks ---


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
