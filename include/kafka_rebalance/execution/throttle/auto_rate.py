"""How fast a throttled rebalance may and must be: the least rate with which it can end, and the rate of `auto`.

A throttle holds back replicas outside the ISR alone, but counts every byte of a listed replica (KIP-73; KafkaApis
records `sizeOfThrottledPartitions`, ReplicaFetcherThread all bytes of throttled partitions), so what producers write
to listed partitions uses the quota up. The lists are those of one batch; here all partitions of the plan count, which
never asks for too low a rate:

    a follower   what is written to the partitions it has received so far, and receives now
    a leader     what is written to the partitions it leads, once for each replica that fetches it: its followers,
                 and while the partition moves the new ones too

At a rate below that no copy of that broker ever catches up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kafka_rebalance.errors import ThrottleRateError
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.candidate import Move, brokers_touched
from kafka_rebalance.model.connection import BrokerCapacity
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy

AUTO = "auto"  # what a run's form and snapshot.json say instead of a rate
NIC_SHARE = 0.8  # of a broker's network may be used in all; the rest is for what comes in bursts

Rates = Mapping[TopicPartition, float]  # bytes a second that producers write, by partition


@dataclass(frozen=True, slots=True)
class LeastRate:
    """The least rate at which every copy can end, in bytes a second, and the broker that decides it."""

    bytes_per_second: int
    reason: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a broker takes in and gives out without us, bytes a second."""

    bytes_in: float
    bytes_out: float


def least_rate(moves: Sequence[Move], written: Rates) -> LeastRate:
    """The least whole rate above what the moving partitions are written with, on the broker where that is most.

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
        for move in running:  # preferred leaders are elected after each batch; of the new replicas none is listed
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
            f"The rate cannot be used: {problem}. Nothing was changed. Give a higher rate within the policy, move "
            "fewer partitions at once, or wait until less is written."
        )


def traffic(leaders: Mapping[TopicPartition, Sequence[int]], written: Rates, read: Rates) -> dict[int, Traffic]:
    """What each broker takes in and gives out, by `leaders`: {partition: its replicas, the leader first}.

    Followers fetch what is written. Consumers read what `read` says; where that names nothing, once what is written.
    """
    taken: dict[int, float] = {}
    given: dict[int, float] = {}
    for topic_partition, replicas in leaders.items():
        rate = written.get(topic_partition, 0.0)
        for broker in replicas:
            taken[broker] = taken.get(broker, 0.0) + rate
        if replicas:
            out = (len(replicas) - 1) * rate + read.get(topic_partition, rate)
            given[replicas[0]] = given.get(replicas[0], 0.0) + out
    return {broker: Traffic(taken[broker], given.get(broker, 0.0)) for broker in sorted(taken)}


def auto_rate(
    brokers: Sequence[int],
    capacities: Mapping[int, BrokerCapacity],
    now: Mapping[int, Traffic] | None,
    least: LeastRate,
    policy: Policy,
) -> tuple[int, str]:
    """(bytes a second, why): what every broker of the plan has left of its network, one way and the other.

        least over the brokers of min(0.8 x nic_in - bytes in, 0.8 x nic_out - bytes out)

    but at least what the moving partitions are written with, and within the policy's range. `now` is None where
    nothing was measured yet: the policy's least rate then. Raises ThrottleRateError where a capacity is missing, or
    where not even the policy's highest rate would do.
    """
    unknown = [broker for broker in brokers if not _has_network(capacities.get(broker))]
    if unknown:
        raise ThrottleRateError(
            f"throttle_bytes_per_second 'auto' needs the network of broker {', '.join(map(str, unknown))}. Nothing was "
            "written. Give nic_in_bytes_per_second and nic_out_bytes_per_second in broker_capacities of the Airflow "
            "connection, or a number."
        )
    lowest, highest = policy.min_throttle_bytes_per_second, policy.max_throttle_bytes_per_second
    if now is None:
        return max(lowest, least.bytes_per_second), "the least, since no traffic was measured yet"
    check_rate(max(highest, lowest), least, None)
    free, why = min(_free(broker, capacities[broker], now.get(broker, Traffic(0.0, 0.0))) for broker in brokers)
    rate = int(min(highest, max(lowest, least.bytes_per_second, free)))
    if rate > free:
        kept = least.reason if rate == least.bytes_per_second else f"the policy's least is {bytes_in_words(lowest)}/s"
        why = f"{why}; {kept}"
    return rate, why


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """What one broker's network carries without us, the way of it that has less left; bytes a second."""

    broker: int
    way: str  # in | out
    network: float
    used: float

    @property
    def free(self) -> float:
        """Up to NIC_SHARE of the network; negative where more is in use."""
        return NIC_SHARE * self.network - self.used


def network_uses(
    brokers: Iterable[int], capacities: Mapping[int, BrokerCapacity], now: Mapping[int, Traffic]
) -> tuple[NetworkUse, ...]:
    """The brokers whose network is known, the one with least left first."""
    found = []
    for broker in brokers:
        capacity = capacities.get(broker)
        if capacity is not None and _has_network(capacity):
            idle = now.get(broker, Traffic(0.0, 0.0))
            ways = (
                NetworkUse(broker, "in", capacity.nic_in_bytes_per_second or 0.0, idle.bytes_in),
                NetworkUse(broker, "out", capacity.nic_out_bytes_per_second or 0.0, idle.bytes_out),
            )
            found.append(min(ways, key=lambda use: use.free))
    return tuple(sorted(found, key=lambda use: (use.free, use.broker)))


def _has_network(capacity: BrokerCapacity | None) -> bool:
    return capacity is not None and None not in (capacity.nic_in_bytes_per_second, capacity.nic_out_bytes_per_second)


def _free(broker: int, capacity: BrokerCapacity, now: Traffic) -> tuple[float, str]:
    ways = (
        ("in", capacity.nic_in_bytes_per_second or 0.0, now.bytes_in),
        ("out", capacity.nic_out_bytes_per_second or 0.0, now.bytes_out),
    )
    free, way, network, used = min((NIC_SHARE * network - used, way, network, used) for way, network, used in ways)
    return free, (
        f"broker {broker} has {bytes_in_words(max(0.0, free))}/s left: {share_in_words(NIC_SHARE)} of the "
        f"{bytes_in_words(network)}/s its network takes {way}, less {bytes_in_words(used)}/s in use"
    )
