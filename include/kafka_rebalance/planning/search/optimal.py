"""The fewest bytes that bring a small cluster into its bands: a mixed-integer program, solved by HiGHS.

Variables: y[partition, broker], whether the partition has a replica there, where that may change. Rows: replica counts,
the rack rule, the bands of loads, disks, limits. Leaders are mostly no part of it: re-ordering copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kafka_rebalance.documents.candidate_notes import NoteKind, note
from kafka_rebalance.planning.bounds import solver
from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    Bools,
    Floats,
    Ints,
    Problem,
    replica_loads,
    replication,
)
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.crowding import Crowding
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from kafka_rebalance.planning.rules.rack_rule import domains_of, in_racks, rack_rule
from kafka_rebalance.planning.rules.topic_spread import topic_spread
from kafka_rebalance.planning.search.frame import Frame, placement_of
from kafka_rebalance.planning.search.placement import Placement, spent

# The other jobs ask for less than balance, or for more than one place for a replica.
_JOBS = ("balance", "drain", "repair_racks")
_VARIABLES = 4_000  # at most; a program of this size takes some seconds
_WORK = 20_000_000  # nodes times the square of the variables: a smaller program may search longer
GAP = 1e-3  # proven: no plan is cheaper by more than this share; the notes on a candidate say "a thousandth"
_RANKS = (1.0, 1.0, 0.01)  # of the REPLICA_METRICS: the price of being outside a band
_PARTS = (1.0, 2.0, 4.0, np.inf)  # of half a band: the load beyond the band, part by part
_PRICES = (1.0, 2.0, 4.0, 8.0)  # of each part
_ROUNDING = 1e-7  # of a mean broker's load
_INEXACT = 1e-6  # of the solver's bound: what its tolerances may add to it
_BREACH = 1e-9  # of a row, by lists to begin with
_TIE = 1e-5  # of the mean partition: the price of a copy beside its bytes
NOT_SOLVED = note(NoteKind.NOT_SOLVED, jobs=_JOBS, variables=_VARIABLES)
EFFORT: solver.Options = {
    "mip_rel_gap": GAP,
    "mip_detect_symmetry": False,
    "mip_allow_restart": False,  # a restart repeats the costly root, and seldom pays in so few nodes
    # With two of its three searches below the root and few cuts, it finds 99.5 % of what it finds with all of them, in
    # two thirds of the time (clusters of 6 brokers and 500 partitions).
    "mip_heuristic_run_rins": False,
    "mip_pool_soft_limit": 200,
}


def applies(problem: Problem) -> bool:
    """Whether the program covers what is asked for, is small enough, and can be solved here."""
    return all(is_covered(part.problem, _VARIABLES) for part in parts_of(problem))


def is_covered(problem: Problem, most: int) -> bool:
    """Whether the program covers what is asked for, has at most so many variables, and can be solved here."""
    settings = problem.settings
    covered = settings.job in _JOBS and settings.replication_factor is None and settings.max_leader_changes is None
    confined = bool(problem.rack_pinned.any()) and not rack_rule(problem).known
    variables = int(problem.relocatable.sum()) * int(problem.evened.sum())
    return covered and not confined and 0 < variables <= most and solver.available()


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The cheapest lists of those that are least outside the bands."""

    found: solver.Solution
    is_nearest: bool  # no lists are less outside: the solver has proven that


