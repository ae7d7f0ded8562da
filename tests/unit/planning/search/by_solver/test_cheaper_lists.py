"""Exact searches of a part at a time: near the exact optimum, with nothing lost of what the search had reached."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.clusters import SIZES, Cluster, Size, make_cluster
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.targets import band
from kafka_rebalance.planning.candidates import chosen, described, searched
from kafka_rebalance.planning.problem.arrays import Ints, Problem, replication
from kafka_rebalance.planning.rules.crowding import Crowding
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search import fewest_bytes as cheaper_lists
from kafka_rebalance.planning.search import fewest_bytes as rack_by_rack
from kafka_rebalance.planning.search.frame import FoundLists, frame_of
from kafka_rebalance.planning.search.optimal import EFFORT, ListProgram
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, broker_rows, problem_of

_LARGER = Size(brokers=18, racks=3, partitions=800, partitions_per_topic=20)
_NODES = 3_000  # of the exact solution; these clusters need fewer


@pytest.fixture(scope="module", autouse=True)
def brief_search() -> None:
    """None: these tests have the whole search."""


@pytest.fixture
def larger(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A drain whose 13,600 variables are more than one program covers here, as 50,000 are."""
    monkeypatch.setattr(cheaper_lists, "_VARIABLES", 13_000)
    # With copies within racks preferred, the search finds 1.3 % fewer bytes here, and dives gain nothing.
    monkeypatch.setattr("kafka_rebalance.planning.search.frame.PREFERRED", 1.0)
    return make_cluster(_LARGER, "drain", 7)


def skewed(seed: int, brokers: int = 6, partitions: int = 90) -> tuple[Rows, Rows]:
    """Brokers in three racks, and heavy-tailed partitions that prefer some of the brokers of each rack."""
    rng = np.random.default_rng(seed)
    ids, liked = np.arange(1, brokers + 1), rng.lognormal(0, 0.4, brokers)
    sizes, rates = rng.lognormal(8, 1.3, partitions), rng.lognormal(3, 1, partitions)
    rows: Rows = []
    for number in range(partitions):
        racks = rng.permutation(3)[: 2 + (number % 7 > 0)]
        mates = [ids[ids % 3 == rack] for rack in racks]
        lists = [int(rng.choice(some, p=liked[some - 1] / liked[some - 1].sum())) for some in mates]
        row = {"topic": f"topic-{number // 12}", "partition": number % 12, "replicas": lists}
        rows.append(row | {"size_bytes": int(sizes[number]), "bytes_in_per_second": float(rates[number])})
    return broker_rows(ids.tolist(), {int(one): f"rack-{one % 3}" for one in ids}), rows


def both(problem: Problem) -> tuple[FoundLists, FoundLists]:
    """What the search found, and what is chosen."""
    found = searched(problem, "balanced")
    best = chosen(problem, "balanced", [found])
    assert isinstance(found, FoundLists)
    assert isinstance(best, FoundLists)
    return found, best


def fewest_bytes(problem: Problem, found: FoundLists) -> float:
    """Of all lists within the bands that keep the rules and crowd no more in total; proven to a thousandth."""
    frame = frame_of(problem, found.goal, found.wanted)
    program = ListProgram(frame)
    program.crowd_no_more_than(problem.replicas)
    whole = program.program(band(frame.targets, found.goal.tolerance))
    exact = solver.solve(whole, {**EFFORT, "mip_max_nodes": _NODES})
    assert exact.optimal
    assert exact.x is not None
    lists = program.lists(exact.x[: program.has.size] > 0.5)
    new = (lists >= 0) & ~(lists[:, :, None] == problem.replicas[:, None, :]).any(axis=2)
    return float((new.sum(axis=1) * problem.size_bytes).sum())


def crowded(problem: Problem, lists: Ints) -> int:
    """Replicas beyond an even share of their topic, as racks leave it, and one."""
    frame = frame_of(problem, goal_of(problem.settings, "balanced"), replication(problem.replicas))
    return Crowding(lists, problem.topic, frame.topic_shares, frame.left_by_racks).replicas


@pytest.mark.slow
def test_tight_skews_of_small_clusters_are_within_two_per_cent_of_the_exact_optimum() -> None:
    searches = []
    for seed in (0, 1):
        problem = problem_of(*skewed(seed), tolerance=0.06)
        found, best = both(problem)
        fewest = fewest_bytes(problem, found)
        assert best.off <= found.off == 0
        assert best.budget.bytes <= 1.02 * fewest, seed
        searches.append(found.budget.bytes / fewest)
    assert max(searches) > 1.05, "the search alone is as good, so this test shows nothing"


@pytest.mark.long
def test_a_skew_that_giants_decide_is_within_two_per_cent_of_what_whole_giants_ask_for() -> None:
    cluster = make_cluster(SIZES["S"], "skew", 962194)
    problem = problem_of(cluster.brokers, cluster.partitions, tolerance=0.02)
    found, best = both(problem)
    frame = frame_of(problem, found.goal, found.wanted)
    program = ListProgram(frame)
    program.crowd_no_more_than(problem.replicas)
    whole = program.program(band(frame.targets, 0.02))
    sizes = problem.size_bytes[program.partitions]
    giant = np.zeros(len(whole.cost), dtype=bool)
    giant[: program.has.size] = np.repeat(sizes >= np.quantile(sizes, 0.7), len(program.brokers))
    relaxed = solver.solve(replace(whole, integral=giant), {**EFFORT, "mip_max_nodes": _NODES})
    assert relaxed.optimal
    assert best.off <= found.off == 0
    assert best.budget.bytes <= 1.02 * program.least_bytes(relaxed)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"job": "drain", "drain": [2]}, {"brokers_in": [1, 2, 3, 4]}])
