"""Where a producer up to 2.3 puts its records: the tests place records as such a client does.

Held against the clients' own class in `integration/test_kafka_classes_partitioner.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.partitioner import partition_for_key

_BITS_32 = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


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
        if explicit is not None:
            _check_explicit(explicit, partitions)
            return explicit
        if key is not None:
            return partition_for_key(key, partitions)
        turn = self._turn & _POSITIVE
        self._turn = (self._turn + 1) & _BITS_32
        return available[turn % len(available)] if available else turn % partitions


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
