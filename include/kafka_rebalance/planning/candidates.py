"""Candidates: which moves each job asks for, searched, scored and described.

Spark calls `searched` and `described` in its tasks, so both are pure functions. The driver calls `chosen` in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import numpy as np

from kafka_rebalance.documents.candidate_notes import Within
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.settings import BALANCED, LIGHT, OPTIMAL, SEARCHED
from kafka_rebalance.planning import given_plan
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.solver import SolverError
from kafka_rebalance.planning.bounds.targets import band, leader_targets
from kafka_rebalance.planning.describe.described_candidate import (
    DescribedCandidate,
    described_candidate,
    failed,
    infeasible,
    reached,
)
from kafka_rebalance.planning.describe.status_and_notes import beyond_note, optimum_note, stranded_note
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Floats,
    Ints,
    Problem,
    among,
    changed_lists,
    lagging,
    leader_loads,
    leader_weights,
    led_first,
    replication,
    should_lead,
    todays_leaders_first,
    widened,
)
from kafka_rebalance.planning.problem.pools import Spent, parts_of, share_of
from kafka_rebalance.planning.rules.crowding import crowded_replicas
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.leaders import TopicLeaders, ending, may_be_elected
from kafka_rebalance.planning.rules.proposed_lists import in_proposed_order
from kafka_rebalance.planning.rules.rack_rule import broken_lists, violations
from kafka_rebalance.planning.rules.survival import without_survival
from kafka_rebalance.planning.rules.topic_spread import excess_of
from kafka_rebalance.planning.search import frame as drain_and_replace
from kafka_rebalance.planning.search import frame as replication_factor
from kafka_rebalance.planning.search.fewest_bytes import (
    Optimum,
    Proof,
    can_be_cheaper,
    cheaper_lists,
    fewest_bytes,
)
from kafka_rebalance.planning.search.frame import FoundLists, Frame, frame_of, joined, placement_of, search_bands
from kafka_rebalance.planning.search.leaders import with_heavy_leaders, with_kept_leaders, with_leaders
from kafka_rebalance.planning.search.optimal import EFFORT, GAP, NOT_SOLVED, NOTHING, applies, crowds_more
from kafka_rebalance.planning.search.placement import Budget, Placement, budget_of, spent, total
from kafka_rebalance.planning.search.trials import best_of_trials, near_trial

log = logging.getLogger(__name__)


T = TypeVar("T")
_Step = Callable[[Problem, str, FoundLists], FoundLists]


class Search(StrEnum):
    """Where one search of a candidate begins."""

    FRESH = "fresh"
    NEAR = "near"  # with the lists of the last proposal


def propose(problem: Problem, name: str) -> DescribedCandidate:
    """The candidate of that name, searched and described. Raises PlanningError where the job is impossible."""
    found = [searched(problem, name, search) for search in searches_of(problem, name)]
    return described(problem, name, chosen(problem, name, found))


def attempted(problem: Problem, name: str, work: Callable[[], T]) -> T | DescribedCandidate:
    """What the work on this candidate gives. Whatever it raises is the end of this candidate alone: it has failed."""
    try:
        return work()
    except Exception as error:
        log.exception("Candidate %s failed. The other candidates do not depend on it", name)
        return failed(problem, name, error)


def check_some_stand(plans: Sequence[DescribedCandidate]) -> None:
    """Raises PlanningError with the errors if every candidate has failed."""
    if any(plan.candidate.status != Status.FAILED for plan in plans):
        return
    refusals = {plan.refusal for plan in plans}
    if len(refusals) == 1 and "" not in refusals:
        raise PlanningError(*refusals)
    each = " ".join(f"{plan.candidate.name}: {plan.note.removesuffix('.')}." for plan in plans)
    raise PlanningError(
        f"No candidate could be planned. {each} Nothing was planned. The log of the planner has the whole errors. "
        "Report them with the snapshot's folder."
    )


def described(problem: Problem, name: str, found: FoundLists | DescribedCandidate) -> DescribedCandidate:
    """The lists with moves, reasons, batches and scores. An infeasible candidate comes back as it is."""
    return found if isinstance(found, DescribedCandidate) else described_candidate(problem, name, found)


def searches_of(problem: Problem, name: str) -> Sequence[Search]:
    """The searches of a candidate: a fresh one, and of two candidates one near the last proposal."""
    return tuple(Search) if name in (LIGHT, BALANCED) and name in problem.earlier.proposed else (Search.FRESH,)


def searched(problem: Problem, name: str, search: Search = Search.FRESH) -> FoundLists | DescribedCandidate:
    """The lists of the candidate of that name, or why there are none."""
    if name not in SEARCHED:
        return given_plan.propose_given(problem, name)
    problem = _counted(problem)
    if problem.pools.are_several:
        return _pool_by_pool(problem, name, search)
    goal = goal_of(problem.settings, name)
    wanted = replication_factor.wanted_factor(problem) if goal.moves_replicas else replication(problem.replicas)
    frame = frame_of(problem, goal, wanted)
    seed = _seed(problem, name)
    if name == OPTIMAL:
        return _optimal(frame, seed)
    if not goal.moves_replicas:
        return _led(frame, name, problem.replicas, budget_of(problem), seed)
    found = _moved(frame, name, seed, search)
    if not isinstance(found, FoundLists):
        return found if problem.settings.survive is None else _searched_without_limits(problem, name, search)
    if goal.spreads_topics:
        plain = _moved(replace(frame, goal=replace(goal, spreads_topics=False)), name, seed, search)
        found = replace(found, bytes_without_spread=plain.budget.bytes if isinstance(plain, FoundLists) else None)
    return found


def _searched_without_limits(problem: Problem, name: str, search: Search) -> FoundLists | DescribedCandidate:
    """Lists without the limits of `survive`, which are enough and not all needed: they show which loss is too much."""
    found = searched(without_survival(problem), name, search)
    return found if isinstance(found, FoundLists) else infeasible(problem, name, found.notes[0])


def _counted(problem: Problem) -> Problem:
    """With a limit on leader changes the problem whose searches count them as the plan will: from today's leader.

    Without one, preferred leaders are elected wherever that helps, so the search begins with them. So it does for job
    `elect`, which searches nothing.
    """
    unlimited = problem.settings.max_leader_changes is None
    return problem if unlimited or problem.settings.job == "elect" else todays_leaders_first(problem)


def _pool_by_pool(problem: Problem, name: str, search: Search) -> FoundLists | DescribedCandidate:
    """The lists of all pools, each searched by itself. If all together go beyond a limit, the pools share it."""
    parts = parts_of(problem)
    found = [searched(part.problem, name, search) for part in parts]
    together = _joined(problem, name, found)
    if not isinstance(together, FoundLists) or not together.budget.exceeded():
        return together
    needed = [_required(part.problem, name) for part in parts]
    required = total(problem, needed)
    if name == OPTIMAL or required.exceeded():
        return infeasible(problem, name, beyond_note(together.budget if name == OPTIMAL else required))
    limited = []
    for part, least, unlimited in zip(parts, needed, together.parts, strict=True):
        shares: dict[str, Any] = {
            limit: share_of(
                allowed,
                Spent(required.spent[limit], together.budget.spent[limit]),
                Spent(least.spent[limit], unlimited.budget.spent[limit]),
            )
            for limit, allowed in together.budget.limits.items()
            if allowed is not None
        }
        limited.append(replace(part.problem, settings=replace(problem.settings, **shares)))
    return _joined(problem, name, [searched(part, name, search) for part in limited])


def _required(problem: Problem, name: str) -> Budget:
    """What the moves that the job requires cost."""
    goal = goal_of(problem.settings, name)
    if not goal.moves_replicas:
        return budget_of(problem)
    return _forced(frame_of(problem, goal, replication_factor.wanted_factor(problem)))[0].budget


def _joined(
    problem: Problem, name: str, found: Sequence[FoundLists | DescribedCandidate]
) -> FoundLists | DescribedCandidate:
    """The lists of all pools together. If there are none for a pool, why."""
    for part, one in zip(parts_of(problem), found, strict=True):
        if not isinstance(one, FoundLists):
            return infeasible(problem, name, replace(one.notes[0], pool=part.name))
    return joined(problem, [one for one in found if isinstance(one, FoundLists)])


def _moved(frame: Frame, name: str, seed: tuple[int, int, int], search: Search) -> FoundLists | DescribedCandidate:
    """The lists after the moves that the job requires, and balanced if it asks for that."""
    problem, goal = frame.problem, frame.goal
    forced, stranded = _forced(frame)
    if stranded:
        return infeasible(problem, name, stranded_note(frame, forced, stranded))
    if forced.budget.exceeded():
        return infeasible(problem, name, beyond_note(forced.budget))
    if search is Search.NEAR:
        placement, off = near_trial(frame, forced, problem.earlier.proposed[name], seed)
        return replace(_led(frame, name, placement.replicas, placement.budget, seed), off=off)
    if not (goal.repairs_racks or goal.balances or goal.spreads_topics):
        return _led(frame, name, forced.replicas, forced.budget, seed)
    found = _balanced(frame, name, forced, seed)
    if _more_excess(problem, found) <= 0:
        return found
    # No order of these lists mends that. Topics come before the tolerance.
    return min(found, _balanced(frame, name, forced, seed, holds_leaders=True), key=partial(_more_excess, problem))


def _balanced(
    frame: Frame, name: str, forced: Placement, seed: tuple[int, int, int], *, holds_leaders: bool = False
) -> FoundLists:
    placement, off = best_of_trials(frame, forced, seed, holds_leaders=holds_leaders)
    return replace(_led(frame, name, placement.replicas, placement.budget, seed), off=off)


def _led(frame: Frame, name: str, lists: Ints, budget: Budget, seed: tuple[int, int, int]) -> FoundLists:
    """The lists with their leaders. Lists of the brokers that were proposed last start in the order proposed."""
    problem = frame.problem
    if frame.goal.repairs_racks:
        kept = with_kept_leaders(frame, lists)
        fewer = spent(problem, lists).leader_changes - spent(problem, kept).leader_changes
        lists, budget = kept, replace(budget, leader_changes=budget.leader_changes - fewer)
    if name in (proposed := problem.earlier.proposed):
        givers, all_leaders = _givers_of_leaders(frame, lists), frame.goal.all_leaders
        ordered = in_proposed_order(problem, lists, proposed[name], givers, all_leaders=all_leaders)
        led = spent(problem, ordered).leader_changes - spent(problem, lists).leader_changes
        again = replace(budget, leader_changes=budget.leader_changes + led, reached=set(budget.reached))
        if (ordered != lists).any() and not again.exceeded():
            return replace(with_leaders(frame, ordered, again, seed, from_prices=False), unordered=lists)
    return with_leaders(frame, lists, budget, seed)


def _givers_of_leaders(frame: Frame, lists: Ints) -> Bools:
    """[broker] Whose leaders may go elsewhere: if only brokers above the band give, those that lead too much."""
    problem, goal = frame.problem, frame.goal
    if not goal.one_sided:
        return problem.evened
    held = leader_loads(lists[:, 0], leader_weights(problem, lists), len(problem.brokers))
    return problem.evened & (held > leader_targets(problem, lists) * (1 + goal.tolerance)).any(axis=1)


def chosen(
    problem: Problem, name: str, found: Sequence[FoundLists | DescribedCandidate]
) -> FoundLists | DescribedCandidate:
    """What the searches found, the fresh one first: the one near the last proposal, if it is as good.

    Of candidate `balanced`, cheaper lists near the fresh ones, where the solver finds some. The driver alone has the
    solver, so the driver calls this.
    """
    problem = _counted(problem)
    fresh, *others = found
    if not isinstance(fresh, FoundLists):
        return fresh
    if fresh.parts:
        searches = [one.parts for one in found if isinstance(one, FoundLists)]
        each = zip(parts_of(problem), zip(*searches, strict=True), strict=True)
        parts = [chosen(part.problem, name, own) for part, own in each]
        together = _joined(problem, name, parts)
        return fresh if isinstance(together, FoundLists) and together.budget.exceeded() else together
    best = _improved(problem, name, fresh, _cheaper, fewer_leader_changes)
    near = next(
        (_improved(problem, name, other, fewer_leader_changes) for other in others if isinstance(other, FoundLists)),
        None,
    )
    proposed = problem.earlier.proposed
    if near is None or not _is_nearer(proposed[name], near, best) or not _is_as_good(problem, near, best):
        return best
    return best if _more_excess(problem, near) > max(0, _more_excess(problem, best)) else near


def _improved(problem: Problem, name: str, found: FoundLists, *steps: _Step) -> FoundLists:
    """The lists after steps that need the solver. If it refuses one, that step improves nothing."""
    for step in steps:
        try:
            found = step(problem, name, found)
        except SolverError as refused:
            log.warning("Candidate %s stays as it was found: %s", name, refused)
    return found


def _cheaper(problem: Problem, name: str, best: FoundLists) -> FoundLists:
    if name != BALANCED or not can_be_cheaper(problem, best):
        return best
    frame = frame_of(problem, best.goal, best.wanted)
    seed = _seed(problem, name)
    lists = cheaper_lists(frame, best.unordered, seed)
    if lists is None:
        return best
    led = _led(frame, name, lists, spent(problem, lists), seed)
    cheaper = replace(led, off=best.off, bytes_without_spread=best.bytes_without_spread)
    return best if _more_excess(problem, cheaper) > max(0, _more_excess(problem, best)) else cheaper


def _more_excess(problem: Problem, found: FoundLists) -> int:
    """How many more leaders are too many of their topics after the plan than now."""
    end = ending(problem, found.replicas, found.goal)
    before, after = (TopicLeaders(problem, leaders) for leaders in (problem.leader, end.leaders))
    return after.excess - before.excess


def _seed(problem: Problem, name: str) -> tuple[int, int, int]:
    return problem.settings.seed, SEARCHED.index(name), 0  # the last was the number of a search: it keeps old plans


def _optimal(frame: Frame, seed: tuple[int, int, int]) -> FoundLists | DescribedCandidate:
    """The optimum, searched from the lists of candidate `balanced` on."""
    problem = frame.problem
    if not applies(problem):
        return infeasible(problem, OPTIMAL, NOT_SOLVED)
    known = _offered(problem, BALANCED)
    start = None if known is None else known.unordered
    besides = NOTHING._replace(spreads_topics=frame.goal.spreads_topics)
    found, lists = _with_its_leaders(frame, fewest_bytes(frame, start, besides), seed, known)
    if found.replicas is not None and crowds_more(frame, found.replicas):
        # Few optima crowd brokers more, so only then does the program look at that. A drain may have no other place.
        other = fewest_bytes(frame, start, besides._replace(crowds_no_more=True))
        has_to = frame.emptied.any() or violations(frame.rule, problem.replicas).any()
        if other.replicas is not None or not has_to:
            besides, (found, lists) = other.besides, _with_its_leaders(frame, other, seed, known)
    if isinstance(lists, FoundLists) and _more_excess(problem, lists) > 0:
        # Nearly always some order is good enough, so only then does the program look at leaders.
        found = fewest_bytes(frame, start, besides._replace(spreads_leaders=True))
        found, lists = _with_its_leaders(frame, found, seed, known)
    return _claimed(frame, found, lists) if isinstance(lists, FoundLists) else lists


def _with_its_leaders(
    frame: Frame, found: Optimum, seed: tuple[int, int, int], known: FoundLists | None
) -> tuple[Optimum, FoundLists | DescribedCandidate]:
    """The optimum with its leaders, or why it is not offered. `known` are the lists of candidate `balanced`."""
    problem, beyond = frame.problem, found.within is not Within.TOLERANCE
    if found.replicas is None:
        return found, infeasible(problem, OPTIMAL, optimum_note(frame, found))
    cheapest = with_kept_leaders(frame, found.replicas)
    budget = spent(problem, cheapest)
    if budget.exceeded():
        return found, infeasible(problem, OPTIMAL, beyond_note(budget))
    lists = with_leaders(frame, cheapest, budget, seed)
    if known is not None and known.budget.bytes < budget.bytes * (1 - GAP):
        theirs = reached(problem, known)
        as_good = theirs.is_as_good_as(reached(problem, lists))
        if not beyond:  # the lists are better than all that are beyond the tolerance
            # It has what did not count here: topics that crowd brokers, or leaders that are spread worse.
            found = replace(found, proof=Proof.UNDERCUT) if as_good or theirs.is_met else found
        elif as_good:
            # By the measure of the page it is as near, or it keeps rules that are narrower in the program.
            lists, found = known, replace(found, proof=Proof.BEST_FOUND, not_ruled_out=None)
        elif theirs.is_met:
            found = replace(found, proof=Proof.UNDERCUT)
    elif known is not None and _spares_leaders(frame, known, lists):
        lists = known
    return found, lists


def _claimed(frame: Frame, found: Optimum, lists: FoundLists) -> FoundLists:
    """The lists with what is proven of them."""
    problem, beyond = frame.problem, found.within is not Within.TOLERANCE
    light = _offered(problem, LIGHT) if beyond and found.proof is Proof.PROVEN else None  # its own band is wider
    if light is not None and light.budget.bytes < lists.budget.bytes * (1 - GAP):
        as_good = reached(problem, light).is_as_good_as(reached(problem, lists))
        found = replace(found, proof=Proof.UNDERCUT, undercut_by=LIGHT) if as_good else found
    is_proven, notes = found.proof is Proof.PROVEN, (optimum_note(frame, found),)
    return replace(lists, notes=notes, is_proven=is_proven, beyond=beyond, least_bytes=found.least_bytes)


def _offered(problem: Problem, name: str) -> FoundLists | None:
    """The lists of another candidate, if there are any within the limits."""
    found = chosen(problem, name, [searched(problem, name)])
    return found if isinstance(found, FoundLists) and not found.budget.exceeded() else None


def _spares_leaders(frame: Frame, known: FoundLists, lists: FoundLists) -> bool:
    """Whether the known lists do as much with no more bytes, and take leadership from fewer brokers than these."""
    problem = frame.problem
    cheap = known.budget.bytes <= lists.budget.bytes and known.budget.leader_changes < lists.budget.leader_changes
    if not cheap or crowds_more(frame, known.replicas):
        return False
    spreads = _more_excess(problem, known) <= max(0, _more_excess(problem, lists))
    return spreads and reached(problem, known).is_as_good_as(reached(problem, lists))


def _forced(frame: Frame) -> tuple[Placement, int]:
    """The assignment after the moves that the job requires, and how many replicas found no place.

    It ignores the limits; the caller asks afterwards whether this much fits them.
    """
    problem, settings, before = frame.problem, frame.problem.settings, frame.problem.replicas
    replicas = replaced = drain_and_replace.replaced(problem, before, settings.replace)
    short = 0
    if (frame.wanted != replication(before)).any():
        plain = band(frame.targets, frame.goal.tolerance)
        nothing = np.zeros(before.shape, dtype=bool)
        start = placement_of(frame, replaced, before, nothing, Budget())
        replicas = replication_factor.shrunk(start, frame.wanted, frame.emptied, problem.in_sync, plain)
        start = placement_of(frame, replicas, before, nothing, Budget())
        replicas, short = replication_factor.grown(start, frame.wanted, plain)
        replicas = replication_factor.led_by_those_who_may(problem, replicas, lagging(problem, replicas))
    # A slot's origin is the same broker if the partition had a replica there, else nowhere.
    kept = among(replicas, before)
    same_places = replicas.shape == before.shape and settings.replication_factor is None
    origin = before if same_places else np.where(kept, replicas, -1)
    placement = placement_of(frame, replicas, origin, among(replicas, replaced) & ~kept, Budget())
    stranded = drain_and_replace.empty_brokers(
        placement, problem.leaving, problem.failed, search_bands(frame, placement, 0.04)
    )
    placement.budget = spent(problem, placement.replicas)
    return placement, len(stranded) + short


# Whether the plan near the last proposal may take the place of the one that was searched afresh.
#
# A person who approves again reads a small difference faster than a new plan. But it must not cost evenness or bytes.


# Times the bytes, and times the distance to the bands, of the fresh search. For less than that, other lists are not
# worth their change; `cheaper_lists` has the same measure.
HARDLY_MORE = 1.005


def _is_nearer(proposed: Ints, near: FoundLists, fresh: FoundLists) -> bool:
    """Whether more of the lists are as proposed last."""
    alike = [int((~changed_lists(proposed, found.replicas)).sum()) for found in (near, fresh)]
    return alike[0] > alike[1]


def _is_as_good(problem: Problem, near: FoundLists, fresh: FoundLists) -> bool:
    """Whether the lists near the last proposal are as even as the fresh ones, copy hardly more, and break no rule."""
    if near.budget.bytes > HARDLY_MORE * fresh.budget.bytes:
        return False
    # These two are squared.
    if near.off > HARDLY_MORE**2 * fresh.off or leaders_off(problem, near) > HARDLY_MORE**2 * leaders_off(
        problem, fresh
    ):
        return False
    broken = [int(broken_lists(found.rules, found.replicas).sum()) for found in (near, fresh)]
    excess = [excess_of(problem, found.replicas) for found in (near, fresh)]
    if excess[0] and excess[1] and excess[0].now > excess[1].now:
        return False
    before, *crowded = (crowded_replicas(problem, those) for those in (problem.replicas, near.replicas, fresh.replicas))
    return broken[0] <= broken[1] and crowded[0] <= max(before, crowded[1])


def leaders_off(problem: Problem, found: FoundLists) -> float:
    """The squared distance of the leader metrics to the tolerance, as shares of each broker's target."""
    held = leader_loads(found.replicas[:, 0], leader_weights(problem, found.replicas), len(problem.brokers))
    relative = np.divide(held, found.leader_targets, out=np.ones_like(held), where=found.leader_targets > 0)
    beyond = relative - 1 if found.goal.one_sided else np.abs(relative - 1)
    outside = np.maximum(0, beyond - found.goal.tolerance)[problem.evened]
    return round(float((outside * outside).sum()), 8)


