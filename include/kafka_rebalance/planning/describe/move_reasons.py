"""The reasons of each move, and a plan's moves grouped for people.

A share is the reachable share: the load of a broker if all brokers were as even as the racks allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.documents.proposals import BrokerChange, MoveReason, RackLimit, ReasonKind
from kafka_rebalance.model.settings import LEADERS_ALONE
from kafka_rebalance.planning.evenness import ratios
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    LEADERS,
    METRICS,
    Bools,
    Floats,
    Ints,
    MovedLists,
    Problem,
    added,
    among,
    known_metrics,
    leader_weights,
    loads_now,
    replica_weights,
    replication,
    shares,
)
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from kafka_rebalance.planning.rules.rack_rule import RackRules

GROUPS = 10  # of a candidate, at most
RACKS = 5  # named as racks that cannot be even, at most
_AT_ONCE = 20_000  # moves whose pairs of brokers are in one array
_EDGE = 1e-3  # of a share: a load this near to the band counts as inside


@dataclass(frozen=True, slots=True, eq=False)
class _Evened:
    """What each of some moves makes more even: the giver and the taker with the largest gap in a metric."""

    giver: Ints
    taker: Ints
    metric: Ints
    tells: Bools  # one of the two is outside its band


class Reasons:
    def __init__(
        self, problem: Problem, relative: Floats, tolerance: float, after: Ints, led_before: TopicLeaders
    ) -> None:
        """`relative` is [broker, METRICS], load before over share; `after` are the lists after, as wide as before.

        `led_before` has who led how much of each topic before lists changed their order.
        """
        known = known_metrics(problem)
        self._metrics = [k for k, metric in enumerate(METRICS) if metric in known]
        self._problem, self._relative = problem, relative
        self._ids: list[int] = problem.brokers.tolist()
        self._leaving: list[bool] = problem.leaving.tolist()
        is_demoted = problem.settings.job in LEADERS_ALONE
        self._takes = ReasonKind.DEMOTES if is_demoted else ReasonKind.TAKES_OFF  # from brokers that leave
        self._shares: list[list[float]] = relative.tolist()
        self._givers: list[int] = np.flatnonzero(problem.evened & ~problem.receivers).tolist()
        fair = ratios(problem, loads_now(problem), shares(problem)) if self._givers else np.zeros((0, len(METRICS)))
        self._fair: list[list[float]] = fair.tolist()
        # [metric] the broker of these with the least of its fair share
        self._poorest = [
            min(self._givers, key=lambda giver: self._fair[giver][k]) if self._givers else -1
            for k in range(len(METRICS))
        ]
        self._low, self._high = 1 - tolerance - _EDGE, 1 + tolerance + _EDGE
        self._topic, self._room = led_before.topic, led_before.room
        self._weights = np.hstack([replica_weights(problem), leader_weights(problem, after)])
        new, leads = added(after, problem.replicas), after[:, 0] != problem.replicas[:, 0]
        # (replicas or preferred leaders, [broker] whether the plan brings it one)
        self._receives: list[list[bool]] = [
            (np.bincount(held, minlength=len(problem.brokers)) > 0).tolist() for held in (after[new], after[leads, 0])
        ]

    def of(self, rows: Ints, lists: MovedLists, repaired: Bools) -> list[list[MoveReason]]:
        """The reasons of each move: the request, or the two brokers that it makes more even.

        `rows` and `repaired` are [move]: its partition row, and whether the move repairs its racks.
        """
        new, gone = lists.new, lists.gone
        found = self._asked_for(rows, lists, new, gone, repaired)
        copies, drops = new.any(axis=1), gone.any(axis=1)
        evens = np.flatnonzero(copies & drops & np.array([not reasons for reasons in found], dtype=bool))
        self._add_evens(found, evens, rows, (lists.before, gone), (lists.after, new), leading=False)
        elects = lists.is_election
        for move in np.flatnonzero(elects).tolist():
            preferred, source = self._ids[lists.after[move, 0]], self._ids[lists.source[move]]
            found[move].append(MoveReason(ReasonKind.ELECTS, preferred, source))
        leads = np.flatnonzero(~elects & (lists.before[:, 0] != lists.after[:, 0]) & ~copies & ~drops)
        first = np.zeros_like(new)
        first[:, 0] = True
        self._add_evens(found, leads, rows, (lists.before, first), (lists.after, first), leading=True)
        return found

    def _asked_for(
        self, rows: Ints, lists: MovedLists, new: Bools, gone: Bools, repaired: Bools
    ) -> list[list[MoveReason]]:
        """What the job asks for: brokers to be emptied, pools, the replication factor, the racks."""
        problem = self._problem
        found: list[list[MoveReason]] = [[] for _ in repaired]
        moves, positions = np.nonzero(gone & problem.leaving[lists.before])
        for move, index in zip(moves.tolist(), lists.before[moves, positions].tolist(), strict=True):
            broker = self._ids[index]
            by = problem.settings.replace.get(broker)
            if by is not None and by in problem.brokers[lists.after[move][new[move]]]:
                found[move].append(MoveReason(ReasonKind.REPLACES, broker, by))
            else:
                found[move].append(MoveReason(ReasonKind.EMPTIES, broker))
        moves, positions = np.nonzero(gone & among(lists.before, problem.failed[rows]))
        for move, index in zip(moves.tolist(), lists.before[moves, positions].tolist(), strict=True):
            found[move].append(MoveReason(ReasonKind.LOG_DIR_FAILED, self._ids[index]))
        topics = problem.topic[rows]
        outside = problem.pools.of_broker[lists.before] != problem.pools.of_topic[topics][:, None]
        moves, positions = np.nonzero(gone & outside & ~problem.leaving[lists.before])
        for move, index in zip(moves.tolist(), lists.before[moves, positions].tolist(), strict=True):
            topic = problem.topics[topics[move]]
            found[move].append(MoveReason(ReasonKind.ENTERS_POOL, self._ids[index], topic=topic))
        counts = replication(lists.before), replication(lists.after)
        for move in np.flatnonzero(counts[0] != counts[1]).tolist():
            found[move].append(MoveReason(ReasonKind.FACTOR, factors=(int(counts[0][move]), int(counts[1][move]))))
        for move in np.flatnonzero(repaired).tolist():
            found[move].append(MoveReason(ReasonKind.SPREADS_RACKS))
        return found

    def _add_evens(
        self,
        found: list[list[MoveReason]],
        moves: Ints,
        rows: Ints,
        givers: tuple[Ints, Bools],
        takers: tuple[Ints, Bools],
        *,
        leading: bool,
    ) -> None:
        """Adds to the reasons of these moves what they make more even.

        `givers` and `takers` are lists, and which of their entries are meant; at least one of each.
        """
        metrics = np.array([k for k in self._metrics if (k >= LEADERS) == leading], dtype=np.int64)
        for start in range(0, len(moves), _AT_ONCE):
            some = moves[start : start + _AT_ONCE]
            ours, theirs = ((lists[some], which[some]) for lists, which in (givers, takers))
            one = self._furthest_apart(ours, theirs, metrics)
            amounts = self._weights[rows[some], one.metric]
            too_many = -self._room[self._topic[rows[some]], one.giver]
            columns = (some, one.giver, one.taker, one.metric, one.tells, amounts, too_many)
            for move, giver, taker, metric, tells, amount, more in zip(*(c.tolist() for c in columns), strict=True):
                if leading and not tells and more > 0 and not self._leaving[giver]:
                    spreads = MoveReason(ReasonKind.SPREADS_TOPIC, self._ids[giver], self._ids[taker], amount=more)
                    found[move].append(spreads)
                else:
                    found[move] += self._evens(giver, taker, metric, tells, amount, leading=leading)

    def _furthest_apart(self, givers: tuple[Ints, Bools], takers: tuple[Ints, Bools], metrics: Ints) -> _Evened:
        """Pairs with a broker outside its band come first, then the first of those with the largest gap."""
        high = self._relative[givers[0]][:, :, None, metrics]
        low = self._relative[takers[0]][:, None, :, metrics]
        with np.errstate(invalid="ignore"):  # between two loads without a share there is no gap
            gap = high - low
        pairs = (givers[1][:, :, None] & takers[1][:, None, :])[..., None] & ~np.isnan(gap)
        off: Bools = np.where(pairs, (high > low) & ((high > self._high) | (low < self._low)), False)
        tells: Bools = np.logical_or.reduce(off.reshape(len(off), -1), axis=1)
        gap = np.where(np.where(tells[:, None, None, None], off, pairs), gap, -np.inf).reshape(len(off), -1)
        best, every = gap.argmax(axis=1), np.arange(len(gap))
        giver, taker, metric = np.unravel_index(best, off.shape[1:])
        unknown = gap[every, best] == -np.inf
        giver = np.where(unknown, givers[1].argmax(axis=1), giver)
        taker = np.where(unknown, takers[1].argmax(axis=1), taker)
        chosen = np.where(unknown, self._metrics[0], metrics[metric])
        return _Evened(givers[0][every, giver], takers[0][every, taker], chosen, tells)

    def _evens(
        self, giver: int, taker: int, metric: int, tells: bool, amount: float, *, leading: bool
    ) -> tuple[MoveReason, ...]:
        """That it makes giver and taker, broker indices, more even in the metric."""
        if self._leaving[giver]:
            return (MoveReason(self._takes, self._ids[giver], metric=METRICS[metric]),)
        both = self._shares[giver][metric], self._shares[taker][metric]
        evens = MoveReason(ReasonKind.EVENS, self._ids[giver], self._ids[taker], METRICS[metric], both, amount)
        if tells or not self._receives[int(leading)][giver]:
            passed_over = () if leading or not self._givers else self._passed_over(taker, metric)
            return (evens, *passed_over)
        # Both are inside their band before the plan. Other moves would push the giver out of it.
        why = ReasonKind.MAKES_UP_FOR_LEADERS if leading else ReasonKind.MAKES_ROOM
        return MoveReason(why, self._ids[giver]), evens

    def _passed_over(self, taker: int, metric: int) -> tuple[MoveReason, ...]:
        """The broker with the least of its fair share, if it has less than the taker and may not receive."""
        own = self._fair[taker][metric]
        least = self._poorest[metric]
        if self._fair[least][metric] >= own - _EDGE:
            return ()
        both = own, self._fair[least][metric]
        return (MoveReason(ReasonKind.MAY_NOT_RECEIVE, self._ids[taker], self._ids[least], METRICS[metric], both),)


def broker_changes(
    problem: Problem, lists: MovedLists, before: Floats, after: Floats, share: Floats
) -> tuple[BrokerChange, ...]:
    """The plan's moves grouped by broker: in turn those that lose most and those that gain most; GROUPS at most.

    The metric is bytes on disk, or leaders if nothing is copied. `before` and `after` are [broker, METRICS], the loads;
    `share` is what each broker should carry.
    """
    copies = bool(lists.new.any() or lists.gone.any())
    metric = DISK if copies else LEADERS
    if copies:
        ways = [
            (moves, brokers[moves, positions])
            for brokers, (moves, positions) in (
                (lists.before, np.nonzero(lists.gone)),
                (lists.after, np.nonzero(lists.new)),
            )
        ]
    else:
        leads = np.flatnonzero(lists.changes_leader)
        ways = [(leads, lists.source[leads]), (leads, lists.after[leads, 0])]
    counts, weights = np.zeros((2, 2, len(problem.brokers)), dtype=np.int64)  # [lost or gained, broker]
    for way, (moves, brokers) in enumerate(ways):
        np.add.at(counts[way], brokers, 1)
        np.add.at(weights[way], brokers, lists.size_bytes[moves] if copies else 0)
    change = after[:, metric] - before[:, metric]
    ranked = []
    for way, sign in enumerate((-1, 1)):
        order = np.lexsort((problem.brokers, -sign * change))
        ranked += [(rank, way, int(n)) for rank, n in enumerate(order) if sign * change[n] > 0 and counts[way, n]]

    def change_of(way: int, number: int) -> BrokerChange:
        capacity = problem.disk_capacity[number]
        # Of a disk that is all but empty, "from < 1 % to < 1 %" says nothing.
        of_disk = metric == DISK and bool(abs(change[number]) >= capacity / 100 > 0)
        return BrokerChange(
            broker=int(problem.brokers[number]),
            gains=bool(way),
            moves=int(counts[way, number]),
            bytes=int(weights[way, number]),
            metric=METRICS[metric],
            before=float(before[number, metric]),
            after=float(after[number, metric]),
            whole=float(capacity if of_disk else share[number, metric]),
            of_disk=of_disk,
        )

    return tuple(change_of(way, number) for _, way, number in sorted(ranked)[:GROUPS])


def rack_limits(problem: Problem, rules: RackRules, reachable: Floats) -> tuple[RackLimit, ...]:
    """Racks whose brokers must carry more, or less, than an even share: RACKS at most, the furthest off first.

    `reachable` is [broker, METRICS], the loads when all are as even as the racks allow. Empty if some brokers receive
    nothing, because these force loads, too; so do pools.
    """
    if problem.pools.are_several or not rules[0][1].known or (problem.staying & ~problem.receivers).any():
        return ()
    even = shares(problem)[:, :LEADERS] * reachable[:, :LEADERS].sum(axis=0)
    limits = []
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
            brokers = int(here.sum()), int(problem.staying.sum())
            limits.append(RackLimit(rack, *brokers, METRICS[metric], float(carried[metric])))
    return tuple(sorted(limits, key=lambda limit: (-abs(limit.carried - 1), limit.rack))[:RACKS])
