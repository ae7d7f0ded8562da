"""Candidates: which moves each job asks for, searched, scored and described.

`searched` is a pure function of problem, name and trial, `described` of what it finds: Spark calls both in its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.settings import OPTIMAL, SEARCHED
from kafka_rebalance.planning import given_plan
from kafka_rebalance.planning.bounds.bands import band
from kafka_rebalance.planning.bounds.targets import leader_targets
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate, described_candidate, infeasible
from kafka_rebalance.planning.describe.status_and_note import optimum_words
from kafka_rebalance.planning.problem.arrays import (
    Floats,
    Ints,
    Problem,
    among,
    changed_lists,
    lagging,
    led_first,
    replication,
    widened,
)
from kafka_rebalance.planning.problem.loads import DISK, leader_loads, leader_weights
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.search import drain_and_replace, replication_factor
from kafka_rebalance.planning.search.efforts import best_of_trials
from kafka_rebalance.planning.search.frame import FoundLists, Frame, frame_of, placement_of, search_bands
from kafka_rebalance.planning.search.leader_balance import balance_leaders
from kafka_rebalance.planning.search.optimal import NOT_SOLVED, Proof, applies, fewest_bytes
from kafka_rebalance.planning.search.placement import Budget, Placement, budget_of, spent


def propose(problem: Problem, name: str) -> DescribedCandidate:
    """The candidate of that name, searched once and described. Raises PlanningError where the job is impossible."""
    return described(problem, name, searched(problem, name))


def described(problem: Problem, name: str, found: FoundLists | DescribedCandidate) -> DescribedCandidate:
    """What was searched, with its moves, reasons, batches and scores; an infeasible one as it is."""
    return found if isinstance(found, DescribedCandidate) else described_candidate(problem, name, found)


def searched(problem: Problem, name: str, trial: int = 0) -> FoundLists | DescribedCandidate:
    """The lists of the candidate of that name, or why there are none. `trial` is a seed beside that of the settings."""
    if name not in SEARCHED:
        return given_plan.propose_given(problem, name)
    goal = goal_of(problem.settings, name)
    wanted = replication_factor.wanted_factor(problem) if goal.moves_replicas else replication(problem.replicas)
    frame = frame_of(problem, goal, wanted)
    if name == OPTIMAL:
        return _optimal(frame)
    seed = (problem.settings.seed, SEARCHED.index(name), trial)
    budget = budget_of(problem)
    replicas, off = problem.replicas, 0.0
    if goal.moves_replicas:
        placement, stranded = _forced(frame)
        budget = placement.budget
        if stranded:
            return infeasible(problem, name, _stranded(frame, placement, stranded))
        if budget.exceeded():
            return infeasible(problem, name, _beyond(budget))
        if goal.repairs_racks or goal.balances:
            placement, off = best_of_trials(frame, placement, seed)
        replicas, budget = placement.replicas, placement.budget
    unordered = replicas
    replicas, leader_targets = _with_leaders(frame, replicas, budget, seed)
    return FoundLists(
        replicas,
        unordered,
        goal,
        frame.rule,
        frame.wanted,
        frame.targets,
        leader_targets,
        frame.scale,
        budget,
        relief=frame.relief,
        off=off,
    )


def best_of(trials: Sequence[FoundLists | DescribedCandidate]) -> FoundLists | DescribedCandidate:
    """The search that ended nearest to balance, of equal ones that with fewest bytes, then with fewest new leaders."""
    found = [trial for trial in trials if isinstance(trial, FoundLists)]
    if not found:
        return trials[0]
    return min(found, key=lambda trial: (trial.off, trial.budget.bytes, trial.budget.leader_changes))


def _optimal(frame: Frame) -> FoundLists | DescribedCandidate:
    """The candidate that is solved exactly."""
    problem, goal = frame.problem, frame.goal
    if not applies(problem):
        return infeasible(problem, OPTIMAL, NOT_SOLVED)
    found = fewest_bytes(frame)
    note = optimum_words(found, goal.tolerance)
    if found.replicas is None:
        return infeasible(problem, OPTIMAL, note)
    budget = spent(problem, found.replicas)
    if budget.exceeded():
        return infeasible(problem, OPTIMAL, _beyond(budget))
    seed = (problem.settings.seed, SEARCHED.index(OPTIMAL), 0)
    lists, leaders = _with_leaders(frame, found.replicas, budget, seed)
    return FoundLists(
        lists,
        found.replicas,
        goal,
        frame.rule,
        frame.wanted,
        frame.targets,
        leaders,
        frame.scale,
        budget,
        notes=(note,),
        is_proven=found.proof is Proof.PROVEN,
    )


def _stranded(frame: Frame, placement: Placement, replicas: int) -> str:
    """That a replica which has to go somewhere can go nowhere, and what is in the way."""
    problem = frame.problem
    open_brokers = int(problem.receivers.sum())
    text = f"{replicas:,} replicas find no place on the {open_brokers} brokers that may receive: "
    left = (placement.disk_limit - placement.loads[:, DISK])[problem.receivers] * frame.scale[DISK]
    left = left[np.isfinite(left)]
    if not len(left):
        return text + "all others of their racks hold a replica of the partition, or may receive nothing."
    kept, most = problem.settings.disk_headroom, max(0, int(left.max()))
    return text + (
        "the rack rule leaves few brokers for them, and with them those disks would be more than "
        f"{share_in_words(1 - kept)} full (disk_headroom {kept:g}): the most that one has left is {most:,} "
        "bytes. No way was "
        "found, which does not prove that there is none. Add brokers in those racks, or empty fewer."
    )


def _beyond(budget: Budget) -> str:
    """That even the moves the job cannot do without are more than the limits allow."""
    figures = ", ".join(f"{spent:,} against {name} {limit:,}" for name, spent, limit in budget.exceeded())
    return f"What the job cannot do without is beyond the limits: {figures}. Raise the limit, or ask for less."


def _forced(frame: Frame) -> tuple[Placement, int]:
    """The assignment after what the job asks for whatever the balance, and how many replicas found no place.

    Limits are not heeded here: whether this much fits them is asked afterwards.
    """
    problem = frame.problem
    before, settings = problem.replicas, problem.settings
    replaced = before
    if settings.replace:
        replaced = drain_and_replace.replaced(problem, before, settings.replace)
    replicas, short = replaced, 0
    if (frame.wanted != replication(before)).any():
        plain = band(frame.targets, frame.goal.tolerance)
        nothing = np.zeros(before.shape, dtype=bool)
        start = placement_of(frame, replaced, before, nothing, Budget())
        replicas = replication_factor.shrunk(start, frame.wanted, problem.leaving, problem.in_sync, plain)
        start = placement_of(frame, replicas, before, nothing, Budget())
        replicas, short = replication_factor.grown(start, frame.wanted, plain)
        replicas = replication_factor.led_by_those_who_may(problem, replicas, lagging(problem, replicas))
    # A slot's origin is the same broker if the partition had a replica there, else nowhere.
    kept = among(replicas, before)
    if replicas.shape == before.shape and settings.replication_factor is None:
        origin = before
    else:
        origin = np.where(kept, replicas, -1)
    placement = placement_of(frame, replicas, origin, among(replicas, replaced) & ~kept, Budget())
    stranded = drain_and_replace.empty_brokers(placement, problem.leaving, search_bands(frame, placement, 0.04))
    placement.budget = spent(problem, placement.replicas)
    return placement, len(stranded) + short


def _with_leaders(frame: Frame, replicas: Ints, budget: Budget, seed: tuple[int, int, int]) -> tuple[Ints, Floats]:
    """The lists re-ordered for leaders, and [broker, LEADER_METRICS] each broker's share in its own unit."""
    problem, goal = frame.problem, frame.goal
    before = widened(problem.replicas, replicas.shape[1])
    mine = problem.movable & (goal.all_leaders | changed_lists(before, replicas))
    led = led_first(replicas, np.where(mine, replicas[:, 0], problem.leader))  # of the others, who leads goes on
    raw, targets, receivers = leader_weights(problem, led), leader_targets(problem, led), problem.receivers
    scale = raw.sum(axis=0) / max(1, int(problem.staying.sum()))
    unit = np.where(scale > 0, scale, 1.0)
    givers = receivers.copy()
    if goal.one_sided:
        held = leader_loads(led[:, 0], raw, len(receivers))
        givers &= (held > targets * (1 + goal.tolerance)).any(axis=1)
    result = balance_leaders(
        led,
        before,
        raw / unit,
        targets / unit,
        goal.tolerance,
        movable=mine,
        receivers=receivers,
        givers=givers,
        leaving=problem.leaving,
        behind=lagging(problem, replicas),
        one_sided=goal.one_sided,
        budget=budget,
        rng=np.random.default_rng([*seed, 1_000]),
    )
    return np.where(mine[:, None], result, replicas), targets