# Fewer leader changes where leaders stay outside the tolerance, by HiGHS.
#
# A search for a tolerance that it cannot reach goes on until nothing gains. On its way it changes leaders between
# brokers that are within the tolerance. An integer program finds the fewest changes whose end is as good: no broker
# leads further outside the tolerance, and topics spread their leaders as well.


_VARIABLES = 50_000  # at most; the relaxation of a program of this size takes a second or more
_RELAXED: solver.Options = {"simplex_iteration_limit": 100_000}
_STEP: solver.Options = {**EFFORT, "mip_rel_gap": 0.05, "mip_max_nodes": 1}
_STEPS = 12
_FREE, _DIFFER = 400, 0.7  # lists of one step, and the share of them in which the relaxation differs, at most
_CLOSE = 1.05  # times the relaxation's cost: a search for less is in vain
_WORTH, _IDLE = 0.98, 3  # times the changes: after three steps in a row that save less, the search ends
_SAVED = 10  # changes at least: for fewer, other lists than those found are not worth it
_NEAR = 0.7  # changes: lists within the tolerance are led by what is dearer by no more
_TIE = 0.01  # of a change: what another leader than the one proposed last costs
_WHOLE, _BREACH, _FINE = 1e-6, 1e-6, 1e-9


def fewer_leader_changes(problem: Problem, name: str, found: FoundLists) -> FoundLists:
    """The lists with fewer changes of today's leaders; those found if that is not possible, or not needed."""
    if found.goal.one_sided or not solver.available():
        return found
    fewer, least_saved = None, _SAVED if _as_proposed(problem, name, found) else 1
    if leaders_off(problem, found) == 0 and problem.settings.max_leader_changes is None:
        frame = frame_of(problem, found.goal, found.wanted)
        fewer = with_heavy_leaders(frame, found.unordered, spent(problem, found.unordered), _seed(problem, name))
    if fewer is not None:
        if _is_quieter(problem, fewer.lists, found, least_saved):
            theirs = fewer.lists
            found = replace(found, replicas=theirs.replicas, budget=theirs.budget, spreads_topics=theirs.spreads_topics)
        if (problem.leader == problem.replicas[:, 0])[problem.movable].all():
            found = replace(found, least_leader_changes=fewer.least)
    lists = found.replicas
    before = widened(problem.replicas, lists.shape[1])
    free = _free(problem, found, before)
    if fewer is not None:
        near = fewer.dearer(lists) <= _NEAR
        near[:, 0] = True
        free &= near & (near.sum(axis=1) > 1)[:, None]
    rows, positions = np.nonzero(free)
    if not 0 < len(rows) <= _VARIABLES:
        return found
    cost = (lists[rows, positions] != problem.leader[rows]).astype(np.float64)
    if name in (proposed := problem.earlier.proposed):
        cost += _TIE * (lists[rows, positions] != proposed[name][rows, 0])
    program, first = _program(problem, found, rows, positions, cost)
    x = _searched(program, first, rows)
    led = np.flatnonzero(x[: len(rows)] > 0.5)
    leaders = lists[:, 0].copy()
    leaders[rows[led]] = lists[rows[led], positions[led]]
    saved = int((lists[:, 0] != problem.leader).sum() - (leaders != problem.leader).sum())
    budget = replace(found.budget, leader_changes=found.budget.leader_changes - saved)
    quieter = replace(found, replicas=led_first(lists, leaders), budget=budget)
    return (
        quieter
        if saved >= least_saved and leaders_off(problem, quieter) <= leaders_off(problem, found) + _FINE
        else found
    )