class ListProgram:
    """The rows over y[partition, broker]; the columns are numbered partition by partition."""

    def __init__(self, frame: Frame) -> None:
        problem = frame.problem
        self._frame = frame
        self.partitions = np.flatnonzero(problem.relocatable)
        self.brokers = np.flatnonzero(problem.evened)
        self._lists = problem.replicas[self.partitions]
        held = (self._lists >= 0) & (problem.evened | frame.emptied)[np.maximum(self._lists, 0)]
        self._stays = (self._lists >= 0) & ~held  # on brokers that keep what they have
        self.has: Bools = (self._lists[:, :, None] == self.brokers).any(axis=1)  # [partition, broker]
        loads = replica_loads(problem.replicas, frame.weights, len(frame.targets))[:, DISK]
        self.full: Bools = (loads > frame.limits[:, DISK])[self.brokers]  # disks that are beyond their limit already
        self._unit = max(1.0, float(problem.size_bytes[self.partitions].mean()))
        self._sizes = problem.size_bytes[self.partitions] / self._unit
        self._columns = np.arange(self.has.size).reshape(self.has.shape)
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self._limits: list[tuple[Floats, Floats]] = []
        self._rows = 0
        # Columns of crowded replicas, after those of the replicas; none unless `crowd_no_more_than` adds some.
        self.crowd_topic, self.crowd_broker = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.crowd_of, self.crowd_rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._crowd_room = np.zeros(0)
        self._leading = 0  # columns of leaders and of excess leaders, the last ones
        self._add_lists()

    def solved(self, bands: Bands, known: Ints | None = None) -> solver.Solution:
        """`bands` are [broker, resource] in the frame's units. `known` are lists to begin with."""
        program = self.program(bands)
        start = None if known is None or self._leading else self.values(known)
        return self._solve(program, start)

    def _solve(self, program: solver.Program, known: Floats | None = None) -> solver.Solution:
        """The solution of the solver. If it proves none, it goes on from the cheapest known values, its own or `known`.

        The solver is better without values to begin with, where it comes to its end at all.
        """
        options = {**EFFORT, "mip_max_nodes": min(2_000, max(1, _WORK // self.has.size**2))}
        found = solver.solve(program, options)
        keeps = (
            known is not None and program.breach(known) <= _BREACH and bool((known <= program.upper + _BREACH).all())
        )
        if found.optimal or known is None or not keeps:
            return found
        starts = [known, *([] if found.x is None else [found.x])]
        start = min(starts, key=lambda values: float(program.cost @ values))
        again = solver.solve(program, options, start)
        bound = max(found.bound, again.bound)
        if again.x is not None and again.cost <= float(program.cost @ start) + _BREACH:
            return replace(again, bound=bound)
        return replace(again, x=start, cost=float(program.cost @ start), bound=bound, infeasible=False)

    def least_bytes(self, found: solver.Solution) -> int:
        """The bytes that no lists stay below, by the solver's own bound. It counts a copy a little beside its bytes."""
        copies = int((replication(self._lists) - self._stays.sum(axis=1)).sum())
        return max(0, int((found.bound * (1 - _INEXACT) - _TIE * copies) * self._unit))

    def program(self, bands: Bands) -> solver.Program:
        """The fewest bytes within the bands."""
        kept, rows = len(self._entries), self._rows
        self._add_bands(bands)
        cost = np.where(self.has, 0.0, self._sizes[:, None] + _TIE).ravel()
        row, column, value = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        low, high = (np.concatenate(parts) for parts in zip(*self._limits, strict=True))
        del self._entries[kept:], self._limits[kept:]
        self._rows = rows
        further = len(self._crowd_room) + self._leading
        return solver.Program(
            np.concatenate([cost, np.zeros(further)]),
            np.concatenate([self._takes().ravel(), np.full(further, np.inf)]),
            low,
            high,
            row,
            column,
            value,
            np.arange(len(cost) + further) < len(cost),
        )

    def nearest(self, asked: Bands, most: Bands, known: Ints | None = None) -> Nearest:
        """The fewest bytes of the lists between the bands asked for and the widest that are least outside the first.

        The sum of what brokers are outside is the least possible. How it falls on the brokers is free, so that bytes
        decide. Disks and replicas come before bytes in. On mixed hardware, a cluster may not reach both. `known` are
        lists to begin with.
        """
        program, beyond_of = self._with_distance(asked, most)
        start = None
        if known is not None and not self._leading:
            start = np.concatenate([self.values(known), beyond_of(known)])
        near = self._solve(program, start)
        if near.x is None:
            return Nearest(near, is_nearest=False)
        # The second program may be no further outside in all, and counts bytes.
        far = np.flatnonzero(program.cost)
        total = near.cost * (1 + _INEXACT) + _ROUNDING
        plain = self.program(most)
        cheapest = replace(
            program,
            cost=np.concatenate([plain.cost, np.zeros(len(program.cost) - len(plain.cost))]),
            low=np.append(program.low, -np.inf),
            high=np.append(program.high, total),
            rows=np.concatenate([program.rows, np.full(len(far), len(program.low))]),
            columns=np.concatenate([program.columns, far]),
            values=np.concatenate([program.values, program.cost[far]]),
        )
        starts = [one for one in (start, near.x) if one is not None and cheapest.breach(one) <= _BREACH]
        found = self._solve(cheapest, min(starts, key=lambda start: float(cheapest.cost @ start), default=None))
        return Nearest(found, near.optimal)

    def _with_distance(self, asked: Bands, most: Bands) -> tuple[solver.Program, Callable[[Ints], Floats]]:
        """(the program of the least distance to the bands asked for, the values of its further columns for lists)

        The further columns are what each broker is outside, part by part. The price rises with the distance, so that
        the brokers share what must be outside.
        """
        program = self.program(most)
        count, brokers = len(program.cost), self.brokers
        low, high = (values[brokers] for values in (asked.low, asked.high))
        beyond = np.stack([np.maximum(0.0, low - most.low[brokers]), np.maximum(0.0, most.high[brokers] - high)])
        step = (high - low) / 2
        steps = np.stack([step * part for part in _PARTS[:-1]] + [np.full(step.shape, np.inf)])[:, None]
        ends = np.cumsum(steps, axis=0)
        starts = np.concatenate([np.zeros_like(ends[:1]), ends[:-1]])
        beyond = np.clip(beyond[None] - starts, 0.0, steps)
        number = count + np.arange(beyond.size).reshape(beyond.shape)  # [part, below or above, broker, resource]
        entries = [(program.rows, program.columns, program.values)]
        limits = [(program.low, program.high)]
        here, endless = len(program.low), np.full(len(brokers), np.inf)
        for k in range(low.shape[1]):
            weights, fixed = self._frame.weights[self.partitions, k], self._fixed()[:, k]
            for side, sign in ((0, 1.0), (1, -1.0)):
                row = here + np.arange(len(brokers))
                extra = np.full(len(_PARTS) * len(brokers), sign)
                entries.append((np.repeat(row, len(weights)), self._columns.T.ravel(), np.tile(weights, len(brokers))))
                entries.append((np.tile(row, len(_PARTS)), number[:, side, :, k].ravel(), extra))
                limits.append((low[:, k] - fixed, endless) if side == 0 else (-endless, high[:, k] - fixed))
                here += len(brokers)
        price = np.array(_PRICES)[:, None, None, None] * np.broadcast_to(np.array(_RANKS), beyond.shape)
        cost = np.concatenate([np.zeros(count), price.ravel()])
        upper = np.concatenate([program.upper, beyond.ravel()])
        least, greatest = (np.concatenate(parts) for parts in zip(*limits, strict=True))
        rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        whole = np.zeros(len(cost), dtype=bool)
        whole[: self.has.size] = True

        def beyond_of(lists: Ints) -> Floats:
            loads = replica_loads(lists, self._frame.weights, len(self._frame.targets))[brokers]
            outside = np.stack([np.maximum(0.0, low - loads), np.maximum(0.0, loads - high)])
            parts: Floats = np.clip(outside[None] - starts, 0.0, steps)
            return parts.ravel()

        return solver.Program(cost, upper, least, greatest, rows, columns, values, whole), beyond_of

    def lists(self, chosen: Bools) -> Ints:
        """[partition row, position] The lists of a solution. New replicas take the positions of those that leave."""
        result = self._frame.problem.replicas.copy()
        chosen = chosen[: self.has.size].reshape(self.has.shape)
        for number, (row, now) in enumerate(zip(self.partitions, chosen, strict=True)):
            there = self.brokers[now]
            leaves = (result[row] >= 0) & ~self._stays[number] & ~np.isin(result[row], there)
            result[row, leaves] = self.brokers[now & ~self.has[number]]
        return result

    def values(self, lists: Ints) -> Floats:
        """The values of the columns for these lists: 1 where the partition has a replica on the broker, else 0."""
        there: Bools = (lists[self.partitions][:, :, None] == self.brokers).any(axis=1)
        return self.with_crowds(there.ravel().astype(np.float64))

    def with_crowds(self, held: Floats) -> Floats:
        """The values of all columns, given those of the replicas."""
        beyond = np.bincount(self.crowd_rows, held[self.crowd_of], minlength=len(self._crowd_room)) - self._crowd_room
        return np.concatenate([held[: self.has.size], np.maximum(0.0, beyond)])

    def crowd_no_more_than(self, lists: Ints, first: Ints | None = None, spare: int = 0) -> None:
        """Topics crowd brokers with no more replicas in total than in these lists, or `first`; by default now.

        A further column for each topic and broker that it may crowd has the replicas beyond an even share and one.
        `spare` of these are kept free, if there are so many.
        """
        frame, problem = self._frame, self._frame.problem
        before, found = (
            Crowding(those, problem.topic, frame.topic_shares, frame.left_by_racks)
            for those in (problem.replicas if first is None else first, lists)
        )
        topic = problem.topic[self.partitions]
        now = self.values(lists).reshape(self.has.shape)
        fits = found.room[:, self.brokers].copy()  # [topic, broker] of the replicas that are variables
        np.add.at(fits, topic, now.astype(fits.dtype))
        may = np.bincount(topic, minlength=len(fits))[:, None] > fits
        self.crowd_topic, self.crowd_broker = np.nonzero(may)
        self._crowd_room = np.maximum(0.0, fits[may])
        number = np.full(may.shape, -1)
        number[may] = np.arange(len(self._crowd_room))
        rows = number[topic]  # [partition, broker]
        self.crowd_of, self.crowd_rows = self._columns[rows >= 0], rows[rows >= 0]
        count = len(self._crowd_room)
        columns = self.has.size + np.arange(count)
        self._entries += [
            (self._rows + self.crowd_rows, self.crowd_of, np.ones(len(self.crowd_of))),
            (self._rows + np.arange(count), columns, np.full(count, -1.0)),
        ]
        self._limits.append((np.full(count, -np.inf), self._crowd_room))
        self._rows += count
        # Not in the columns: what crowds elsewhere, by replicas that are no variables.
        kept = np.maximum(0, -found.room).sum() - self.with_crowds(now.ravel())[self.has.size :].sum()
        self._add(columns[None], 1.0, -np.inf, max(kept, max(before.replicas, found.replicas) - spare) - kept)

    def spread_no_worse_than(self, lists: Ints) -> None:
        """No broker holds more of a topic of `spread_topics` than its ceiling, or than with these lists."""
        frame = self._frame
        if not frame.goal.spreads_topics:
            return
        spread = topic_spread(frame.problem, frame.rule, lists, frame.wanted)
        if spread is None:
            return
        topic, now = frame.problem.topic[self.partitions], self.values(lists)[: self.has.size].reshape(self.has.shape)
        for number in np.unique(topic[spread.asked[topic]]).tolist():
            rows = np.flatnonzero(topic == number)
            fits = now[rows].sum(axis=0) + np.maximum(0, spread.room[number, self.brokers])
            self._add(self._columns[rows].T, 1.0, -np.inf, fits)

    def _takes(self) -> Floats:
        """[partition, broker] 1 where the replica may be. A new one needs a receiver that takes it, and room."""
        receives = self._frame.problem.receivers[self.brokers]
        fits = np.repeat((receives & ~self.full)[None], len(self.partitions), axis=0)
        nowhere = np.full(len(self.partitions), -1)
        for rule in self._frame.others:
            fits &= rule.allows(self.partitions, nowhere, self.brokers)
        return (self.has | fits).astype(np.float64)

    def _add(self, columns: Ints, values: Floats | float, low: Floats | float, high: Floats | float) -> None:
        """One row for each row of `columns`."""
        count = len(columns)
        row = np.repeat(np.arange(self._rows, self._rows + count), columns.shape[1])
        self._entries.append((row, columns.ravel(), np.broadcast_to(values, columns.shape).astype(np.float64).ravel()))
        least, most = (np.broadcast_to(limit, count).astype(np.float64) for limit in (low, high))
        self._limits.append((least, most))
        self._rows += count

    def _add_lists(self) -> None:
        """As many replicas as now, in each rack at least and at most what the rack rule says.

        Confined replicas stay in their racks. A list that nobody may mend breaks the rule no more than it does now.
        """
        frame, problem = self._frame, self._frame.problem
        rule, counts = frame.rule, replication(self._lists)
        free = counts - self._stays.sum(axis=1)
        self._add(self._columns, 1.0, free, free)
        if not rule.known:
            return
        domains = domains_of(rule, self._lists)
        confined = problem.rack_pinned[self.partitions]
        rackless = ((domains < 0) & (self._lists >= 0)).any(axis=1)  # on dead brokers: these may go to any rack
        stuck = self._broken_for_good(domains)
        for rack in np.unique(rule.domain[self.brokers]):
            here, kept = ((those & (domains == rack)).sum(axis=1) for those in (self._lists >= 0, self._stays))
            receives = problem.receivers[rule.domain == rack].any()
            at_least, at_most = rule.least(counts, rack), rule.most(counts, rack)
            least = np.where(confined, here, at_least if receives else np.minimum(at_least, here))
            most = np.where(confined & ~rackless, here, np.where(confined | stuck, np.maximum(at_most, here), at_most))
            columns = self._columns[:, rule.domain[self.brokers] == rack]
            self._add(columns, 1.0, np.maximum(0, least - kept), np.maximum(0, most - kept))

    def _broken_for_good(self, domains: Ints) -> Bools:
        """[partition] Lists that break the rack rule because none of the racks that they lack has a receiver."""
        rule, problem = self._frame.rule, self._frame.problem
        if not problem.some_only_give:
            return np.zeros(len(domains), dtype=bool)
        counts, held = replication(self._lists), in_racks(domains, rule.racks)
        held[:, np.unique(rule.domain[problem.receivers])] = counts[:, None]  # as many as they like
        broken: Bools = rule.spread_of(held, counts) < rule.wanted(counts)
        return broken

    def add_limits(self) -> None:
        """Adds the limit of the settings on bytes."""
        settings, new = self._frame.problem.settings, np.flatnonzero(~self.has.ravel())[None]
        if settings.max_bytes is not None:
            self._add(new, np.repeat(self._sizes, len(self.brokers))[new], -np.inf, settings.max_bytes / self._unit)

    def add_leaders(self) -> None:
        """Topics have no more excess leaders than now, in the best order of the lists.

        Who leads each partition is a flow, so whole lists have whole leaders without further whole columns.
        """
        problem = self._frame.problem
        now = TopicLeaders(problem, problem.leader)
        led_by = problem.leader[self.partitions]
        some = np.flatnonzero((replication(self._lists) > 1) & (problem.evened | problem.leaving)[led_by])
        topic = now.topic[self.partitions[some]]
        # [topic, broker] what the partitions that are looked at may lead
        fits = now.room.astype(np.float64)
        np.add.at(fits, (topic, led_by[some]), 1.0)
        topics, of_topic = np.unique(topic, return_inverse=True)
        first = self.has.size + len(self._crowd_room)
        leads = first + np.arange(len(some) * len(self.brokers)).reshape(len(some), -1)
        excess = leads.size + first + np.arange(len(topics) * len(self.brokers)).reshape(len(topics), -1)
        self._leading = leads.size + excess.size
        self._add(leads, 1.0, 1.0, 1.0)
        held = np.stack([leads.ravel(), self._columns[some].ravel()], axis=1)
        self._add(held, np.array([1.0, -1.0]), -np.inf, 0.0)
        rows = self._rows + np.arange(excess.size).reshape(excess.shape)
        self._entries.append((rows[of_topic].ravel(), leads.ravel(), np.ones(leads.size)))
        self._add(excess.reshape(-1, 1), -1.0, -np.inf, fits[topics][:, self.brokers].ravel())
        self._add(excess.reshape(1, -1), 1.0, -np.inf, float(now.excess))

    def _fixed(self) -> Floats:
        """[evened broker, resource] The load there of replicas that are no variables."""
        frame, brokers = self._frame, len(self._frame.targets)
        now = replica_loads(frame.problem.replicas, frame.weights, brokers)
        mine = replica_loads(np.where(self._stays, -1, self._lists), frame.weights[self.partitions], brokers)
        return (now - mine)[self.brokers]

    def _add_bands(self, bands: Bands) -> None:
        frame = self._frame
        now = replica_loads(frame.problem.replicas, frame.weights, len(frame.targets))
        high, fixed = bands.high.copy(), self._fixed()
        # A broker that is beyond a limit already may stay so. A disk that is receives nothing (`_takes`).
        high = np.minimum(high, np.maximum(frame.limits, now))
        for k in range(high.shape[1]):
            weights = frame.weights[self.partitions, k]
            if weights.any():
                least, most = (values[self.brokers, k] - fixed[:, k] for values in (bands.low, high))
                self._add(self._columns.T, weights, least, most)


# Fewer bytes by steps over the whole cluster: large neighbourhood search (Shaw, 1998), guided by a relaxation.
#
# Each step frees the partitions in which the lists and the relaxation differ, and those that cost least to move by its
# prices. All others stay. The step solves this small program to its end, or for a few nodes.


_FREE = 1_800  # variables of one step
_SMALL = 3_600  # of a program of more than one step and so few variables, the relaxation has giants whole
_GIANTS = 900  # variables of the largest partitions
_GIANT_NODES = 50  # at most; most such programs are solved to their end before
_NODES = 5  # of one step, at least; most of what it finds is found before the second
_STEPS = 10
_IDLE = 3  # steps in a row without a gain, until the search ends
_MANY = 12  # brokers of one step
_FEW = 4  # of the first steps, where the lists differ from the relaxation in more partitions than one step frees
_LED = 0.7  # share of a step's partitions that it takes because lists and relaxation differ
_NOISE = (0.5, 2.0)  # factors of the prices, so that steps differ
CLOSE = 1.003  # times the relaxation's cost: a search for less is in vain
WHOLE = 1e-6  # closer to a whole number than this is whole
BREACH = 1e-9
RELAXED: solver.Options = {"simplex_iteration_limit": 100_000}


def cheaper_by_steps(frame: Frame, lists: Ints, met: Bands, seed: Sequence[int]) -> Ints:
    """The cheapest lists within the bands that steps over the whole cluster find; `lists` itself if there are none."""
    program = ListProgram(frame)
    program.crowd_no_more_than(lists)
    program.spread_no_worse_than(lists)
    whole = program.program(met)
    first = program.values(lists)
    if whole.breach(first) > BREACH:
        return lists  # a replica that found no better place breaks a rule
    best = _searched(frame, program, whole, first, np.random.default_rng([*seed, 2_000]))
    return lists if best is first else program.lists(best[: program.has.size] > 0.5)


def _searched(
    frame: Frame, program: ListProgram, whole: solver.Program, first: Floats, rng: np.random.Generator
) -> Floats:
    """The values of the cheapest lists found; `first` itself if nothing is cheaper."""
    relaxed = solver.solve(solver.relaxed(whole), RELAXED)
    if relaxed.x is None or not len(relaxed.prices):
        return first
    shape, size, idle = program.has.shape, program.has.size, 0
    best, bound, guide = first, relaxed.cost, relaxed.x
    if _FREE < size <= _SMALL and whole.cost @ best > CLOSE * bound:
        best, bound, guide = _around_giants(frame, program, whole, first, bound, guide)
    near, upper = guide[:size].reshape(shape), whole.upper[:size].reshape(shape)
    prices = reduced(whole, relaxed.prices)[:size].reshape(shape)
    topic = frame.problem.topic[program.partitions]
    by_rack = np.lexsort((program.brokers, frame.rule.domain[program.brokers]))
    narrow = _narrow_steps(_differs(near, first[:size].reshape(shape), program.has), by_rack)
    for step in range(_STEPS):
        if whole.cost @ best <= CLOSE * bound or idle >= _IDLE:
            break
        now = best[:size].reshape(shape)
        brokers = narrow[step] if step < len(narrow) else _brokers_of(step - len(narrow), by_rack)
        rows = _rows_of(now, near, prices, upper, program.has, brokers, _FREE >> idle, rng)
        if not len(rows):  # as where only other brokers receive
            idle += step >= len(narrow)
            continue
        free = np.zeros(shape, dtype=bool)
        free[np.ix_(rows, brokers)] = True
        crowds = np.isin(program.crowd_topic, topic[rows]) & np.isin(program.crowd_broker, brokers)
        unfixed = np.concatenate([free.ravel(), crowds])
        nodes = max(_NODES, _WORK // int(free.sum()) ** 2)
        after = solved_step(program, whole, best, unfixed, nodes)
        idle += _IDLE if free.all() else step >= len(narrow)  # another step that frees all would find the same
        if after is not best:
            best, idle = after, 0
    return best


def _around_giants(
    frame: Frame, program: ListProgram, whole: solver.Program, first: Floats, bound: float, near: Floats
) -> tuple[Floats, float, Floats]:
    """(the cheaper of `first` and lists around the giants, the least cost that is proven, the guide of the steps)

    `bound` and `near` are those two of the linear relaxation.

    On a small cluster a few large replicas decide the bytes, and small ones fill what these leave. So a relaxation with
    the largest partitions whole is solved fast, and is far nearer to the optimum. Then all others are placed.
    """
    sizes, giant = frame.problem.size_bytes[program.partitions], np.zeros(program.has.shape, dtype=bool)
    giant[np.argsort(-sizes, kind="stable")[: _GIANTS // len(program.brokers)]] = True
    integral = np.concatenate([giant.ravel(), np.zeros(len(first) - giant.size, dtype=bool)])
    guide = solver.solve(replace(whole, integral=integral), {**EFFORT, "mip_max_nodes": _GIANT_NODES}, first)
    if guide.x is None:
        return first, bound, near
    placed = np.where(integral, np.round(guide.x), first)
    found = solver.solve(whole.part(~integral, placed), {**EFFORT, "mip_max_nodes": _NODES})
    best = _cheaper(program, whole, first, placed, ~integral, found)
    return best, max(bound, guide.bound), guide.x


def reduced(program: solver.Program, prices: Floats) -> Floats:
    """[column] The reduced costs, by the prices of the rows."""
    prices = program.values * prices[program.rows]
    return program.cost - np.bincount(program.columns, prices, minlength=len(program.cost))


def solved_step(program: ListProgram, whole: solver.Program, best: Floats, unfixed: Bools, nodes: int) -> Floats:
    """The values with these columns solved anew; `best` itself if that costs no less."""
    found = solver.solve(whole.part(unfixed, best), {**EFFORT, "mip_max_nodes": nodes}, best[unfixed])
    return _cheaper(program, whole, best, best, unfixed, found)


def _cheaper(
    program: ListProgram, whole: solver.Program, best: Floats, fixed: Floats, unfixed: Bools, found: solver.Solution
) -> Floats:
    """What the solver found for these columns, with the others as in `fixed`; `best` itself if that costs no less."""
    if found.x is None:
        return best
    after = fixed.copy()
    after[unfixed] = np.round(found.x)
    after = program.with_crowds(after)
    cheaper = whole.cost @ after < whole.cost @ best - BREACH and whole.breach(after) <= BREACH
    return after if cheaper else best


def _differs(near: Floats, now: Floats, has: Bools) -> Bools:
    """[partition, broker] Where lists and relaxation differ, or a replica is new."""
    differs: Bools = (np.abs(near - now) > WHOLE) | ((now > 0.5) & ~has)
    return differs


def _narrow_steps(differs: Bools, by_rack: Ints) -> Sequence[Ints]:
    """The brokers of the first steps: a few of one rack each, if one step cannot free all that differs."""
    brokers = len(by_rack)
    if brokers <= _FEW or differs.any(axis=1).sum() * min(brokers, _MANY) <= _LED * _FREE:
        return ()
    return np.array_split(by_rack, -(-brokers // _FEW))[: _STEPS // 2]


def _brokers_of(step: int, by_rack: Ints) -> Ints:
    """The brokers of one step: all, or neighbours by rack. Each round of steps begins half a step further."""
    parts = -(-len(by_rack) // _MANY)
    shifted = np.roll(by_rack, (step // parts) * (_MANY // 2))
    return np.array_split(shifted, parts)[step % parts]


def _rows_of(
    now: Floats,
    near: Floats,
    prices: Floats,
    upper: Floats,
    has: Bools,
    brokers: Ints,
    variables: int,
    rng: np.random.Generator,
) -> Ints:
    """The partitions that a step frees: where lists and relaxation differ, then those that cost least to move."""
    count = variables // len(brokers)
    mine, held = prices[:, brokers], now[:, brokers] > 0.5
    comes = np.where(~held & (upper[:, brokers] > 0.5), mine, np.inf).min(axis=1)
    cost = comes + np.where(held, -mine, np.inf).min(axis=1)
    leads = _differs(near, now, has)[:, brokers].any(axis=1) & np.isfinite(cost)
    cost *= rng.uniform(*_NOISE, len(cost))
    if leads.sum() > _LED * count:
        leads &= rng.random(len(leads)) < _LED * count / leads.sum()
    cost[leads] = -np.inf
    rows = np.argsort(cost, kind="stable")[:count]
    return np.sort(rows[cost[rows] < np.inf])


# A dive: the linear relaxation of a program of lists, made whole replica by replica, the heaviest first.
#
# The heaviest replicas of all stay where the lists have them, because few places are left for them. In each round,
# those of the others that the relaxation splits and that weigh most go where most of them is. Then it is solved again,
# so that lighter ones make up for them (diving: Berthold, "Primal heuristics for mixed integer programs", 2006).
#
# Most columns are never looked at. The prices of one relaxation say which others it lacks.


_HEAVY, _LIGHT = 0.25, 0.0125  # of the width of a band, which is twice the tolerance
_FIRST, _KEPT, _MORE = 2_500, 2_000, 3_500  # columns beside those of the lists, the cheapest by the prices
_AT_ONCE = 0.5  # share of the split replicas that one round places; a quarter of it after a round without solution
_AT_LEAST = 8  # so that the last rounds do not place one replica each
_ROUNDS, _FAILED = 24, 3  # at most, and of them without solution: these take longest
_COSTLESS = 1e-12  # what no place of a program costs: the price of a copy alone is more
_WHOLE = 1e-6  # closer to a whole number than this is whole
_RELAXED: solver.Options = {"simplex_iteration_limit": 20_000}
_AGAIN: solver.Options = {"simplex_iteration_limit": 6_000}  # most rounds need some hundreds


def dived(
    program: ListProgram, whole: solver.Program, now: Floats, worth: Floats, weights: Floats, width: float
) -> Floats | None:
    """[partition, broker] The relaxation near the values `now`, in which hardly any but light replicas are split.

    `worth` is as of `worth_of_load`, `weights` are [partition, resource], and `width` is that of a band. None: the
    solver found none.
    """
    shape, size = program.has.shape, program.has.size
    heavy = weights[:, DISK:].max(axis=1) / width
    held = now[:size].reshape(shape) > 0.5
    may = (whole.upper[:size].reshape(shape) > 0.5) & (held | (heavy <= _HEAVY)[:, None])
    prices = np.zeros(len(whole.low))
    resources, rows = _band_rows(program, weights, len(prices))
    prices[rows] = worth[np.ix_(program.brokers, resources)].T
    chosen = _with_cheapest(held, may, _per_byte(whole, prices, held), _FIRST)
    for keeps in (size, _KEPT):
        near, prices = _relaxation(program, whole, now, chosen)
        if near is None:
            return None
        dear = _per_byte(whole, prices, chosen)
        chosen = _with_cheapest(held | (near > _WHOLE), chosen, dear, keeps)
        chosen = _with_cheapest(chosen, may & (dear < -_WHOLE), dear, _MORE)
    return _placed(program, whole, now, chosen, heavy)


def worth_of_load(program: ListProgram, weights: Floats, prices: Floats, brokers: int) -> Floats:
    """[broker, resource] What a unit of load is worth there, by the prices of the program's rows."""
    worth = np.zeros((brokers, weights.shape[1]))
    resources, rows = _band_rows(program, weights, len(prices))
    worth[np.ix_(program.brokers, resources)] = prices[rows].T
    return worth


def _band_rows(program: ListProgram, weights: Floats, rows: int) -> tuple[Ints, Ints]:
    """(resources that have bands, [resource, broker] the rows of these bands, which are the last ones)"""
    resources, brokers = np.flatnonzero(weights.any(axis=0)), len(program.brokers)
    return resources, np.arange(rows - len(resources) * brokers, rows).reshape(-1, brokers)


def _per_byte(whole: solver.Program, prices: Floats, those: Bools) -> Floats:
    """[partition, broker] What a replica costs there beyond the cheapest of `those` places, as a share of its bytes."""
    cost = whole.cost[: those.size].reshape(those.shape)
    values = whole.values * prices[whole.rows]
    reduced = cost - np.bincount(whole.columns, values, minlength=len(whole.cost))[: those.size].reshape(those.shape)
    cheapest = np.where(those, reduced, np.inf).min(axis=1)
    # A partition that every one of these brokers holds has no place that costs anything.
    share: Floats = (reduced - cheapest[:, None]) / np.maximum(cost.max(axis=1), _COSTLESS)[:, None]
    return share


def _with_cheapest(chosen: Bools, others: Bools, dear: Floats, count: int) -> Bools:
    """The chosen columns, and as many of the others, those of least cost."""
    more = np.flatnonzero((others & ~chosen).ravel())
    result = chosen.copy().ravel()
    result[more[np.argsort(dear.ravel()[more], kind="stable")[:count]]] = True
    return result.reshape(chosen.shape)


def _relaxation(
    program: ListProgram, whole: solver.Program, now: Floats, chosen: Bools
) -> tuple[Floats | None, Floats]:
    """([partition, broker] the relaxation over the chosen columns, or None, [row] its prices)"""
    unfixed = _unfixed(program, chosen)
    found = solver.solve(solver.relaxed(whole.part(unfixed, now)), _RELAXED)
    prices = np.zeros(len(whole.low))
    if found.x is None or not found.optimal:
        return None, prices
    prices[np.unique(whole.rows[unfixed[whole.columns]])] = found.prices
    return _shares(chosen, found.x), prices


def _unfixed(program: ListProgram, chosen: Bools) -> Bools:
    """[column] The chosen ones, and those of crowded replicas in which a chosen one counts."""
    crowds = np.zeros(len(program.crowd_topic), dtype=bool)
    crowds[program.crowd_rows[chosen.ravel()[program.crowd_of]]] = True
    return np.concatenate([chosen.ravel(), crowds])


def _shares(chosen: Bools, values: Floats) -> Floats:
    shares = np.zeros(chosen.shape)
    shares[chosen] = values[: int(chosen.sum())]
    return shares


def _placed(program: ListProgram, whole: solver.Program, now: Floats, chosen: Bools, heavy: Floats) -> Floats | None:
    """[partition, broker] The relaxation in which only light replicas are split; None: none was found."""
    unfixed = _unfixed(program, chosen)
    part = whole.part(unfixed, now)
    repeated, upper = solver.Repeated(solver.relaxed(part), _AGAIN), part.upper
    number = np.cumsum(chosen.ravel()).reshape(chosen.shape) - 1
    low, found = np.zeros(len(upper)), repeated.solve(np.zeros(len(upper)), upper)
    if found.x is None or not found.optimal:
        return None
    near, share, fixed = _shares(chosen, found.x), _AT_ONCE, heavy < _LIGHT
    failed = 0
    for _ in range(_ROUNDS):
        split = np.flatnonzero((near.max(axis=1) < 1 - _WHOLE) & ~fixed)
        if not len(split) or failed == _FAILED:
            break
        split = split[np.argsort(-heavy[split], kind="stable")][: max(1, int(share * (len(split) + _AT_LEAST)))]
        tried = low.copy()
        tried[number[split, near[split].argmax(axis=1)]] = 1.0
        found = repeated.solve(tried, upper)
        if found.x is not None and found.optimal:
            low, near = tried, _shares(chosen, found.x)
            fixed[split] = True
        else:
            share, failed = share / 4, failed + 1
            fixed[split] = len(split) == 1
    return near


# What holds for all lists that the solver finds: limits, disks and crowding.


class Besides(NamedTuple):
    """What lists must keep besides bands and rules: only asked for if the fewest bytes do not keep it by themselves."""

    spreads_leaders: bool = False  # in their best order topics have no more excess leaders than now
    crowds_no_more: bool = False  # topics crowd brokers with no more replicas in total than now
    spreads_topics: bool = False  # no broker holds more of a topic to spread than its ceiling, or than known lists


NOTHING = Besides()


def keeps_rules(frame: Frame, new: Placement, old: Placement) -> bool:
    """Whether limits and disks hold, and topics crowd brokers no more in total than before, or in the old lists."""
    problem = frame.problem
    before = Crowding(problem.replicas, problem.topic, frame.topic_shares, frame.left_by_racks)
    keeps = new.crowding.replicas <= max(before.replicas, old.crowding.replicas)
    keeps &= new.crowding.excess_replicas <= old.crowding.excess_replicas
    return keeps and not new.budget.exceeded() and (old.too_full or not new.too_full)


def placed(frame: Frame, lists: Ints) -> Placement:
    nothing = np.zeros(lists.shape, dtype=bool)
    return placement_of(frame, lists, frame.problem.replicas, nothing, spent(frame.problem, lists))


def crowds_more(frame: Frame, lists: Ints) -> bool:
    """Whether topics crowd brokers with more replicas in total than now."""
    problem = frame.problem
    before, after = (
        Crowding(some, problem.topic, frame.topic_shares, frame.left_by_racks) for some in (problem.replicas, lists)
    )
    return after.replicas > before.replicas
