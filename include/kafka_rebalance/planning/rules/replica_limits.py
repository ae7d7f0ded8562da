"""How many replicas a broker may hold in the end: `replicas_per_broker`, which is the policy's.

A broker that is beyond it already may keep as many as it has, so that it can still exchange replicas.
`execution.check.replica_counts` has the same rule for approved moves.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.finding import listed
from kafka_rebalance.planning.problem.arrays import DISK, REPLICA_METRICS, REPLICAS, Bools, Floats, Ints, Problem
from kafka_rebalance.planning.rules.disk_limits import disk_limits_in_the_end

_ROUNDING = 1e-3  # of a replica: sums of weights are not exact


def held_replicas(replicas: Ints, brokers: int) -> Ints:
    """[broker] How many replicas these lists put on each broker."""
    counts: Ints = np.bincount(replicas[replicas >= 0], minlength=brokers)
    return counts


def _replica_limits(problem: Problem) -> Floats:
    """[broker] The replicas that it may hold in the end; inf if nothing limits them.

    In the problem of one pool those of its topics: replicas of other pools may stay where they are.
    """
    limit, brokers = problem.settings.replicas_per_broker, len(problem.brokers)
    if limit is None:
        return np.full(brokers, np.inf)
    others = 0 if problem.foreign_replicas is None else problem.foreign_replicas
    return np.maximum(limit - others, held_replicas(problem.replicas, brokers)).astype(np.float64)


def limits_in_the_end(problem: Problem) -> Floats:
    """[broker, REPLICA_METRICS] What a broker may carry in the end, if it receives anything; inf: no limit."""
    limits = np.full((len(problem.brokers), len(REPLICA_METRICS)), np.inf)
    limits[:, REPLICAS] = _replica_limits(problem) + _ROUNDING
    limits[:, DISK] = disk_limits_in_the_end(problem)
    return limits


def too_many_replicas(problem: Problem, replicas: Ints) -> list[str]:
    """Brokers that these lists would bring beyond the limit, as a clause of a candidate's note."""
    held = held_replicas(replicas, len(problem.brokers))
    over = np.flatnonzero(problem.staying & (held > _replica_limits(problem)))
    if not len(over):
        return []
    ids = problem.brokers[over].tolist()
    return [
        f"broker {listed(ids)} would hold more replicas than replicas_per_broker {problem.settings.replicas_per_broker}"
        f" allows: broker {ids[0]} would hold {held[over[0]]:,}"
    ]


def at_their_limit(problem: Problem, replicas: Ints) -> list[str]:
    """Brokers that receive, and hold all the replicas that they may with these lists, as a clause of a note."""
    full = problem.receivers & (held_replicas(replicas, len(problem.brokers)) >= _replica_limits(problem))
    if not full.any():
        return []
    most, ids = problem.settings.replicas_per_broker, listed(problem.brokers[full].tolist())
    return [f"broker {ids} may hold no more replicas (replicas_per_broker {most})"]


def check_replica_counts(problem: Problem, wanted: Ints) -> None:
    """Raises PlanningError if what the job must place is more than the brokers that stay may hold together.

    So it does for one broker that is to replace another. `wanted` is [partition row], the replicas in the end.
    """
    most = problem.settings.replicas_per_broker
    if most is None:
        return
    limits, held = _replica_limits(problem), held_replicas(problem.replicas, len(problem.brokers))
    moves, stays = problem.relocatable, problem.staying
    fixed = int(held_replicas(problem.replicas[~moves], len(stays))[stays].sum())
    total, room = int(wanted[moves].sum()) + fixed, int(_room(problem, limits, held).sum())
    if total > room:
        raise PlanningError(
            f"{total:,} replicas do not fit the {int(stays.sum())} brokers that stay. These may hold {room:,} in all "
            f"with replicas_per_broker {most:,}. Nothing was planned. Add brokers, or have the policy changed."
        )
    leave = held_replicas(problem.replicas[moves], len(stays))
    for old, new in problem.settings.replace.items():
        source, target = (int(np.searchsorted(problem.brokers, broker)) for broker in (old, new))
        own = problem.foreign is None or not problem.foreign[target]
        if own and leave[source] and held[target] + leave[source] > limits[target]:
            raise PlanningError(
                f"Broker {new} cannot replace broker {old}, which holds {int(leave[source]):,} replicas. Broker {new} "
                f"already holds {int(held[target]):,}, and replicas_per_broker is {most:,}. Nothing was planned. "
                f"Choose another broker, or job 'drain' for {old}, or have the policy changed."
            )


def _room(problem: Problem, limits: Floats, held: Ints) -> Floats:
    """[broker] The replicas that each may hold: a broker that receives nothing keeps what it has."""
    receivers: Bools = problem.receivers
    room: Floats = np.where(receivers, limits, np.where(problem.staying, held, 0)).astype(np.float64)
    return room