def _as_proposed(problem: Problem, name: str, found: FoundLists) -> bool:
    """Whether a list changes to what was proposed last."""
    proposed = problem.earlier.proposed.get(name)
    if proposed is None:
        return False
    as_then = ~changed_lists(proposed, found.replicas) & changed_lists(problem.replicas, found.replicas)
    return bool(as_then.any())


def _is_quieter(problem: Problem, one: FoundLists, other: FoundLists, least_saved: int) -> bool:
    """Whether the first lists change fewer leaders by so many, and end as even, with topics that spread as well."""
    saved = other.budget.leader_changes - one.budget.leader_changes
    as_even = leaders_off(problem, one) <= leaders_off(problem, other)
    most_excess = _more_excess(problem, other)
    if not problem.settings.spread_leaders:  # else no leader more than in the other lists may be too many
        most_excess = max(0, most_excess)
    return saved >= least_saved and as_even and _more_excess(problem, one) <= most_excess


def _free(problem: Problem, found: FoundLists, before: Ints) -> Bools:
    """[row, position] Which replicas may lead, of the lists whose leader may be another one than in the lists found.

    They are those of `search.leader_balance`.
    """
    lists = found.replicas
    may_be = may_be_elected(problem, lists)
    may_lead = should_lead(problem, lists) & may_be
    may_lead[:, 0] = True
    movable = problem.movable & (found.goal.all_leaders | changed_lists(before, lists)) & may_be[:, 0]
    movable &= (problem.evened | problem.leaving)[lists[:, 0]] & (may_lead.sum(axis=1) > 1)
    free: Bools = may_lead & movable[:, None]
    return free


