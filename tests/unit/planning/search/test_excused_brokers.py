"""The move that brings a broker nearer to its band, against the rule written out for each pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.describe.shortfall import free_placement
from kafka_rebalance.planning.problem.arrays import BYTES_IN, DISK
from kafka_rebalance.planning.rules.rack_rule import rack_rule
from kafka_rebalance.planning.search.excused_brokers import Outside
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

BROKERS = 6


def drawn(seed: int) -> Outside:
    """Lists of two of six brokers. Sizes, rates and bands are whole numbers, so that sums have no rounding."""
    rng = np.random.default_rng(seed)
    lists = [(1 + rng.permutation(BROKERS)[:2]).tolist() for _ in range(int(rng.integers(1, 14)))]
    sizes, rates = (rng.integers(0, 6, len(lists)).tolist() for _ in range(2))
    partitions = partition_rows(lists, size_bytes=sizes, bytes_in_per_second=[float(rate) for rate in rates])
    problem = problem_of(broker_rows(range(1, BROKERS + 1)), partitions)
    even = np.ones(BROKERS)
    placement = free_placement(problem, rack_rule(problem), problem.replicas, even)
    low = np.maximum(0, np.round(placement.loads.mean(axis=0)) - rng.integers(0, 3, placement.loads.shape))
    return Outside(placement, Bands(low, low + rng.integers(0, 3, low.shape)), rng.random(low.shape) < 0.9)


def helps(outside: Outside, source: int, target: int, row: int, resource: int) -> bool:
    """The sum falls, or the far worse one gets nearer; and neither is further outside in another resource.

    For a disk, bytes in may get as far outside as the heaviest partition, and further if they are that far already.
    """
    low, high, asked = outside.bands.low, outside.bands.high, outside.asked
    loads, weights = outside.placement.loads, outside.placement.weights

    def excess(broker: int, k: int, change: float) -> float:
        load = loads[broker, k] + change
        return float(max(0.0, low[broker, k] - load, load - high[broker, k])) if asked[broker, k] else 0.0

    for k in range(loads.shape[1]):
        pairs = ((source, -weights[row, k]), (target, weights[row, k]))
        before, after = [excess(one, k, 0.0) for one, _ in pairs], [excess(*pair[:1], k, pair[1]) for pair in pairs]
        fine = 1e-6 * float(((low + high) / 2)[:, k].max())
        if k != resource:
            one = float(weights[:, k].max()) + fine
            for then, earlier in zip(after, before, strict=True):
                outranked = k == BYTES_IN and resource == DISK and (then <= one or earlier > one)
                if then > earlier + fine and not outranked:
                    return False
            continue
        falls, squares = sum(before) - sum(after), sum(b * b for b in before) - sum(a * a for a in after)
        grown = max([0.0, *(then for then, earlier in zip(after, before, strict=True) if then > earlier)])
        evens_out = falls >= -fine and max(before) - max(after) > fine and max(before) > 2.5 * grown
        if squares <= 0 or not (falls > fine or evens_out):
            return False
    return True


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_first_move_that_helps_a_broker_is_that_of_the_rule_written_out(seed: int) -> None:
    outside = drawn(seed)
    placement = outside.placement
    holders, width = placement.replicas.ravel(), placement.width
    movable = placement.movable_slots().tolist()
    for broker, resource in np.argwhere(outside.excess() > 0).tolist():
        above = placement.loads[broker, resource] > outside.bands.high[broker, resource]
        pairs = [
            (slot, target)
            for slot in (sorted(slot for slot in movable if holders[slot] == broker) if above else movable)
            for target in (np.flatnonzero(placement.receivers).tolist() if above else [broker])
            if holders[slot] != target
        ]
        expected = next(
            (
                (slot, target)
                for slot, target in pairs
                if helps(outside, int(holders[slot]), target, slot // width, resource)
                and placement.legal(np.array([slot]), np.array([[target]]))[0, 0]
            ),
            None,
        )
        found = outside.move(broker, resource)
        assert (found and (int(found[0][0]), int(found[1][0]))) == expected
