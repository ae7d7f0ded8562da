"""murmur2 of many keys at once: the same numbers as `kafka.partitioner.murmur2`, in numpy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafka_rebalance.kafka.partitioner import murmur2

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_POSITIVE = np.int32(0x7FFFFFFF)
_FEW = 32  # this many keys take as long one by one as one step of numpy


def hash_keys(keys: pa.Array) -> NDArray[np.int32]:
    """The murmur2 of every key in a column of bytes or text. Raises ValueError for nulls."""
    if keys.null_count:
        raise ValueError(f"{keys.null_count} of {len(keys)} keys are null, which have no hash")
    if not len(keys):
        return np.empty(0, np.int32)
    keys = keys.cast(pa.binary())
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    used = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]  # a slice shares the buffers of the whole
    return murmur2_of(used, bounds - bounds[0])


def murmur2_of(data: NDArray[np.uint8], bounds: NDArray[np.int32]) -> NDArray[np.int32]:
    """The hash of each key `data[bounds[i]:bounds[i + 1]]`. Source: clients, Utils.murmur2.

    A step takes the next four bytes of every key that has them. The longest keys come first, so these are the first.
    """
    lengths = np.diff(bounds)
    order = np.argsort(-lengths, kind="stable")
    lengths, starts = lengths[order], bounds[:-1][order].astype(np.intp)
    # The four bytes from each place as one little-endian word. 32-bit products wrap around, as in Java.
    padded = np.concatenate((data, np.zeros(4, np.uint8)))
    words = np.ndarray(len(padded) - 3, "<u4", padded, strides=(1,))
    hashed = _SEED ^ lengths.astype(np.uint32)
    whole = lengths >> 2
    step = 0
    while (active := int(np.count_nonzero(whole > step))) > _FEW:
        mixed = words[starts[:active] + 4 * step] * _MULTIPLIER
        mixed = _folded(mixed, 24) * _MULTIPLIER
        hashed[:active] = hashed[:active] * _MULTIPLIER ^ mixed
        step += 1
    # The bytes after the last whole word, of the keys that have some.
    tailed = np.flatnonzero(lengths & 3)
    bits = 8 * (lengths[tailed] & 3).astype(np.uint32)
    tail = words[starts[tailed] + 4 * whole[tailed]] & ((1 << bits) - 1)
    hashed[tailed] = (hashed[tailed] ^ tail) * _MULTIPLIER
    hashed = _folded(hashed, 13) * _MULTIPLIER
    hashed = _folded(hashed, 15)
    result = np.empty(len(lengths), np.int32)
    result[order] = hashed.view(np.int32)
    # The few longest keys, which have not had all of their steps.
    for key in order[:active]:
        result[key] = murmur2(data[bounds[key] : bounds[key + 1]].tobytes())
    return result


def _folded(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return values ^ values >> np.uint32(bits)


def partitions_of(hashes: NDArray[np.int32], partitions: int) -> NDArray[np.int32]:
    """The partition of each key among `partitions`, without the sign bit, as `partition_for_key`."""
    return (hashes & _POSITIVE) % np.int32(partitions)
