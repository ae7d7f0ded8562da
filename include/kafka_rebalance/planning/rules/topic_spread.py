"""`spread_topics`: how many replicas of a topic a broker should hold at most, and how many it holds beyond that.

The *ceiling* is the topic's replicas over the brokers that may hold them, rounded up. Brokers count alike, whatever
their size: what counts is how much of the topic the loss of one broker hits. Where the rack rule leaves more to the
brokers of a rack, their ceiling is what it leaves them. The *excess* are the replicas beyond the ceilings.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.model.settings import matches
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, replication
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule, violations

_NO_CEILING = np.iinfo(np.int32).max // 2  # of brokers that keep what they have
_HALVINGS = 60
_ROUNDING = 1e-6  # of a replica


class TopicSpread:
    """[topic, broker] How many more replicas fit below the ceiling; below 0 the broker holds too many.

    It counts the topics that are `asked` for, [topic].
    """

    def __init__(self, topic: Ints, asked: Bools, ceilings: Ints, counts: Ints) -> None:
        """`ceilings` and `counts`, the replicas now, are [topic, broker]."""
        self.topic, self.asked = topic, asked
        self.room = np.where(asked[:, None], ceilings - counts, _NO_CEILING)

    def copy(self) -> TopicSpread:
        twin = copy(self)
        twin.room = self.room.copy()
        return twin

    @property
    def excess(self) -> int:
        return int(np.maximum(0, -self.room).sum())

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        """[row, target] Whether the excess does not grow. `targets` is [target], or [row, 1]."""
        topic = self.topic[rows]
        crowded = (sources >= 0) & (self.room[topic, sources] < 0)
        fits: Bools = (self.room[topic[:, None], targets] > 0) | crowded[:, None]
        return fits | ~self.asked[topic][:, None]

    def move(self, rows: Ints, sources: Ints, targets: Ints) -> None:
        """Counts replicas that went from the sources to the targets."""
        topic = self.topic[rows]
        np.add.at(self.room, (topic, sources), 1)
        np.subtract.at(self.room, (topic, targets), 1)


@dataclass(frozen=True, slots=True)
class Excess:
    """Replicas beyond the ceilings of their topics."""

    now: int
    least: int  # no lists that keep the rack rule have fewer, whatever disks and limits allow


def topic_spread(problem: Problem, rule: RackRule, replicas: Ints, counts: Ints) -> TopicSpread | None:
    """The spread of these lists; None if no topic that may move is asked for.

    `counts` is [partition row], how many replicas each has in the end.
    """
    asked = _asked(problem)
    if not asked.any():
        return None
    held = _held(problem, replicas)
    return TopicSpread(problem.topic, asked, _Places(problem, rule, counts, held).ceilings, held)


def excess_of(problem: Problem, replicas: Ints) -> Excess | None:
    """With pools that of all together; None if no topic is asked for."""
    if not problem.settings.spread_topics:
        return None
    now = least = 0
    for part in parts_of(problem):
        own, lists = part.problem, replicas[part.rows]
        rule = rack_rule(own, own.settings.replication_factor)
        spread = topic_spread(own, rule, lists, replication(lists))
        if spread is not None:
            now += spread.excess
            least += _Places(own, rule, replication(lists), _held(own, own.replicas)).least_excess(spread.asked)
    return Excess(now, min(now, least))


def _asked(problem: Problem) -> Bools:
    """[topic] Which topics have partitions that are to spread, and may."""
    globs, moves = problem.settings.spread_topics, np.unique(problem.topic[problem.relocatable])
    asked = np.zeros(1 + int(problem.topic.max(initial=-1)), dtype=bool)
    asked[[topic for topic in moves.tolist() if matches(problem.topics[topic], globs)]] = True
    return asked


def _held(problem: Problem, replicas: Ints) -> Ints:
    """[topic, broker] Replicas."""
    brokers, topics = len(problem.brokers), 1 + int(problem.topic.max(initial=-1))
    rows, columns = np.nonzero(replicas >= 0)
    cells = problem.topic[rows] * brokers + replicas[rows, columns]
    held: Ints = np.bincount(cells, minlength=topics * brokers).reshape(topics, brokers)
    return held


class _Places:
    """Where the replicas of each topic may be: what racks and the brokers that keep theirs leave."""

    def __init__(self, problem: Problem, rule: RackRule, counts: Ints, held: Ints) -> None:
        """`held` is [topic, broker], the replicas that are there."""
        self._problem, self._held = problem, held
        topics = len(held)
        self._may_hold = problem.receivers | (problem.evened & (held > 0))  # [topic, broker]
        stays = problem.closed & ~problem.leaving
        kept = held * stays
        self._total = np.bincount(problem.topic, counts, topics) - kept.sum(axis=1)
        racks = np.unique(rule.domain[problem.evened]) if rule.known else np.zeros(1, dtype=np.int64)
        self._here = rule.domain == racks[:, None] if rule.known else np.ones((1, len(problem.brokers)), dtype=bool)
        least, most = (
            np.zeros((topics, len(racks))),
            np.repeat(self._total[:, None], len(racks), axis=1).astype(np.float64),
        )
        self._apart = np.zeros((topics, len(racks)))  # by how much lists that break the rack rule may differ from that
        if rule.known:
            broken = violations(rule, problem.replicas)
            for number, rack in enumerate(racks.tolist()):
                low, high = rule.holds(counts, rack)
                here = kept @ self._here[number]
                least[:, number] = np.bincount(problem.topic, low, topics) - here
                most[:, number] = np.bincount(problem.topic, high, topics) - here
                self._apart[:, number] = np.bincount(problem.topic, np.where(broken, counts, 0), topics)
        self._least, self._most = np.maximum(0.0, least), np.maximum(0.0, most)

    @property
    def ceilings(self) -> Ints:
        """[topic, broker] 0 for brokers to be emptied, and of other pools."""
        problem, brokers = self._problem, self._may_hold.astype(np.int64) @ self._here.T  # [topic, rack]
        even = self._total / np.maximum(1, self._may_hold.sum(axis=1))
        low, high = np.zeros(len(even)), self._total.astype(np.float64)
        for _ in range(_HALVINGS):  # the level to which racks fill up alike, as far as each may
            middle = (low + high) / 2
            enough = self._filled(middle, brokers).sum(axis=1) >= self._total
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        each = np.maximum(even[:, None], self._filled(high, brokers) / np.maximum(1, brokers))
        by_rack = np.ceil(each - _ROUNDING).astype(np.int64)
        ceilings: Ints = np.where(problem.evened, by_rack @ self._here, 0)
        return np.where(problem.closed & ~problem.leaving & ~problem.pools.foreign, _NO_CEILING, ceilings)

    def _filled(self, level: Floats, brokers: Ints) -> Floats:
        """[topic, rack] The replicas in each rack if each broker has as many as the level, where the rack may."""
        filled: Floats = np.clip(level[:, None] * brokers, self._least, np.maximum(self._least, self._most))
        return filled

    def least_excess(self, asked: Bools) -> int:
        """What no lists stay below: racks must hold some, and replicas that nobody may move are where they are.

        Lists that break the rack rule now may stay as they are, so they bind nothing.
        """
        problem, ceilings = self._problem, self.ceilings
        takes = np.where(problem.receivers, ceilings, np.minimum(ceilings, self._held))
        room = np.where(problem.evened, takes, 0) @ self._here.T  # [topic, rack]
        least, most = np.maximum(0.0, self._least - self._apart), self._most + self._apart
        forced = np.maximum(0.0, least - room).sum(axis=1)
        fits = np.maximum(least, np.minimum(most, room)).sum(axis=1)
        by_racks = forced + np.maximum(0.0, self._total - fits)
        fixed = _held(problem, np.where(problem.relocatable[:, None], -1, problem.replicas))
        return int(np.maximum(by_racks, np.maximum(0, fixed - ceilings).sum(axis=1))[asked].sum())
