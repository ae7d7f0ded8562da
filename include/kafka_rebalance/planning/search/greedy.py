"""The search for replica moves: in each round, brokers above their bands give what gains most per weight.

Steps limit the search, never seconds, so that the same input gives the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.targets import Bands, distance
from kafka_rebalance.planning.problem.arrays import BYTES_IN, REPLICAS, Bools, Floats, Ints
from kafka_rebalance.planning.search.placement import GAIN, CopyCosts, Placement

_ROUNDS_PER_SLOT = 4
_PATIENCE = 3  # passes over stuck brokers until the greedy ends
_MOVED_ALREADY = 0.25  # of its weight: a replica that moves anyway goes elsewhere without a further copy


@dataclass(frozen=True, slots=True)
class Effort:
    """How far the search looks around. Measured on clusters of 6 to 1,000 brokers (`make bench`)."""

    costs: tuple[float, float] = (0.15, 0.25)  # of a replica and of its bytes in; bytes copied cost 1
    cost_power: float = 1.0  # gain is divided by the cost to this power
    slack: float = 0.01  # how far a broker inside its band may wander on disk, as a share of the mean
    givers: int = 4  # brokers that give in one round of the greedy
    takers: int = 48  # brokers that are asked to take in one round
    replicas: int = 200  # to try on each broker that gives
    several: int = 8  # replicas that one broker gives or takes in a round, at most
    polish_steps: int = 2000
    polish_width: int = 768
    polish_patience: int = 60  # steps in a row without a gain, until the polish ends
    rebuilds: int = 0
    rebuilt: float = 0.4  # share of the brokers whose moves are searched anew
    crowds: bool = False  # whether topics may crowd one broker while they crowd others less
    keeps_places: bool = False  # whether a replica costs at least the mean of its topic
    keeps_leaders: bool = False  # whether repairs of racks move a first replica only if no other may move
    in_need: bool = False  # whether it is only for plans that copy clearly more than disks ask for


def greedy(placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator) -> None:
    """Takes from the brokers furthest above their bands what gains most per weight, until none can give.

    The gain is how much the squared distances of giver and taker to their bands fall (`Placement.changes`).
    """
    costs = _costs(placement, effort)
    for group, receivers in placement.groups:
        _greedy(placement, bands, givers & group, receivers, costs, effort, rng)


def _greedy(
    placement: Placement,
    bands: Bands,
    givers: Bools,
    receivers: Ints,
    costs: CopyCosts,
    effort: Effort,
    rng: np.random.Generator,
) -> None:
    stuck = np.zeros(len(givers), dtype=np.int64)
    level = 0
    # Several moves of one round may partly undo each other, so a count of rounds ends the search.
    for _ in range(_ROUNDS_PER_SLOT * int(placement.free.sum()) + 1000):
        excess = np.maximum(0, placement.loads - bands.high)
        over = np.where(givers & (placement.count > 0), np.einsum("bk,bk->b", excess, excess), 0.0)
        waiting = np.flatnonzero((over > 0) & (stuck <= level))
        if not len(waiting):
            level += 1
            if level > _PATIENCE or over.max(initial=0.0) <= 0:
                return
            continue
        sources = waiting[np.argsort(-over[waiting], kind="stable")[: effort.givers]]
        # Brokers below their band come first, and all others after that.
        short = np.maximum(0, bands.low - placement.loads).sum(axis=1)
        under = receivers[short[receivers] > 0]
        targets = under if level == 0 and len(under) else receivers
        if len(targets) > effort.takers:
            targets = targets[rng.permutation(len(targets))[: effort.takers]]
        if not len(targets):
            return
        stuck[_give(placement, bands, sources, targets, costs, effort, rng)] += 1


def _give(
    placement: Placement,
    bands: Bands,
    sources: Ints,
    targets: Ints,
    costs: CopyCosts,
    effort: Effort,
    rng: np.random.Generator,
) -> Ints:
    """Moves what gains most per weight from sources to targets. Returns the sources that had nothing to give.

    Each broker gives or takes one replica, and more only while it is so far from its band that they change little.
    """
    slots = placement.sample(sources, effort.replicas, rng)
    every = slots.ravel()
    anew = np.where(placement.away(every), _MOVED_ALREADY, 1.0)
    score = placement.changes(every, targets, bands) / (costs.of(every, placement.width, targets) * anew[:, None])
    score = score.reshape(*slots.shape, len(targets))
    best = score.argmin(axis=1)  # [source, target] which of its replicas
    value = np.take_along_axis(score, best[:, None, :], axis=1)[:, 0, :]
    stuck: Ints = sources[value.min(axis=1) >= GAIN]
    gives = _several(placement, placement.loads[sources] - bands.high[sources], effort)
    takes = _several(placement, bands.low[targets] - placement.loads[targets], effort)
    chosen: list[tuple[int, int]] = []
    rows: set[int] = set()
    while True:
        source, target = divmod(int(value.argmin()), len(targets))
        if value[source, target] >= GAIN:
            break
        slot = int(slots[source, best[source, target]])
        score[source, slots[source] == slot, :] = np.inf
        if slot // placement.width not in rows:
            rows.add(slot // placement.width)
            chosen.append((slot, int(targets[target])))
            gives[source] -= 1
            takes[target] -= 1
        if takes[target] <= 0:
            score[:, :, target] = np.inf
            value[:, target] = np.inf
        if gives[source] <= 0:
            value[source, :] = np.inf
        else:
            best[source] = score[source].argmin(axis=0)
            value[source] = score[source][best[source], np.arange(len(targets))]
    if placement.budget.limited and chosen:
        fits = placement.affordable(*np.array(chosen).T)
        chosen = [move for move, fit in zip(chosen, fits, strict=True) if fit]
    _move_all(placement, chosen)
    return stuck


def _costs(placement: Placement, effort: Effort) -> CopyCosts:
    """The costs of moving replicas: their bytes, and a little for count and rate, so that none is free.

    A broker has as many places for a topic as its even share and one. A small replica of a large topic would waste one,
    so with `keeps_places` it costs the mean of its topic.
    """
    per_replica, per_rate = effort.costs
    weights, topic = placement.weights, placement.crowding.topic
    counts = (placement.replicas >= 0).sum(axis=1)

    def cost(copied: Floats) -> Floats:
        if effort.keeps_places:
            held = np.maximum(1, np.bincount(topic, counts))
            mean = np.bincount(topic, counts * copied.mean(axis=1)) / held
            copied = np.maximum(copied, mean[topic][:, None])
        cost: Floats = copied + per_replica * weights[:, [REPLICAS]] + per_rate * weights[:, [BYTES_IN]]
        return cost**effort.cost_power

    return placement.copies.changed(cost)


def _several(placement: Placement, outside: Floats, effort: Effort) -> Ints:
    """[broker] How many replicas it may give or take at once: a tenth of the average ones that it is off by."""
    off = outside.max(axis=1, initial=0.0) / placement.average
    several: Ints = np.clip(off / 10, 1, effort.several).astype(np.int64)
    return several


def _move_all(placement: Placement, moves: Sequence[tuple[int, int]]) -> None:
    """Moves of different partitions, as many at once as have different brokers."""
    while moves:
        sources: set[int] = set()
        targets: set[int] = set()
        now, later = [], []
        for slot, target in moves:
            source = int(placement.replicas.flat[slot])
            if source in sources or target in targets:
                later.append((slot, target))
                continue
            sources.add(source)
            targets.add(target)
            now.append((slot, target))
        chosen, to = np.array(now).T
        # They were chosen together, so those moved before may have taken the room of others.
        rows = chosen // placement.width
        fits = placement.has_room(rows, to[:, None])[:, 0]
        if placement.crowding.spread is not None:
            fits &= placement.crowding.spread.allows(rows, placement.replicas.ravel()[chosen], to[:, None])[:, 0]
        placement.move(chosen[fits], to[fits])
        moves = later


# Polish: brokers that the greedy left outside their bands take, give or swap replicas until all are inside.
#
# It tries replicas that move anyway first, because they go to another broker without a further copy.


_TAKE, _GIVE, _SWAP = range(3)
_MOVING = 0.5  # share of the tried pairs whose replicas move anyway
_REFRESHED = 64  # steps until it lists those replicas again
_NO_COPY = 0.05  # of its bytes: the cost of a replica that moves anyway or comes home
_LEAST = 1e-4  # of the mean broker's bytes, added to every cost, so that the balance decides between small replicas


def polish(placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator) -> None:
    """Brings the worst brokers into the full band. In each step one takes, gives or swaps, cheapest bytes first."""
    partners = np.flatnonzero(placement.evened)
    placement.crowding.one_by_one()
    failures = 0
    moving = np.zeros(0, dtype=np.int64)
    for step in range(effort.polish_steps):
        far = np.where(placement.evened, distance(placement.loads, bands.low, bands.high), 0.0)
        if far.max(initial=0.0) <= 1e-10 or failures > effort.polish_patience:
            return
        broker = int((far * rng.uniform(0.5, 1.5, len(far))).argmax())
        if step % _REFRESHED == 0:
            moving = np.flatnonzero(((placement.replicas != placement.origin) & placement.free).ravel())
        gained = _exchange(placement, bands, broker, partners, moving, givers, effort.polish_width, rng)
        failures = 0 if gained else failures + 1


def _exchange(
    placement: Placement,
    bands: Bands,
    broker: int,
    partners: Ints,
    moving: Ints,
    givers: Bools,
    width: int,
    rng: np.random.Generator,
) -> bool:
    """Makes the best of `width` random takes, gives and swaps of the broker. Returns whether one gained."""
    if placement.tight:
        partners = partners[placement.rule.domain[partners] == placement.rule.domain[broker]]
        moving = moving[placement.domains.ravel()[moving] == placement.rule.domain[broker]]
    if not placement.receivers[broker]:
        partners = partners[placement.receivers[partners]]  # it only gives
    partners = partners[partners != broker]
    if not len(partners):
        return False
    other, theirs, ours = _drawn(placement, broker, partners, moving, width, rng)
    options = _exchange_options(placement, bands, broker, other, theirs, ours, givers)
    if not options.size or options.min() > GAIN:
        return False
    kind, index = np.unravel_index(int(options.argmin()), options.shape)
    take, give, partner = int(theirs[index]), int(ours[index]), int(other[index])
    if kind != _GIVE and not _give_one(placement, take, broker):
        return False
    if kind != _TAKE and not _give_one(placement, give, partner):
        if kind == _SWAP:
            _give_one(placement, take, partner)  # half a swap does not help
        return False
    return True


def _drawn(
    placement: Placement, broker: int, partners: Ints, moving: Ints, width: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """([pair] the other broker, one of its slots, one of ours), drawn at random. What moves anyway comes first."""
    other = partners[rng.integers(len(partners), size=width)]
    other = other[placement.count[other] > 0] if placement.count[broker] == 0 else other
    theirs = placement.held[other, (rng.random(len(other)) * placement.count[other]).astype(np.int64)]
    first = int(_MOVING * len(other))
    if len(moving):
        drawn = moving[rng.integers(len(moving), size=first)]
        drawn = drawn[placement.replicas.ravel()[drawn] != broker]
        theirs[: len(drawn)], other[: len(drawn)] = drawn, placement.replicas.ravel()[drawn]
    if not placement.count[broker]:
        return other, theirs, theirs
    held = placement.held[broker, : placement.count[broker]]
    ours = held[rng.integers(len(held), size=len(other))]
    if len(held := held[placement.away(held)]):
        ours[:first] = held[rng.integers(len(held), size=first)]
    return other, theirs, ours


def _exchange_options(
    placement: Placement,
    bands: Bands,
    broker: int,
    other: Ints,
    theirs: Ints,
    ours: Ints,
    givers: Bools,
) -> Floats:
    """[take | give | swap, partner] Change of the distance, divided by the bytes that are copied for it."""
    rows_in, rows_out = theirs // placement.width, ours // placement.width
    weight_in, weight_out = placement.weights[rows_in], placement.weights[rows_out]
    mine, gives = np.full(len(other), broker), givers & (placement.count > 0)
    may_take = gives[other] & placement.permitted(theirs, mine)
    may_give = gives[broker] & placement.permitted(ours, other)
    crowds = placement.crowding
    take_fits = crowds.allows(rows_in, other, mine[:, None])[:, 0]
    give_fits = crowds.allows(rows_out, mine, other[:, None])[:, 0]
    both = crowds.adds(rows_in, other, mine) + crowds.adds(rows_out, mine, other) <= max(0, crowds.spare)
    swap_fits = (take_fits & give_fits & both) | crowds.exchanges_evenly(rows_in, other, rows_out, mine)
    cost_in, cost_out = _cost(placement, theirs, mine), _cost(placement, ours, other)
    loads, low, high = placement.loads, bands.low, bands.high
    base = distance(loads[other], low[other], high[other]) + distance(loads[broker], low[broker], high[broker])

    limits, options = placement.limits, []
    for gain_here, legal, cost in (
        (weight_in, may_take & take_fits, cost_in),
        (-weight_out, may_give & give_fits, cost_out),
        (weight_in - weight_out, may_take & may_give & swap_fits & (rows_in != rows_out), cost_in + cost_out),
    ):
        here, there = loads[broker] + gain_here, loads[other] - gain_here
        change = distance(here, low[broker], high[broker]) + distance(there, low[other], high[other]) - base
        fits = np.ones(len(other), dtype=bool)
        for k in range(limits.shape[1]):
            fits &= (here[:, k] <= limits[broker, k]) | (gain_here[:, k] <= 0)
            fits &= (there[:, k] <= limits[other, k]) | (gain_here[:, k] >= 0)
        options.append(np.where(legal & fits, change, 0.0) / (np.maximum(cost, 0.0) + _LEAST))
    return np.stack(options)


def _cost(placement: Placement, slots: Ints, targets: Ints) -> Floats:
    """[slot] The further bytes to copy if each goes to its target; below 0 if it comes home."""
    more = (targets != placement.origin.ravel()[slots]).astype(np.float64) - placement.away(slots)
    cost: Floats = (more + _NO_COPY) * placement.copies.of(slots, placement.width, targets[:, None])[:, 0]
    return cost


def _give_one(placement: Placement, slot: int, target: int) -> bool:
    """Makes one move if the limits allow it. Returns whether they do."""
    one, there = np.array([slot]), np.array([target])
    if placement.budget.limited and not placement.affordable(one, there)[0]:
        return False
    placement.move(one, there)
    return True
