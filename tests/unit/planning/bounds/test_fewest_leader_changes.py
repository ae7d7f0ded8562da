"""The bounds on leader changes, against every choice of leaders of small clusters counted out."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_rebalance.planning.bounds.fewest_leader_changes import Choice, heavy_leaders, leader_prices
from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.problem.arrays import leader_loads


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Up to eight lists of three replicas on four brokers, some of which must change their leader. One choice fits."""
    rows, brokers = draw(st.integers(2, 8)), 4
    lists = np.array([draw(st.permutations(range(brokers)))[:3] for _ in range(rows)])
    goes = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    changes = np.ones(lists.shape, dtype=bool)
    changes[~goes, 0] = False
    may_lead = np.ones(lists.shape, dtype=bool)
    may_lead[:, 2] = draw(st.booleans())
    sizes = draw(st.lists(st.sampled_from([0.01, 0.1, 0.5, 3.0]), min_size=rows, max_size=rows))
    weights = np.column_stack([np.ones(rows), sizes]) / rows
    topic = np.array(draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows)))
    fits = np.array(draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows)))
    leaders = lists[np.arange(rows), fits]
    loads = leader_loads(leaders, weights, brokers)
    slack = draw(st.sampled_from([0.0, 0.3])) / rows
    most = np.full((2, brokers), draw(st.integers(1, 2)))
    excess = int(np.maximum(0, led(leaders, topic, brokers) - most).sum())
    return Choice(
        lists, may_lead, changes, weights, Bands(np.maximum(0, loads - slack), loads + slack), topic, most, excess
    )


def led(leaders: np.ndarray, topic: np.ndarray, brokers: int) -> np.ndarray:
    return np.bincount(topic * brokers + leaders, minlength=2 * brokers).reshape(2, brokers)


def fewest(choice: Choice, *, with_topics: bool) -> int:
    """Counted out."""
    rows, brokers = len(choice.lists), len(choice.bands.low)
    best = 10**6
    for positions in product(*(np.flatnonzero(may).tolist() for may in choice.may_lead)):
        leaders = choice.lists[np.arange(rows), positions]
        loads = leader_loads(leaders, choice.weights, brokers)
        within = (loads >= choice.bands.low - 1e-9).all() and (loads <= choice.bands.high + 1e-9).all()
        excess = int(np.maximum(0, led(leaders, choice.topic, brokers) - choice.most).sum())
        if within and (excess <= choice.most_excess or not with_topics):
            best = min(best, int(choice.changes[np.arange(rows), positions].sum()))
    return best


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(choices())
def test_neither_bound_is_above_the_fewest_changes_that_fit(choice: Choice) -> None:
    known = fewest(choice, with_topics=True)
    assert known < 10**6, "one choice fits"
    assert leader_prices(choice).bound <= known + 1e-6
    heavy = heavy_leaders(choice)
    assert heavy is not None
    assert heavy.bound <= fewest(choice, with_topics=False)


def test_a_leader_that_does_not_fit_in_parts_makes_the_bound_sharper() -> None:
    """Broker 0 leads two partitions of 1, and may lead 1.5. One has to go, half of one in fractions."""
    lists = np.array([[0, 1], [0, 1]])
    may_lead, changes = np.ones((2, 2), dtype=bool), np.array([[False, True]] * 2)
    weights = np.array([[1.0, 1.0], [1.0, 1.0]])
    bands = Bands(np.zeros((2, 2)), np.array([[2.0, 1.5], [2.0, 2.0]]))
    choice = Choice(lists, may_lead, changes, weights, bands, np.zeros(2, dtype=np.int64), np.full((1, 2), 2), 0)
    assert 0 < leader_prices(choice).bound <= 0.5
    heavy = heavy_leaders(choice)
    assert heavy is not None
    assert (heavy.bound, len(heavy.rows)) == (1, 2)


def test_excess_of_topics_has_a_price_where_it_costs_changes() -> None:
    """Both partitions of a topic lose their leader, and the cheapest next leader of both is the same broker."""
    lists = np.array([[0, 1], [0, 1]])
    may_lead, changes = np.ones((2, 2), dtype=bool), np.array([[False, True]] * 2)
    weights, free = np.ones((2, 2)), Bands(np.zeros((2, 2)), np.full((2, 2), np.inf))
    choice = Choice(lists, may_lead, changes, weights, free, np.zeros(2, dtype=np.int64), np.full((1, 2), 1), 0)
    assert fewest(replace(choice, most_excess=1), with_topics=True) == 0
    assert 0 < leader_prices(choice).bound <= 1
    assert leader_prices(replace(choice, most_excess=1)).bound <= 1e-9