def _searched(program: solver.Program, first: Floats, rows: Ints) -> Floats:
    """The best solution that some steps find, or `first`. `rows` is [column] the list of each replica.

    Each step frees lists whose leader differs between the best solution and the relaxation, and some others, drawn anew
    (as relaxation induced neighbourhoods: Danna, Rothberg and Le Pape, 2005). All others stay.
    """
    relaxed, count, best = solver.solve(solver.relaxed(program), _RELAXED), len(rows), first
    if relaxed.x is None:
        return first
    rng, idle = np.random.default_rng(count), 0
    for _ in range(_STEPS):
        if program.cost @ best <= _CLOSE * relaxed.cost:
            break
        differs = np.unique(rows[np.abs(relaxed.x[:count] - best[:count]) > _WHOLE])
        differs = rng.permutation(differs)[: int(_DIFFER * _FREE)]
        others = rng.permutation(np.setdiff1d(rows, differs))[: _FREE - len(differs)]
        free = np.ones(len(best), dtype=bool)
        free[:count] = np.isin(rows, np.concatenate([differs, others]))
        before = program.cost @ best
        found = solver.solve(program.part(free, best), _STEP, best[free])
        if found.x is not None:
            after = best.copy()
            after[free] = found.x
            after[:count] = np.round(after[:count])
            if program.cost @ after < before - _WHOLE and program.breach(after) <= _BREACH:
                best = after
        idle = idle + 1 if program.cost @ best > _WORTH * before else 0
        if free.all() or idle == _IDLE:
            break
    return best


