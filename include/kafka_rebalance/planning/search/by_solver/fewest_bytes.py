"""Candidate `optimal`: the fewest bytes within the tolerance, or as near to it as lists can be, and what is proven."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from kafka_rebalance.model.settings import BALANCED
from kafka_rebalance.planning.bounds.bands import Bands, band
from kafka_rebalance.planning.bounds.solver import Solution
from kafka_rebalance.planning.problem.arrays import Floats, Ints
from kafka_rebalance.planning.problem.loads import BYTES_IN
from kafka_rebalance.planning.search.by_solver.kept_rules import NOTHING, Besides
from kafka_rebalance.planning.search.by_solver.optimal import GAP, ListProgram
from kafka_rebalance.planning.search.frame import Frame


class Proof(Enum):
    """What is proven of the bytes of the lists."""

    PROVEN = "proven"  # to the gap that the solver was asked for
    BEST_FOUND = "best_found"
    UNDERCUT = "undercut"  # proven, but another candidate copies fewer and is within one replica of the tolerance
    NONE_EXISTS = "none_exists"  # no lists are within one replica of the tolerance
    NONE_FOUND = "none_found"


class Within(Enum):
    """How near to their targets the lists, and all lists they are compared with, bring the brokers."""

    TOLERANCE = "tolerance"
    ONE_REPLICA = "one_replica"  # no broker is more than one replica beyond, and all together are beyond it by least
    ONE_REPLICA_BUT_BYTES_IN = "one_replica_but_bytes_in"  # so for disks and replicas; bytes in as near as that allows


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The cheapest lists found, if any, and what is proven of them."""

    replicas: Ints | None  # [partition row, position]; replicas that stay keep their positions
    proof: Proof
    within: Within | None = None  # None: there are no lists
    not_ruled_out: float | None = 0.0  # the share of their bytes that other lists may save; None: it is not known
    keeps_headroom: bool = False  # among lists that bring nothing to disks beyond disk_headroom
    besides: Besides = NOTHING  # among lists that keep it
    least_bytes: int | None = None  # no lists within the tolerance and the rules copy fewer; None: nothing is proven
    undercut_by: str = BALANCED  # the candidate


def fewest_bytes(frame: Frame, known: Ints | None = None, besides: Besides = NOTHING) -> Optimum:
    """The lists within the tolerance that copy the fewest bytes. `known` are lists to begin with, of another search.

    If there are none, of the lists that are least beyond it in all, and each broker by one replica at most, those with
    the fewest bytes. If bytes in rule these out as well, only disks and replicas count, because disks outrank bytes in.
    """
    program = ListProgram(frame)
    program.add_limits()
    if besides.crowds_no_more:
        program.crowd_no_more_than(frame.problem.replicas)
    if besides.spreads_leaders:
        program.add_leaders()
    tolerance = frame.goal.tolerance
    asked = band(frame.targets, tolerance)
    heaviest = np.minimum(frame.weights.max(axis=0), frame.targets.max(axis=0))
    slack = np.maximum(frame.targets * tolerance, heaviest)
    widest = Bands(frame.targets - slack, frame.targets + slack)
    no_bytes_in = Bands(widest.low.copy(), widest.high.copy())
    no_bytes_in.low[:, BYTES_IN], no_bytes_in.high[:, BYTES_IN] = 0.0, np.inf
    full = bool(program.full.any())
    found = program.solved(asked, known)
    if found.x is not None:
        least = None if full or any(besides) else program.least_bytes(found)
        return _optimum(program, found, found.x, Within.TOLERANCE, full, besides, least, proven=found.optimal)
    impossible = found.infeasible
    for most, within in ((widest, Within.ONE_REPLICA), (no_bytes_in, Within.ONE_REPLICA_BUT_BYTES_IN)):
        near = program.nearest(asked, most, known)
        if near.found.x is not None:
            proven = impossible and near.is_nearest and near.found.optimal
            return _optimum(program, near.found, near.found.x, within, full, besides, None, proven=proven)
        impossible = impossible and near.found.infeasible
    return Optimum(None, Proof.NONE_EXISTS if impossible else Proof.NONE_FOUND, besides=besides)


def _optimum(
    program: ListProgram,
    found: Solution,
    values: Floats,
    within: Within,
    full: bool,
    besides: Besides,
    least: int | None,
    *,
    proven: bool,
) -> Optimum:
    lists = program.lists(values > 0.5)
    if proven:
        return Optimum(lists, Proof.PROVEN, within, GAP, full, besides, least)
    rest = min(1.0, max(0.0, 1 - found.bound / max(found.cost, 1e-12)))
    return Optimum(lists, Proof.BEST_FOUND, within, rest, besides=besides, least_bytes=least)
