"""The search for replica moves: in each round, brokers above their bands give what gains most per weight.

Steps limit the search, never seconds, so that the same input gives the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.loads import BYTES_IN, REPLICAS
from kafka_rebalance.planning.search.placement import GAIN, Placement

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
    costs: Floats,
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
    costs: Floats,
    effort: Effort,
    rng: np.random.Generator,
) -> Ints:
    """Moves what gains most per weight from sources to targets. Returns the sources that had nothing to give.

    Each broker gives or takes one replica, and more only while it is so far from its band that they change little.
    """
    slots = placement.sample(sources, effort.replicas, rng)
    every = slots.ravel()
    cost = placement.of_slots(costs, every) * np.where(placement.away(every), _MOVED_ALREADY, 1.0)
    score = placement.changes(every, targets, bands) / cost[:, None]
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


def _costs(placement: Placement, effort: Effort) -> Floats:
    """[row, column] The cost of moving a replica: its bytes, and a little for count and rate, so that none is free.

    A broker has as many places for a topic as its even share and one. A small replica of a large topic would waste one,
    so with `keeps_places` it costs the mean of its topic.
    """
    per_replica, per_rate = effort.costs
    copied, weights = placement.copied, placement.weights
    if effort.keeps_places:
        topic, counts = placement.crowding.topic, (placement.replicas >= 0).sum(axis=1)
        held = np.maximum(1, np.bincount(topic, counts))
        mean = np.bincount(topic, counts * copied.mean(axis=1)) / held
        copied = np.maximum(copied, mean[topic][:, None])
    cost: Floats = copied + per_replica * weights[:, [REPLICAS]] + per_rate * weights[:, [BYTES_IN]]
    return cost**effort.cost_power


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
        fits = placement.has_room(chosen // placement.width, to[:, None])[:, 0]
        placement.move(chosen[fits], to[fits])
        moves = later
