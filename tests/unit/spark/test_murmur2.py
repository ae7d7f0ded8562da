"""The vectorised murmur2 gives what the plain one gives, whatever the keys and however the column came about."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.kafka.partitioner import murmur2, partition_for_key
from kafka_rebalance.spark.keys import hash_keys, partitions_of

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
a_key = st.one_of(st.binary(max_size=80), st.text(max_size=40).map(str.encode))


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


@pytest.mark.parametrize("times", [1, 50])  # few keys are hashed one by one, many together
def test_known_hashes_are_kafkas(times: int) -> None:
    assert hash_keys(binary(list(KNOWN) * times)).tolist() == list(KNOWN.values()) * times


@settings(deadline=None)
@given(st.lists(a_key, max_size=40), st.integers(1, 4))
def test_every_key_has_the_hash_of_the_plain_function(keys: list[bytes], times: int) -> None:
    many = keys * times  # past the number from which on they are hashed together
    hashes = hash_keys(binary(many))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [murmur2(key) for key in many]


def test_thousands_of_keys_of_every_length_have_the_hash_of_the_plain_function() -> None:
    draw = random.Random(7)
    keys = [draw.randbytes(length % 101) for length in range(6_000)]
    keys += [draw.randbytes(draw.randrange(2_000, 300_000)) for _ in range(5)]
    draw.shuffle(keys)
    assert hash_keys(binary(keys)).tolist() == [murmur2(key) for key in keys]


@settings(deadline=None)
@given(st.lists(a_key, min_size=1, max_size=60), st.data())
def test_a_slice_is_hashed_like_a_column_of_its_own(keys: list[bytes], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(keys)))
    end = data.draw(st.integers(start, len(keys)))
    part = binary(keys)[start:end]
    assert hash_keys(part).tolist() == [murmur2(key) for key in keys[start:end]]


def test_long_offsets_and_text_are_taken_too() -> None:
    keys = ["", "ä", "key", "鍵" * 30] * 20
    expected = [murmur2(key.encode()) for key in keys]
    assert hash_keys(pa.array([key.encode() for key in keys], pa.large_binary())[3:]).tolist() == expected[3:]
    assert hash_keys(pa.array(keys, pa.string())[5:]).tolist() == expected[5:]


@pytest.mark.parametrize("keys", [[], [b""], [b""] * 100])
def test_empty_keys_and_empty_columns_are_hashed(keys: list[bytes]) -> None:
    assert hash_keys(binary(keys)).tolist() == [275646681] * len(keys)
    assert murmur2(b"") == 275646681


def test_a_null_is_refused() -> None:
    with pytest.raises(ValueError, match="1 of 2 keys are null"):
        hash_keys(binary([b"a", None]))


@settings(deadline=None)
@given(st.lists(a_key, min_size=1, max_size=60), st.integers(1, 5_000))
def test_partitions_are_those_of_the_plain_function(keys: list[bytes], partitions: int) -> None:
    found = partitions_of(hash_keys(binary(keys)), partitions)
    assert found.tolist() == [partition_for_key(key, partitions) for key in keys]


def test_hashes_lose_their_sign_bit_and_not_their_sign() -> None:
    smallest = np.array([-(2**31), -1, 0, 2**31 - 1], np.int32)
    assert partitions_of(smallest, 10).tolist() == [0, 7, 0, 7]
