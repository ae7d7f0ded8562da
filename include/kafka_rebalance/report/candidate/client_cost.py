"""What clients may feel of a rebalance: the throttle, and what disks and networks of the busiest brokers have left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.execution.throttle.auto_rate import NIC_SHARE, NetworkUse
from kafka_rebalance.report.units import format_count, format_rate, format_share

BROKERS_NAMED = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one candidate. `networks`: what is known of `known` of its `brokers`, the tightest first; None: no traffic was
    measured, so that nothing can be said of them."""

    least_bytes_per_second: int
    least_because: str
    auto_bytes_per_second: int | None  # where the throttle was to be found by itself
    networks: tuple[NetworkUse, ...] | None
    known: int = 0
    brokers: int = 0

    def at_limit(self, throttle: float) -> tuple[NetworkUse, ...]:
        """The networks that this throttle may fill beyond what is kept for bursts."""
        return tuple(use for use in self.networks or () if use.free < throttle)


def read_costs(document: Document) -> Mapping[str, Cost]:
    """{candidate: its cost} of rates.json."""
    candidates = document.part("candidates")
    return {name: _cost(candidates.part(name)) for name in candidates.content}


def _cost(part: Document) -> Cost:
    network = part.optional_part("network")
    return Cost(
        part.count("least_bytes_per_second"),
        part.text("reason"),
        part.optional_count("auto_bytes_per_second"),
        None if network is None else tuple(_use(use) for use in network.parts("tightest")),
        0 if network is None else network.count("known"),
        0 if network is None else network.count("brokers"),
    )


def _use(part: Document) -> NetworkUse:
    return NetworkUse(
        part.count("broker"),
        part.text("way"),
        part.number("network_bytes_per_second"),
        part.number("used_bytes_per_second"),
    )


def network_words(cost: Cost, throttle: float | None) -> str:
    """The busiest network at that throttle, and which are at their limit, in a sentence or two."""
    if cost.networks is None:
        return "not known, since no traffic has been measured yet"
    if not cost.networks:
        return "not known, since the Airflow connection has no network capacities (broker_capacities)"
    some = (
        f" (known of {cost.known} of {format_count(cost.brokers, 'broker', 'brokers')})"
        if cost.known < cost.brokers
        else ""
    )
    tightest = cost.networks[0]
    carries = f"{format_rate(tightest.used)} of {format_rate(tightest.network)} {tightest.way} now"
    if throttle is None:
        return f"broker {tightest.broker} has least left: {carries}{some}"
    meanwhile = (tightest.used + throttle) / tightest.network
    said = f"broker {tightest.broker} has least left: {carries}, up to {format_share(meanwhile)} with the copies{some}"
    full = cost.at_limit(throttle)
    if not full:
        who = "every one of these" if some else "every broker"
        return f"{said}; {who} stays within {format_share(NIC_SHARE)}"
    names = ", ".join(str(use.broker) for use in full[:BROKERS_NAMED])
    more = len(full) - BROKERS_NAMED
    beyond = (
        f" and {more}{' or more' if len(full) == len(cost.networks) < cost.known else ''} others" if more > 0 else ""
    )
    return f"{said}; beyond {format_share(NIC_SHARE)}: broker {names}{beyond}"
