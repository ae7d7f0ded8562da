"""The rate of auto: what the networks have left, within the policy."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import ThrottleRateError
from kafka_rebalance.model.connection import BrokerCapacity
from kafka_rebalance.model.policy import Approver, Policy
from kafka_rebalance.throttle.rates import (
    BrokerLoad,
    LeastRate,
    auto_rate,
    free_bytes_per_second,
    network_uses,
    traffic,
)
from support.kafka.small_clusters import tp

MB = 1_000_000
POLICY = Policy((Approver("uma", "uma"),), min_throttle_bytes_per_second=MB, max_throttle_bytes_per_second=100 * MB)


def written(**rates: float) -> dict:
    """`t_0=5` -> {t-0: 5}"""
    return {tp(name.replace("_", "-")): rate for name, rate in rates.items()}


def test_the_network_with_least_left_comes_first_by_its_tighter_way_and_unknown_ones_not_at_all() -> None:
    network = BrokerCapacity(None, 100.0 * MB, 50.0 * MB)
    capacities = {1: network, 2: network, 3: BrokerCapacity(None, 100.0 * MB, None)}
    uses = network_uses(
        [1, 2, 3, 4], capacities, {1: BrokerLoad(10.0 * MB, 10.0 * MB), 2: BrokerLoad(70.0 * MB, 1.0 * MB)}
    )
    assert [(use.broker, use.way, round(free_bytes_per_second(use))) for use in uses] == [
        (2, "in", 10 * MB),
        (1, "out", 30 * MB),
    ]


def test_traffic_is_what_producers_followers_and_consumers_move() -> None:
    leaders = {tp("t-0"): (1, 2), tp("t-1"): (2, 1), tp("u-0"): (3,)}
    found = traffic(leaders, written(t_0=10.0, t_1=20.0, u_0=5.0), {tp("t-0"): 100.0})
    assert found == {1: BrokerLoad(30.0, 110.0), 2: BrokerLoad(30.0, 40.0), 3: BrokerLoad(5.0, 5.0)}


def test_consumers_that_commit_nothing_keep_room_for_one_read() -> None:
    assert traffic({tp("t-0"): (1,)}, written(t_0=10.0), {tp("t-0"): 0.0}) == {1: BrokerLoad(10.0, 10.0)}


def network(*, inward: float, outward: float) -> BrokerCapacity:
    return BrokerCapacity(nic_in_bytes_per_second=inward, nic_out_bytes_per_second=outward)


def test_auto_is_what_the_busiest_network_has_left() -> None:
    capacities = {1: network(inward=125 * MB, outward=125 * MB), 2: network(inward=125 * MB, outward=50 * MB)}
    now = {1: BrokerLoad(20.0 * MB, 30.0 * MB), 2: BrokerLoad(20.0 * MB, 10.0 * MB)}
    rate, why = auto_rate([1, 2], capacities, now, LeastRate(1, ""), POLICY)
    assert rate == 30 * MB
    assert why == "broker 2 has 28.6 MiB/s left: 80 % of the 47.7 MiB/s its network takes out, less 9.54 MiB/s in use"


@pytest.mark.parametrize(
    ("free", "least", "rate"),
    [(500 * MB, 1, 100 * MB), (0.1 * MB, 1, MB), (-5 * MB, 1, MB), (2 * MB, 3 * MB, 3 * MB), (5 * MB, 3 * MB, 5 * MB)],
)
def test_auto_keeps_to_the_policy_and_to_what_is_written(free: Any, least: Any, rate: Any) -> None:
    capacities = {1: network(inward=1000 * MB, outward=1000 * MB)}
    now = {1: BrokerLoad(800.0 * MB - free, 0.0)}
    assert auto_rate([1], capacities, now, LeastRate(least, "reason"), POLICY)[0] == rate


def test_auto_without_a_measurement_is_the_policys_least_and_says_why() -> None:
    capacities = {1: network(inward=1000 * MB, outward=1000 * MB)}
    rate, why = auto_rate([1], capacities, None, LeastRate(1, ""), POLICY)
    assert (rate, why) == (MB, "the least, since no traffic was measured yet")


@pytest.mark.parametrize("capacity", [None, BrokerCapacity(), BrokerCapacity(nic_in_bytes_per_second=5.0)])
def test_auto_is_refused_where_a_network_is_unknown(capacity: Any) -> None:
    capacities = {1: network(inward=1.0, outward=1.0)} | ({} if capacity is None else {2: capacity})
    with pytest.raises(ThrottleRateError, match="needs the network capacity of broker 2"):
        auto_rate([1, 2], capacities, {}, LeastRate(1, ""), POLICY)


def test_auto_is_refused_where_the_policys_highest_would_not_do() -> None:
    with pytest.raises(ThrottleRateError, match=r"below the least of 100000001 bytes/s"):
        auto_rate([1], {1: network(inward=1.0, outward=1.0)}, {}, LeastRate(100 * MB + 1, "busy"), POLICY)


def test_a_partition_without_a_known_rate_counts_as_idle() -> None:
    assert traffic({tp("t-0"): (1, 2)}, {}, {}) == {1: BrokerLoad(0.0, 0.0), 2: BrokerLoad(0.0, 0.0)}


def test_a_broker_gives_out_what_all_of_its_partitions_do() -> None:
    found = traffic({tp("t-0"): (1, 2), tp("t-1"): (1, 2)}, written(t_0=10.0, t_1=20.0), {})
    assert found == {1: BrokerLoad(30.0, 60.0), 2: BrokerLoad(30.0, 0.0)}


def test_a_broker_without_traffic_has_all_of_its_network_left() -> None:
    (use,) = network_uses([1], {1: network(inward=100.0, outward=100.0)}, {})
    assert use.used_bytes_per_second == 0.0
    (out,) = network_uses([1], {1: network(inward=200.0, outward=100.0)}, {})
    assert (out.way, out.used_bytes_per_second) == ("out", 0.0)


@pytest.mark.parametrize(
    ("least", "why"),
    [(1, "the policy's least is 977 KiB/s"), (3 * MB, "broker 9 takes in much"), (MB, "broker 9 takes in much")],
)
def test_auto_says_what_keeps_it_above_the_free_network(least: int, why: str) -> None:
    capacities = {1: network(inward=1000 * MB, outward=1000 * MB)}
    now = {1: BrokerLoad(800.0 * MB, 0.0)}
    _, told = auto_rate([1], capacities, now, LeastRate(least, "broker 9 takes in much"), POLICY)
    assert told.startswith("broker 1 has 0 B/s left: 80 % of the")
    assert told.endswith(f"/s in use; {why}")