def test_cheaper_lists_keep_every_promise(asked: dict[str, Any]) -> None:
    brokers, rows = skewed(5)
    problem = problem_of(brokers, rows, tolerance=0.05, **asked)
    found, best = both(problem)
    before, after = (described(problem, "balanced", lists) for lists in (found, best))
    verify(after, problem.snapshot_digest, brokers, rows, Settings.from_mapping({"tolerance": 0.05, **asked}))
    assert after.copied_bytes < before.copied_bytes
    assert after.shortfall_after.distance <= before.shortfall_after.distance
    first, searched_lists, cheaper = (
        crowded(problem, lists) for lists in (problem.replicas, found.replicas, best.replicas)
    )
    assert cheaper <= max(first, searched_lists)


@pytest.mark.long
def test_lists_are_cheaper_also_where_no_plan_is_within_the_tolerance() -> None:
    """Single moves would then bring single brokers nearer, and the others further away together."""
    cluster = make_cluster(SIZES["12x1200"], "drain", 211370)
    problem = problem_of(cluster.brokers, cluster.partitions, tolerance=0.02)
    found, best = both(problem)
    assert 0 < best.off <= found.off
    assert best.budget.bytes <= 0.944 * found.budget.bytes, "without dives it is 0.948"


@pytest.mark.slow
def test_the_same_cluster_gives_the_same_lists_twice() -> None:
    brokers, rows = skewed(1)
    first, second = (both(problem_of(brokers, rows, tolerance=0.04))[1] for _ in range(2))
    assert (first.replicas == second.replicas).all()


@pytest.mark.long
def test_more_brokers_than_one_step_frees_are_searched_by_rack() -> None:
    found, best = both(problem_of(*skewed(2, brokers=15, partitions=240), tolerance=0.05))
    assert best.budget.bytes < found.budget.bytes
    assert best.off <= found.off


@pytest.mark.slow
def test_a_limit_that_was_reached_keeps_the_searched_lists() -> None:
    brokers, rows = skewed(1)
    free, _ = both(problem_of(brokers, rows, tolerance=0.04))
    problem = problem_of(brokers, rows, tolerance=0.04, max_bytes=free.budget.bytes // 2)
    found, best = both(problem)
    assert found.budget.reached
    assert (np.sort(best.replicas) == np.sort(found.replicas)).all()


@pytest.mark.parametrize("name", ["_MOST", "available"])
def test_without_solver_or_on_a_large_cluster_the_searched_lists_stay(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "available":
        monkeypatch.setattr(solver, "available", lambda: False)
    else:
        monkeypatch.setattr(cheaper_lists, name, 539)
    found, best = both(problem_of(*skewed(1), tolerance=0.04))
    assert (np.sort(best.replicas) == np.sort(found.replicas)).all()


@pytest.mark.long
def test_a_drain_of_a_cluster_too_large_for_one_program_is_cheaper_rack_by_rack(larger: Cluster) -> None:
    problem = problem_of(larger.brokers, larger.partitions, tolerance=0.02)
    found, best = both(problem)
    assert best.off <= found.off == 0
    # Without `Crowding.one_by_one` in the polish it is 0.940. That is chance: this cluster copies 1.5 % more with it,
    # but 30 drawn skews copied 0.5 % less on average, and 30 other drains 0.05 % more.
    assert best.budget.bytes <= 0.946 * found.budget.bytes, "without dives it is 0.948"
    first, searched_lists, cheaper = (
        crowded(problem, lists) for lists in (problem.replicas, found.replicas, best.replicas)
    )
    assert cheaper <= max(first, searched_lists)
    plan = described(problem, "balanced", best)
    verify(plan, problem.snapshot_digest, larger.brokers, larger.partitions, problem.settings)
    again = chosen(problem, "balanced", [found])
    assert isinstance(again, FoundLists)
    assert (again.replicas == best.replicas).all()


def test_the_plan_of_a_larger_cluster_stays_if_it_is_near_its_bound(
    larger: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound of this plan is 0.89 of its bytes, so it counts as near only if 1.2 times the bound does."""
    monkeypatch.setattr(rack_by_rack, "_NEAR", 1.2)
    problem = problem_of(larger.brokers, larger.partitions, tolerance=0.02)
    found = searched(problem, "balanced")
    assert isinstance(found, FoundLists)
    frame = frame_of(problem, found.goal, found.wanted)
    assert cheaper_lists.cheaper_lists(frame, found.unordered, (0, 1, 0)) is None


def test_crowding_in_total_is_a_row_of_the_program() -> None:
    """Where nothing may crowd, lists that crowd break the program by the replicas that they crowd with."""
    brokers, rows = skewed(3)
    problem = problem_of(brokers, rows, tolerance=0.9)
    found, _ = both(problem)
    frame = frame_of(problem, found.goal, found.wanted)
    program = ListProgram(frame)
    program.crowd_no_more_than(problem.replicas)
    whole = program.program(band(frame.targets, 5.0))
    before = Crowding(problem.replicas, problem.topic, frame.topic_shares).replicas
    assert whole.breach(program.values(problem.replicas)) <= 1e-9
    crowded = problem.replicas.copy()
    for row in range(12):  # the first topic on as few brokers as the racks allow
        crowded[row] = np.sort(crowded[row] % 3 - 3 * (crowded[row] < 0))
    more = Crowding(crowded, problem.topic, frame.topic_shares).replicas - before
    assert more > 0
    assert whole.breach(program.values(crowded)) == pytest.approx(more)
