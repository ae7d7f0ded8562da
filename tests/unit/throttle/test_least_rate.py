"""The least rate at which every copy can end."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.errors import ThrottleRateError
from kafka_rebalance.model.policy import Approver, Policy
from kafka_rebalance.throttle.rates import LeastRate, check_rate, least_rate
from support.kafka.small_clusters import move, tp

MB = 1_000_000
POLICY = Policy((Approver("uma", "uma"),), min_throttle_bytes_per_second=MB, max_throttle_bytes_per_second=100 * MB)


def written(**rates: float) -> dict:
    """`t_0=5` -> {t-0: 5}"""
    return {tp(name.replace("_", "-")): rate for name, rate in rates.items()}


@pytest.mark.parametrize(
    ("moves", "rates", "least", "why"),
    [
        ([move("t-0", [1, 2], [1, 3])], {}, 1, "nothing is known"),
        # broker 1 sends to its follower 2, which is in sync and counts all the same, and to 3
        ([move("t-0", [1, 2], [1, 3])], {"t_0": 100.0}, 201, "broker 1 gives out 200"),
        ([move("t-0", [1], [3]), move("u-0", [2], [3])], {"t_0": 70.0, "u_0": 60.0}, 131, "broker 3 takes in 130"),
        # what only changes its order is not throttled, so it does not count
        ([move("t-0", [1, 2], [2, 1])], {"t_0": 100.0}, 1, "nothing"),
        # of a later batch only the followers that are there fetch
        (
            [move("t-0", [1, 2], [1, 3]), move("u-0", [1, 2], [1, 3], batch=2)],
            {"t_0": 100.0, "u_0": 10.0},
            211,
            "broker 1 gives out 210 B/s of what is written to partitions that move, in batch 1",
        ),
        # what was received stays listed until the end
        (
            [move("t-0", [1], [3]), move("u-0", [2], [3], batch=2)],
            {"t_0": 70.0, "u_0": 60.0},
            131,
            "broker 3 takes in 130 B/s of what is written to partitions that move, in batch 2",
        ),
        # a leader that is new is not listed as one
        ([move("t-0", [1], [2]), move("u-0", [2], [4], batch=2)], {"t_0": 500.0, "u_0": 1.0}, 501, "in batch 1"),
    ],
)
def test_the_least_rate_is_just_above_what_is_written_where_that_is_most(
    moves: Any, rates: Any, least: int, why: str
) -> None:
    found = least_rate(moves, written(**rates))
    assert found.bytes_per_second == least
    assert why in found.reason


def test_a_rate_below_the_least_is_refused_with_the_number() -> None:
    least = LeastRate(2_000_001, "broker 3 takes in 1.91 MiB/s")
    check_rate(2_000_001, least, POLICY)
    with pytest.raises(ThrottleRateError, match=r"2000000 bytes/s is below the least of 2000001 bytes/s .*broker 3"):
        check_rate(2_000_000, least, POLICY)


@pytest.mark.parametrize("rate", [MB - 1, 100 * MB + 1])
def test_a_rate_outside_the_policys_range_is_refused(rate: Any) -> None:
    with pytest.raises(ThrottleRateError, match=r"outside the policy's 1000000 to 100000000 bytes/s"):
        check_rate(rate, LeastRate(1, ""), POLICY)


def test_the_reason_is_told_where_nothing_is_known_to_be_written() -> None:
    assert least_rate([], {}).reason == "nothing is known to be written to the partitions that move"


def test_a_leader_gives_out_to_each_of_its_new_replicas() -> None:
    found = least_rate([move("t-0", [1], [1, 2, 3])], written(t_0=100.0))
    assert found.bytes_per_second == 201
    assert "broker 1 gives out 200" in found.reason


def test_a_new_leader_that_was_a_replica_gives_out_what_the_old_one_gave() -> None:
    """After its batch, broker 2 leads t-0, and is listed there; then it sends u-0 too."""
    moves = [move("t-0", [1, 2], [2, 3]), move("u-0", [2], [4], batch=2)]
    found = least_rate(moves, written(t_0=100.0, u_0=150.0))
    assert found.bytes_per_second == 251
    assert "broker 2 gives out 250" in found.reason
    assert found.reason.endswith("in batch 2")


def test_a_leader_that_has_given_its_partition_away_gives_out_nothing_of_it_any_more() -> None:
    moves = [move("t-0", [1, 2], [2, 3]), move("v-0", [1], [4], batch=2)]
    found = least_rate(moves, written(t_0=100.0, v_0=300.0))
    assert found.bytes_per_second == 301
    assert "broker 1 gives out 300" in found.reason


def test_what_a_new_leader_gives_out_after_its_batch_may_be_the_most() -> None:
    moves = [move("t-0", [1, 2], [2, 3, 4, 5]), move("x-0", [2, 6], [2, 7])]
    found = least_rate(moves, written(t_0=100.0, x_0=150.0))
    assert found.bytes_per_second == 451
    assert "broker 2 gives out 450" in found.reason
    assert found.reason.endswith("in batch 1")


def test_a_refused_rate_says_that_nothing_was_changed() -> None:
    with pytest.raises(ThrottleRateError, match=r"^The run cannot use this rate: .* Give a higher rate"):
        check_rate(1, LeastRate(2, "busy"), None)
    check_rate(2, LeastRate(2, "busy"), None)