def _program(
    problem: Problem, found: FoundLists, rows: Ints, positions: Ints, cost: Floats
) -> tuple[solver.Program, Floats]:
    """(the program, the lists found as a solution of it)

    Its columns are the replicas that may lead, and by how much each topic's leaders are too many on a broker.
    """
    lists, brokers = found.replicas, len(problem.brokers)
    here, count = lists[rows, positions], len(rows)
    leaders = np.where(problem.movable, lists[:, 0], problem.leader)
    fixed = np.ones(len(lists), dtype=bool)
    fixed[rows] = False

    raw = leader_weights(problem, lists)
    weights = raw / np.maximum(raw.sum(axis=0), _FINE)
    targets = band(found.leader_targets / np.maximum(raw.sum(axis=0), _FINE), found.goal.tolerance)
    reached, rest = (leader_loads(leaders[some], weights[some], brokers) for some in (slice(None), fixed))
    low, high = np.minimum(targets.low, reached) - _FINE, np.maximum(targets.high, reached) + _FINE

    topics = TopicLeaders(problem, leaders)
    led = np.bincount(topics.topic * brokers + leaders, minlength=topics.room.size)
    stays = np.bincount(topics.topic[fixed] * brokers + leaders[fixed], minlength=topics.room.size)
    most = topics.most.ravel()
    cells, cell = np.unique(topics.topic[rows] * brokers + here, return_inverse=True)
    outside = np.delete(np.maximum(0, stays - most), cells).sum()

    partitions, partition = np.unique(rows, return_inverse=True)
    evened = np.flatnonzero(problem.evened)
    number = np.full(brokers, -1)
    number[evened] = np.arange(len(evened))
    at = np.cumsum([0, len(partitions), *[len(evened)] * weights.shape[1], len(cells)])
    own = np.arange(count)
    mine = problem.evened[here]
    one, each = np.ones(len(cells)), np.arange(len(cells))
    entries = [
        (partition, own, np.ones(count)),
        *((at[1 + k] + number[here[mine]], own[mine], weights[rows[mine], k]) for k in range(weights.shape[1])),
        (at[-2] + cell, own, np.ones(count)),
        (at[-2] + each, count + each, -one),
        (np.full(len(cells), at[-1]), count + each, one),
    ]
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))

    least, highest = ((bound - rest)[evened].T.ravel() for bound in (low, high))
    lower = [np.ones(len(partitions)), least, np.full(len(cells) + 1, -np.inf)]
    too_many = np.append(most - stays, topics.excess - outside)[[*cells, -1]]
    upper = [np.ones(len(partitions)), highest, too_many]
    first = np.concatenate([positions == 0, np.maximum(0, led - most)[cells]]).astype(np.float64)
    program = solver.Program(
        np.concatenate([cost, np.zeros(len(cells))]),
        np.concatenate([np.ones(count), np.full(len(cells), np.inf)]),
        np.concatenate(lower),
        np.concatenate(upper),
        row,
        column,
        value,
        np.concatenate([np.ones(count, dtype=bool), np.zeros(len(cells), dtype=bool)]),
    )
    return program, first
