"""Plans for which `max_bytes` is too little: all brokers come as near to their shares as the limit affords."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.planning.bounds.bands import Bands, band
from kafka_rebalance.planning.bounds.targets import halve
from kafka_rebalance.planning.problem.arrays import Bools
from kafka_rebalance.planning.problem.loads import DISK
from kafka_rebalance.planning.search.frame import Frame, search_bands
from kafka_rebalance.planning.search.greedy import Effort, greedy
from kafka_rebalance.planning.search.placement import Placement
from kafka_rebalance.planning.search.polish import polish

_SPENDINGS = 4  # rounds; each spends what the round before left of the bytes
_HALVINGS = 40
_KEPT_BACK = 0.95  # of the bytes that are left; replicas come in lumps, so the next round spends the rest


def spend_on_the_worst(
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
        bands = band(frame.targets, tolerance)
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
