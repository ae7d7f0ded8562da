"""Leaders by re-ordering replica lists, which copies nothing: the first replica is the preferred leader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

import numpy as np

from kafka_rebalance.model.settings import matches
from kafka_rebalance.planning.bounds.fewest_leader_changes import (
    Choice,
    Prices,
    heavy_leaders,
    leader_prices,
)
from kafka_rebalance.planning.bounds.targets import Bands, band, distance, leader_targets
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Floats,
    Ints,
    Problem,
    changed_lists,
    firsts,
    leader_loads,
    leader_weights,
    led_first,
    preferred_to_lead,
    replication,
    widened,
)
from kafka_rebalance.planning.rules.leaders import TopicLeaders, may_be_elected
from kafka_rebalance.planning.rules.rack_rule import domains_of, violations
from kafka_rebalance.planning.search.frame import FoundLists, Frame
from kafka_rebalance.planning.search.optimal import placed
from kafka_rebalance.planning.search.placement import GAIN, Budget, Limit, Placement

# Leaders by re-ordering replica lists: the first replica is the preferred leader, and re-ordering copies nothing.


_GAIN = -1e-13
_ROUNDS = 400
_EXCHANGES = 100  # of two leaders, for each aim
_NONE = np.zeros(0, dtype=np.int64)
_CHAINS = 200  # over several brokers, for each aim
_WORST = 3  # brokers to look for an exchange or a chain for
_IDLE = 30  # rounds in a row that spread no topic, until the spreading ends
# A narrow aim inside the band lets leaders pass through brokers that are within it themselves. The band itself comes
# last: what a narrow aim calls nearer may be farther from it.
_AIMS = (1.0, 0.6, 0.3, 0.0, 1.0)
# How much dearer than the cheapest a leader may be, in changes: the search turns to dearer ones when no other gains.
_DEARER = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0, np.inf)
_CHANGE = 0.05  # of a change: what a gain is divided by besides, where a leader costs nothing
_WHOLE = 1e-9  # of a leader: what rounding may put a whole number off
# By how much the excess of its topic grows (0, 1, or -1 from the end): what a gain for the bands counts.
_TOPIC = np.array([1.0, 0.5, 1.5])


def with_leaders(
    frame: Frame,
    replicas: Ints,
    budget: Budget,
    seed: tuple[int, int, int],
    prices: Prices | None = None,
    *,
    from_prices: bool = True,
) -> FoundLists:
    """The lists, re-ordered with few changes until leaders are within the tolerance or nothing gains.

    No replica that is out of the ISR now becomes a leader. Kafka itself would wait. The controller ends a reassignment
    only when every replica of the new list is in the ISR (KafkaController.areReplicasInIsr), and it elects preferred
    leaders from the ISR alone. But the batch would wait as long, and the leaders would not be as even as planned. Nor
    does a broker of `brokers_out` become one. A list of which nobody may lead is left as it is (`ending`).

    The search begins with leaders that cost the fewest changes at these prices of what brokers lead, or at the best
    ones. Without `from_prices`, and under a limit on changes, it begins with the lists as they are. It does so again if
    prices lead to no leaders within the tolerance.
    """
    at_prices = from_prices and budget.max_leader_changes is None
    found = _balanced(frame, replicas, budget, seed, prices=prices, at_prices=at_prices)
    if found.off > -_GAIN:  # what is less is rounding, as of a broker that leads exactly its least
        # Swaps that also spread topics may lead to where no other swap gains. The tolerance comes before these.
        for topics_first in (True, False) if at_prices else (False,):
            other = _balanced(frame, replicas, budget, seed, topics_first=topics_first)
            found = other if other.off < found.off + _GAIN else found
            if found.off <= -_GAIN:
                break
    lists = np.where(found.movable[:, None], found.settled, replicas)
    return FoundLists(
        replicas=lists,
        unordered=replicas,
        goal=frame.goal,
        rules=((np.arange(len(lists)), frame.rule),),
        wanted=frame.wanted,
        targets=frame.targets,
        leader_targets=found.targets,
        scale=frame.scale,
        budget=found.budget,
        relief=frame.relief,
        spreads_topics=found.spreads_topics,
        least_leader_changes=found.least_changes if prices is None and found.off <= -_GAIN else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class FewerChanges:
    """Lists that are led with heavy partitions in mind, and what is known of all orders of them."""

    lists: FoundLists
    least: int  # no order of the lists within the tolerance changes fewer leaders
    choice: Choice
    prices: Prices

    def dearer(self, replicas: Ints) -> Floats:
        """[row, position] By how many changes it is dearer than the cheapest leader of its list; infinite: barred."""
        place = (replicas[:, :, None] == self.choice.lists[:, None, :]).argmax(axis=2)
        more: Floats = np.take_along_axis(self.choice.dearer(self.prices), place, axis=1)
        return more


def with_heavy_leaders(frame: Frame, replicas: Ints, budget: Budget, seed: tuple[int, int, int]) -> FewerChanges | None:
    """The lists as `with_leaders`, from the leaders of heavy partitions on that the solver finds.

    None if it finds none, or if that would take long. Raises SolverError.
    """
    leaders = _Leaders(frame, replicas, budget, np.random.default_rng(0), topics_first=True)
    choice = leaders.choice(leaders.bands(1.0))
    heavy = heavy_leaders(choice)
    if heavy is None:
        return None
    prices = leader_prices(choice.led_by(heavy))
    return FewerChanges(with_leaders(frame, replicas, budget, seed, prices), heavy.bound, choice, prices)


def _balanced(
    frame: Frame,
    replicas: Ints,
    budget: Budget,
    seed: tuple[int, int, int],
    *,
    topics_first: bool = True,
    prices: Prices | None = None,
    at_prices: bool = False,
) -> _Leaders:
    own, rng = replace(budget, reached=set(budget.reached)), np.random.default_rng([*seed, 1_000])
    found = _Leaders(frame, replicas, own, rng, topics_first)
    found.balance(prices, at_prices=at_prices)
    return found


class _Leaders:
    """Lists while they are re-ordered. Loads and weights are in units of the mean staying broker."""

    def __init__(
        self, frame: Frame, replicas: Ints, budget: Budget, rng: np.random.Generator, topics_first: bool
    ) -> None:
        """`topics_first`: of the swaps that gain, those come first that do not spread a topic worse."""
        problem, self.goal = frame.problem, frame.goal
        self.evened, self.leaving, self.budget, self.rng = problem.evened, problem.leaving, budget, rng
        self.topics_first = topics_first
        self.before = widened(problem.replicas, replicas.shape[1])
        self.movable: Bools = problem.movable & (self.goal.all_leaders | changed_lists(self.before, replicas))
        # A candidate that only makes the moves that its job requires takes leadership from nobody who may keep it.
        self.kept: Bools = np.zeros(len(replicas), dtype=bool)
        if self.goal.moves_replicas and not self.goal.balances:
            as_before = replicas[:, 0] == self.before[:, 0]
            self.kept = (as_before | bool(problem.settings.replace)) & self.evened[replicas[:, 0]]
        # The other partitions keep today's leader.
        self.lists = led_first(replicas, np.where(self.movable, replicas[:, 0], problem.leader))
        self.leader, self._unordered = problem.leader, replicas
        self._led_instead = self._lead_instead(problem)  # [row]
        self.may_lead = may_be_elected(problem, self.lists)  # [row, position]
        raw, self.targets = leader_weights(problem, self.lists), leader_targets(problem, self.lists)
        scale = raw.sum(axis=0) / max(1, int(problem.staying.sum()))
        self.unit = np.where(scale > 0, scale, 1.0)
        self.givers = self.evened
        if self.goal.one_sided:
            held = leader_loads(self.lists[:, 0], raw, len(self.evened))
            self.givers = self.evened & (held > self.targets * (1 + self.goal.tolerance)).any(axis=1)
        self.weights = raw / self.unit
        self.loads = leader_loads(self.lists[:, 0], self.weights, len(self.evened))
        self.leading: Leading | None = None  # made when a chain is looked for
        self.topics = TopicLeaders(problem, self.lists[:, 0])
        self.most_excess = TopicLeaders(problem, problem.leader).excess
        self.old_leaders: Ints = np.where(self._led_instead, self.leader, self.before[:, 0])
        self.prices: Prices | None = None
        self.spreads_topics = 0
        self.inside = preferred_to_lead(problem) if problem.settings.leader_racks else None
        spread = problem.settings.spread_leaders
        self.spread: Bools = np.array([matches(topic, spread) for topic in problem.topics] + [False])

    def _lead_instead(self, problem: Problem) -> Bools:
        """Puts another replica first in lists whose first one must not be elected: today's leader, if it is there.

        Nobody takes leadership from a broker of `brokers_out` either. Returns [row] whose first replica is another one.
        """
        may, here = may_be_elected(problem, self.lists), self.lists == problem.leader[:, None]
        wrong = ~may[:, 0] | (problem.closed[problem.leader] & here.any(axis=1))
        wrong &= self.movable & (self.lists[:, 0] != problem.leader)
        best = 2 * here + may * (1 + self.evened[self.lists])  # of those that may, rather a broker that is evened
        rows = np.flatnonzero(wrong & (best.max(axis=1) > 0))
        self.lists[rows] = led_first(self.lists[rows], self.lists[rows, best[rows].argmax(axis=1)])
        changed = np.zeros(len(self.lists), dtype=bool)
        changed[rows] = True
        return changed

    @property
    def settled(self) -> Ints:
        """The lists. If one only changes to have today's leader first, as the first replica must not lead, it stays.

        Not if that one leaves.
        """
        same = self._led_instead & (self.lists[:, 0] == self.leader) & ~changed_lists(self.before, self._unordered)
        same &= ~self.leaving[self.before[:, 0]]
        return np.where(same[:, None], self.before, self.lists)

    def choice(self, bands: Bands) -> Choice:
        """Who may lead what. A limit on a whole number of leaders is a whole number."""
        may_lose, held = self._may_lose(), np.maximum(self.lists, 0)
        may_lead = self.may_lead & (self.lists >= 0) & self.evened[held] & may_lose[:, None]
        may_lead[:, 0] |= ~may_lead.any(axis=1) | (may_lose & self.evened[self.lists[:, 0]])
        whole = Bands(np.ceil(bands.low * self.unit - _WHOLE), np.floor(bands.high * self.unit + _WHOLE))
        counts = (np.arange(len(self.unit)) == 0) & (whole.low <= whole.high)
        low, high = (
            np.where(counts, rounded / self.unit, limit)
            for rounded, limit in ((whole.low, bands.low), (whole.high, bands.high))
        )
        evened = self.evened[:, None]
        limits = Bands(np.where(evened, low, 0.0), np.where(evened, high, np.inf))
        changes, topics = self.lists != self.old_leaders[:, None], self.topics
        return Choice(
            self.lists.copy(), may_lead, changes, self.weights, limits, topics.topic, topics.most, self.most_excess
        )

    def _begin_at_prices(self, bands: Bands, prices: Prices | None) -> None:
        """Leaders that cost the fewest changes, mended by what is cheapest at these prices."""
        self.prices = prices or leader_prices(self.choice(bands))
        rows = np.flatnonzero(self.prices.position > 0)
        self._spends(rows, self.prices.position[rows])
        self._swap(rows, self.prices.position[rows])
        for dearer in _DEARER:
            for _ in range(_ROUNDS):
                rows, positions = self._swaps(bands, dearer)
                if not len(rows):
                    break
                self._spends(rows, positions)
                self._swap(rows, positions)

    def _dearer(self, rows: Ints) -> Floats:
        """[row, position] By how many changes it is dearer if that replica leads; 0 without prices."""
        if self.prices is None:
            return np.zeros((len(rows), self.lists.shape[1]))
        lists = self.lists[rows]
        changes = lists != self.old_leaders[rows, None]
        cost = self.prices.of_leaders(lists, changes, self.weights[rows], self.topics.topic[rows])
        more: Floats = cost - cost[:, :1]
        return more

    def balance(self, prices: Prices | None = None, *, at_prices: bool = False) -> None:
        full = self.bands(1.0)
        if at_prices:
            self._begin_at_prices(full, prices)
        self._spread_topics(full, self.most_excess, at_any_price=True)
        if self.topics.excess > self.most_excess and self.kept.any():
            kept, self.kept = self.kept, np.zeros_like(self.kept)
            self._spread_topics(full, self.most_excess, at_any_price=True)
            self.kept = kept
        for aim in _AIMS:
            bands, exchanges, chains = self.bands(aim), 0, _CHAINS
            for _ in range(_ROUNDS):
                if self._far(full).max(initial=0.0) <= 0 and self.loads[self.leaving].sum() <= 0:
                    break
                rows, positions = self._within_budget(*self._swaps(bands))
                if not len(rows) and exchanges < _EXCHANGES:
                    rows, positions = self._exchange(bands)
                    exchanges += 1
                if not len(rows) and chains:
                    rows, positions = self._chain(bands)
                    chains -= 1
                if not len(rows):
                    break
                self._swap(rows, positions)
        self._undo(full)
        if self.spread.any():
            before = self._changed
            self._spread_topics(full, 0, self.spread)
            self._undo(full)
            self.spreads_topics = max(0, self._changed - before)
        if self.inside is not None:
            self._bring_inside(full, self.inside)

    @property
    def off(self) -> float:
        """Squared distance to the bands."""
        return float(self._far(self.bands(1.0)).sum())

    def bands(self, aim: float) -> Bands:
        bands = band(self.targets / self.unit, self.goal.tolerance * aim)
        return Bands(np.zeros_like(bands.low), bands.high) if self.goal.one_sided else bands

    @property
    def least_changes(self) -> int | None:
        """No order of the lists within the tolerance changes fewer of today's leaders; None: not known."""
        counts_others = (self.old_leaders != self.leader)[self.movable].any()
        if self.prices is None or self.goal.one_sided or counts_others:
            return None
        return self.prices.least

    @property
    def _changed(self) -> int:
        return int((self.lists[:, 0] != self.old_leaders).sum())

    def _far(self, bands: Bands) -> Floats:
        return np.where(self.evened, distance(self.loads, bands.low, bands.high), 0.0)

    def _swaps(self, bands: Bands, dearer: float = np.inf) -> tuple[Ints, Ints]:
        """(rows, positions) whose replica at the position should lead: at most one change per giver and per taker.

        At prices it takes those first that gain most for what they cost, and none that is so much `dearer`.
        """
        concerned = (self._far(bands) > 0) | self.leaving
        rows = np.flatnonzero(self._may_lose() & (concerned[self.lists] & (self.lists >= 0)).any(axis=1))
        gain, grown = self._gains(rows, bands), self._grown(rows)
        never_worse = (grown <= 0) | (grown + self.topics.excess <= self.most_excess)
        allowed_ones = (grown <= 0, never_worse) if self.topics_first else (never_worse,)
        if self.prices is None:
            worth = gain * _TOPIC[grown] if self.topics_first else gain
        else:
            cost, allowed_ones = self._dearer(rows), (never_worse,)
            worth = np.where(cost <= dearer, gain / (np.maximum(cost, 0) + _CHANGE), np.inf)
        worth = np.where(gain < _GAIN, worth, np.inf)
        for allowed in allowed_ones:
            swaps = self._one_each(rows, np.where(allowed, worth, np.inf))
            if len(swaps[0]):
                return swaps
        return swaps

    def _exchange(self, bands: Bands) -> tuple[Ints, Ints]:
        """(rows, positions) of two changes that gain only together: a broker gives a leader away, and gets another one
        from the same broker. None if no such pair gains for the brokers that are furthest outside the bands.
        """
        far, rows = self._far(bands), np.flatnonzero(self._may_lose())
        row, position = np.nonzero((self.lists[rows] >= 0) & self.evened[self.lists[rows]])
        row = rows[row]
        some = (position > 0) & self.may_lead[row, position] & self.evened[self.lists[row, 0]]
        row, position = row[some], position[some]
        source, target = self.lists[row, 0], self.lists[row, position]
        for broker in np.argsort(-far, kind="stable")[:_WORST].tolist():
            if far[broker] <= 0:
                break
            given, taken = np.flatnonzero(source == broker), np.flatnonzero(target == broker)
            given, taken = _pairs(given, taken, target[given], source[taken])
            change = self.weights[row[taken]] - self.weights[row[given]]
            other = target[given]
            gain = distance(self.loads[broker] + change, bands.low[broker], bands.high[broker]) - far[broker]
            gain += distance(self.loads[other] - change, bands.low[other], bands.high[other]) - far[other]
            gain = np.where(self._exchange_allowed(row[given], row[taken], broker, other), gain, np.inf)
            if len(gain) and gain.min() < _GAIN:
                pair = np.array([given[gain.argmin()], taken[gain.argmin()]])
                if self._spends(row[pair], position[pair]):
                    return row[pair], position[pair]
        return rows[:0], rows[:0]

    def _chain(self, bands: Bands) -> tuple[Ints, Ints]:
        """(rows, positions) of changes that pass a leader on over several brokers. None if no chain gains.

        It is looked for at the brokers that are furthest outside the bands, and only by those that lie outside.
        """
        far = self._far(bands)
        worst = [broker for broker in np.argsort(-far, kind="stable")[:_WORST].tolist() if far[broker] > 0]
        for is_new in (False, True):
            if is_new:
                may_lead = self.may_lead & self.evened[self.lists]
                self.leading = Leading(self.lists, may_lead, self._may_lose(), self.weights, len(self.evened))
            for broker, gives in product(worst, (True, False)):
                for chain in self.leading.chains(broker, self.loads, bands, gives=gives) if self.leading else ():
                    if self._chain_gains(chain, far, bands) and self._spends(chain.rows, chain.positions):
                        return chain.rows, chain.positions
        return _NONE, _NONE

    def _chain_gains(self, chain: Chain, far: Floats, bands: Bands) -> bool:
        """Whether the brokers end nearer to their bands together, and no topic spreads worse than before the plan."""
        some = chain.brokers
        after = self.loads[some] + chain.changes(self.weights)
        gain = distance(after, bands.low[some], bands.high[some]).sum() - far[some].sum()
        if gain >= _GAIN:
            return False
        topics = self.topics.copy()
        topics.move(chain.rows, some[:-1], some[1:])
        return topics.excess <= max(self.topics.excess, self.most_excess)

    def _exchange_allowed(self, given: Ints, taken: Ints, broker: int, others: Ints) -> Bools:
        """[pair] Whether the leaders of no topic spread worse than before the plan; of one topic, they spread alike."""
        brokers = np.full(len(others), broker)
        grown = self.topics.change(given, brokers, others) + self.topics.change(taken, others, brokers)
        same = self.topics.topic[given] == self.topics.topic[taken]
        allowed: Bools = same | (self.topics.excess + grown <= self.most_excess)
        return allowed

    def _spends(self, rows: Ints, positions: Ints) -> bool:
        """Whether the limit on leader changes allows all of these together; if so, they are spent."""
        most, change = self.budget.max_leader_changes, int(self._more_changes(rows, positions).sum())
        if change > 0 and most is not None and self.budget.leader_changes + change > most:
            self.budget.reached.add(Limit.LEADER_CHANGES)
            return False
        self.budget.leader_changes += change
        return True

    def _spread_topics(
        self, bands: Bands, down_to: int, topics: Bools | None = None, *, at_any_price: bool = False
    ) -> None:
        """Spreads the leaders of topics while no broker gets further outside the bands, unless `at_any_price`."""
        least, idle = self.topics.excess, 0
        for _ in range(_ROUNDS):
            if self.topics.excess <= down_to or (idle > _IDLE and not at_any_price):
                return
            too_many = self.topics.room[self.topics.topic, self.lists[:, 0]] < 0
            too_many &= True if topics is None else topics[self.topics.topic]
            rows = np.flatnonzero(self._may_lose() & too_many)
            topic = self.topics.topic[rows][:, None]
            found = self._nearest(rows, self._grown(rows) < 0, bands, at_any_price)
            if not len(found[0]):
                found = self._nearest(rows, self._passes_on()[topic, self.lists[rows]], bands, at_any_price)
            found = self._within_budget(*found, is_asked=False)
            if not len(found[0]):
                return
            self._swap(*found)
            idle = 0 if self.topics.excess < least else idle + 1
            least = min(least, self.topics.excess)

    def _bring_inside(self, bands: Bands, inside: Bools) -> None:
        """Brings leaders to the brokers of `leader_racks` while no broker gets further outside the bands."""
        for _ in range(_ROUNDS):
            rows = np.flatnonzero(self._may_lose() & ~inside[self.lists[:, 0]])
            rows, positions = self._nearest(rows, inside[self.lists[rows]] & (self.lists[rows] >= 0), bands, False)
            rows, positions = self._within_budget(rows, positions, is_asked=False)
            if not len(rows):
                return
            self._swap(rows, positions)

    def _nearest(self, rows: Ints, asked: Bools, bands: Bands, at_any_price: bool) -> tuple[Ints, Ints]:
        """(rows, positions) of changes that are asked for, [row, position]: those first that bring the bands nearer.

        In most rounds few rows have one, and the gains of the others would take nearly all the time.
        """
        some = asked[:, 1:].any(axis=1)
        gain = self._gains(rows[some], bands)
        possible = np.isfinite(gain) if at_any_price else gain <= -_GAIN
        worth = gain if self.prices is None else self._dearer(rows[some])
        return self._one_each(rows[some], np.where(possible & asked[some], worth, np.inf))

    def _passes_on(self) -> Bools:
        """[topic, broker] Whether the broker leads a partition of the topic that one with room may lead instead."""
        uneven = np.flatnonzero((self.topics.room < 0).any(axis=1))
        rows = np.flatnonzero(self._may_lose() & np.isin(self.topics.topic, uneven))
        topic, lists = self.topics.topic[rows], self.lists[rows]
        fits = (lists >= 0) & self.evened[lists] & self.may_lead[rows] & (self.topics.room[topic[:, None], lists] > 0)
        found = np.zeros(self.topics.room.shape, dtype=bool)
        some = fits[:, 1:].any(axis=1)
        found[topic[some], lists[some, 0]] = True
        return found

    def _may_lose(self) -> Bools:
        """[row] Whether another replica of the list may lead instead of the first."""
        may_lose: Bools = self.movable & ~self.kept & (self.givers | self.leaving)[self.lists[:, 0]]
        return may_lose

    def _grown(self, rows: Ints) -> Ints:
        """[row, position] How much the excess of the row's topic grows if that replica leads."""
        return self.topics.change(rows[:, None], self.lists[rows, :1], self.lists[rows])

    def _gains(self, rows: Ints, bands: Bands) -> Floats:
        """[row, position] Change of the distance to the bands if that replica leads; infinite if it must not."""
        lists, far = self.lists, self._far(bands)
        source, weight = lists[rows, 0], self.weights[rows]
        give = distance(self.loads[source] - weight, bands.low[source], bands.high[source]) - far[source]
        # A broker that leaves must lose every leader, and what it still leads is no measure of balance.
        give = np.where(self.leaving[source], -1e6, give)
        gain = np.full((len(rows), lists.shape[1]), np.inf)
        for position in range(1, lists.shape[1]):
            target = lists[rows, position]
            taken = distance(self.loads[target] + weight, bands.low[target], bands.high[target]) - far[target]
            allowed = (target >= 0) & self.evened[target] & self.may_lead[rows, position]
            gain[:, position] = np.where(allowed, give + taken, np.inf)
        return gain

    def _one_each(self, rows: Ints, value: Floats) -> tuple[Ints, Ints]:
        """(rows, positions) of the least finite values, [row, position]: at most one per giver and per taker."""
        position = value.argmin(axis=1) if len(rows) else rows
        least = value[np.arange(len(rows)), position]
        better = np.flatnonzero(np.isfinite(least))
        # A little noise in the order keeps rounds from taking the same partitions' side again and again.
        better = better[np.argsort(least[better] * self.rng.uniform(0.7, 1.3, len(better)), kind="stable")]
        # A broker that leaves gives everything anyway.
        source, target = self.lists[rows[better], 0], self.lists[rows[better], position[better]]
        keep = (firsts(source) | self.leaving[source]) & firsts(target)
        if len(better) and not keep.any():
            keep[0] = True
        chosen = better[keep]
        return rows[chosen], position[chosen]

    def _within_budget(self, rows: Ints, positions: Ints, *, is_asked: bool = True) -> tuple[Ints, Ints]:
        """The first of the swaps that the limits on leader changes and on the topics' excess allow; spends them.

        `is_asked`: the plan falls short if the limit on leader changes stops one.
        """
        sources, targets = self.lists[rows, 0], self.lists[rows, positions]
        grown = self.topics.change(rows, sources, targets)
        fits = (grown <= 0) | (self.topics.excess + np.cumsum(np.maximum(grown, 0)) <= self.most_excess)
        rows, positions = rows[fits], positions[fits]
        most, change = self.budget.max_leader_changes, self._more_changes(rows, positions)
        if most is not None:
            fits = self.budget.leader_changes + np.cumsum(np.maximum(change, 0)) <= most
            if is_asked and not fits.all():
                self.budget.reached.add(Limit.LEADER_CHANGES)
            fits |= change <= 0
            rows, positions, change = rows[fits], positions[fits], change[fits]
        self.budget.leader_changes += int(change.sum())
        return rows, positions

    def _more_changes(self, rows: Ints, positions: Ints) -> Ints:
        """[row] By how many the leader changes of the plan grow if that replica leads: -1, 0 or 1."""
        leader = self.leader[rows]
        more: Ints = (self.lists[rows, positions] != leader).astype(np.int64) - (self.lists[rows, 0] != leader)
        return more

    def _swap(self, rows: Ints, positions: Ints) -> None:
        """The replica at the position and the leader change places."""
        old, new = self.lists[rows, 0], self.lists[rows, positions]
        for values in (self.lists, self.may_lead):
            values[rows, 0], values[rows, positions] = values[rows, positions], values[rows, 0]
        self.topics.move(rows, old, new)
        np.subtract.at(self.loads, old, self.weights[rows])
        np.add.at(self.loads, new, self.weights[rows])

    def _undo(self, bands: Bands) -> None:
        """Gives leadership back where its change gains nothing."""
        old_leaders = self.old_leaders
        changed = self.movable & (self.lists[:, 0] != old_leaders) & self.evened[old_leaders]
        for row in np.flatnonzero(changed & (self.lists == old_leaders[:, None]).any(axis=1)):
            pair = [int(self.lists[row, 0]), int(old_leaders[row])]
            low, high = bands.low[pair], bands.high[pair]
            after = self.loads[pair] + np.stack([-self.weights[row], self.weights[row]])
            grown = self.topics.change(np.array([row]), *np.array(pair)[:, None])[0]
            gained = (distance(after, low, high) - distance(self.loads[pair], low, high)).sum() <= 1e-13
            if gained and grown <= 0:
                self._swap(np.array([row]), np.flatnonzero(self.lists[row] == pair[1])[:1])
                self.budget.leader_changes -= int(old_leaders[row] == self.leader[row])


