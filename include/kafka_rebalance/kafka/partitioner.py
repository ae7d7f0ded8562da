"""The partition of a record as producers choose it: DefaultPartitioner of the clients up to 2.3.

Since 2.4 records without a key stay with one partition for a batch (KIP-480); those with a key go where they always
went, up to 3.9.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kafka_rebalance.errors import InputError, KafkaRuleError

_BITS_32 = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, as a signed integer. Source: clients, Utils.murmur2."""
    length = len(data)
    hashed = _SEED ^ length
    for word in struct.unpack_from(f"<{length // 4}I", data):
        mixed = word * _MULTIPLIER & _BITS_32
        mixed = (mixed ^ mixed >> 24) * _MULTIPLIER & _BITS_32
        hashed = (hashed * _MULTIPLIER & _BITS_32) ^ mixed
    tail = data[length & ~3 :]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _BITS_32
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _BITS_32
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed > _POSITIVE else hashed


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of records with this key, among all partitions of the topic, also those without a leader.

    An empty key is a key. Negative hashes lose their sign bit; that is not their absolute value (Utils.toPositive).
    """
    _check_count(partitions)
    return (murmur2(key) & _POSITIVE) % partitions


class DefaultPartitioner:
    """One producer's choice for the records of one topic: explicit partition, else by key, else in turn.

    `start` is where the turn begins; Kafka draws it at random, 32 bits wide, for each topic. At the end of 32 bits the
    turn jumps: after 2147483647 comes 0, whatever the number of partitions.
    Source: KafkaProducer.partition, DefaultPartitioner.partition.
    """

    def __init__(self, start: int) -> None:
        self._turn = start & _BITS_32

    def partition(
        self, key: bytes | None, partitions: int, available: Sequence[int], *, explicit: int | None = None
    ) -> int:
        """The partition of the next record; only a record without key and explicit partition takes a turn.

        `available` are the partitions with a leader, in the order of the cluster's metadata, which need not be sorted;
        with none of them the turn goes over all. Raises KafkaRuleError for an explicit partition that is not there.
        """
        _check_count(partitions)
        if explicit is not None:
            _check_explicit(explicit, partitions)
            return explicit
        if key is not None:
            return partition_for_key(key, partitions)
        turn = self._turn & _POSITIVE
        self._turn = (self._turn + 1) & _BITS_32
        return available[turn % len(available)] if available else turn % partitions


def _check_count(partitions: int) -> None:
    if partitions < 1:
        raise InputError(f"A topic has at least one partition, not {partitions}. Nothing was computed.")


def _check_explicit(partition: int, partitions: int) -> None:
    remedy = "Nothing was computed. Name a partition that exists."
    if partition < 0:
        raise KafkaRuleError(
            f"Invalid partition: {partition}. Partition number should always be non-negative or null.", remedy
        )
    if partition >= partitions:
        raise KafkaRuleError(
            f"Invalid partition given with record: {partition} is not in the range [0...{partitions}).", remedy
        )
