"""No document of a topic reaches ZooKeeper that Kafka would store and then not serve."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import CorruptZnodeError, WriteError
from kafka_rebalance.zookeeper.znodes import decode_topic, encode_added_partitions, encode_topic

BROKER_IDS = st.integers(0, 2**31 - 1)


@st.composite
def assignments(draw: st.DrawFn) -> dict[int, list[int]]:
    factor = draw(st.integers(1, 4))
    lists = draw(st.lists(st.lists(BROKER_IDS, min_size=factor, max_size=factor, unique=True), min_size=1, max_size=12))
    return dict(draw(st.permutations(list(enumerate(lists)))))


@given(assignments(), st.sampled_from(["2.0.1", "2.4", "2.8.2", "3.9.2"]))
def test_what_is_encoded_decodes_to_the_same(assignment: Any, version: Any) -> None:
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
