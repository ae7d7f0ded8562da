"""The partition of a record: explicit, by key, or in turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.errors import InputError, KafkaRuleError
from kafka_rebalance.kafka.partitioner import murmur2, partition_for_key
from support.kafka.java.default_partitioner import DefaultPartitioner

INT_MAX = 2**31 - 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_known_values(key: str, expected: int) -> None:
    assert murmur2(key.encode()) == expected


def test_the_model_of_a_producer_takes_an_explicit_partition() -> None:
    chosen = DefaultPartitioner(5)
    assert chosen.partition(b"a key", 8, [0, 1], explicit=7) == 7
    assert chosen.partition(None, 8, [], explicit=0) == 0


def test_the_model_of_a_producer_takes_turns_without_a_key() -> None:
    """A random start, then +1, positive, modulo the available partitions; if there is none, modulo all."""
    chosen = DefaultPartitioner(7)
    # Position 7 % 3 of the metadata's order, which is not sorted.
    assert [chosen.partition(None, 6, [4, 0, 2]) for _ in range(4)] == [0, 2, 4, 0]
    assert [chosen.partition(None, 6, []) for _ in range(3)] == [11 % 6, 12 % 6, 13 % 6]


def test_partitioner_key_goes_to_positive_murmur2_of_all_partitions() -> None:
    """Seed 003, row 3: key: positive murmur2 modulo all."""
    assert partition_for_key(b"abc", 10) == 479470107 % 10
    assert partition_for_key(b"21", 10) == (-973932308 & INT_MAX) % 10
    assert partition_for_key(b"21", 10) != abs(-973932308) % 10
    # A key goes to its partition also while that one has no leader.
    assert DefaultPartitioner(0).partition(b"abc", 10, [3]) == 479470107 % 10


def test_an_empty_key_is_a_key() -> None:
    chosen = DefaultPartitioner(1)
    assert chosen.partition(b"", 100, [5]) == partition_for_key(b"", 100) == (murmur2(b"") & INT_MAX) % 100


def test_only_records_without_key_and_partition_take_a_turn() -> None:
    chosen = DefaultPartitioner(0)
    chosen.partition(b"key", 4, [0, 1, 2, 3])
    chosen.partition(None, 4, [0, 1, 2, 3], explicit=2)
    assert chosen.partition(None, 4, [0, 1, 2, 3]) == 0


@pytest.mark.parametrize(
    ("start", "turns"),
    [
        (INT_MAX, [INT_MAX % 10, 0, 1]),  # then Integer.MIN_VALUE, whose sign bit goes
        (-1, [INT_MAX % 10, 0, 1]),
        (-(2**31), [0, 1, 2]),
    ],
)
def test_the_turn_jumps_where_32_bits_end(start: int, turns: list[int]) -> None:
    chosen = DefaultPartitioner(start)
    assert [chosen.partition(None, 10, range(10)) for _ in turns] == turns


@pytest.mark.parametrize(
    ("explicit", "message"),
    [
        (-1, "Invalid partition: -1. Partition number should always be non-negative or null."),
        (4, "Invalid partition given with record: 4 is not in the range [0...4)."),
    ],
)
def test_an_explicit_partition_that_is_not_there_is_refused_with_kafkas_message(explicit: int, message: str) -> None:
    with pytest.raises(KafkaRuleError) as refused:
        DefaultPartitioner(0).partition(None, 4, [0], explicit=explicit)
    assert refused.value.kafka_message == message


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_without_partitions_is_refused(partitions: int) -> None:
    with pytest.raises(InputError, match="at least one partition"):
        partition_for_key(b"key", partitions)


@given(st.binary(max_size=300), st.integers(1, 10_000))
def test_every_key_has_one_partition_that_exists(key: bytes, partitions: int) -> None:
    assert -(2**31) <= murmur2(key) <= INT_MAX
    assert 0 <= partition_for_key(key, partitions) < partitions
