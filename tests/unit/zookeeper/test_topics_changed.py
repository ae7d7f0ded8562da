"""A topic grows, is configured and deleted only where it is the one that was approved, and nothing else runs on it."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from kafka_rebalance.errors import (
    ClusterNotReadyError,
    CorruptZnodeError,
    KafkaRuleError,
    ReadError,
    StaleProposalError,
    WriteError,
)
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.zookeeper.topic_writes import (
    Deletion,
    delete_topic,
    read_deletion,
    set_topic_configs,
    write_more_partitions,
)
from support.zookeeper.fake_zookeeper import REASSIGN, SimulatedController, fake_cluster
from support.zookeeper.topic_changes import (
    BROKERS,
    CONFIG,
    MARKER,
    NEW,
    NEW_CONFIG,
    TOPIC,
    create,
    every_change,
    expand,
    identity,
    make_again,
    mark,
    put,
    reassign,
)

GONE = Deletion(marked=False, topic_left=False, config_left=False)


@pytest.fixture(params=["2.0", "2.8"])
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def fake(version: Any) -> Any:
    return fake_cluster({"orders": NEW, "audit": {0: [3, 1]}}, version=version)


CHANGE = "/config/changes/config_change_"


# --- more partitions ---


def test_partitions_are_added_and_everything_else_stays(fake: Any, version: Any) -> None:
    document = {**fake.json(TOPIC), "of_a_later_kafka": {"x": [1]}}
    put(fake, TOPIC, document)
    expand(fake, {2: [3, 4], 3: (4, 1)})
    partitions = {"0": [1, 2], "1": [2, 3], "2": [3, 4], "3": [4, 1]}
    assert fake.json(TOPIC) == {**document, "partitions": partitions}
    assert fake.writes == [("set", TOPIC)]


def test_adding_the_same_partitions_again_is_success(fake: Any) -> None:
    approved = identity(fake)
    expand(fake)
    writes = list(fake.writes)
    expand(fake, expected=approved)
    reassign(fake, "orders")
    expand(fake, expected=approved)
    assert writes == [("set", TOPIC)]
    assert fake.writes == []


@pytest.mark.parametrize("stored", [{2: [4, 3]}, {2: [3, 4], 3: [4, 1]}])
def test_partitions_that_somebody_else_added_are_not_ours(fake: Any, stored: Any) -> None:
    approved = identity(fake)
    expand(fake, stored)
    fake.writes.clear()
    with pytest.raises(StaleProposalError, match="its znode has version 1, but had 0 in the snapshot"):
        expand(fake, {2: [3, 4], 3: [1, 4]}, expected=approved)
    assert fake.writes == []


@pytest.mark.parametrize("topics", [("orders",), ("audit", "orders")])
def test_a_topic_that_is_being_reassigned_is_neither_expanded_nor_deleted(fake: Any, topics: Any) -> None:
    reassign(fake, *topics)
    with pytest.raises(WriteError, match=r"orders: it is being reassigned\."):
        expand(fake)
    with pytest.raises(WriteError, match=r"orders: it is being reassigned\."):
        delete_topic(fake, "orders", expected=identity(fake))
    assert fake.writes == []


@pytest.mark.parametrize("name", ["adding_replicas", "removing_replicas"])
def test_a_topic_with_replicas_in_motion_is_neither_expanded_nor_deleted(fake: Any, name: str) -> None:
    put(fake, TOPIC, {**fake.json(TOPIC), name: {"1": [3]}})
    with pytest.raises(WriteError, match="it is being reassigned"):
        expand(fake)
    with pytest.raises(WriteError, match="it is being reassigned"):
        delete_topic(fake, "orders", expected=identity(fake))
    assert fake.writes == []


def test_a_reassignment_of_other_topics_is_no_obstacle(fake: Any) -> None:
    reassign(fake, "audit")
    expand(fake)
    assert delete_topic(fake, "orders", expected=identity(fake)) is Outcome.CREATED


def test_a_reassignment_that_cannot_be_read_is_one(fake: Any) -> None:
    fake.create(REASSIGN, b"{}")
    fake.writes.clear()
    with pytest.raises(CorruptZnodeError, match=REASSIGN):
        expand(fake)
    assert fake.writes == []


def test_while_the_controller_moves_a_topic_no_stage_of_it_lets_partitions_in(fake: Any, version: Any) -> None:
    controller = SimulatedController(fake, version)
    entries = [{"topic": "orders", "partition": 0, "replicas": [3, 4]}]
    fake.put_json(REASSIGN, {"version": 1, "partitions": entries})
    stages = 0
    while REASSIGN in fake.znodes:
        fake.writes.clear()
        with pytest.raises(WriteError, match="it is being reassigned"):
            expand(fake)
        assert fake.writes == []
        controller.step()
        stages += 1
    assert stages > 3
    expand(fake)
    assert fake.json(TOPIC)["partitions"] == {"0": [3, 4], "1": [2, 3], "2": [3, 4]}


def test_a_topic_that_is_being_deleted_gets_neither_partitions_nor_configs(fake: Any, version: Any) -> None:
    mark(fake)
    with pytest.raises(WriteError, match=r"it is being deleted\."):
        expand(fake)
    with pytest.raises(WriteError, match="it is being deleted"):
        set_topic_configs(fake, "orders", NEW_CONFIG, version=version, expected=identity(fake))
    assert fake.writes == []


@pytest.mark.parametrize("change", ["expand", "configs", "delete"])
def test_a_topic_that_was_deleted_and_made_again_is_not_changed(fake: Any, version: Any, change: str) -> None:
    approved = identity(fake)
    make_again(fake, version)
    with pytest.raises(StaleProposalError, match=r"topic orders: it was deleted and made again .* Start a new"):
        every_change(fake, approved, version)[change]()
    assert fake.writes == []


@pytest.mark.parametrize("change", ["expand", "configs", "delete"])
def test_a_topic_of_another_id_is_not_changed(version: Any, change: str) -> None:
    fake = fake_cluster({"orders": {0: [1, 2]}}, version="2.8")
    approved = TopicIdentity(None, None, "B" * 22)
    with pytest.raises(StaleProposalError, match=f"topic id .*, approved {'B' * 22}"):
        every_change(fake, approved, version)[change]()
    assert fake.writes == []


@pytest.mark.parametrize("change", ["expand", "configs", "delete"])
def test_without_anything_that_identifies_the_topic_it_is_not_changed(fake: Any, version: Any, change: str) -> None:
    with pytest.raises(StaleProposalError, match="the snapshot does not identify it"):
        every_change(fake, TopicIdentity(0, None), version)[change]()
    assert fake.writes == []


@pytest.mark.parametrize("change", ["expand", "configs"])
def test_a_topic_that_is_gone_is_not_changed(fake: Any, version: Any, change: str) -> None:
    approved = identity(fake)
    fake.delete(TOPIC, recursive=True)
    fake.writes.clear()
    with pytest.raises(StaleProposalError, match="topic orders: it was deleted"):
        every_change(fake, approved, version)[change]()
    assert fake.writes == []


@pytest.mark.parametrize("change", ["create", "expand", "configs", "delete"])
def test_nothing_is_written_while_a_kraft_controller_owns_the_cluster(fake: Any, version: Any, change: str) -> None:
    changes = every_change(fake, identity(fake), version) | {"create": lambda: create(fake, version, topic="new")}
    put(fake, "/controller", {**fake.json("/controller"), "version": 2, "kraftControllerEpoch": 3})
    with pytest.raises(ClusterNotReadyError, match="KRaft controller owns the cluster"):
        changes[change]()
    assert fake.writes == []


@pytest.mark.parametrize("change", ["create", "expand", "configs", "delete"])
def test_what_cannot_be_read_is_never_taken_for_nothing_there(fake: Any, version: Any, change: str) -> None:
    changes = every_change(fake, identity(fake), version) | {"create": lambda: create(fake, version, topic="orders")}
    for path in (TOPIC, REASSIGN, MARKER, CONFIG):
        fake.fail_next("get", path, took_effect=False, error=NoAuthError())
        with pytest.raises(ReadError, match="may not read it"):
            changes[change]()
        fake._failures.clear()
    assert fake.writes == []


@pytest.mark.parametrize(
    ("added", "registered", "said"),
    [
        ({}, BROKERS, "can only be increased"),
        ({3: [3, 4]}, BROKERS, "consecutive"),
        ({1: [3, 4]}, BROKERS, "partition 1 is there already"),
        ({2: [3]}, BROKERS, "Inconsistent replication factor"),
        ({2: []}, BROKERS, "replication factor of 0"),
        ({2: [3, 3]}, BROKERS, "Duplicate brokers"),
        ({2: [3, 9]}, BROKERS, "Some brokers specified"),
        ({2: [3, 4]}, {1, 2, 3}, "Some brokers specified"),
        ({2: [True, 2]}, BROKERS, "integers"),
        ({2: [3, "4"]}, {*BROKERS, "4"}, "integers"),
    ],
)
def test_partitions_that_do_not_fit_are_not_added(fake: Any, added: Any, registered: Any, said: str) -> None:
    with pytest.raises((KafkaRuleError, WriteError), match=said):
        expand(fake, added, registered=registered)
    assert fake.writes == []


def test_internal_topics_are_neither_expanded_nor_deleted(version: Any) -> None:
    fake = fake_cluster({"__consumer_offsets": {0: [1, 2]}}, version=version)
    expected = identity(fake, "__consumer_offsets")
    with pytest.raises(KafkaRuleError, match="offsets topic cannot be changed"):
        write_more_partitions(fake, "__consumer_offsets", {1: [1, 2]}, expected=expected, registered=BROKERS)
    with pytest.raises(KafkaRuleError, match="is a kafka internal topic"):
        delete_topic(fake, "__consumer_offsets", expected=expected)
    assert fake.writes == []


def test_a_topic_that_is_broken_already_is_not_written_again(fake: Any) -> None:
    for partitions in ({"0": [1, 2], "2": [2, 3]}, {"0": [1, 2], "1": []}):
        put(fake, TOPIC, {**fake.json(TOPIC), "partitions": partitions})
        with pytest.raises((KafkaRuleError, WriteError)):
            expand(fake)
        assert fake.writes == []


def test_a_topic_whose_older_partitions_differ_in_replication_may_grow_like_partition_0(fake: Any) -> None:
    put(fake, TOPIC, {**fake.json(TOPIC), "partitions": {"0": [1, 2], "1": [2, 3, 4]}})
    expand(fake)
    assert fake.json(TOPIC)["partitions"] == {"0": [1, 2], "1": [2, 3, 4], "2": [3, 4]}


# --- configs ---


def changed(fake: Any, changes: Any, version: Any = "2.8") -> Any:
    set_topic_configs(fake, "orders", changes, version=version, expected=identity(fake))
    return fake.json(CONFIG)["config"]


def test_configs_are_changed_and_brokers_told_in_one_step(fake: Any) -> None:
    put(fake, CONFIG, {"version": 1, "config": {"cleanup.policy": "compact", "segment.ms": "5"}})
    assert changed(fake, {"retention.ms": "7", "segment.ms": None}) == {
        "cleanup.policy": "compact",
        "retention.ms": "7",
    }
    assert fake.writes == [("set", CONFIG), ("create", CHANGE)]
    notification = f"{CHANGE}{0:010d}"
    assert fake.json(notification) == {"version": 2, "entity_path": "topics/orders"}
    assert fake.znodes[notification].czxid == fake.znodes[CONFIG].mzxid


def test_a_key_that_no_kafka_knows_can_be_taken_out(fake: Any) -> None:
    put(fake, CONFIG, {"version": 1, "config": {"log.segment.bytes": "1"}})
    assert changed(fake, {"log.segment.bytes": None}) == {}


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"log.segment.bytes": "1"}, "Unknown topic config name: log.segment.bytes"),
        ({"max.compaction.lag.ms": "5"}, "conflict topic config setting"),
    ],
)
def test_what_does_not_go_with_the_configs_that_stay_is_not_written(fake: Any, kept: Any, said: str) -> None:
    put(fake, CONFIG, {"version": 1, "config": kept})
    with pytest.raises(KafkaRuleError, match=said):
        changed(fake, {"min.compaction.lag.ms": "6"})
    assert fake.writes == []


def test_brokers_are_told_again_where_nothing_changes(fake: Any) -> None:
    changed(fake, NEW_CONFIG)
    fake.writes.clear()
    changed(fake, NEW_CONFIG)
    assert fake.writes == [("create", CHANGE)]


def test_a_topic_without_a_config_gets_one(fake: Any) -> None:
    fake.delete(CONFIG)
    assert changed(fake, NEW_CONFIG) == NEW_CONFIG


def test_configs_may_change_while_the_topic_is_reassigned(fake: Any) -> None:
    approved = identity(fake)
    reassign(fake, "orders")
    fake.put_json(TOPIC, fake.json(TOPIC))
    set_topic_configs(fake, "orders", NEW_CONFIG, version="2.8", expected=approved)
    assert fake.json(CONFIG)["config"] == NEW_CONFIG


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        ({"retention.ms": "1 day"}, "Invalid value 1 day"),
        ({"cleanup.policy": "Compact"}, "Invalid value Compact"),
        ({}, "no change is named"),
    ],
)
def test_configs_that_kafka_refuses_are_not_written(fake: Any, changes: Any, said: str) -> None:
    with pytest.raises((KafkaRuleError, WriteError), match=said):
        changed(fake, changes)
    assert fake.writes == []


# --- deletion ---


def test_a_deletion_is_one_mark_without_data(fake: Any) -> None:
    assert delete_topic(fake, "orders", expected=identity(fake)) is Outcome.CREATED
    assert fake.writes == [("create", MARKER)]
    assert fake.znodes[MARKER].data == b""


def test_a_topic_that_is_marked_or_gone_is_already_deleted(fake: Any) -> None:
    approved = identity(fake)
    mark(fake)
    assert delete_topic(fake, "orders", expected=approved) is Outcome.ALREADY_THERE
    fake.delete(TOPIC, recursive=True)
    fake.writes.clear()
    assert delete_topic(fake, "orders", expected=approved) is Outcome.ALREADY_THERE
    assert fake.writes == []


def test_an_approved_deletion_survives_that_the_lists_were_rewritten(fake: Any) -> None:
    approved = identity(fake)
    put(fake, TOPIC, fake.json(TOPIC))
    assert delete_topic(fake, "orders", expected=approved) is Outcome.CREATED


def test_a_deletion_is_finished_only_when_assignment_config_and_mark_are_gone(fake: Any) -> None:
    approved = identity(fake)
    mark(fake)
    for left in (TOPIC, CONFIG, MARKER):
        deletion = read_deletion(fake, "orders", expected=approved)
        assert (deletion.marked, deletion.topic_left, deletion.config_left) == (True, left == TOPIC, left != MARKER)
        fake.delete(left, recursive=True)
    assert read_deletion(fake, "orders", expected=approved) == GONE


def test_a_mark_that_goes_without_the_topic_is_a_refusal(fake: Any) -> None:
    refused = read_deletion(fake, "orders", expected=identity(fake))
    assert (refused.marked, refused.topic_left) == (False, True)


def test_a_topic_made_since_under_the_same_name_does_not_hold_up_a_deletion(fake: Any, version: Any) -> None:
    approved = identity(fake)
    make_again(fake, version)
    assert read_deletion(fake, "orders", expected=approved) == GONE
