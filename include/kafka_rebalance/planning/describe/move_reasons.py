"""The reasons of each move, and a plan's moves grouped for people.

A share is the reachable share: the load of a broker if all brokers were as even as the racks allow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.documents.proposals.candidate_figures import MoveGroup
from kafka_rebalance.documents.proposals.move_reason import MoveReason, ReasonKind, multiple_in_words
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.settings import LEADERS_ALONE
from kafka_rebalance.planning.evenness.scores import ratios
from kafka_rebalance.planning.problem.arrays import Floats, Ints, Problem, added
from kafka_rebalance.planning.problem.loads import (
    DISK,
    LEADERS,
    METRICS,
    known_metrics,
    leader_weights,
    loads_now,
    replica_weights,
    shares,
)
from kafka_rebalance.planning.rules.rack_rule import RackRule

GROUPS = 10  # of a candidate, at most
RACKS = 5  # named as racks that cannot be even, at most
_EDGE = 1e-3  # of a share: a load this near to the band counts as inside


class Reasons:
    def __init__(self, problem: Problem, relative: Floats, tolerance: float, after: Ints) -> None:
        """`relative` is [broker, METRICS], load before over share; `after` are the lists after, as wide as before."""
        known = known_metrics(problem)
        self._metrics = [k for k, metric in enumerate(METRICS) if metric in known]
        self._replace = problem.settings.replace
        self._index = {broker: number for number, broker in enumerate(problem.brokers.tolist())}
        self._brokers = problem.brokers
        self._leaving: list[bool] = problem.leaving.tolist()
        is_demoted = problem.settings.job in LEADERS_ALONE
        self._takes = ReasonKind.DEMOTES if is_demoted else ReasonKind.TAKES_OFF  # from brokers that leave
        self._relative: list[list[float]] = relative.tolist()
        self._givers: list[int] = np.flatnonzero(problem.evened & ~problem.receivers).tolist()
        self._fair: list[list[float]] = ratios(loads_now(problem), shares(problem)).tolist() if self._givers else []
        self._low, self._high = 1 - tolerance - _EDGE, 1 + tolerance + _EDGE
        self._weights = np.hstack([replica_weights(problem), leader_weights(problem, after)])
        new, leads = added(after, problem.replicas), after[:, 0] != problem.replicas[:, 0]
        # (replicas or preferred leaders, [broker] whether the plan brings it one)
        self._receives: list[list[bool]] = [
            (np.bincount(held, minlength=len(problem.brokers)) > 0).tolist() for held in (after[new], after[leads, 0])
        ]

    def of(self, row: int, move: Move, *, repairs_rack: bool) -> list[MoveReason]:
        """The reasons of the move of a partition row: the request, or the two brokers that it makes more even."""
        found: list[MoveReason] = []
        for broker in move.removed:
            if self._leaving[self._index[broker]]:
                by = self._replace.get(broker)
                if by is not None and by in move.added:
                    found.append(MoveReason(ReasonKind.REPLACES, broker, by))
                else:
                    found.append(MoveReason(ReasonKind.EMPTIES, broker))
        if len(move.before) != len(move.after):
            found.append(MoveReason(ReasonKind.FACTOR, factors=(len(move.before), len(move.after))))
        if repairs_rack:
            found.append(MoveReason(ReasonKind.SPREADS_RACKS))
        if not found and move.added and move.removed:
            found += self._evens(row, move.removed, move.added, leading=False)
        first, preferred = move.before[0], move.after[0]
        if move.is_election:
            found.append(MoveReason(ReasonKind.ELECTS, preferred, move.source))
        elif first != preferred and not move.added and not move.removed:
            found += self._evens(row, move.before[:1], move.after[:1], leading=True)
        return found

    def _evens(
        self, row: int, givers: Sequence[int], takers: Sequence[int], *, leading: bool
    ) -> tuple[MoveReason, ...]:
        """For the giver and taker with the largest gap in a metric. Pairs with a broker outside its band come first."""
        tells, apart, chosen = False, -np.inf, (givers[0], takers[0], self._metrics[0])
        for giver in givers:
            for taker in takers:
                for metric in self._metrics:
                    if (metric >= LEADERS) == leading:
                        high, low = self._of(giver, metric), self._of(taker, metric)
                        off = high > low and (high > self._high or low < self._low)
                        if (off, high - low) > (tells, apart):
                            tells, apart, chosen = off, high - low, (giver, taker, metric)
        giver, taker, metric = chosen
        if self._leaving[self._index[giver]]:
            return (MoveReason(self._takes, giver, metric=METRICS[metric]),)
        both = self._of(giver, metric), self._of(taker, metric)
        amount = float(self._weights[row, metric])
        evens = MoveReason(ReasonKind.EVENS, giver, taker, METRICS[metric], both, amount)
        if tells or not self._receives[int(leading)][self._index[giver]]:
            passed_over = () if leading or not self._givers else self._passed_over(taker, metric)
            return (evens, *passed_over)
        # Both are inside their band before the plan. Other moves would push the giver out of it.
        why = ReasonKind.MAKES_UP_FOR_LEADERS if leading else ReasonKind.MAKES_ROOM
        return MoveReason(why, giver), evens

    def _passed_over(self, taker: int, metric: int) -> tuple[MoveReason, ...]:
        """The broker with the least of its fair share, if it has less than the taker and may not receive."""
        own = self._fair[self._index[taker]][metric]
        least = min(self._givers, key=lambda giver: self._fair[giver][metric])
        if self._fair[least][metric] >= own - _EDGE:
            return ()
        both = own, self._fair[least][metric]
        other = int(self._brokers[least])
        return (MoveReason(ReasonKind.MAY_NOT_RECEIVE, taker, other, METRICS[metric], both),)

    def _of(self, broker: int, metric: int) -> float:
        return self._relative[self._index[broker]][metric]


def move_groups(
    problem: Problem, moves: Sequence[Move], before: Floats, after: Floats, share: Floats
) -> list[MoveGroup]:
    """The plan's moves grouped by broker: in turn those that lose most and those that gain most; GROUPS at most.

    The metric is bytes on disk, or leaders if nothing is copied. `before` and `after` are [broker, METRICS], the loads;
    `share` is what each broker should carry.
    """
    copies = any(move.added or move.removed for move in moves)
    metric = DISK if copies else LEADERS
    index = {broker: number for number, broker in enumerate(problem.brokers.tolist())}
    counts, weights = np.zeros((2, 2, len(index)), dtype=np.int64)  # [lost or gained, broker]
    for move in moves if copies else [one for one in moves if one.changes_leader]:
        lost, gained = (move.removed, move.added) if copies else ((move.source,), move.after[:1])
        for way, brokers in enumerate((lost, gained)):
            for broker in brokers:
                counts[way, index[broker]] += 1
                weights[way, index[broker]] += move.size_bytes if copies else 0
    change = after[:, metric] - before[:, metric]
    ranked = []
    for way, sign in enumerate((-1, 1)):
        order = np.lexsort((problem.brokers, -sign * change))
        ranked += [(rank, way, int(n)) for rank, n in enumerate(order) if sign * change[n] > 0 and counts[way, n]]
    groups = []
    for _, way, number in sorted(ranked)[:GROUPS]:
        count = int(counts[way, number])
        text = _group_text(problem, count, way, number, metric, (before[number, metric], after[number, metric]), share)
        groups.append(MoveGroup(text, count, int(weights[way, number])))
    return groups


def _group_text(
    problem: Problem, count: int, way: int, number: int, metric: int, loads: tuple[float, float], share: Floats
) -> str:
    """`183 moves take broker 12 from 91 % to 78 % of its disk`; `loads` are (before, after)."""
    broker, own, of_what = problem.brokers[number], float(share[number, metric]), f"its share of {METRICS[metric].noun}"
    verb = ("take", "bring")[way] + ("s" if count == 1 else "")
    some = f"{count:,} {'move' if count == 1 else 'moves'}"
    if loads[1] == 0:
        what = bytes_in_words(loads[0]) if metric == DISK else METRICS[metric].noun
        return f"{some} {verb} {what} off broker {broker}: empty"
    capacity = problem.disk_capacity
    if metric == DISK and abs(loads[1] - loads[0]) >= capacity[number] / 100 > 0:
        own, of_what = float(capacity[number]), "its disk"  # "from < 1 % to < 1 %" says nothing
    if own <= 0:
        before, after = (bytes_in_words(load) if metric == DISK else f"{load:,.0f}" for load in loads)
        return f"{some} {verb} broker {broker} from {before} to {after}"
    before, after = (multiple_in_words(load / own) for load in loads)
    return f"{some} {verb} broker {broker} from {before} to {after} of {of_what}"


def rack_limits(problem: Problem, rule: RackRule, reachable: Floats) -> tuple[str, ...]:
    """Racks whose brokers must carry more, or less, than an even share: RACKS at most, the furthest off first.

    `reachable` is [broker, METRICS], the loads when all are as even as the racks allow. Empty if some brokers receive
    nothing, because these force loads, too.
    """
    if not rule.known or (problem.staying & ~problem.receivers).any():
        return ()
    even = shares(problem)[:, :LEADERS] * reachable[:, :LEADERS].sum(axis=0)
    found = []
    for rack in sorted({rack for rack, stays in zip(problem.racks, problem.staying, strict=True) if stays and rack}):
        here = np.array([own == rack for own in problem.racks]) & problem.staying
        carried = np.divide(
            reachable[here, :LEADERS].sum(axis=0),
            even[here].sum(axis=0),
            where=even[here].sum(axis=0) > 0,
            out=np.ones(LEADERS),
        )
        metric = int(np.abs(carried - 1).argmax())
        if abs(carried[metric] - 1) > 0.01:
            most = "at least" if carried[metric] > 1 else "at most"
            text = (
                f"rack {rack} has {here.sum()} of {problem.staying.sum()} brokers: "
                f"they carry {most} {carried[metric]:.3f} of an even share of {METRICS[metric].noun}"
            )
            found.append((-abs(float(carried[metric]) - 1), rack, text))
    return tuple(text for _, _, text in sorted(found)[:RACKS])
