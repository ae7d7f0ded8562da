"""Rates of a throttle: the least that a plan needs, and the one that leaves clients their network."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kafka_rebalance.documents.json_files import RATES, JsonFile, omitted
from kafka_rebalance.errors import ThrottleRateError
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.candidate import Move, brokers_touched
from kafka_rebalance.model.connection import BrokerCapacity
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy

# The rate for `auto`: what every broker of the plan has left of its network.


AUTO = "auto"  # what a run's form and snapshot.json say instead of a rate
NIC_SHARE = 0.8  # of a broker's network may be used in all; the rest is for bursts


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """Without our copies, in bytes per second."""

    bytes_in: float
    bytes_out: float


def traffic(
    leaders: Mapping[TopicPartition, Sequence[int]], written: RatesByPartition, read: RatesByPartition
) -> dict[int, BrokerLoad]:
    """What each broker receives and sends. `leaders`: {partition: its replicas, the leader first}.

    Followers fetch what is written. Consumers read what `read` says, but at least what is written, once: those that
    commit nothing are not measured, and a copy must leave them room too.
    """
    taken, given = defaultdict[int, float](float), defaultdict[int, float](float)
    for topic_partition, replicas in leaders.items():
        rate = written.get(topic_partition, 0.0)
        for broker in replicas:
            taken[broker] += rate
        for leader in replicas[:1]:
            given[leader] += (len(replicas) - 1) * rate + max(rate, read.get(topic_partition, 0.0))
    return {broker: BrokerLoad(taken[broker], given[broker]) for broker in sorted(taken)}


def auto_rate(
    brokers: Sequence[int],
    capacities: Mapping[int, BrokerCapacity],
    now: Mapping[int, BrokerLoad] | None,
    least: LeastRate,
    policy: Policy,
) -> tuple[int, str]:
    """(bytes per second, why): what every broker of the plan has left of its network, in each direction.

        least over the brokers of min(0.8 x nic_in - bytes in, 0.8 x nic_out - bytes out)

    but at least the rate at which producers write to the moving partitions, and within the policy's range. `now` is
    None if nothing was measured yet: then it is the policy's least rate. Raises ThrottleRateError if a capacity is
    missing, or if even the policy's highest rate is too low.
    """
    uses = network_uses(brokers, capacities, now or {})
    unknown = [broker for broker in brokers if broker not in {use.broker for use in uses}]
    if unknown:
        raise ThrottleRateError(
            f"throttle_bytes_per_second 'auto' needs the network capacity of broker {', '.join(map(str, unknown))}. "
            "Give nic_in_bytes_per_second and nic_out_bytes_per_second in broker_capacities of "
            "the Airflow connection, or give a number as throttle."
        )
    lowest, highest = policy.min_throttle_bytes_per_second, policy.max_throttle_bytes_per_second
    if now is None:
        return max(lowest, least.bytes_per_second), "the least, since no traffic was measured yet"
    check_rate(max(highest, lowest), least, None)
    use = uses[0]
    free = free_bytes_per_second(use)
    why = (
        f"broker {use.broker} has {bytes_in_words(max(0.0, free))}/s left: {share_in_words(NIC_SHARE)} of the "
        f"{bytes_in_words(use.network_bytes_per_second)}/s its network takes {use.way}, less "
        f"{bytes_in_words(use.used_bytes_per_second)}/s in use"
    )
    rate = int(min(highest, max(lowest, least.bytes_per_second, free)))
    if rate > free:
        kept = least.reason if rate == least.bytes_per_second else f"the policy's least is {bytes_in_words(lowest)}/s"
        why = f"{why}; {kept}"
    return rate, why


def free_bytes_per_second(use: NetworkUse) -> float:
    """Up to NIC_SHARE of the network; negative if more is in use."""
    return NIC_SHARE * use.network_bytes_per_second - use.used_bytes_per_second


def network_uses(
    brokers: Iterable[int], capacities: Mapping[int, BrokerCapacity], now: Mapping[int, BrokerLoad]
) -> tuple[NetworkUse, ...]:
    """The brokers whose network is known, the one with least left first."""
    found = []
    for broker in brokers:
        capacity, load = capacities.get(broker, BrokerCapacity()), now.get(broker, BrokerLoad(0.0, 0.0))
        nic_in, nic_out = capacity.nic_in_bytes_per_second, capacity.nic_out_bytes_per_second
        if nic_in is not None and nic_out is not None:
            ways = NetworkUse(broker, "in", nic_in, load.bytes_in), NetworkUse(broker, "out", nic_out, load.bytes_out)
            found.append(min(ways, key=free_bytes_per_second))
    return tuple(sorted(found, key=lambda use: (free_bytes_per_second(use), use.broker)))


# The least rate at which every copy of a throttled plan can end; a lower rate is refused.
#
# A throttle holds back only replicas outside the ISR, but it counts every byte of a listed replica (KIP-73; KafkaApis
# records `sizeOfThrottledPartitions`, ReplicaFetcherThread all bytes of throttled partitions). So the bytes that
# producers write to listed partitions use up the quota. The lists hold one batch. Here all partitions of the plan
# count, so the rate is never too low:
#
#     a follower   what is written to the partitions that it has received so far, and receives now
#     a leader     what is written to the partitions that it leads, once for each replica that fetches them: its
#                  followers, and during the move the new replicas too
#
# Below that rate no copy of that broker ever catches up.


RatesByPartition = Mapping[TopicPartition, float]  # bytes a second that producers write, by partition


@dataclass(frozen=True, slots=True)
class LeastRate:
    bytes_per_second: int
    reason: str  # the broker that decides it


def least_rate(moves: Sequence[Move], written: RatesByPartition) -> LeastRate:
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


def range_from(lowest: int | None, found: CandidateRates | None, highest: float | None) -> int | None:
    """The low end of a candidate's range: as asked for, but at least the rate at which every copy can end.

    None: one rate, because nobody asked for a range, or because the approved highest rate is not above the low end.
    """
    if lowest is None:
        return None
    least = max(lowest, found.least_bytes_per_second if found is not None else 1)
    return None if highest is not None and least >= highest else least


# rates.json: each candidate's least throttle, and what the networks of its brokers carry already.


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """What one broker's network carries without us, in the direction that has less left."""

    broker: int
    way: str  # in | out
    network_bytes_per_second: float
    used_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class NetworksKnown:
    """`tightest`: the networks with least left. `known`: for how many of the candidate's `brokers` we know the use."""

    brokers: int
    known: int
    tightest: tuple[NetworkUse, ...]


@dataclass(frozen=True, slots=True)
class CandidateRates:
    """`network` is None if no traffic was measured. The last two exist if the throttle was `auto`."""

    least_bytes_per_second: int
    reason: str
    network: NetworksKnown | None = None
    auto_bytes_per_second: int | None = omitted()
    why: str | None = omitted()


@dataclass(frozen=True, slots=True)
class Rates:
    candidates: Mapping[str, CandidateRates]


RATES_FILE = JsonFile(RATES, Rates)
