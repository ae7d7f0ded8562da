"""The partition that producers choose for a record with a key; the rule is the same from 0.8.2 to 3.9.

Records without a key go to any partition: in turn up to 2.3 (DefaultPartitioner), by batch from 2.4 on (KIP-480).
"""

from __future__ import annotations

import struct

from kafka_rebalance.errors import InputError

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

    An empty key is a key. A negative hash loses its sign bit; this is not its absolute value (Utils.toPositive).
    """
    if partitions < 1:
        raise InputError(f"A topic has at least one partition, not {partitions}. Nothing was computed.")
    return (murmur2(key) & _POSITIVE) % partitions
