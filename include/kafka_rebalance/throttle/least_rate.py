"""The least rate at which every copy of a throttled plan can end; a lower rate is refused.

A throttle holds back only replicas outside the ISR, but it counts every byte of a listed replica (KIP-73; KafkaApis
records `sizeOfThrottledPartitions`, ReplicaFetcherThread all bytes of throttled partitions). So the bytes that
producers write to listed partitions use up the quota. The lists hold one batch. Here all partitions of the plan count,
so the rate is never too low:

    a follower   what is written to the partitions that it has received so far, and receives now
    a leader     what is written to the partitions that it leads, once for each replica that fetches them: its
                 followers, and during the move the new replicas too

Below that rate no copy of that broker ever catches up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kafka_rebalance.errors import ThrottleRateError
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.candidate import Move, brokers_touched
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy

Rates = Mapping[TopicPartition, float]  # bytes a second that producers write, by partition


@dataclass(frozen=True, slots=True)
class LeastRate:
    bytes_per_second: int
    reason: str  # the broker that decides it


def least_rate(moves: Sequence[Move], written: Rates) -> LeastRate:
    """The least whole rate above the bytes that producers write to the moving partitions of the busiest broker.

    Leaders are those of the snapshot. Partitions that `written` does not name count as idle.
    """
    sent: defaultdict[int, float] = defaultdict(float)
    received: defaultdict[int, float] = defaultdict(float)
    busiest, reason = 0.0, "nothing is known to be written to the partitions that move"

    def look(batch: int, brokers: Iterable[int]) -> None:
        nonlocal busiest, reason
        for broker in sorted(set(brokers)):
            for how, load in (("takes in", received[broker]), ("gives out", sent[broker])):
                if load > busiest:
                    busiest = load
                    reason = (
                        f"broker {broker} {how} {bytes_in_words(load)}/s of what is written to partitions that move, "
                        f"in batch {batch}"
                    )

    listed = [move for move in moves if move.added and written.get(move.topic_partition)]
    for move in listed:
        sent[move.source] += written[move.topic_partition] * (len(move.before) - 1)
    for batch, group in groupby(sorted(listed, key=lambda move: move.batch), key=lambda move: move.batch):
        running = tuple(group)
        for move in running:
            rate = written[move.topic_partition]
            sent[move.source] += rate * len(move.added)
            for broker in move.added:
                received[broker] += rate
        look(batch, {*sent, *received} if busiest == 0 else brokers_touched(running))
        for move in running:  # the run elects preferred leaders after each batch; none of the new replicas is listed
            rate = written[move.topic_partition]
            sent[move.source] -= rate * (len(move.before) - 1 + len(move.added))
            if move.after[0] in move.before:
                sent[move.after[0]] += rate * (len(move.after) - 1)
        look(batch, brokers_touched(running))
    return LeastRate(math.floor(busiest + 1e-6) + 1, reason)


def check_rate(bytes_per_second: int, least: LeastRate, policy: Policy | None) -> None:
    """Raises ThrottleRateError for a rate outside the policy's range, or at which a copy could never end."""
    problem = policy.throttle_problem(bytes_per_second) if policy is not None else None
    if problem is None and bytes_per_second < least.bytes_per_second:
        problem = (
            f"a throttle of {bytes_per_second} bytes/s is below the least of {least.bytes_per_second} bytes/s at which "
            f"every copy can end: {least.reason}"
        )
    if problem is not None:
        raise ThrottleRateError(
            f"The run cannot use this rate: {problem}. Give a higher rate within the policy, move "
            "fewer partitions at once, or wait until producers write less."
        )
