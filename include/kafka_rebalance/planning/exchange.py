"""Polish: brokers that the greedy left outside their bands take, give or swap replicas until all are inside."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.arrays import DISK, Bools, Floats, Ints
from kafka_rebalance.planning.bounds import Bands
from kafka_rebalance.planning.placement import GAIN, Placement, distance
from kafka_rebalance.planning.search import Effort

_TAKE, _GIVE, _SWAP = range(3)


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
    if placement.tight:
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
    if not options.size or options[kind, index] > GAIN:
        return False
    take, give = int(theirs[index]), int(ours[index])
    partner = int(other[index])
    if kind != _GIVE and not _give_one(placement, take, broker):
        return False
    if kind != _TAKE and not _give_one(placement, give, partner):
        if kind == _SWAP:
            _give_one(placement, take, partner)  # half a swap helps nobody
        return False
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
    may_take = may_take & placement.permitted(theirs, mine)
    may_give = may_give & placement.permitted(ours, other)
    crowds = placement.crowding
    take_fits = crowds.allows(rows_in, other, mine[:, None])[:, 0]
    give_fits = crowds.allows(rows_out, mine, other[:, None])[:, 0]
    # Where two replicas of one topic change places nothing is crowded more.
    swap_fits = (take_fits & give_fits) | (crowds.topic[rows_in] == crowds.topic[rows_out])
    bytes_in, bytes_out = placement.copied[rows_in], placement.copied[rows_out]
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
        (weight_in, may_take & take_fits, bytes_in),
        (-weight_out, may_give & give_fits, bytes_out),
        (weight_in - weight_out, may_take & may_give & swap_fits & (rows_in != rows_out), bytes_in + bytes_out),
    ):
        change = np.where(legal & fits(gain_here), after(gain_here), 0.0)
        options.append(change / np.sqrt(moved + 1e-5))
    return np.stack(options)


def _give_one(placement: Placement, slot: int, target: int) -> bool:
    """Makes one move if the limits allow it; whether they do."""
    one, there = np.array([slot]), np.array([target])
    if placement.budget.limited and not placement.affordable(one, there)[0]:
        return False
    placement.move(one, there)
    return True
