"""The rate of `auto`: what every broker of the plan has left of its network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.documents.proposals.rates import NetworkUse
from kafka_rebalance.errors import ThrottleRateError
from kafka_rebalance.execution.throttle.least_rate import LeastRate, Rates, check_rate
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.connection import BrokerCapacity
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy

AUTO = "auto"  # what a run's form and snapshot.json say instead of a rate
NIC_SHARE = 0.8  # of a broker's network may be used in all; the rest is for what comes in bursts


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker takes in and gives out without us, bytes a second."""

    bytes_in: float
    bytes_out: float


def traffic(leaders: Mapping[TopicPartition, Sequence[int]], written: Rates, read: Rates) -> dict[int, BrokerLoad]:
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
    return {broker: BrokerLoad(taken[broker], given.get(broker, 0.0)) for broker in sorted(taken)}


def auto_rate(
    brokers: Sequence[int],
    capacities: Mapping[int, BrokerCapacity],
    now: Mapping[int, BrokerLoad] | None,
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
    use = network_uses(brokers, capacities, now)[0]
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
    """Up to NIC_SHARE of the network; negative where more is in use."""
    return NIC_SHARE * use.network_bytes_per_second - use.used_bytes_per_second


def network_uses(
    brokers: Iterable[int], capacities: Mapping[int, BrokerCapacity], now: Mapping[int, BrokerLoad]
) -> tuple[NetworkUse, ...]:
    """The brokers whose network is known, the one with least left first."""
    found = []
    for broker in brokers:
        capacity = capacities.get(broker)
        if capacity is not None and _has_network(capacity):
            idle = now.get(broker, BrokerLoad(0.0, 0.0))
            ways = (
                NetworkUse(broker, "in", capacity.nic_in_bytes_per_second or 0.0, idle.bytes_in),
                NetworkUse(broker, "out", capacity.nic_out_bytes_per_second or 0.0, idle.bytes_out),
            )
            found.append(min(ways, key=free_bytes_per_second))
    return tuple(sorted(found, key=lambda use: (free_bytes_per_second(use), use.broker)))


def _has_network(capacity: BrokerCapacity | None) -> bool:
    return capacity is not None and None not in (capacity.nic_in_bytes_per_second, capacity.nic_out_bytes_per_second)
