"""Decoders take what brokers of any version write, and nothing is encoded that Kafka could not serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import CorruptZnodeError, WriteError
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
    encode_added_partitions,
    encode_config,
    encode_config_change,
    encode_election,
    encode_reassignment,
    encode_topic,
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
    broker = decode_broker(7, as_json({**BROKER_V4, "rack": None}))
    assert (broker.rack, broker.czxid) == (None, None)


def test_partition_keys_are_sorted_as_numbers_and_replica_order_is_kept() -> None:
    topic = decode_topic(as_json({"version": 1, "partitions": {"10": [3, 1], "9": [2, 1], "0": [1, 2]}}))
    assert list(topic.partitions.items()) == [(0, (1, 2)), (9, (2, 1)), (10, (3, 1))]
    assert (topic.adding, topic.removing, topic.topic_id) == ({}, {}, None)


def test_a_topic_of_version_2_or_3_says_what_is_in_motion() -> None:
    document = {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "partitions": {"0": [3, 4, 1, 2], "1": [1, 2]}}
    document |= {"adding_replicas": {"0": [3, 4]}, "removing_replicas": {"0": [1, 2]}}
    topic = decode_topic(as_json(document))
    assert (topic.adding, topic.removing, topic.topic_id) == ({0: (3, 4)}, {0: (1, 2)}, "AAAAAAAAAAAAAAAAAAAAAA")


@pytest.mark.parametrize(
    ("told", "marks"),
    [
        ({"version": 1}, False),
        ({"version": 1, "adding_replicas": {}}, True),
        ({"version": 1, "removing_replicas": {}}, True),
        ({"version": 3, "adding_replicas": {}, "removing_replicas": {}}, True),
    ],
)
def test_either_list_of_a_topic_shows_that_its_controller_marks_moves(told: dict[str, Any], marks: bool) -> None:
    assert decode_topic(as_json({"partitions": {"0": [1]}, **told})).marks_moves is marks


def test_the_greatest_ids_and_ports_of_kafka_are_read() -> None:
    most = 2**31 - 1
    assert decode_topic(as_json({"partitions": {str(most): [0, most]}})).partitions == {most: (0, most)}
    assert decode_broker(7, as_json({**BROKER_V1, "port": 65_535})).endpoints == (Endpoint("h", 65_535),)
    assert decode_broker(7, as_json({**BROKER_V4, "endpoints": ["A://h:65535"]})).endpoints == (Endpoint("h", 65_535),)


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


@pytest.mark.parametrize(
    ("told", "since_ms"),
    [({}, None), ({"timestamp": None}, None), ({"timestamp": 0}, 0), ({"timestamp": "0"}, 0)]
    + [({"timestamp": value}, 2**63 - 1) for value in (2**63 - 1, "9223372036854775807")],
)
def test_a_controllers_time_is_a_text_or_a_number_or_absent(told: dict[str, Any], since_ms: int | None) -> None:
    assert decode_controller(as_json({"brokerid": 0, **told}), 1).since_ms == since_ms


def test_minus_one_is_no_controller_and_no_kraft_epoch() -> None:
    for told in ({}, {"kraftControllerEpoch": None}, {"kraftControllerEpoch": -1}):
        controller = decode_controller(as_json({"brokerid": -1, **told}), 1)
        assert (controller.broker, controller.kraft_epoch) == (-1, -1)


def test_the_controller_epoch_is_plain_text() -> None:
    assert [decode_controller_epoch(text) for text in (b"0", b"17", b"2147483647")] == [0, 17, 2**31 - 1]


def test_the_cluster_id_has_a_version_that_is_a_text() -> None:
    assert decode_cluster_id(b'{"version":"1","id":"abc"}') == "abc"


def test_the_last_entry_of_a_reassignment_wins_as_it_does_for_the_controller() -> None:
    entries = [{"topic": "t", "partition": 0, "replicas": [1]}, {"topic": "t", "partition": 0, "replicas": [2, 1]}]
    assert decode_reassignment(as_json({"partitions": entries})) == {("t", 0): (2, 1)}


def test_an_entity_without_content_has_no_config() -> None:
    assert decode_config(None) == decode_config(b"") == {}


# --- what is refused ---


TOPIC, STATE_OF_3 = "/brokers/topics/orders", "/brokers/topics/orders/partitions/3/state"
CONTROLLER = {"version": 1, "brokerid": 0, "timestamp": "1529210278988"}


@pytest.mark.parametrize(
    ("path", "document", "wrong"),
    [
        (TOPIC, {"partitions": {"0": ["1", 2]}}, "each broker id of partitions[0] must be a JSON integer, not '1'"),
        (TOPIC, {"partitions": {"0": [1.0]}}, "each broker id of partitions[0] must be a JSON integer, not 1.0"),
        (TOPIC, {"partitions": {"0": [True]}}, "each broker id of partitions[0] must be a JSON integer, not True"),
        (TOPIC, {"partitions": {"0": [-1]}}, "each broker id of partitions[0] must be from 0 to 2147483647"),
        (TOPIC, {"partitions": {"0": [2**31]}}, "each broker id of partitions[0] must be from 0 to 2147483647"),
        (TOPIC, {"partitions": {"00": [1]}}, "partitions has the key '00', which is not a partition id"),
        (TOPIC, {"partitions": {"2147483648": [1]}}, "partitions has the key '2147483648', which is not a parti"),
        (TOPIC, {"partitions": {"١": [1]}}, "partitions has the key '١', which is not a partition id"),
        (TOPIC, {"version": 0, "partitions": {}}, "version must be from 1"),
        (TOPIC, {"version": 1}, "partitions must be a JSON object, not None"),
        (TOPIC, {"partitions": {}, "adding_replicas": []}, "adding_replicas must be a JSON object"),
        (TOPIC, {"partitions": {}, "removing_replicas": []}, "removing_replicas must be a JSON object"),
        (TOPIC, {"partitions": {}, "topic_id": 7}, "topic_id must be a text"),
        ("/brokers/ids/7", {"host": "h", "port": 1}, "version must be a JSON integer, not None"),
        ("/brokers/ids/7", {**BROKER_V4, "endpoints": "nonsense"}, "endpoints must be a list"),
        ("/brokers/ids/7", {**BROKER_V4, "endpoints": [9092]}, "an endpoint must read LISTENER://host:port"),
        ("/brokers/ids/7", {**BROKER_V4, "endpoints": ["nonsense"]}, "an endpoint must read LISTENER://host:port"),
        ("/brokers/ids/7", {**BROKER_V4, "endpoints": ["A://h:65536"]}, "port must be at most 65535, not 65536"),
        ("/brokers/ids/7", {**BROKER_V1, "port": 65_536}, "port must be at most 65535, not 65536"),
        ("/brokers/ids/7", {**BROKER_V1, "port": None}, "port must be a JSON integer"),
        ("/brokers/ids/7", {**BROKER_V1, "host": None}, "host must be a text"),
        ("/brokers/ids/7", {**BROKER_V4, "rack": 3}, "rack must be a text"),
        (STATE_OF_3, {**STATE, "isr": ["1"]}, "each broker id of isr must be a JSON integer"),
        (STATE_OF_3, {**STATE, "leader": None}, "leader must be a JSON integer"),
        (STATE_OF_3, {**STATE, "leader": -3}, "leader must be from -2"),
        (STATE_OF_3, {**STATE, "leader_epoch": -1}, "leader_epoch must be from 0"),
        ("/controller", {**CONTROLLER, "brokerid": "0"}, "brokerid must be a JSON integer"),
        ("/controller", {**CONTROLLER, "brokerid": -2}, "brokerid must be from -1"),
        ("/controller", {**CONTROLLER, "kraftControllerEpoch": -2}, "kraftControllerEpoch must be from -1"),
        ("/controller", {**CONTROLLER, "timestamp": -1}, "timestamp must be a text of milliseconds"),
        ("/controller", {**CONTROLLER, "timestamp": 2**63}, "timestamp must be a text of milliseconds"),
        ("/controller", {**CONTROLLER, "timestamp": True}, "timestamp must be a text of milliseconds"),
        ("/controller", {**CONTROLLER, "timestamp": "07"}, "timestamp must be a text of milliseconds"),
        ("/admin/reassign_partitions", {"version": 1}, "partitions must be a list"),
        ("/admin/reassign_partitions", {"partitions": [{"topic": "t", "partition": 0}]}, "replicas of t-0 must be"),
        (
            "/admin/reassign_partitions",
            {"partitions": [{"topic": "a/b", "partition": 0, "replicas": []}]},
            "topic must be a topic name, not 'a/b'",
        ),
        (
            "/admin/preferred_replica_election",
            {"partitions": [{"topic": "t", "partition": "0"}]},
            "partition of t must",
        ),
        ("/config/topics/orders", {"config": {"retention.ms": 5}}, "every value must be a text; 'retention.ms' is not"),
        ("/config/topics/orders", {"config": ["retention.ms"]}, "config must be a JSON object"),
        ("/cluster/id", {"version": "1", "id": 5}, "id must be a text"),
        ("/cluster/id", {"version": "1", "id": ""}, "id must be a text"),
    ],
)
def test_a_corrupt_znode_is_named_with_what_is_wrong(path: str, document: Any, wrong: str) -> None:
    with pytest.raises(CorruptZnodeError) as corrupt:
        DECODERS[path](as_json(document))
    assert str(corrupt.value).startswith(f"{path}: {wrong}")


@pytest.mark.parametrize("epoch", [b"-1", b"1.0", b" 1", b"2147483648", b"0x1"])
def test_a_controller_epoch_that_is_no_number_of_kafkas_is_corrupt(epoch: bytes) -> None:
    with pytest.raises(CorruptZnodeError, match=r"^/controller_epoch: "):
        decode_controller_epoch(epoch)


def test_without_the_name_of_its_topic_or_entity_a_corrupt_znode_is_named_by_its_kind() -> None:
    for decode, path in (
        (decode_topic, "/brokers/topics/TOPIC"),
        (decode_partition_state, "/brokers/topics/TOPIC/partitions/0/state"),
        (decode_config, "/config/ENTITY"),
    ):
        with pytest.raises(CorruptZnodeError, match=f"^{path}: "):
            decode(b"[]")


def test_of_many_wrong_configs_the_first_five_are_named() -> None:
    with pytest.raises(CorruptZnodeError, match="'a', 'b', 'c', 'd', 'e' is not"):
        decode_config(as_json({"config": dict.fromkeys("fdbaec", 1) | {"right": "1"}}))


def test_a_number_that_json_does_not_have_is_corrupt_wherever_it_is() -> None:
    with pytest.raises(CorruptZnodeError, match="it is not JSON"):
        decode_cluster_id(b'{"id":"abc","later":NaN}')


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
def test_an_encoded_request_decodes_to_the_same(assignment: Any) -> None:
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


# --- requests to the controller ---


@pytest.mark.parametrize(
    ("encode", "path"),
    [
        (encode_reassignment, "/admin/reassign_partitions"),
        (encode_election, "/admin/preferred_replica_election"),
    ],
)
def test_what_is_not_encoded_is_named_with_the_znode_that_was_not_written(encode: Any, path: str) -> None:
    with pytest.raises(WriteError, match=f"^{path} was not written: it would name no partition"):
        encode({})
    with pytest.raises(WriteError, match=rf"is not a topic name and a partition id\. {path} was not written\."):
        encode({("t", -1): [1]})


def test_an_election_holds_exactly_what_the_controller_reads() -> None:
    assert encode_election([TopicPartition("t", 0)]) == b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'


def test_the_highest_partition_id_of_kafka_is_encoded_and_the_next_is_not() -> None:
    assert b"2147483647" in encode_reassignment({TopicPartition("t", 2**31 - 1): [1]})
    with pytest.raises(WriteError, match="is not a topic name and a partition id"):
        encode_reassignment({TopicPartition("t", 2**31): [1]})


# --- topics ---

BROKER_IDS = st.integers(0, 2**31 - 1)


@st.composite
def assignments(draw: st.DrawFn) -> dict[int, list[int]]:
    factor = draw(st.integers(1, 4))
    lists = draw(st.lists(st.lists(BROKER_IDS, min_size=factor, max_size=factor, unique=True), min_size=1, max_size=12))
    return dict(draw(st.permutations(list(enumerate(lists)))))


@given(assignments(), st.sampled_from(["2.0.1", "2.4", "2.8.2", "3.9.2"]))
def test_an_encoded_topic_decodes_to_the_same(assignment: Any, version: Any) -> None:
    decoded = decode_topic(encode_topic("t", assignment, version=version))
    assert decoded.partitions == {partition: tuple(replicas) for partition, replicas in assignment.items()}
    assert list(decoded.partitions) == sorted(assignment)
    assert (decoded.adding, decoded.removing, decoded.topic_id) == ({}, {}, None)


@given(assignments(), st.data())
def test_adding_partitions_one_by_one_or_at_once_is_the_same(assignment: Any, data: Any) -> None:
    everything = dict(sorted(assignment.items()))
    first = data.draw(st.integers(1, len(everything)))
    document = encode_topic("t", {key: everything[key] for key in range(first)}, version="2.8")
    for partition in range(first, len(everything)):
        document = encode_added_partitions("t", document, {partition: everything[partition]})
    assert document == encode_topic("t", everything, version="2.8")


WRONG = [
    ({}, "numbered from 0"),
    ({1: [1]}, "numbered from 0"),
    ({0: [1], 2: [2]}, "numbered from 0"),
    ({"0": [1]}, "numbered from 0"),
    ({False: [1]}, "numbered from 0"),
    ({0: [1, 2], 1: [1]}, "different numbers of replicas"),
    ({0: []}, "empty"),
    ({0: [1, 1]}, "more than once"),
    ({0: ["1"]}, "integers"),
    ({0: [1.0]}, "integers"),
    ({0: [True]}, "integers"),
    ({0: [-1]}, "integers"),
    ({0: [2**31]}, "beyond the largest"),
    ({0: "12"}, "not a list"),
    ({0: None}, "not a list"),
    ({0: {1: 2}}, "not a list"),
]


@pytest.mark.parametrize(("assignment", "said"), WRONG)
def test_what_harms_a_topic_is_not_encoded(assignment: Any, said: Any) -> None:
    with pytest.raises(WriteError, match=said):
        encode_topic("t", assignment, version="2.8")


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b", "x" * 250, "\u00e4", None, 7])
def test_a_name_that_kafka_cannot_have_is_not_encoded(topic: Any) -> None:
    with pytest.raises(WriteError, match="is not a topic name"):
        encode_topic(topic, {0: [1]}, version="2.8")


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ({}, "no new partition"),
        ({1: [1, 2]}, "partition 1 is there already"),
        ({3: [1, 2]}, "numbered from 0"),
        ({2: [1]}, "partition 2 has 1 replicas, partition 0 has 2"),
        ({2: [1, 2], 3: [1, 2, 3]}, "partition 3 has 3 replicas, partition 0 has 2"),
        ({2: [1, 1]}, "more than once"),
        ({2: ["1", "2"]}, "integers"),
    ],
)
def test_what_does_not_fit_the_topic_is_not_added(added: Any, said: str) -> None:
    document = encode_topic("t", {0: [1, 2], 1: [2, 3]}, version="2.0")
    with pytest.raises(WriteError, match=said):
        encode_added_partitions("t", document, added)


def test_everything_but_the_partitions_is_written_back_as_it_was() -> None:
    rest = {
        "version": 4,
        "topic_id": "A" * 22,
        "adding_replicas": {"0": [9]},
        "removing_replicas": {},
        "new": [{"\u00e4": 1.5}],
    }
    document = json.dumps({**rest, "partitions": {"0": [1]}}).encode()
    assert json.loads(encode_added_partitions("t", document, {1: [2]})) == {**rest, "partitions": {"0": [1], "1": [2]}}


@pytest.mark.parametrize("data", [None, b"", b"{}", b"[]", b'{"version":1,"partitions":{"0":["1"]}}'])
def test_a_document_that_is_not_kafkas_is_not_written_back(data: bytes | None) -> None:
    with pytest.raises(CorruptZnodeError):
        encode_added_partitions("t", data, {1: [2]})


# --- recorded from real brokers (`tests/data/record_znodes.py`) ---

FOLDER = Path(__file__).parents[2] / "data" / "znodes"
MOVING = TopicPartition("moving", 0)


@pytest.fixture(params=["2.0.1", "2.8.2", "3.9.2"])
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def recorded(version: Any) -> Any:
    return lambda name: (FOLDER / version / name).read_bytes()


def test_a_recorded_broker(recorded: Any) -> None:
    broker = decode_broker(1, recorded("brokers.ids.1.json"))
    assert broker.rack == "rack-0"
    (endpoint,) = broker.endpoints
    assert endpoint.host == "127.0.0.1"


def test_a_recorded_idle_topic(recorded: Any, version: Any) -> None:
    topic = decode_topic(recorded("brokers.topics.idle.json"), "idle")
    assert topic.partitions == {p: (1 + p % 4, 1 + (p + 1) % 4) for p in range(11)}
    assert list(topic.partitions) == list(range(11))
    assert (topic.adding, topic.removing) == ({}, {})
    assert (topic.topic_id is None) == (version == "2.0.1")


def test_a_recorded_topic_in_motion(recorded: Any, version: Any) -> None:
    topic = decode_topic(recorded("brokers.topics.moving.json"), "moving")
    assert topic.partitions == {0: (3, 4, 1, 2)}
    in_motion = {} if version == "2.0.1" else {0: (3, 4)}
    leaving = {} if version == "2.0.1" else {0: (1, 2)}
    assert (topic.adding, topic.removing) == (in_motion, leaving)


def test_a_recorded_state(recorded: Any) -> None:
    state = decode_partition_state(recorded("brokers.topics.idle.partitions.10.state.json"))
    assert (state.leader, state.leader_epoch, state.isr) == (3, 0, (3, 4))


def test_a_recorded_state_in_motion(recorded: Any) -> None:
    state = decode_partition_state(recorded("brokers.topics.moving.partitions.0.state.json"), MOVING)
    assert (state.leader, state.leader_epoch, set(state.isr)) == (1, 1, {1, 2})


def test_a_recorded_controller(recorded: Any) -> None:
    epoch = decode_controller_epoch(recorded("controller_epoch.txt"))
    controller = decode_controller(recorded("controller.json"), epoch)
    assert controller.broker in {1, 2, 3, 4}
    assert (controller.epoch, controller.kraft_epoch) == (1, -1)
    assert controller.since_ms > 1_700_000_000_000


def test_a_recorded_cluster_id(recorded: Any) -> None:
    assert len(decode_cluster_id(recorded("cluster.id.json"))) == 22


def test_a_recorded_request_as_the_controller_left_it_is_what_we_would_write(recorded: Any) -> None:
    data = recorded("admin.reassign_partitions.json")
    assert decode_reassignment(data) == {MOVING: (3, 4)}
    assert encode_reassignment({MOVING: (3, 4)}) == data


@pytest.mark.parametrize("entity", ["brokers/1", "topics/idle", "topics/moving"])
def test_a_recorded_config_is_what_we_would_write(recorded: Any, entity: str) -> None:
    data = recorded(f"config.{entity.replace('/', '.')}.json")
    assert encode_config(decode_config(data, entity)) == data
