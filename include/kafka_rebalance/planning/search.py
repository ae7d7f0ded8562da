"""The search for replica moves: greedy by gain per byte, polish by exchange, then take back what gained nothing.

Budgets are steps, never seconds, so that the same input gives the same plan on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.planning.arrays import DISK, Bools, Floats, Ints
from kafka_rebalance.planning.bounds import Bands
from kafka_rebalance.planning.constraints import allowed
from kafka_rebalance.planning.placement import Placement, distance

_GAIN = -1e-12  # a change of the distance smaller than this is rounding
_TAKE, _GIVE, _SWAP = range(3)
_STEPS_PER_SLOT = 4
_PATIENCE = 3  # passes over stuck brokers before the greedy ends


@dataclass(frozen=True, slots=True)
class Effort:
    """How the search looks around. Measured on clusters of 6 to 1,000 brokers."""

    weight_power: float = 1.0  # gain is divided by the replica's weight to this power: 1 is gain per byte
    slack: float = 0.01  # how far a broker inside its band may wander on disk, as a share of the mean
    moves_per_step: int = 8  # moves taken from one evaluation while far from the target
    sources: int = 96  # replicas looked at in a step
    targets: int = 48  # brokers looked at in a step
    polish_steps: int = 2000
    polish_width: int = 768
    polish_patience: int = 60  # steps in a row that find nothing, before the polish ends


def greedy(placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator) -> None:
    """Takes from the broker furthest above its band what gains most per weight, until none can give."""
    receivers = np.flatnonzero(placement.receivers)
    stuck = np.zeros(len(givers), dtype=np.int64)
    over = np.where(givers, _above(placement.loads, bands.high), 0.0)
    level = step = 0
    under = receivers
    steps = _STEPS_PER_SLOT * int(placement.free.sum()) + 1000
    # Several moves from one evaluation may undo a little of each other: the steps are counted, so that it ends.
    while len(receivers) and step < steps:
        if step % 16 == 0:
            short = np.maximum(0, bands.low - placement.loads).sum(axis=1)
            under = receivers[short[receivers] > 0]
        step += 1
        waiting = np.where(stuck <= level, over, 0.0)
        source = int(waiting.argmax())
        if waiting[source] <= 0:
            level += 1
            if level > _PATIENCE or over.max() <= 0:
                return
            continue
        # First to brokers below their band; what is left over then to any.
        pool = under if level == 0 and len(under) else receivers
        targets = _some(pool, effort.targets, level > 0, rng)
        slots = placement.sample(source, effort.sources, rng)
        if not _give(placement, bands, source, slots, targets, effort, over, givers):
            stuck[source] += 1


def _above(loads: Floats, high: Floats) -> Floats:
    excess = np.maximum(0, loads - high)
    squares: Floats = np.einsum("...k,...k->...", excess, excess)
    return squares


def _some(pool: Ints, most: int, shuffled: bool, rng: np.random.Generator) -> Ints:
    if len(pool) <= most:
        return pool
    return pool[rng.permutation(len(pool))[:most]] if shuffled else np.roll(pool, rng.integers(len(pool)))[:most]


def _give(
    placement: Placement,
    bands: Bands,
    source: int,
    slots: Ints,
    targets: Ints,
    effort: Effort,
    over: Floats,
    givers: Bools,
) -> bool:
    """Makes the best moves off one broker, at most one to each target; whether there was one."""
    if not len(slots):
        return False
    rows = slots // placement.width
    change = placement.deltas(slots, np.full(len(slots), source), targets, bands)
    score = change / placement.weights[rows].sum(axis=1)[:, None] ** effort.weight_power
    best = score.argmin(axis=1)
    value = score[np.arange(len(slots)), best]
    excess = float(np.maximum(0, placement.loads[source] - bands.high[source]).max())
    many = int(np.clip(excess / 0.01, 1, effort.moves_per_step))
    taken: set[int] = set()
    moved: set[int] = set()
    for index in np.argsort(value, kind="stable")[:many]:
        slot, target = int(slots[index]), int(targets[best[index]])
        if value[index] >= _GAIN or target in taken or int(rows[index]) in moved:
            continue
        if taken and (placement.loads[source] <= bands.high[source]).all():
            break
        if not placement.affordable(slot, target):
            continue
        placement.move(slot, target)
        taken.add(target)
        moved.add(int(rows[index]))
    changed = [source, *taken]
    over[changed] = np.where(givers[changed], _above(placement.loads[changed], bands.high[changed]), 0.0)
    return bool(taken)


def polish(placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator) -> None:
    """Brings the worst brokers into the full band: each step one takes, gives or swaps, cheapest bytes first."""
    partners = np.flatnonzero(placement.receivers)
    failures = 0
    for _ in range(effort.polish_steps):
        far = np.where(placement.receivers, distance(placement.loads, bands.low, bands.high), 0.0)
        if far.max(initial=0.0) <= 1e-10 or failures > effort.polish_patience:
            return
        broker = int((far * rng.uniform(0.5, 1.5, len(far))).argmax())
        if not _exchange(placement, bands, broker, partners, givers, effort.polish_width, rng):
            failures += 1
        else:
            failures = 0


def _exchange(
    placement: Placement,
    bands: Bands,
    broker: int,
    partners: Ints,
    givers: Bools,
    width: int,
    rng: np.random.Generator,
) -> bool:
    """The best of `width` random takes, gives and swaps between one broker and others; whether one gained."""
    if placement.rule.strict and placement.tight:
        # Every rack holds one replica of everything: replicas only change places within their rack.
        partners = partners[placement.rule.domain[partners] == placement.rule.domain[broker]]
    partners = partners[partners != broker]
    if not len(partners):
        return False
    other = partners[rng.integers(len(partners), size=width)]
    other = other[placement.count[other] > 0] if placement.count[broker] == 0 else other
    theirs = placement.held[other, (rng.random(len(other)) * placement.count[other]).astype(np.int64)]
    if placement.count[broker]:
        ours = placement.held[broker, rng.integers(placement.count[broker], size=len(other))]
    else:
        ours = theirs
    may_take = (placement.count[other] > 0) & givers[other]
    may_give = np.full(len(other), bool(placement.count[broker] > 0 and givers[broker]))
    options = _exchange_options(placement, bands, broker, other, (theirs, may_take), (ours, may_give))
    kind, index = np.unravel_index(int(options.argmin()), options.shape) if options.size else (0, 0)
    if not options.size or options[kind, index] > _GAIN:
        return False
    take, give = int(theirs[index]), int(ours[index])
    partner = int(other[index])
    if kind != _GIVE:
        if not placement.affordable(take, broker):
            return False
        placement.move(take, broker)
    if kind != _TAKE:
        if not placement.affordable(give, partner):
            if kind == _SWAP:
                placement.move(take, partner)  # half a swap helps nobody
            return False
        placement.move(give, partner)
    return True


def _exchange_options(
    placement: Placement,
    bands: Bands,
    broker: int,
    other: Ints,
    taking: tuple[Ints, Bools],
    giving: tuple[Ints, Bools],
) -> Floats:
    """[take | give | swap, partner] Change of the distance, divided by the root of the bytes."""
    (theirs, may_take), (ours, may_give) = taking, giving
    width = placement.width
    rows_in, rows_out = theirs // width, ours // width
    weight_in, weight_out = placement.weights[rows_in], placement.weights[rows_out]
    mine = np.full(len(other), broker)
    may_take = may_take & _fits(placement, theirs, mine)
    may_give = may_give & _fits(placement, ours, other)
    loads, low, high = placement.loads, bands.low, bands.high
    base = distance(loads[other], low[other], high[other]) + distance(loads[broker], low[broker], high[broker])

    def after(gain_here: Floats) -> Floats:
        here = distance(loads[broker] + gain_here, low[broker], high[broker])
        there = distance(loads[other] - gain_here, low[other], high[other])
        change: Floats = here + there - base
        return change

    def fits(gain_here: Floats) -> Bools:
        room: Bools = (loads[broker, DISK] + gain_here[:, DISK] <= placement.disk_limit[broker]) | (
            gain_here[:, DISK] <= 0
        )
        room &= (loads[other, DISK] - gain_here[:, DISK] <= placement.disk_limit[other]) | (gain_here[:, DISK] >= 0)
        return room

    options = []
    for gain_here, legal, moved in (
        (weight_in, may_take, weight_in[:, DISK]),
        (-weight_out, may_give, weight_out[:, DISK]),
        (weight_in - weight_out, may_take & may_give & (rows_in != rows_out), weight_in[:, DISK] + weight_out[:, DISK]),
    ):
        change = np.where(legal & fits(gain_here), after(gain_here), 0.0)
        options.append(change / np.sqrt(moved + 1e-5))
    return np.stack(options)


def _fits(placement: Placement, slots: Ints, targets: Ints) -> Bools:
    """Whether rack rule and limits let each slot's replica go to its own target."""
    rows, columns = np.divmod(slots, placement.width)
    legal = allowed(placement.rule, placement.replicas, placement.domains, rows, columns, targets[:, None])[:, 0]
    if placement.budget.limited:
        for _, mask in placement.budget.refused(placement.sizes[rows], ~placement.away(slots), columns == 0):
            legal &= ~mask
    return legal


def take_back(placement: Placement, bands: Bands) -> None:
    """Returns every replica whose move gains nothing: going home leaves no broker further from its band."""
    while True:
        slots = np.flatnonzero((placement.replicas != placement.origin).ravel() & placement.free.ravel())
        homes = placement.origin.ravel()[slots]
        back = placement.receivers[np.maximum(homes, 0)] & (homes >= 0)
        slots, homes = slots[back], homes[back]
        if not len(slots):
            return
        sources = placement.replicas.ravel()[slots]
        idle = placement.deltas(slots, sources, homes[:, None], bands)[:, 0] <= -_GAIN
        slots = slots[idle]
        # The largest first: each return uses room in the bands that the next may need.
        order = np.argsort(-placement.sizes[slots // placement.width], kind="stable")
        returned = 0
        for slot in slots[order]:
            one = np.array([slot])
            home = placement.origin.ravel()[one]
            if placement.deltas(one, placement.replicas.ravel()[one], home[:, None], bands)[0, 0] <= -_GAIN:
                placement.move(int(slot), int(home[0]))
                returned += 1
        if not returned:
            return
