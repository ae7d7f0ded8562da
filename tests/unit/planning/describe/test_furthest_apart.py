"""The two brokers that a move's reason names, against the rule written out for one move."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.documents.proposals import MoveReason, ReasonKind
from kafka_rebalance.planning.describe.move_reasons import Reasons
from kafka_rebalance.planning.problem.arrays import LEADERS, METRICS, Floats, Ints, MovedLists, known_metrics
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

TOLERANCE, EDGE = 0.1, 1e-3
SHARES = (0.0, 0.5, 0.89, 0.95, 1.0, 1.05, 1.2, 1.2, 3.0, np.inf)  # of which some are equal


def furthest(relative: Floats, givers: list[int], takers: list[int], metrics: list[int]) -> tuple[int, int, int, bool]:
    """(giver, taker, metric, whether one of them is outside its band); the first of equals."""
    tells, apart, chosen = False, -np.inf, (givers[0], takers[0], 0)
    for giver, taker, metric in product(givers, takers, metrics):
        high, low = float(relative[giver, metric]), float(relative[taker, metric])
        off = high > low and (high > 1 + TOLERANCE + EDGE or low < 1 - TOLERANCE - EDGE)
        if (off, high - low) > (tells, apart):
            tells, apart, chosen = off, high - low, (giver, taker, metric)
    return *chosen, tells


def drawn_lists(rng: np.random.Generator, before: list[list[int]]) -> Ints:
    """Half of the lists in a new order alone, half with other brokers, each of three of six."""
    return np.array([rng.permutation(one if rng.random() < 0.5 else 6)[:3] for one in before], dtype=np.int64)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_reason_names_the_pair_with_the_largest_gap_and_one_outside_its_band_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = [rng.permutation(6)[:3].tolist() for _ in range(8)]
    rates = {"bytes_in_per_second": 5.0} if rng.random() < 0.5 else {}
    partitions = [row | rates for row in partition_rows([[one + 1 for one in brokers] for brokers in before])]
    problem = problem_of(broker_rows(range(1, 7)), partitions)
    after = drawn_lists(rng, before)
    relative = rng.choice(SHARES, (6, len(METRICS)))
    rows = np.flatnonzero((after != problem.replicas).any(axis=1))
    lists = MovedLists(problem.replicas[rows], after[rows], problem.leader[rows], problem.size_bytes[rows])
    led_now = TopicLeaders(problem, problem.leader)
    led_now.room[:] = 0  # no broker leads too many partitions of the topic: that is a reason of its own
    found = Reasons(problem, relative, TOLERANCE, after, led_now).of(rows, lists, np.zeros(len(rows), dtype=bool))
    known = [k for k, metric in enumerate(METRICS) if metric in known_metrics(problem)]
    led = {int(after[row, 0]) for row in range(8) if after[row, 0] != before[row][0]}
    received = {broker for row in range(8) for broker in after[row].tolist() if broker not in before[row]}
    for row, reasons in zip(rows.tolist(), found, strict=True):
        old, new = before[row], after[row].tolist()
        leading = set(old) == set(new)
        if leading and old[0] == new[0]:
            assert reasons == []
            continue
        givers = old[:1] if leading else [one for one in old if one not in new]
        takers = new[:1] if leading else [one for one in new if one not in old]
        giver, taker, metric, tells = furthest(
            relative, givers, takers, [k for k in known if (k >= LEADERS) == leading]
        )
        evens = reasons[-1]
        assert (evens.kind, evens.broker, evens.other, evens.metric) == (
            ReasonKind.EVENS,
            giver + 1,
            taker + 1,
            METRICS[metric],
        )
        assert evens.shares == (relative[giver, metric], relative[taker, metric])
        brought = giver in (led if leading else received)
        why = ReasonKind.MAKES_UP_FOR_LEADERS if leading else ReasonKind.MAKES_ROOM
        assert reasons[:-1] == ([MoveReason(why, giver + 1)] if not tells and brought else [])
