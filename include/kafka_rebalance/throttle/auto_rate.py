"""The rate for `auto`: what every broker of the plan has left of its network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.errors import ThrottleRateError
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.connection import BrokerCapacity
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.throttle.least_rate import LeastRate, Rates, check_rate
from kafka_rebalance.throttle.rates import NetworkUse

AUTO = "auto"  # what a run's form and snapshot.json say instead of a rate
NIC_SHARE = 0.8  # of a broker's network may be used in all; the rest is for bursts


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """Without our copies, in bytes per second."""

    bytes_in: float
    bytes_out: float


def traffic(leaders: Mapping[TopicPartition, Sequence[int]], written: Rates, read: Rates) -> dict[int, BrokerLoad]:
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
