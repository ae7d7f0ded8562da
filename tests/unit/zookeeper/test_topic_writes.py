"""Topics are created whole or not at all, and change only where they are the approved ones, whoever is at work."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, OperationTimeoutError, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

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
    Created,
    Deletion,
    create_topic,
    delete_topic,
    read_deletion,
    set_topic_configs,
    write_more_partitions,
)
from kafka_rebalance.zookeeper.writer import ATTEMPTS
from support.zookeeper.fake_zookeeper import REASSIGN, FakeZooKeeper, SimulatedController, fake_cluster, put_topic

BROKERS = {1, 2, 3, 4}
TOPIC, CONFIG, MARKER = "/brokers/topics/orders", "/config/topics/orders", "/admin/delete_topics/orders"
NEW: dict[int, list[int]] = {0: [1, 2], 1: [2, 3]}
NEW_CONFIG = {"retention.ms": "1000"}


def create(
    fake: FakeZooKeeper,
    version: str = "2.8",
    *,
    assignment: Mapping[int, Sequence[int]] = NEW,
    configs: Mapping[str, str] = NEW_CONFIG,
    topic: str = "orders",
    registered: Collection[int] = BROKERS,
) -> Created:
    return create_topic(fake, topic, assignment, configs, version=version, registered=registered)


def identity(fake: FakeZooKeeper, topic: str = "orders") -> TopicIdentity:
    path = f"/brokers/topics/{topic}"
    znode = fake.znodes[path]
    return TopicIdentity(znode.version, znode.czxid, fake.json(path).get("topic_id"))


def expand(
    fake: FakeZooKeeper,
    added: Mapping[int, Sequence[int]] | None = None,
    *,
    expected: TopicIdentity | None = None,
    registered: Collection[int] = BROKERS,
) -> None:
    added = {2: [3, 4]} if added is None else added
    write_more_partitions(fake, "orders", added, expected=expected or identity(fake), registered=registered)


def put(fake: FakeZooKeeper, path: str, document: object) -> None:
    """As another client does: not one of our writes."""
    fake.put_json(path, document)
    fake.writes.clear()


def reassign(fake: FakeZooKeeper, *topics: str) -> None:
    entries = [{"topic": topic, "partition": 0, "replicas": [3, 4]} for topic in topics]
    put(fake, REASSIGN, {"version": 1, "partitions": entries})


def mark(fake: FakeZooKeeper) -> None:
    fake.create(MARKER)
    fake.writes.clear()


def make_again(fake: FakeZooKeeper, version: str) -> None:
    """Deleted and made anew under the same name, with the same assignment."""
    fake.delete(TOPIC, recursive=True)
    put_topic(fake, "orders", NEW, version=version)
    fake.writes.clear()


def every_change(fake: FakeZooKeeper, expected: TopicIdentity, version: str) -> dict[str, Callable[[], object]]:
    return {
        "expand": lambda: expand(fake, expected=expected),
        "configs": lambda: set_topic_configs(fake, "orders", NEW_CONFIG, version=version, expected=expected),
        "delete": lambda: delete_topic(fake, "orders", expected=expected),
    }


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
        ({"assignment": {0: [1, 2], 1: [2]}}, "All partitions should have the same number of replicas"),
        ({"assignment": {1: [1, 2], 2: [2, 3]}}, "consecutive 0-based"),
        ({"registered": {1, 2}}, "Some brokers specified for partition id 1 are not available"),
        ({"configs": {"log.segment.bytes": "1"}}, "Unknown topic config name: log.segment.bytes"),
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
    with pytest.raises(WriteError, match=r"1,\d{3},\d{3} bytes"):
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


GONE = Deletion(marked=False, topic_left=False, config_left=False)


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


@pytest.mark.parametrize(
    "start",
    [
        lambda fake: reassign(fake, "orders"),
        lambda fake: reassign(fake, "audit", "orders"),
        lambda fake: put(fake, TOPIC, {**fake.json(TOPIC), "adding_replicas": {"1": [3]}}),
        lambda fake: put(fake, TOPIC, {**fake.json(TOPIC), "removing_replicas": {"1": [3]}}),
    ],
    ids=["requested", "requested beside another", "adding", "removing"],
)
def test_a_topic_that_is_being_reassigned_is_neither_expanded_nor_deleted(
    fake: Any, start: Callable[[Any], None]
) -> None:
    start(fake)
    for change in (lambda: expand(fake), lambda: delete_topic(fake, "orders", expected=identity(fake))):
        with pytest.raises(WriteError, match="orders: it is being reassigned"):
            change()
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
@pytest.mark.parametrize(
    ("approved", "why"),
    [
        (TopicIdentity(None, None, "B" * 22), f"topic id .*, approved {'B' * 22}"),
        (TopicIdentity(0, None), "the snapshot does not identify it"),
    ],
    ids=["another id", "nothing"],
)
def test_a_topic_that_the_snapshot_does_not_identify_is_not_changed(
    approved: TopicIdentity, why: str, change: str
) -> None:
    fake = fake_cluster({"orders": {0: [1, 2]}}, version="2.8")
    with pytest.raises(StaleProposalError, match=why):
        every_change(fake, approved, "2.8")[change]()
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
        ({2: [3, 3]}, BROKERS, "Duplicate brokers"),
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


def act(name: Any, fake: Any, version: Any, expected: Any) -> Any:
    return create(fake, version) if name.startswith("create") else every_change(fake, expected, version)[name]()


def cluster_for(name: Any, version: Any) -> Any:
    topics = {"audit": {0: [3, 1]}} | ({} if name.startswith("create") else {"orders": NEW})
    fake = fake_cluster(topics, version=version)
    if name == "create over an orphan":
        put(fake, CONFIG, {"version": 1, "config": {"a": "b"}})
    return fake, None if name.startswith("create") else identity(fake)


def calls_of(fake: Any) -> Any:
    """The calls that reach the fake from now on."""
    calls, original = [], fake._call

    def recorded(name: Any, path: Any, act: Any) -> Any:
        calls.append((name, path))
        return original(name, path, act)

    fake._call = recorded
    return calls


def content(fake: Any) -> Any:
    """All znodes; how often brokers were told of a change does not matter."""
    return {path: (znode.data, znode.acl) for path, znode in fake.znodes.items() if not path.endswith(f"{1:010d}")}


# --- lost connections, and others at work at every point ---

# What is written, and the call that does.
WRITES = {
    "create": ("commit", TOPIC),
    "create over an orphan": ("commit", TOPIC),
    "expand": ("set", TOPIC),
    "configs": ("commit", CONFIG),
    "delete": ("commit", MARKER),
}


@pytest.mark.parametrize("took_effect", [False, True])
@pytest.mark.parametrize("error", [ConnectionLoss, SessionExpiredError, OperationTimeoutError])
@pytest.mark.parametrize("change", WRITES)
def test_a_connection_lost_over_the_write_leaves_what_an_unbroken_one_does(
    change: Any, took_effect: bool, error: Any, version: Any
) -> None:
    fake, expected = cluster_for(change, version)
    outcome = act(change, fake, version, expected)
    wanted = content(fake)
    fake, expected = cluster_for(change, version)
    fake.fail_next(*WRITES[change], took_effect=took_effect, error=error())
    again = act(change, fake, version, expected)
    assert not fake._failures, "the connection was lost"
    assert content(fake) == wanted
    if change.startswith("create"):
        assert again == Created(Outcome.ALREADY_THERE if took_effect else Outcome.CREATED, outcome.orphaned_config)


@pytest.mark.slow
@pytest.mark.parametrize("change", WRITES)
def test_a_connection_lost_over_any_other_call_leaves_what_an_unbroken_one_does(change: Any, version: Any) -> None:
    fake, expected = cluster_for(change, version)
    calls = calls_of(fake)
    act(change, fake, version, expected)
    wanted = content(fake)
    points = [call for call in dict.fromkeys(calls) if call[0] not in ("create", "set", "commit")]
    assert len(points) >= 6
    for point in points:
        fake, expected = cluster_for(change, version)
        fake.fail_next(*point, took_effect=False)
        act(change, fake, version, expected)
        assert not fake._failures, f"{point} was not called"
        assert content(fake) == wanted, point


@pytest.mark.parametrize("change", WRITES)
def test_a_connection_that_stays_lost_is_an_unknown_outcome(change: Any, version: Any) -> None:
    fake, expected = cluster_for(change, version)
    name, path = WRITES[change]
    for _ in range(ATTEMPTS):
        fake.fail_next(name, path, took_effect=False)
    with pytest.raises(WriteError, match=f"{path}: the connection was lost, so whether it was written is unknown"):
        act(change, fake, version, expected)


def test_a_write_that_cannot_be_read_back_is_an_unknown_outcome(version: Any) -> None:
    fake, _ = cluster_for("create", version)
    fake.fail_next("commit", TOPIC, took_effect=True)
    unreadable = NoAuthError()
    fake.after_write.append(lambda *_: fake.fail_next("get", CONFIG, took_effect=False, error=unreadable))
    with pytest.raises(WriteError, match="whether it was written is unknown"):
        create(fake, version)


def test_without_the_right_to_write_it_is_said_what_to_grant(version: Any) -> None:
    fake, _ = cluster_for("create", version)
    fake.fail_next("commit", TOPIC, took_effect=False, error=NoAuthError())
    with pytest.raises(WriteError, match="does not let this client write it"):
        create(fake, version)


def before_call(fake: Any, number: Any, act: Any) -> None:
    """Calls `act` right before this call, counted from now on."""
    original, seen = fake._call, []

    def counted(name: Any, path: Any, do: Any) -> Any:
        seen.append(path)
        if len(seen) == number:
            fake._call = original
            act()
        return original(name, path, do)

    fake._call = counted


def all_points(change: Any, version: Any) -> Any:
    fake, expected = cluster_for(change, version)
    calls = calls_of(fake)
    act(change, fake, version, expected)
    return range(1, 1 + len(calls))


OTHER, OTHER_CONFIG = {0: [4, 3]}, {"cleanup.policy": "compact"}


@pytest.mark.parametrize("change", ["create", "create over an orphan"])
def test_of_two_creators_at_once_one_wins_with_its_assignment_and_its_config(change: str, version: Any) -> None:
    for point in all_points(change, version):
        fake, _ = cluster_for(change, version)
        before_call(fake, point, lambda fake=fake: create(fake, version, assignment=OTHER, configs=OTHER_CONFIG))
        with pytest.raises(KafkaRuleError, match="Topic 'orders' already exists"):
            create(fake, version)
        assert fake.json(TOPIC)["partitions"] == {"0": [4, 3]}
        assert fake.json(CONFIG)["config"] == OTHER_CONFIG


def test_of_two_identical_creations_at_once_both_succeed(version: Any) -> None:
    outcomes = set()
    for point in all_points("create", version):
        fake, _ = cluster_for("create", version)
        before_call(fake, point, lambda fake=fake: outcomes.add(create(fake, version).outcome))
        outcomes.add(create(fake, version).outcome)
        assert fake.writes == [("create", CONFIG), ("create", TOPIC)]
    assert outcomes == set(Outcome)


@pytest.mark.parametrize("change", ["create", "create over an orphan"])
def test_a_creation_by_kafkas_own_tool_at_the_same_time_is_never_mixed_with_ours(change: str, version: Any) -> None:
    for point in all_points(change, version):
        for tool_writes in ([CONFIG], [CONFIG, TOPIC]):
            fake, _ = cluster_for(change, version)

            def tool(fake: Any = fake, tool_writes: Any = tool_writes) -> None:
                for path in tool_writes:
                    document = {"config": OTHER_CONFIG} if path == CONFIG else {"partitions": {"0": [4, 3]}}
                    fake.put_json(path, {"version": 1, **document})

            before_call(fake, point, tool)
            if tool_writes == [CONFIG]:
                assert create(fake, version) == Created(Outcome.CREATED, OTHER_CONFIG)
                assert fake.json(CONFIG)["config"] == NEW_CONFIG
            else:
                with pytest.raises(KafkaRuleError, match="already exists"):
                    create(fake, version)
                assert fake.json(CONFIG)["config"] == OTHER_CONFIG


def test_a_topic_that_another_expands_meanwhile_keeps_the_others_partitions(version: Any) -> None:
    for point in all_points("expand", version):
        fake, approved = cluster_for("expand", version)
        before_call(fake, point, lambda fake=fake: expand(fake, {2: [4, 1]}))
        with pytest.raises(StaleProposalError):
            expand(fake, expected=approved)
        assert fake.json(TOPIC)["partitions"]["2"] == [4, 1]


def test_a_config_that_another_changes_meanwhile_keeps_the_others_keys(version: Any) -> None:
    for point in all_points("configs", version):
        fake, approved = cluster_for("configs", version)
        before_call(fake, point, lambda fake=fake: put(fake, CONFIG, {"version": 1, "config": OTHER_CONFIG}))
        set_topic_configs(fake, "orders", NEW_CONFIG, version=version, expected=approved)
        assert fake.json(CONFIG)["config"] == OTHER_CONFIG | NEW_CONFIG


@pytest.mark.parametrize("change", ["expand", "configs", "delete"])
def test_a_topic_that_goes_and_comes_meanwhile_is_not_changed(change: str, version: Any) -> None:
    for point in all_points(change, version):
        fake, approved = cluster_for(change, version)

        def other(fake: Any = fake) -> None:
            make_again(fake, version)
            fake.put_json(TOPIC, fake.json(TOPIC))  # its version is another one than that of the first

        before_call(fake, point, other)
        with pytest.raises(StaleProposalError, match="made again"):
            every_change(fake, approved, version)[change]()
        assert len(fake.json(TOPIC)["partitions"]) == 2
        assert MARKER not in fake.znodes
        assert fake.json(CONFIG)["config"] == {}


@pytest.mark.parametrize("change", ["expand", "configs", "delete"])
def test_who_always_comes_second_gives_up_and_has_written_nothing(change: str, version: Any) -> None:
    fake, approved = cluster_for(change, version)
    approved = dataclasses.replace(approved, znode_version=None)
    original = fake._call

    def always_first(name: Any, path: Any, do: Any) -> Any:
        if name in ("commit", "set"):
            fake.znodes[TOPIC].version += 1
        return original(name, path, do)

    fake._call = always_first
    with pytest.raises(WriteError, match="because somebody else changed it during each of 5 attempts"):
        every_change(fake, approved, version)[change]()
    assert fake.writes == []
