"""What clients may feel of a rebalance: the throttle, and what disks and networks of the busiest brokers have left."""

from __future__ import annotations

from kafka_rebalance.documents.proposals.rates import CandidateRates
from kafka_rebalance.execution.throttle.auto_rate import NIC_SHARE, free_bytes_per_second
from kafka_rebalance.report.units import format_count, format_rate, format_share

BROKERS_NAMED = 8


def network_words(cost: CandidateRates, throttle: float | None) -> str:
    """The busiest network at that throttle, and which are at their limit, in a sentence or two."""
    network = cost.network
    if network is None:
        return "not known, since no traffic has been measured yet"
    if not network.tightest:
        return "not known, since the Airflow connection has no network capacities (broker_capacities)"
    some = (
        f" (known of {network.known} of {format_count(network.brokers, 'broker', 'brokers')})"
        if network.known < network.brokers
        else ""
    )
    tightest = network.tightest[0]
    used, whole = tightest.used_bytes_per_second, tightest.network_bytes_per_second
    carries = f"{format_rate(used)} of {format_rate(whole)} {tightest.way} now"
    if throttle is None:
        return f"broker {tightest.broker} has least left: {carries}{some}"
    meanwhile = (used + throttle) / whole
    said = f"broker {tightest.broker} has least left: {carries}, up to {format_share(meanwhile)} with the copies{some}"
    full = [use for use in network.tightest if free_bytes_per_second(use) < throttle]
    if not full:
        who = "every one of these" if some else "every broker"
        return f"{said}; {who} stays within {format_share(NIC_SHARE)}"
    names = ", ".join(str(use.broker) for use in full[:BROKERS_NAMED])
    more = len(full) - BROKERS_NAMED
    beyond = (
        f" and {more}{' or more' if len(full) == len(network.tightest) < network.known else ''} others"
        if more > 0
        else ""
    )
    return f"{said}; beyond {format_share(NIC_SHARE)}: broker {names}{beyond}"