def _pairs(one: Ints, other: Ints, its_key: Ints, other_key: Ints) -> tuple[Ints, Ints]:
    """Each of `one` beside each of `other` that has the same key."""
    order = np.argsort(other_key, kind="stable")
    begins, ends = (np.searchsorted(other_key[order], its_key, side=side) for side in ("left", "right"))
    counts = ends - begins
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(one, counts), other[order][np.repeat(begins, counts) + within]


# Chains of new leaders: a broker passes a leader on, and the one that takes it passes on another.
#
# Lists say who may lead what, so a broker with too many leaders may share no list with one that has too few. Broker 1
# then gives a leader to broker 2, which gives one to broker 3. Only the ends of a chain lead more or fewer partitions:
# it is an augmenting path (Ford and Fulkerson, 1956), here the shortest one over the brokers.


_ENDS = 20  # of chains of one broker to look at, those first that gain most
_TRIED = 100  # partitions to choose from for one step


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Partitions whose replica at the position leads in the end; the leader of each gives to that of the next."""

    rows: Ints
    positions: Ints
    brokers: Ints  # one more than rows: who gives first, who passes on, who takes last

    def changes(self, weights: Floats) -> Floats:
        """[broker of the chain, resource] By how much its load changes."""
        moved, change = weights[self.rows], np.zeros((len(self.brokers), weights.shape[1]))
        change[:-1] -= moved
        change[1:] += moved
        return change


@dataclass(slots=True, eq=False)
class Leading:
    """Who may pass which leaders to whom, as it was when this was made.

    Lists that have changed their order since are left out, unless the same brokers could still pass them on.
    """

    lists: Ints  # [partition row, position]
    may_lead: Bools  # [partition row, position]
    may_lose: Bools  # [partition row]
    weights: Floats  # [partition row, resource]
    brokers: int
    _row: Ints = field(init=False)
    _position: Ints = field(init=False)
    _begins: Ints = field(init=False)  # [giver * brokers + taker] where their partitions begin
    _passes: Bools = field(init=False)  # [giver, taker]

    def __post_init__(self) -> None:
        row, position = np.nonzero(self.may_lead[:, 1:] & self.may_lose[:, None])
        pair = self.lists[row, 0] * self.brokers + self.lists[row, position + 1]
        order = np.argsort(pair, kind="stable")
        self._row, self._position = row[order], position[order] + 1
        counts = np.bincount(pair, minlength=self.brokers**2)
        self._begins = np.concatenate([[0], np.cumsum(counts)])
        self._passes = counts.reshape(self.brokers, -1) > 0

    def chains(self, broker: int, loads: Floats, bands: Bands, *, gives: bool) -> Iterator[Chain]:
        """Chains of at least two steps that begin at the broker, or with `gives` False end there.

        Those come first whose ends gain most if a mean leader goes from the first to the last.
        """
        passes = self._passes if gives else self._passes.T
        parent, depth = _nearest(passes, broker)
        ends = np.flatnonzero(depth > 1)
        one = self.weights.mean(axis=0) * (1 if gives else -1)
        gain = _change(loads, bands, ends, one) + _change(loads, bands, np.array([broker]), -one)
        promising = ends[np.argsort(gain, kind="stable")][: min(_ENDS, int((gain < 0).sum()))]
        for end in promising.tolist():
            path = [end]
            while path[-1] != broker:
                path.append(int(parent[path[-1]]))
            chain = self._along(path[::-1] if gives else path, loads, bands)
            if chain is not None:
                yield chain

    def _along(self, path: list[int], loads: Floats, bands: Bands) -> Chain | None:
        """The chain over these brokers: each step passes on what leaves its giver nearest to its band."""
        rows: list[int] = []
        positions: list[int] = []
        taken = np.zeros(self.weights.shape[1])
        for giver, taker in pairwise(path):
            pair = giver * self.brokers + taker
            some = np.arange(self._begins[pair], self._begins[pair + 1])
            row, position = self._row[some], self._position[some]
            some = some[(self.lists[row, 0] == giver) & (self.lists[row, position] == taker)][:_TRIED]
            if not len(some):
                return None
            weights = self.weights[self._row[some]]
            off = distance(loads[giver] + taken - weights, bands.low[giver], bands.high[giver])
            if taker == path[-1]:
                off += distance(loads[taker] + weights, bands.low[taker], bands.high[taker])
            best = some[int(off.argmin())]
            rows.append(int(self._row[best]))
            positions.append(int(self._position[best]))
            taken = self.weights[rows[-1]]
        return Chain(np.array(rows), np.array(positions), np.array(path))


def _nearest(passes: Bools, start: int) -> tuple[Ints, Ints]:
    """([broker] the one before it on a shortest way from `start`, [broker] the steps of this way; 0: there is none)"""
    parent, depth = np.full(len(passes), -1), np.zeros(len(passes), dtype=np.int64)
    seen, frontier, steps = np.arange(len(passes)) == start, np.array([start]), 0
    while len(frontier):
        steps += 1
        reached = passes[frontier].any(axis=0) & ~seen
        parent[reached] = frontier[passes[np.ix_(frontier, np.flatnonzero(reached))].argmax(axis=0)]
        depth[reached], seen = steps, seen | reached
        frontier = np.flatnonzero(reached)
    return parent, depth


def _change(loads: Floats, bands: Bands, brokers: Ints, more: Floats) -> Floats:
    """[broker] Change of its distance to its band with so much more."""
    now, low, high = loads[brokers], bands.low[brokers], bands.high[brokers]
    change: Floats = distance(now + more, low, high) - distance(now, low, high)
    return change


# Lists that are mended keep their leaders where another of their replicas may go for the same bytes.
#
# A list that breaks the rack rule has several replicas in one rack, and any of them may leave. If the first one
# leaves, the partition gets another leader, which disturbs its clients and saves nothing.


def with_kept_leaders(frame: Frame, lists: Ints) -> Ints:
    """[partition row, position] The lists, in which a follower leaves instead of the first replica where it may.

    The bytes stay the same, no broker gets further from its band, and no topic crowds a broker more.
    """
    before = frame.problem.replicas
    if lists.shape != before.shape or frame.problem.settings.copies_within_racks:
        return lists
    rows = np.flatnonzero(violations(frame.rule, before) & ~(lists == before[:, :1]).any(axis=1))
    rows = rows[~frame.rule.confined[rows]]
    rows = rows[frame.problem.evened[before[rows, 0]]]
    if not len(rows):
        return lists
    placement, bands = placed(frame, lists), band(frame.targets, frame.goal.tolerance)
    for row in rows.tolist():
        _keep(placement, bands, row, before[row])
    return placement.replicas


def _keep(placement: Placement, bands: Bands, row: int, before: Ints) -> None:
    """Brings the first replica home, and sends a follower where it went."""
    now, home = placement.replicas[row], int(before[0])
    gone_to = int(now[0])
    if gone_to in before or not placement.free[row, 0]:
        return
    for column in np.flatnonzero((now == before) & placement.free[row]).tolist():
        if _may_keep(placement, bands, row, column, home):
            placement.move(np.array([row * placement.width]), np.array([home]))
            placement.move(np.array([row * placement.width + column]), np.array([gone_to]))
            return


def _may_keep(placement: Placement, bands: Bands, row: int, column: int, home: int) -> bool:
    """Whether the list may have a replica at `home` instead of the one in the column."""
    rule, follower = placement.rule, int(placement.replicas[row, column])
    list_now = placement.replicas[row : row + 1]
    instead = list_now.copy()
    instead[0, column] = home
    counts = replication(list_now)
    spreads = (rule.spread(domains_of(rule, lists), counts)[0] for lists in (instead, list_now))
    one, weight = np.array([row]), placement.weights[row]
    crowds = not placement.crowding.allows(one, np.array([follower]), np.array([home]))[0, 0]
    has_room = placement.has_room(one, np.array([home]), placement.home_limits)[0, 0]
    if crowds or not has_room or next(spreads) < next(spreads):
        return False
    pair = np.array([follower, home])
    after = placement.loads[pair] + np.stack([-weight, weight])
    low, high = bands.low[pair], bands.high[pair]
    further = distance(after, low, high).sum() - distance(placement.loads[pair], low, high).sum()
    return bool(further <= -GAIN)
