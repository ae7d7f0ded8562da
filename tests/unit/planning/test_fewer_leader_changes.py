"""Leader changes of a cluster whose leaders cannot all come within the tolerance, because of one busy partition."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_rebalance.model.settings import BALANCED, LEADERS_ONLY
from kafka_rebalance.planning import candidates as fewer
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.candidates import leaders_off, propose, searched
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from kafka_rebalance.planning.search.frame import FoundLists
from support.plans.small_snapshots import broker_rows, partition_rows, problem_of

RACKS = dict(zip(range(1, 13), "abc" * 4, strict=True))


def busy(seed: int, **settings: object) -> Problem:
    """12 brokers that lead 40 partitions each. What consumers read of the first one alone is two shares of a broker."""
    rng = np.random.default_rng(seed)
    firsts = np.arange(480) % 12
    lists = [[1 + first, 1 + (first + 1) % 12, 1 + (first + 2) % 12] for first in firsts.tolist()]
    read = rng.lognormal(0, 0.5, len(lists))
    read[0] = 2 * read.sum() / 12
    rows = partition_rows(lists, bytes_out_per_second=read.tolist(), bytes_in_per_second=[0.0] * len(lists))
    for number, row in enumerate(rows):
        row["topic"], row["partition"] = f"t{number // 40}", number % 40
    return problem_of(broker_rows(list(RACKS), RACKS), rows, **settings)


def changes(problem: Problem, lists: FoundLists) -> int:
    return int((lists.replicas[:, 0] != problem.replicas[:, 0]).sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", [LEADERS_ONLY, BALANCED])
@pytest.mark.parametrize("seed", [1, 2])
def test_leaders_end_as_even_with_a_fraction_of_the_changes(name: str, seed: int) -> None:
    problem = busy(seed)
    found = searched(problem, name)
    assert isinstance(found, FoundLists)
    less = fewer.fewer_leader_changes(problem, name, found)
    assert changes(problem, less) <= 0.85 * changes(problem, found)
    assert found.budget.leader_changes - less.budget.leader_changes == changes(problem, found) - changes(problem, less)
    assert leaders_off(problem, found) > 0
    assert leaders_off(problem, less) <= leaders_off(problem, found) + 1e-8
    spread = [TopicLeaders(problem, lists.replicas[:, 0]).excess for lists in (less, found)]
    assert spread[0] <= spread[1]
    assert (np.sort(less.replicas, axis=1) == np.sort(found.replicas, axis=1)).all()


@pytest.mark.slow
def test_the_candidate_has_those_leaders_and_none_without_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    few = propose(busy(1), LEADERS_ONLY).candidate
    monkeypatch.setattr(solver, "available", lambda: False)
    many = propose(busy(1), LEADERS_ONLY).candidate
    assert len(few.moves) == few.summary["leader_changes"] <= 0.85 * len(many.moves)


def test_lists_within_the_tolerance_stay_as_they_were_found() -> None:
    problem = problem_of(broker_rows([1, 2, 3]), partition_rows([[1, 2]] * 6 + [[2, 3]] * 2))
    found = searched(problem, LEADERS_ONLY)
    assert isinstance(found, FoundLists)
    assert leaders_off(problem, found) == 0
    assert (fewer.fewer_leader_changes(problem, LEADERS_ONLY, found).replicas == found.replicas).all()
