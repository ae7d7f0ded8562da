"""How a topic's replicas spread over the brokers: the search never lets a topic crowd a broker more than before.

A topic crowds a broker with the replicas beyond its even share plus one. Then this broker carries much of the topic's
load, and its loss hits the topic (Cruise Control's TopicReplicaDistributionGoal measures the same).
"""

from __future__ import annotations

from copy import copy

import numpy as np

from kafka_rebalance.planning.problem.arrays import REPLICAS, Bools, Floats, Ints, Problem, shares
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from kafka_rebalance.planning.rules.rack_rule import RackRule
from kafka_rebalance.planning.rules.topic_spread import TopicSpread

_ROUNDING = 1e-9


class Crowding:
    """[topic, broker] How many more replicas fit until the topic crowds the broker; below 0 it does.

    If `in_total` is a number, a topic may crowd a broker anew once so many crowded replicas have gone elsewhere. If
    `leaders` is given, no replica that comes first may go where its broker would lead too many of the topic.
    If `spread` is given, its topics have their ceilings instead.
    """

    def __init__(self, replicas: Ints, topic: Ints, shares: Floats, left_by_racks: Floats | None = None) -> None:
        """`shares` is [broker], the share of everything that the broker should hold.

        `left_by_racks` is as of the function of that name: where it is more, it is the even share.
        """
        brokers, topics = len(shares), int(topic.max(initial=-1)) + 1
        rows, _ = np.nonzero(replicas >= 0)
        held = topic[rows] * brokers + replicas[replicas >= 0]
        counts = np.bincount(held, minlength=topics * brokers).reshape(topics, brokers)
        even = counts.sum(axis=1)[:, None] * np.where(shares > 0, shares, shares.max(initial=0.0))
        if left_by_racks is not None:
            even = np.maximum(even, left_by_racks)
        self.topic = topic
        # Rounding may put an even share just above a whole number.
        self.room = (np.ceil(even - _ROUNDING) + 1 - counts).astype(np.int32)
        self.spare = 0  # how many fewer crowded replicas than at first
        self.in_total: int | None = None
        self.leaders: TopicLeaders | None = None
        self.spread: TopicSpread | None = None
        self._first = replicas[:, 0].copy()

    def copy(self) -> Crowding:
        twin = copy(self)
        twin.room, twin._first = self.room.copy(), self._first.copy()
        twin.leaders = None if self.leaders is None else self.leaders.copy()
        twin.spread = None if self.spread is None else self.spread.copy()
        return twin

    @property
    def replicas(self) -> int:
        """How many replicas lie beyond an even share plus one."""
        return int(np.maximum(0, -self.room).sum())

    @property
    def excess_leaders(self) -> int:
        """How many first replicas are too many of their topics; 0 without `leaders`."""
        return 0 if self.leaders is None else self.leaders.excess

    @property
    def excess_replicas(self) -> int:
        """How many replicas are beyond the ceilings of their topics; 0 without `spread`."""
        return 0 if self.spread is None else self.spread.excess

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        """[row, target] Whether a replica may come: there is room, or it leaves a crowded broker.

        `targets` is [target], or [row, 1].
        """
        topic = self.topic[rows]
        free: Bools = np.ones((1, 1), dtype=bool)
        if self.in_total is None or self.spare < self.in_total:
            free = (self.room[topic[:, None], targets] > 0) | (self.room[topic, sources] < 0)[:, None]
        if self.spread is not None:
            free = (free | self.spread.asked[topic][:, None]) & self.spread.allows(rows, sources, targets)
        if self.leaders is not None:
            leads = self._first[rows] == sources
            free = free & (~leads[:, None] | (self.leaders.change(rows[:, None], sources[:, None], targets) <= 0))
        return free

    def adds(self, rows: Ints, sources: Ints, targets: Ints) -> Ints:
        """[row] How many more crowded replicas there are if each of these moves alone: -1, 0 or 1."""
        topic = self.topic[rows]
        more: Ints = (self.room[topic, targets] <= 0).astype(np.int64) - (self.room[topic, sources] < 0)
        return more

    def one_by_one(self) -> None:
        """From here on replicas move singly. So each one that a topic crowds less makes room for another at once."""
        if self.in_total is not None:
            self.in_total = 1

    def exchanges_evenly(self, rows: Ints, sources: Ints, others: Ints, targets: Ints) -> Bools:
        """[pair] Whether nothing gets more crowded if replicas of `rows` and `others` change places.

        They are of one topic, and with `leaders` both come first or neither does.
        """
        even: Bools = self.topic[rows] == self.topic[others]
        if self.leaders is not None:
            even &= (self._first[rows] == sources) == (self._first[others] == targets)
        return even

    def move(self, rows: Ints, sources: Ints, targets: Ints) -> None:
        """Counts replicas that went from the sources to the targets."""
        topic = self.topic[rows]
        self.spare += int((self.room[topic, sources] < 0).sum() - (self.room[topic, targets] <= 0).sum())
        np.add.at(self.room, (topic, sources), 1)
        np.subtract.at(self.room, (topic, targets), 1)
        if self.spread is not None:
            self.spread.move(rows, sources, targets)
        leads = self._first[rows] == sources
        self._first[rows[leads]] = targets[leads]
        if self.leaders is not None:
            self.leaders.move(rows[leads], sources[leads], targets[leads])


def left_by_racks(problem: Problem, rule: RackRule, counts: Ints, targets: Floats) -> Floats | None:
    """[topic, broker] The replicas of each topic that a broker should hold as racks leave them; None if they are even.

    A rack must hold one of each partition with as many replicas as there are racks. If few of its brokers stay, these
    replicas fill them. Then other topics have their even share on the brokers of the other racks. `counts` is
    [partition row], how many replicas each has; `targets` is [broker], how many each should hold, in any unit.
    """
    held, share = (np.where(problem.evened, values, 0.0) for values in (targets, shares(problem)[:, REPLICAS]))
    if not rule.known or not held.any() or np.allclose(held * share.sum(), share * held.sum(), rtol=_ROUNDING):
        return None
    racks, topics = np.unique(rule.domain[problem.evened]), int(problem.topic.max(initial=-1)) + 1
    holds = [rule.holds(counts, int(rack)) for rack in racks]
    must, may = (
        np.stack([np.bincount(problem.topic, limit, topics) for limit in limits], axis=1)
        for limits in zip(*holds, strict=True)
    )
    here = rule.domain == racks[:, None]  # [rack, broker]
    by_rack = (here * held).sum(axis=1)
    rest = np.bincount(problem.topic, counts, topics) - must.sum(axis=1)
    left = np.maximum(0.0, by_rack * counts.sum() / held.sum() - must.sum(axis=0))
    in_rack = np.minimum(may, must + rest[:, None] * left / max(_ROUNDING, left.sum()))  # [topic, rack]
    even: Floats = in_rack @ (here * held / np.maximum(_ROUNDING, by_rack)[:, None])
    return even


def crowded_replicas(problem: Problem, replicas: Ints) -> int:
    """Replicas above the even share of their topic on one broker plus one."""
    return sum(
        Crowding(replicas[part.rows], part.problem.topic, shares(part.problem)[:, REPLICAS]).replicas
        for part in parts_of(problem)
    )
