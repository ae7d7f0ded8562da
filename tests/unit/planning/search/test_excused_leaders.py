"""Which brokers outside their band another leader of one list would help, against the rule written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.search.excused_brokers import Led


def drawn(seed: int) -> Led:
    """Lists of two or three of six brokers. Weights are whole numbers, so that sums have no rounding."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 12))
    replicas = np.array([rng.permutation(6)[:3] for _ in range(rows)], dtype=np.int64).reshape(rows, 3)
    replicas[rng.random(rows) < 0.3, 2] = -1
    low = rng.integers(0, 8, (6, 2)).astype(float)
    bands = Bands(low, low + rng.integers(0, 3, (6, 2)))
    loads, weights = (rng.integers(0, 12, shape).astype(float) for shape in ((6, 2), (rows, 2)))
    may_lead = (replicas >= 0) & (rng.random((rows, 3)) < 0.8)
    return Led(replicas, loads, weights, bands, may_lead, rng.random(rows) < 0.8)


def outside(led: Led, broker: int, resource: int, load: float) -> float:
    return max(0.0, led.bands.low[broker, resource] - load, load - led.bands.high[broker, resource])


def helps(led: Led, source: int, target: int, row: int, resource: int) -> bool:
    """The sum falls, or the far worse one gets nearer; and neither is further outside in the other resource."""
    width = float((led.bands.high - led.bands.low)[:, resource].max())
    for k in (resource, 1 - resource):
        now, goes = led.loads[:, k], led.weights[row, k]
        before = [outside(led, source, k, now[source]), outside(led, target, k, now[target])]
        after = [outside(led, source, k, now[source] - goes), outside(led, target, k, now[target] + goes)]
        if k != resource:
            return all(then <= earlier + 1e-6 * width for then, earlier in zip(after, before, strict=True))
        falls, least = sum(before) - sum(after), 0.1 * min(max(before), width)
        grown = max([0.0, *(then for then, earlier in zip(after, before, strict=True) if then > earlier)])
        far_worse = falls >= -1e-6 * width and max(before) - max(after) > least and max(before) > 2.5 * grown
        squares = sum(one * one for one in before) - sum(one * one for one in after)
        if squares <= 0 or not (falls > least or far_worse):
            return False
    raise AssertionError("there are two resources")


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_brokers_that_another_leader_helps_are_those_of_the_rule_written_out(seed: int) -> None:
    led = drawn(seed)
    asked = np.array([[outside(led, broker, k, led.loads[broker, k]) > 0 for k in (0, 1)] for broker in range(6)])
    asked &= np.random.default_rng(seed).random((6, 2)) < 0.7
    expected = np.zeros_like(asked)
    for row, brokers in enumerate(led.replicas.tolist()):
        for position in (1, 2):
            source, target = brokers[0], brokers[position]
            if led.may_lose[row] and led.may_lead[row, position]:
                for k in (0, 1):
                    if helps(led, source, target, row, k):
                        above = [bool(led.loads[one, k] > led.bands.high[one, k]) for one in (source, target)]
                        expected[source, k] |= above[0]
                        expected[target, k] |= not above[1]
    assert led.helped_by_one(asked).tolist() == (expected & asked).tolist()
    assert (led.helped(asked) >= (expected & asked)).all()
