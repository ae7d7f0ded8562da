"""Polish: brokers that the greedy left outside their bands take, give or swap replicas until all are inside.

It tries replicas that move anyway first, because they go to another broker without a further copy.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, distance
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints
from kafka_rebalance.planning.problem.loads import DISK, REPLICAS
from kafka_rebalance.planning.search.greedy import Effort
from kafka_rebalance.planning.search.placement import GAIN, Placement

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
        for k in (REPLICAS, DISK):
            fits &= (here[:, k] <= limits[broker, k]) | (gain_here[:, k] <= 0)
            fits &= (there[:, k] <= limits[other, k]) | (gain_here[:, k] >= 0)
        options.append(np.where(legal & fits, change, 0.0) / (np.maximum(cost, 0.0) + _LEAST))
    return np.stack(options)


def _cost(placement: Placement, slots: Ints, targets: Ints) -> Floats:
    """[slot] The further bytes to copy if each goes to its target; below 0 if it comes home."""
    more = (targets != placement.origin.ravel()[slots]).astype(np.float64) - placement.away(slots)
    cost: Floats = (more + _NO_COPY) * placement.of_slots(placement.copied, slots)
    return cost


def _give_one(placement: Placement, slot: int, target: int) -> bool:
    """Makes one move if the limits allow it. Returns whether they do."""
    one, there = np.array([slot]), np.array([target])
    if placement.budget.limited and not placement.affordable(one, there)[0]:
        return False
    placement.move(one, there)
    return True
