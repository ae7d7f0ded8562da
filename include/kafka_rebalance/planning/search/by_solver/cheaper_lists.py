"""Fewer bytes for the same balance: exact searches of a part of the lists at a time, by HiGHS.

The programs are those of candidate `optimal`. A small cluster is searched in steps over all its brokers, a larger one
rack by rack. Lists count if they cost clearly less and end as near to the bands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, band
from kafka_rebalance.planning.problem.arrays import Bools, Ints, Problem
from kafka_rebalance.planning.problem.loads import replica_loads
from kafka_rebalance.planning.search.by_solver.kept_rules import keeps_rules, placed
from kafka_rebalance.planning.search.by_solver.optimal import is_covered
from kafka_rebalance.planning.search.by_solver.rack_by_rack import cheaper_by_racks
from kafka_rebalance.planning.search.by_solver.steps import cheaper_by_steps
from kafka_rebalance.planning.search.excused_brokers import Outside, settle
from kafka_rebalance.planning.search.frame import FoundLists, Frame
from kafka_rebalance.planning.search.placement import Placement
from kafka_rebalance.planning.search.rebuild import nearness, take_back

_VARIABLES = 50_000  # at most, of steps over the cluster; the relaxation of so large a program takes about two seconds
_MOST = 5_000_000  # partitions times brokers; beyond it, the largest replicas are too few to matter
_WORTH = 0.995  # times the bytes: for less than that, the lists are not worth other moves, leaders and batches


def can_be_cheaper(problem: Problem, found: FoundLists) -> bool:
    """Whether a search applies: the program covers the job, the cluster is small enough, and no limit was reached."""
    return found.goal.balances and not found.budget.reached and is_covered(problem, _MOST)


def cheaper_lists(frame: Frame, lists: Ints, seed: Sequence[int]) -> Ints | None:
    """[partition row, position] Lists that bring the brokers as near to their bands with fewer bytes; None: none found.

    No broker ends further outside its band, topics crowd brokers no more in total, and every rule of the program holds.
    A limit on bytes is none here, so that a limit that is enough changes no plan.
    """
    asked = band(frame.targets, frame.goal.tolerance)
    loads = replica_loads(lists, frame.weights, len(frame.targets))
    met = Bands(np.minimum(asked.low, loads), np.maximum(asked.high, loads))
    small = is_covered(frame.problem, _VARIABLES)
    found = cheaper_by_steps(frame, lists, met, seed) if small else cheaper_by_racks(frame, lists, met, seed)
    if found is lists:
        return None
    old, new = placed(frame, lists), placed(frame, found)
    take_back(new, asked)
    ends = [new]
    if nearness(new, asked)[0]:
        # Single moves help single brokers, but may bring others further away together.
        settled = new.copy()
        settle(settled, asked, _asked(frame))
        ends = [settled, new]
    return next((end.replicas for end in ends if _is_better(frame, end, old, asked)), None)


def _is_better(frame: Frame, new: Placement, old: Placement, asked: Bands) -> bool:
    """Whether the lists copy clearly fewer bytes, end as near, and leave no more brokers that a move would help."""
    better = nearness(new, asked)[0] <= nearness(old, asked)[0] and new.budget.bytes <= _WORTH * old.budget.bytes
    return better and keeps_rules(frame, new, old) and _helped(frame, new, asked) <= _helped(frame, old, asked)


def _asked(frame: Frame) -> Bools:
    """[broker, resource] Which loads count."""
    return frame.problem.evened[:, None] & (frame.targets > 0)


def _helped(frame: Frame, placement: Placement, asked: Bands) -> int:
    """How many loads outside their bands a single move or swap would help: these are not excused."""
    outside = Outside(placement, asked, _asked(frame))
    return sum(outside.is_helped(broker, k) for broker, k in np.argwhere(outside.excess() > 0).tolist())
