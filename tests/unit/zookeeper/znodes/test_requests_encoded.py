"""The documents for the znodes that ask the controller: their one form, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import WriteError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.znodes import encode_election, encode_reassignment


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
