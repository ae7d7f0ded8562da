"""How many replicas a broker may hold in the end: `replicas_per_broker`, which is the policy's.

A broker that is beyond it already may keep as many as it has, so that it can still exchange replicas.
`run.checks.limits` has the same rule for approved moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note, NoteKind, note
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.planning.problem.arrays import REPLICAS, Floats, Ints, Problem

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
    held = held_replicas(problem.replicas, brokers)
    return np.maximum(limit - problem.pools.foreign_replicas, held).astype(np.float64)


class ReplicasPerBroker:
    """`replicas_per_broker`."""

    metric: ClassVar[int] = REPLICAS

    def in_the_end(self, problem: Problem) -> Floats:
        return _replica_limits(problem) + _ROUNDING

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        held = held_replicas(replicas, len(problem.brokers))
        over = np.flatnonzero(problem.staying & (held > _replica_limits(problem)))
        if len(over):
            ids, most = problem.brokers[over].tolist(), problem.settings.replicas_per_broker
            yield note(NoteKind.TOO_MANY_REPLICAS, brokers=ids, limit=most, broker=ids[0], held=int(held[over[0]]))

    def reached_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        full = problem.receivers & (held_replicas(replicas, len(problem.brokers)) >= _replica_limits(problem))
        if full.any():
            most, ids = problem.settings.replicas_per_broker, problem.brokers[full].tolist()
            yield note(NoteKind.BROKERS_HOLD_THEIR_MOST, brokers=ids, limit=most)

    def check(self, problem: Problem, wanted: Ints) -> None:
        """All replicas that the job must place, and those of a broker that another replaces."""
        most = problem.settings.replicas_per_broker
        if most is None:
            return
        limits, held = _replica_limits(problem), held_replicas(problem.replicas, len(problem.brokers))
        moves, stays = problem.relocatable, problem.staying
        fixed = int(held_replicas(problem.replicas[~moves], len(stays))[stays].sum())
        # A broker that receives nothing keeps what it has.
        room = np.where(problem.receivers, limits, np.where(stays, held, 0))
        total, most_in_all = int(wanted[moves].sum()) + fixed, int(room.sum())
        if total > most_in_all:
            raise PlanningError(
                f"{total:,} replicas do not fit the {int(stays.sum())} brokers that stay. These may hold "
                f"{most_in_all:,} in all with replicas_per_broker {most:,}. Nothing was planned. Add brokers, or have "
                "the policy changed."
            )
        leave = held_replicas(problem.replicas[moves], len(stays))
        for old, new in problem.settings.replace.items():
            source, target = (int(np.searchsorted(problem.brokers, broker)) for broker in (old, new))
            own = not problem.pools.foreign[target]
            if own and leave[source] and held[target] + leave[source] > limits[target]:
                raise PlanningError(
                    f"Broker {new} cannot replace broker {old}, which holds {int(leave[source]):,} replicas. Broker "
                    f"{new} already holds {int(held[target]):,}, and replicas_per_broker is {most:,}. Nothing was "
                    f"planned. Choose another broker, or job 'drain' for {old}, or have the policy changed."
                )
