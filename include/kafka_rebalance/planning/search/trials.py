"""Trials: searches of one candidate with one or several efforts, and the best of them.

Every trial starts after the moves that the job requires, and has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kafka_rebalance.planning.bounds.targets import Bands, distance, halve
from kafka_rebalance.planning.problem.arrays import DISK, Bools, Floats, Ints, among, firsts
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from kafka_rebalance.planning.rules.proposed_lists import lists_near
from kafka_rebalance.planning.rules.rack_rule import violations
from kafka_rebalance.planning.search.excused_brokers import settle
from kafka_rebalance.planning.search.frame import Frame, placement_of, search_bands
from kafka_rebalance.planning.search.greedy import Effort, greedy, polish
from kafka_rebalance.planning.search.placement import GAIN, Limit, Placement, spent
from kafka_rebalance.planning.search.spread_topics import spread_topics

# A small cluster is searched with several trade-offs, because there one replica too many is a per cent.
_SMALL_REPLICAS = 6_000
_SMALL = Effort(replicas=120, several=1, polish_width=256, polish_patience=25, crowds=True)
_SMALL_EFFORTS = (
    replace(_SMALL, costs=(0.25, 0.25)),
    replace(_SMALL, costs=(0.25, 0.25), cost_power=0.8),
    replace(_SMALL, costs=(1.0, 1.0), cost_power=0.8, slack=0.04),
)
_MIDDLE_REPLICAS = 200_000
# Empty brokers need something of everything, so a second pass over these moves gains nothing.
_EMPTY = Effort(costs=(1.0, 1.0))
# Of a topic with half of all bytes, empty brokers may take small replicas, and run out of places for the others.
_EMPTY_EFFORTS = (_EMPTY, replace(_EMPTY, keeps_places=True, in_need=True), replace(_EMPTY, crowds=True, in_need=True))
# Few brokers are off by little, so whatever costs least of everything else changes the fewest lists.
_NEAR = Effort(costs=(1.0, 1.0))
_ENOUGH = 1.01  # of the bytes that disks alone ask for; a search for less is in vain


def best_of_trials(
    frame: Frame, start: Placement, seed: tuple[int, int, int], *, holds_leaders: bool = False
) -> tuple[Placement, float]:
    """Repairs racks and balances with each effort. Returns the trial nearest to balance, then with the fewest bytes.

    Topics that are to spread come before that.

    The second value is its squared distance to the bands. With `holds_leaders` no move of a first replica makes its
    broker lead too many partitions of a topic.
    """
    full = _asked(frame, start)
    at_first = nearness(start, full)
    enough = _enough(frame, start, full)
    best, best_key = start, (np.inf, np.inf, 0, 0)
    efforts = _efforts(start)
    if frame.problem.settings.job == "repair_racks" and frame.goal.balances:
        efforts = [replace(effort, keeps_leaders=keeps) for keeps in (True, False) for effort in efforts]
    for number, effort in enumerate(efforts):
        if effort.in_need and best.budget.bytes <= enough:
            break
        rng = np.random.default_rng([*seed, number])
        found = _trial(frame, start, full, effort, rng, holds_leaders=holds_leaders)
        near = nearness(found, full)
        excess, changes = found.crowding.excess_replicas, spent(frame.problem, found.replicas).leader_changes
        key = (excess, *near, changes)
        if key < best_key:
            best, best_key = found, key
        if not frame.goal.balances or (at_first[0] == 0 and near == at_first):
            break  # there is nothing to search or to better
    return best, best_key[1]


def near_trial(frame: Frame, start: Placement, proposed: Ints, seed: tuple[int, int, int]) -> tuple[Placement, float]:
    """The trial that starts from the lists of the last proposal, as far as they are still allowed.

    It repairs and balances what the cluster has become since, takes back what gains nothing, and searches nothing anew.
    The second value is as of `best_of_trials`, or infinite if the end breaks a limit that the start keeps.
    """
    problem, goal = frame.problem, frame.goal
    givers = problem.evened if frame.relief is None else problem.evened & frame.relief.givers
    givers = givers | frame.emptied
    lists = lists_near(problem, frame.rule, frame.others, proposed, start.replicas, start.origin, start.free, givers)
    if not goal.balances:  # then only what has to leave moves
        has_to = (start.replicas != start.origin) | violations(frame.rule, start.replicas)[:, None]
        lists = np.where(((lists == start.origin) | has_to).all(axis=1)[:, None], lists, start.replicas)
    full = _asked(frame, start)
    found = _trial(frame, start, full, _NEAR, np.random.default_rng([*seed, 3_000]), lists)
    fits = not found.budget.exceeded() and (start.too_full or not found.too_full)
    return found, nearness(found, full)[0] if fits else np.inf


def _asked(frame: Frame, start: Placement) -> Bands:
    return search_bands(frame, start, 0.0) if frame.relief is not None else frame.band(frame.goal.tolerance)


def _efforts(start: Placement) -> Sequence[Effort]:
    replicas = int(start.free.sum())
    if replicas <= _SMALL_REPLICAS:
        return _SMALL_EFFORTS
    large = replicas > _MIDDLE_REPLICAS
    if (start.receivers & (start.count == 0)).any():
        # On a large cluster 64 replicas are as good as 200, in half the time.
        return (replace(_EMPTY, replicas=64),) if large else _EMPTY_EFFORTS
    # On a larger cluster, several searches are hardly better than one that goes over its moves again.
    return (Effort() if large else Effort(replicas=400, rebuilds=4),)


def _trial(
    frame: Frame,
    start: Placement,
    full: Bands,
    effort: Effort,
    rng: np.random.Generator,
    near: Ints | None = None,
    *,
    holds_leaders: bool = False,
) -> Placement:
    """One search. With `near` it begins with these lists, and only brings brokers into the `full` bands."""
    problem, goal = frame.problem, frame.goal
    lists, origin = start.replicas, start.origin
    if near is not None:
        lists, origin = near, np.where(among(near, problem.replicas), near, origin)
    pinned = (start.replicas >= 0) & ~start.free
    placement = placement_of(frame, lists, origin, pinned, spent(problem, lists))
    placement.crowding.spare = start.crowding.spare if near is None else 0
    if holds_leaders:
        placement.crowding.leaders = TopicLeaders(problem, placement.replicas[:, 0])
    if effort.crowds:
        placement.crowding.in_total = effort.givers * effort.several
    _give_back(placement, full)
    bands = search_bands(frame, placement, effort.slack) if near is None else full
    if goal.repairs_racks:
        _enter_pools(placement, problem.pools.foreign, bands)
        repair_racks(placement, bands, keeps_leaders=effort.keeps_leaders or not goal.balances)
    spread_topics(placement, bands)
    if not goal.balances:
        return placement
    givers = problem.evened.copy()
    if frame.relief is not None:
        givers &= frame.relief.givers & (start.loads > full.high).any(axis=1)
    if near is not None:
        _return_arrivals(placement, full, givers)
    is_short = _spend_on_the_worst(frame, placement, givers, effort, rng)
    if is_short and near is None:
        bands = search_bands(frame, placement, effort.slack)
    enough = _enough(frame, placement, full)
    greedy(placement, bands, givers, effort, rng)
    polish(placement, full, givers, effort, rng)
    take_back(placement, full)
    if is_short:
        return placement  # a rebuild may end nearer in sum, with one broker further off
    found = rebuilt(placement, full, givers, effort, rng, enough)
    if frame.relief is None and int(placement.free.sum()) <= _SMALL_REPLICAS:
        settle(found, full, problem.evened[:, None] & (frame.targets > 0))
    return found


def _enough(frame: Frame, placement: Placement, bands: Bands) -> int:
    """Bytes at which a plan is good enough: what is copied already, what disks ask for, and a little.

    Disks ask for what brokers must give or take to come into their bands, whichever is more.
    """
    held: Floats = placement.loads[placement.evened, DISK]
    low, high = (values[placement.evened, DISK] for values in (bands.low, bands.high))
    asked = max(np.maximum(0, held - high).sum(), np.maximum(0, low - held).sum())
    return placement.budget.bytes + int(_ENOUGH * asked * frame.scale[DISK])


def _enter_pools(placement: Placement, foreign: Bools, bands: Bands) -> None:
    """Moves replicas from `foreign` brokers into the pool, the largest first. A limit or a full disk leaves some."""
    slots = placement.movable_slots()
    slots = slots[foreign[placement.replicas.ravel()[slots]]]
    receivers = np.flatnonzero(placement.receivers)
    for slot in slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]:
        placement.move_best(np.array([slot]), receivers, bands)


def repair_racks(placement: Placement, bands: Bands, *, keeps_leaders: bool = False) -> None:
    """Spreads movable partitions that break the rack rule over more racks.

    A limit that is reached stops the repairs, and shows in the budget. With `keeps_leaders` a first replica moves only
    if no other may.
    """
    rows = np.flatnonzero(violations(placement.rule, placement.replicas))
    for row in rows[np.argsort(-placement.sizes[rows], kind="stable")]:
        while _repair(placement, int(row), bands, keeps_leaders):
            pass


def _repair(placement: Placement, row: int, bands: Bands, keeps_leaders: bool) -> bool:
    """Moves one replica to a rack that has none, if the partition needs it. Returns whether one moved."""
    one = slice(row, row + 1)
    if not violations(placement.rule, placement.replicas[one])[0]:
        return False
    receivers = np.flatnonzero(placement.receivers)
    here = placement.domains[row]
    shared = np.array([(here == domain).sum() > 1 for domain in here]) & (here >= 0)
    columns = np.flatnonzero(shared & placement.free[row])
    if not len(columns):
        return False
    adds = placement.allowed(np.full(len(columns), row), columns, receivers, repair=True)
    slots, best = row * placement.width + columns, partial(placement.move_best, targets=receivers, bands=bands)
    if keeps_leaders and best(slots, only=adds & (columns != 0)[:, None]):
        return True
    return best(slots, only=adds)


# Fewer bytes for the same balance: take back moves that gained nothing, and search a part anew.


def take_back(placement: Placement, bands: Bands) -> None:
    """Returns every replica whose move gains nothing: without it, no broker is further from its band."""
    returned = True
    while returned:
        returned = False
        slots = np.flatnonzero((placement.replicas != placement.origin).ravel() & placement.free.ravel())
        homes = placement.origin.ravel()[slots]
        slots = slots[placement.evened[np.maximum(homes, 0)] & (homes >= 0)]
        # The largest first, because each return uses room in the bands that the next may need.
        slots = slots[np.argsort(-placement.sizes[slots // placement.width], kind="stable")]
        while len(slots):
            homes = placement.origin.ravel()[slots]
            idle = placement.changes(slots, homes[:, None], bands, home=True)[:, 0] <= -GAIN
            slots = _move_firsts(placement, slots[idle], placement.origin)
            returned |= bool(idle.any())


def _give_back(placement: Placement, bands: Bands) -> None:
    """Returns replicas until the limits hold, those first that the balance misses least for their bytes.

    It ends with a limit exceeded if no replica may go home.
    """
    while over := placement.budget.exceeded():
        placement.budget.reached |= {name for name, _, _ in over}
        slots = np.flatnonzero((placement.replicas != placement.origin).ravel() & placement.free.ravel())
        homes = placement.origin.ravel()[slots]
        slots = slots[placement.evened[np.maximum(homes, 0)] & (homes >= 0)]
        missed = placement.changes(slots, placement.origin.ravel()[slots][:, None], bands, home=True)[:, 0]
        slots, missed = slots[np.isfinite(missed)], missed[np.isfinite(missed)]
        if not len(slots):
            return
        price = missed / np.maximum(1, placement.sizes[slots // placement.width])
        slots = slots[np.argsort(price, kind="stable")]
        excess = next((spent - limit for name, spent, limit in over if name is Limit.BYTES), 0)
        enough = int(np.searchsorted(np.cumsum(placement.sizes[slots // placement.width]), excess)) + 1
        _move_firsts(placement, slots[:enough], placement.origin)


def _return_arrivals(placement: Placement, bands: Bands, givers: Bools) -> None:
    """Returns arrivals from disks and brokers beyond their limits, and from those above their band that give nothing.

    Each time the smallest replica that suffices goes home.
    """
    high = np.where(givers[:, None], np.inf, bands.high)
    high = np.minimum(high, placement.home_limits)
    for broker in np.flatnonzero(placement.receivers & (placement.loads > high).any(axis=1)):
        while (placement.loads[broker] > high[broker]).any():
            slots = np.sort(placement.held[broker, : placement.count[broker]])
            homes = placement.origin.ravel()[slots]  # none goes back to a broker that is to be emptied
            slots = slots[placement.away(slots) & (homes >= 0) & placement.evened[np.maximum(homes, 0)]]
            slots = slots[placement.legal(slots, placement.origin.ravel()[slots][:, None], home=True)[:, 0]]
            if not len(slots):
                break
            left = placement.loads[broker] - placement.weights[slots // placement.width] - high[broker]
            excess = np.maximum(0, left).sum(axis=1)
            one = slots[np.lexsort((placement.sizes[slots // placement.width], excess))[:1]]
            placement.move(one, placement.origin.ravel()[one])


def rebuilt(
    placement: Placement, bands: Bands, givers: Bools, effort: Effort, rng: np.random.Generator, enough: int
) -> Placement:
    """Takes the moves of some brokers back and searches them anew, repeatedly. Returns the best placement.

    Large neighbourhood search (Shaw, 1998): a search that starts near its goal chooses better than one from afar.
    It ends once the plan copies no more than `enough` bytes.
    """
    best, best_keys = placement, _nearness_by_group(placement, bands)
    origin = np.maximum(placement.origin, 0)
    # Replicas that have to move cannot go home, and their partitions stay as they are.
    bound = violations(placement.rule, placement.origin)
    homeless = (placement.origin < 0) | ~placement.free | ~placement.evened[origin]
    bound |= ((placement.replicas != placement.origin) & homeless).any(axis=1)
    if placement.crowding.spread is not None:  # what spreads a topic gains nothing for the bands
        bound |= placement.crowding.spread.asked[placement.crowding.topic]
    for _ in range(effort.rebuilds):
        if best.budget.bytes <= enough:
            break
        trial = best.copy()
        trial.crowding.in_total = effort.givers * effort.several
        some = rng.random(len(givers)) < effort.rebuilt
        away = trial.replicas != trial.origin
        touched = (away & (some[trial.replicas] | some[origin])).any(axis=1) & ~bound
        if not touched.any():
            continue
        _place(trial, np.flatnonzero((away & touched[:, None]).ravel()), trial.origin)
        greedy(trial, bands, givers, effort, rng)
        polish(trial, bands, givers, effort, rng)
        take_back(trial, bands)
        # If racks exchange nothing, each is judged on its own.
        keys = _nearness_by_group(trial, bands)
        for (mask, _), key, least in zip(trial.groups, keys, best_keys, strict=True):
            if key >= least:
                differs = (trial.replicas != best.replicas) & mask[best.replicas]
                _place(trial, np.flatnonzero(differs.ravel()), best.replicas)
        fits = trial.crowding.spare >= min(0, best.crowding.spare) and not trial.budget.exceeded()
        fits &= trial.crowding.excess_leaders <= best.crowding.excess_leaders
        fits &= trial.crowding.excess_replicas <= best.crowding.excess_replicas
        # Replicas that went home together may have found their room taken, and gain too little to leave again.
        fits &= best.too_full or not trial.too_full
        if fits and any(key < least for key, least in zip(keys, best_keys, strict=True)):
            best, best_keys = trial, list(map(min, keys, best_keys))
    return best


def _place(placement: Placement, slots: Ints, lists: Ints) -> None:
    """Puts these replicas on the brokers that `lists` names for them."""
    while len(slots):
        slots = _move_firsts(placement, slots, lists)


def _move_firsts(placement: Placement, slots: Ints, lists: Ints) -> Ints:
    """Makes as many of the moves as share no broker and no row. Returns the slots that are left."""
    targets = lists.ravel()[slots]
    now = firsts(placement.replicas.ravel()[slots], targets, slots // placement.width)
    placement.move(slots[now], targets[now])
    return slots[~now]


def _nearness_by_group(placement: Placement, bands: Bands) -> list[tuple[float, int]]:
    """(squared distance of its brokers to their bands, bytes to copy) of each group of brokers."""
    off = np.where(placement.evened, distance(placement.loads, bands.low, bands.high), 0.0)
    slots = np.flatnonzero((placement.replicas != placement.origin).ravel())
    holders, sizes = placement.replicas.ravel()[slots], placement.sizes[slots // placement.width]
    return [(round(float(off[mask].sum()), 8), int(sizes[mask[holders]].sum())) for mask, _ in placement.groups]


def nearness(placement: Placement, bands: Bands) -> tuple[float, int]:
    """(squared distance of all evened brokers to their bands, bytes to copy): the smaller, the better."""
    off = distance(placement.loads, bands.low, bands.high)[placement.evened].sum()
    return round(float(off), 8), placement.budget.bytes


# Plans for which `max_bytes` is too little: all brokers come as near to their shares as the limit affords.


_SPENDINGS = 4  # rounds; each spends what the round before left of the bytes
_HALVINGS = 40
_KEPT_BACK = 0.95  # of the bytes that are left; replicas come in lumps, so the next round spends the rest


def _spend_on_the_worst(
    frame: Frame, placement: Placement, givers: Bools, effort: Effort, rng: np.random.Generator
) -> bool:
    """If `max_bytes` does not reach the tolerance, brings all as near as it affords. Returns whether it does not."""
    is_short, budget, limit = False, placement.budget, placement.budget.max_bytes
    for _ in range(_SPENDINGS):
        found = _affordable(frame, placement)
        if found is None:
            break
        is_short, bytes_before = True, budget.bytes
        tolerance, full, bytes_by_group = found
        bands = search_bands(frame, placement, effort.slack, tolerance) if frame.relief is None else full
        for (group, _), share in zip(placement.groups, bytes_by_group, strict=True):
            # Each group has its own share, because the first group would take all.
            budget.max_bytes = min(budget.bytes + share, limit or 0)
            greedy(placement, bands, givers & group, effort, rng)
        budget.max_bytes = limit
        polish(placement, full, givers, effort, rng)
        if budget.bytes == bytes_before:
            break
    return is_short


def _affordable(frame: Frame, placement: Placement) -> tuple[float, Bands, list[int]] | None:
    """(the smallest tolerance that the rest of `max_bytes` can pay for, its bands, [group] the bytes to reach them).

    The groups are those of `Placement.groups`. None if all that the job asks for fits.
    Job `relieve` brings brokers down to what it asks of them, or to this tolerance above their share.
    """
    limit, unit, relief = placement.budget.max_bytes, frame.scale[DISK], frame.relief
    if limit is None or unit <= 0:
        return None
    left = _KEPT_BACK * max(0, limit - placement.budget.bytes) / unit
    loads, targets = placement.loads[:, DISK], frame.targets[:, DISK]

    def bands_of(tolerance: float) -> Bands:
        bands = frame.band(tolerance)
        if relief is None:
            return bands
        return Bands(np.zeros_like(bands.low), np.maximum(bands.high, relief.high))

    def needed(tolerance: float) -> list[float]:
        """[group] The load that must leave brokers above the band, or come to those below, whichever is more."""
        bands = bands_of(tolerance)
        over = np.maximum(0.0, loads - bands.high[:, DISK])
        under = np.maximum(0.0, bands.low[:, DISK] - loads)
        if relief is not None:
            over[~relief.givers] = 0.0
        groups = [placement.evened & mask for mask, _ in placement.groups]
        return [max(float(over[some].sum()), float(under[some].sum())) for some in groups]

    asked = frame.goal.tolerance if relief is None else -1.0
    if sum(needed(asked)) <= left:
        return None
    here = placement.evened & (targets > 0)
    widest = max(1.0, float((loads[here] / targets[here]).max(initial=0.0)))
    tolerance = halve(lambda middle: left - sum(needed(middle)), asked, widest, _HALVINGS)
    return tolerance, bands_of(tolerance), [int(share * unit) for share in needed(tolerance)]
