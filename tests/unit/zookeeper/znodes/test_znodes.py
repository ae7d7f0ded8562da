"""Every decoder takes what brokers of any version write, and answers everything else with CorruptZnodeError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import CorruptZnodeError, WriteError
from kafka_rebalance.kafka.throttles import throttle_problem
from kafka_rebalance.model.cluster_view import Endpoint
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.cluster_lock import decode_lock
from kafka_rebalance.zookeeper.znodes import (
    decode_broker,
    decode_cluster_id,
    decode_config,
    decode_controller,
    decode_controller_epoch,
    decode_election,
    decode_partition_state,
    decode_reassignment,
    decode_topic,
    encode_config,
    encode_config_change,
    encode_election,
    encode_reassignment,
)

DECODERS = {
    "/brokers/ids/7": lambda data: decode_broker(7, data),
    "/brokers/topics/orders": lambda data: decode_topic(data, "orders"),
    "/brokers/topics/orders/partitions/3/state": lambda data: decode_partition_state(data, TopicPartition("orders", 3)),
    "/controller": lambda data: decode_controller(data, 5),
    "/controller_epoch": decode_controller_epoch,
    "/admin/reassign_partitions": decode_reassignment,
    "/admin/preferred_replica_election": decode_election,
    "/config/topics/orders": lambda data: decode_config(data, "topics/orders"),
    "/cluster/id": decode_cluster_id,
    "/kafka_rebalance/run": decode_lock,
}
BROKER_V1 = {"version": 1, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1529210278988"}
BROKER_V4 = {
    "listener_security_protocol_map": {"INTERNAL": "PLAINTEXT", "CLIENTS": "SASL_SSL"},
    "endpoints": ["INTERNAL://10.0.0.1:9092", "CLIENTS://[::1]:9093"],
    "rack": "rack-a",
    "jmx_port": 9999,
    "host": "10.0.0.1",
    "timestamp": "1529210278988",
    "port": 9092,
    "version": 4,
}
STATE = {"version": 1, "leader": 1, "leader_epoch": 4, "controller_epoch": 2, "isr": [2, 1]}


def as_json(document: object) -> bytes:
    return json.dumps(document).encode()


# --- what is accepted ---


def test_a_registration_of_version_1_has_one_endpoint() -> None:
    broker = decode_broker(7, as_json(BROKER_V1), czxid=42)
    assert broker.endpoints == (Endpoint("h", 9092),)
    assert (broker.broker, broker.rack, broker.czxid) == (7, None, 42)


@pytest.mark.parametrize("version", [2, 3])
def test_before_version_4_there_is_no_map_of_protocols(version: int) -> None:
    document = {**BROKER_V1, "version": version, "endpoints": ["SASL_SSL://:9093"], "host": None, "port": -1}
    assert decode_broker(7, as_json(document)).endpoints == (Endpoint("", 9093),)


def test_a_registration_of_version_4_may_have_ipv6() -> None:
    broker = decode_broker(7, as_json(BROKER_V4))
    assert broker.endpoints == (Endpoint("10.0.0.1", 9092), Endpoint("::1", 9093))
    assert broker.rack == "rack-a"


@pytest.mark.parametrize("version", [5, 17])
def test_later_registrations_and_unknown_keys_are_read_like_the_newest(version: int) -> None:
    document = {**BROKER_V4, "version": version, "features": {"f": {"min_version": 1, "max_version": 2}}, "x": [{}]}
    assert decode_broker(7, as_json(document)) == decode_broker(7, as_json(BROKER_V4))


def test_a_registration_with_rack_null_has_no_rack() -> None:
    assert decode_broker(7, as_json({**BROKER_V4, "rack": None})).rack is None


def test_partition_keys_are_sorted_as_numbers_and_replica_order_is_kept() -> None:
    topic = decode_topic(as_json({"version": 1, "partitions": {"10": [3, 1], "9": [2, 1], "0": [1, 2]}}))
    assert list(topic.partitions.items()) == [(0, (1, 2)), (9, (2, 1)), (10, (3, 1))]
    assert (topic.adding, topic.removing, topic.topic_id) == ({}, {}, None)


def test_a_topic_of_version_2_or_3_says_what_is_in_motion() -> None:
    document = {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "partitions": {"0": [3, 4, 1, 2], "1": [1, 2]}}
    document |= {"adding_replicas": {"0": [3, 4]}, "removing_replicas": {"0": [1, 2]}}
    topic = decode_topic(as_json(document))
    assert (topic.adding, topic.removing, topic.topic_id) == ({0: (3, 4)}, {0: (1, 2)}, "AAAAAAAAAAAAAAAAAAAAAA")


def test_damage_that_kafka_itself_stores_stays_readable() -> None:
    # 2.0.1 stores both after a bad reassignment; the rules of a replica list name them, the decoder does not hide them.
    assert decode_topic(as_json({"version": 1, "partitions": {"0": [], "1": [3, 3]}})).partitions == {0: (), 1: (3, 3)}


def test_a_state_keeps_the_order_of_the_isr_and_accepts_a_recovery_state() -> None:
    state = decode_partition_state(as_json({**STATE, "leader_recovery_state": 0}))
    assert (state.leader, state.leader_epoch, state.isr) == (1, 4, (2, 1))


@pytest.mark.parametrize("leader", [-1, -2])
def test_no_leader_is_minus_one_also_while_a_topic_is_deleted(leader: int) -> None:
    assert decode_partition_state(as_json({**STATE, "leader": leader})).leader == -1


@pytest.mark.parametrize(("extra", "kraft_epoch"), [({}, -1), ({"version": 2, "kraftControllerEpoch": 8}, 8)])
def test_a_controller_of_version_2_carries_the_kraft_epoch(extra: Any, kraft_epoch: int) -> None:
    document = {"version": 1, "brokerid": 0, "timestamp": "1529210278988", **extra}
    controller = decode_controller(as_json(document), 12)
    assert (controller.broker, controller.epoch, controller.since_ms) == (0, 12, 1529210278988)
    assert controller.kraft_epoch == kraft_epoch


def test_the_controller_epoch_is_plain_text() -> None:
    assert decode_controller_epoch(b"17") == 17


def test_the_cluster_id_has_a_version_that_is_a_text() -> None:
    assert decode_cluster_id(b'{"version":"1","id":"abc"}') == "abc"


def test_the_last_entry_of_a_reassignment_wins_as_it_does_for_the_controller() -> None:
    entries = [{"topic": "t", "partition": 0, "replicas": [1]}, {"topic": "t", "partition": 0, "replicas": [2, 1]}]
    assert decode_reassignment(as_json({"partitions": entries})) == {("t", 0): (2, 1)}


def test_an_entity_without_content_has_no_config() -> None:
    assert decode_config(None) == decode_config(b"") == {}


# --- what is refused ---


@pytest.mark.parametrize(
    ("path", "document", "said"),
    [
        ("/brokers/topics/orders", {"version": 1, "partitions": {"0": ["1", 2]}}, "must be a JSON integer, not '1'"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"0": [1.0]}}, "must be a JSON integer, not 1.0"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"0": [True]}}, "not True"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"0": [-1]}}, "from 0"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"00": [1]}}, "'00', which is not a partition id"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"١": [1]}}, "not a partition id"),
        ("/brokers/topics/orders", {"version": 0, "partitions": {}}, "version"),
        ("/brokers/topics/orders", {"version": 1}, "partitions must be a JSON object, not None"),
        ("/brokers/topics/orders", {"partitions": {}, "adding_replicas": []}, "adding_replicas"),
        ("/brokers/ids/7", {"host": "h", "port": 1}, "version"),
        ("/brokers/ids/7", {**BROKER_V4, "endpoints": ["nonsense"]}, "LISTENER://host:port"),
        ("/brokers/ids/7", {**BROKER_V1, "port": 70_000}, "at most 65535"),
        ("/brokers/ids/7", {**BROKER_V4, "rack": 3}, "rack"),
        ("/brokers/topics/orders/partitions/3/state", {**STATE, "isr": ["1"]}, "isr"),
        ("/brokers/topics/orders/partitions/3/state", {**STATE, "leader": None}, "leader"),
        ("/controller", {"version": 1, "brokerid": "0"}, "brokerid"),
        ("/admin/reassign_partitions", {"version": 1}, "partitions must be a list"),
        ("/admin/reassign_partitions", {"partitions": [{"topic": "t", "partition": 0}]}, "replicas of t-0"),
        (
            "/admin/reassign_partitions",
            {"partitions": [{"topic": "a/b", "partition": 0, "replicas": []}]},
            "topic name",
        ),
        ("/admin/preferred_replica_election", {"partitions": [{"topic": "t", "partition": "0"}]}, "partition of t"),
        ("/config/topics/orders", {"version": 1, "config": {"retention.ms": 5}}, "'retention.ms' is not"),
        ("/cluster/id", {"version": "1", "id": 5}, "id must be a text"),
    ],
)
def test_a_corrupt_znode_is_named_with_what_is_wrong(path: str, document: Any, said: str) -> None:
    with pytest.raises(CorruptZnodeError) as corrupt:
        DECODERS[path](as_json(document))
    assert str(corrupt.value).startswith(f"{path}: ")
    assert said in str(corrupt.value)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b'{"version":NaN}',
        b"[" * 100_000,
        b'{"version":' + b"9" * 5_000 + b"}",
    ],
    ids=lambda data: repr(data)[:20],
)
@pytest.mark.parametrize("path", sorted(DECODERS.keys() - {"/config/topics/orders"}))
def test_what_is_not_a_json_object_is_corrupt_everywhere(path: Any, data: Any) -> None:
    with pytest.raises(CorruptZnodeError, match=f"^{path}: "):
        DECODERS[path](data)


def test_a_corrupt_config_does_not_show_its_values() -> None:
    with pytest.raises(CorruptZnodeError) as corrupt:
        decode_config(as_json({"version": 1, "config": {"ssl.key.password": ["hunter2"]}}), "brokers/1")
    assert "hunter2" not in str(corrupt.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    *("version", "partitions", "adding_replicas", "removing_replicas", "topic_id", "leader", "isr", "leader_epoch"),
    *("controller_epoch", "brokerid", "timestamp", "kraftControllerEpoch", "endpoints", "host", "port", "rack", "id"),
    *("listener_security_protocol_map", "config", "topic", "partition", "replicas", "run", "digest", "owner", "0", "1"),
)
nearly_right = st.recursive(
    json_values | st.integers(-2, 5) | st.sampled_from(["PLAINTEXT://h:9092", "PLAINTEXT", "orders", "7"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    max_leaves=20,
)


def decodes_or_is_corrupt(data: bytes) -> None:
    for path, decode in DECODERS.items():
        try:
            decode(data)
        except CorruptZnodeError as corrupt:
            assert str(corrupt).startswith(f"{path}: ")  # noqa: PT017
            str(corrupt).encode()  # half a surrogate pair in an error text would break the log that shows it


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_corrupt(data: Any) -> None:
    decodes_or_is_corrupt(data)


@pytest.mark.slow
@settings(max_examples=300)
@given(nearly_right)
def test_arbitrary_json_decodes_or_is_corrupt(document: Any) -> None:
    decodes_or_is_corrupt(as_json(document))


# --- what is written ---


def test_a_reassignment_holds_exactly_what_the_controller_reads() -> None:
    data = encode_reassignment(
        {TopicPartition("t", 10): [2, 3], TopicPartition("t", 9): (3, 1), TopicPartition("a", 0): [1]}
    )
    assert data == (
        b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]},'
        b'{"topic":"t","partition":9,"replicas":[3,1]},{"topic":"t","partition":10,"replicas":[2,3]}]}'
    )


@pytest.mark.parametrize(
    "assignment",
    [
        {},
        {("t", 0): []},
        {("t", 0): [1, 1]},
        {("t", 0): ["1", "2"]},
        {("t", 0): [1.0]},
        {("t", 0): [True]},
        {("t", 0): [-1]},
        {("t", 0): [2**31]},
        {("t", 0): [None]},
        {("t", 0): [[1]]},
        {("t", 0): "12"},
        {("t", 0): b"12"},
        {("t", 0): 1},
        {("t", 0): None},
        {("t", "0"): [1]},
        {("t", -1): [1]},
        {("t", True): [1]},
        {("", 0): [1]},
        {("a/b", 0): [1]},
        {(None, 0): [1]},
        {"t-0": [1]},
        {("t", 0, 0): [1]},
        {("t", 0): [1, 2], ("t", 1): [2, "3"]},
    ],
    ids=repr,
)
def test_a_reassignment_that_would_harm_the_cluster_is_not_encoded(assignment: Any) -> None:
    with pytest.raises(WriteError, match="not written"):
        encode_reassignment(assignment)


topic_partitions = st.builds(
    TopicPartition, st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True), st.integers(0, 5000)
)
replica_lists = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True).map(tuple)


@pytest.mark.slow
@given(st.dictionaries(topic_partitions, replica_lists, min_size=1, max_size=20))
def test_what_is_encoded_decodes_to_the_same(assignment: Any) -> None:
    assert decode_reassignment(encode_reassignment(assignment)) == assignment
    assert decode_election(encode_election(assignment.keys())) == assignment.keys()


@pytest.mark.parametrize("partitions", [[], [("t", "0")], [("t", -1)], ["t-0"]], ids=repr)
def test_an_election_of_nothing_or_of_no_partition_is_not_encoded(partitions: Any) -> None:
    with pytest.raises(WriteError, match="not written"):
        encode_election(partitions)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_configs_of_any_text_survive_being_read_and_written(config: Any) -> None:
    assert decode_config(encode_config(config)) == config


def test_a_config_keeps_even_half_a_surrogate_pair() -> None:
    config = {"x": "\ud800"}
    assert decode_config(encode_config(config)) == config


@pytest.mark.parametrize("config", [{"a": 1}, {1: "a"}, {"": "a"}, {"a": None}], ids=repr)
def test_a_config_that_is_not_text_is_not_encoded(config: Any) -> None:
    with pytest.raises(WriteError):
        encode_config(config)


def test_a_config_change_names_its_entity_in_version_2() -> None:
    assert json.loads(encode_config_change("brokers/1")) == {"version": 2, "entity_path": "brokers/1"}


LEADER_RATE, LEADER_LIST = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ("brokers/1", {LEADER_RATE: "1000000", "follower.replication.throttled.rate": None}),
        ("topics/a.b_c-d", {LEADER_LIST: "0:1,1:2"}),
        ("topics/t", {LEADER_LIST: "*", "follower.replication.throttled.replicas": ""}),
        ("topics/t", {LEADER_LIST: "0:1, 1:2"}),
    ],
)
def test_throttles_in_the_right_form_are_writable(entity: str, changes: Any) -> None:
    assert throttle_problem(entity, changes) is None


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ("brokers/1", {LEADER_LIST: "0:1"}),
        ("brokers/1", {"log.segment.bytes": None}),
        ("brokers/1", {LEADER_RATE: 1000}),
        ("brokers/1", {LEADER_RATE: "-1"}),
        ("brokers/1", {LEADER_RATE: "1e6"}),
        ("brokers/1", {LEADER_RATE: "9223372036854775808"}),
        ("brokers/<default>", {LEADER_RATE: "1"}),
        ("brokers/01", {LEADER_RATE: "1"}),
        ("brokers/1/x", {LEADER_RATE: "1"}),
        ("topics/t", {LEADER_RATE: "1"}),
        ("topics/t", {"retention.ms": "1"}),
        ("topics/t", {LEADER_LIST: "0-1"}),
        ("topics/t", {LEADER_LIST: "0:1,"}),
        ("topics/..", {LEADER_LIST: "*"}),
        ("users/u", {LEADER_RATE: "1"}),
        ("", {LEADER_RATE: "1"}),
    ],
)
def test_anything_but_a_throttle_in_the_right_form_is_refused(entity: str, changes: Any) -> None:
    assert throttle_problem(entity, changes)
