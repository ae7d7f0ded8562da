"""When the search for leaders ends: at the edge of the tolerance, and once topics spread no further."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafka_rebalance.planning.candidates import searched
from kafka_rebalance.planning.problem.arrays import Ints, Problem
from kafka_rebalance.planning.search import leaders as leader_balance
from kafka_rebalance.planning.search.frame import FoundLists
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of


def drawn(seed: int, brokers: int, partitions: int, *, measured: bool, **settings: Any) -> Problem:
    """Topics of a few partitions with three replicas each. `measured`: leaders have bytes out of different sizes."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    while len(rows) < partitions:
        count = min(partitions - len(rows), int(rng.integers(2, 9)))
        lists = [(1 + rng.permutation(brokers)[:3]).tolist() for _ in range(count)]
        rates = rng.lognormal(0, 1, count) if measured else np.zeros(count)
        rows += partition_rows(lists, topic=f"topic-{len(rows)}", bytes_out_per_second=rates.tolist())
    return problem_of(broker_rows(range(1, brokers + 1)), rows, **settings)


def test_brokers_at_the_edge_of_the_tolerance_are_within_it_and_leaders_are_searched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[float] = []
    balance = leader_balance._Leaders.balance

    def counted(leaders: leader_balance._Leaders, *begin: Any, **how: Any) -> None:
        balance(leaders, *begin, **how)
        searches.append(leaders.off)

    monkeypatch.setattr(leader_balance._Leaders, "balance", counted)
    problem = drawn(0, 6, 60, measured=False)  # 9 leaders are exactly 10 % below the share of 10
    found = searched(problem, "leaders_only")
    assert isinstance(found, FoundLists)
    assert np.bincount(found.replicas[:, 0]).min() == 9
    assert len(searches) == 1
    assert 0 < searches[0] < 1e-30  # no test of a sum that happens to be exact


def test_leaders_are_passed_on_no_longer_once_that_spreads_no_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    excess: list[int] = []
    swap = leader_balance._Leaders._swap

    def counted(leaders: leader_balance._Leaders, rows: Ints, positions: Ints) -> None:
        swap(leaders, rows, positions)
        excess.append(leaders.topics.excess)

    monkeypatch.setattr(leader_balance._Leaders, "_swap", counted)
    problem = drawn(12, 7, 60, measured=True, spread_leaders=["*"])
    found = searched(problem, "leaders_only")
    rounds = len(excess)
    assert rounds - excess.index(min(excess)) > leader_balance._IDLE, "the cluster passes no leader on in vain"
    monkeypatch.setattr(leader_balance, "_IDLE", leader_balance._ROUNDS)
    longer = searched(problem, "leaders_only")
    assert len(excess) - rounds > leader_balance._ROUNDS > rounds
    assert isinstance(found, FoundLists)
    assert isinstance(longer, FoundLists)
    assert (found.replicas == longer.replicas).all()
