"""How even the cluster would be if a plan stopped after a part of its bytes: several budgets from one search.

Every cut holds whole moves of the plan, so each list is that of before or that of the plan. The moves that even out
most for their bytes come first. What a move evens out depends on the moves before it, so the order is made anew several
times between two cuts. Moves without bytes (new orders and elections) are spread over the cuts in proportion.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.documents.proposals import CutPlan
from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.evenness import scores
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    LEADERS,
    Floats,
    Ints,
    Problem,
    added,
    all_loads,
    leader_loads,
    leader_weights,
    loads_now,
    replica_loads,
    replica_weights,
    shares,
    widened,
)
from kafka_rebalance.planning.rules.disk_limits import disk_limits_in_the_end

_CUTS = 8
_ORDERS = 3  # between two cuts


def evenness_by_bytes(problem: Problem, replicas: Ints, leaders: Ints, bands: Bands) -> tuple[CutPlan, ...]:
    """From now to the whole plan, by rising bytes; empty if it copies nothing, or if evenness has no number.

    `replicas` and `leaders` are those after the plan; `bands` are [broker, METRICS], each in its own unit. A cut that
    would overfill a disk, because what makes room there comes later, is left out.
    """
    changes = _Changes(problem, replicas, leaders)
    before, after, share = loads_now(problem), all_loads(problem, replicas, leaders), shares(problem)
    whole = int(changes.bytes.sum())
    points = [CutPlan(0, _off(problem, before, share))]
    last = CutPlan(whole, _off(problem, after, share))
    if not whole or not np.isfinite([points[0].off, last.off]).all():
        return ()
    room = np.maximum(disk_limits_in_the_end(problem), np.maximum(before[:, DISK], after[:, DISK])) * (1 + 1e-9)
    unit = np.maximum(before.sum(axis=0) / problem.staying.sum(), 1e-300)
    loads, rest = before.copy(), np.arange(len(changes.bytes))
    for step in range(1, _CUTS * _ORDERS):
        part = step / (_CUTS * _ORDERS)
        outside = (loads - np.clip(loads, bands.low, bands.high)) / unit
        order = rest[np.argsort(-changes.gain_for_bytes(rest, outside / unit), kind="stable")]
        is_free = changes.bytes[order] == 0
        sum_free, sum_bytes = np.cumsum(is_free), np.cumsum(changes.bytes[order])
        left_bytes, left_free = int(changes.bytes[rest].sum()), int(is_free.sum())
        fits = sum_bytes <= part * whole - (whole - left_bytes)
        fits_free = sum_free <= part * changes.free - (changes.free - left_free)
        taken = np.where(is_free, fits_free, fits)
        loads += changes.loads(order[taken])
        rest = np.sort(order[~taken])
        copied = whole - int(changes.bytes[rest].sum())
        if step % _ORDERS == 0 and points[-1].bytes < copied < whole and (loads[:, DISK] <= room).all():
            points.append(CutPlan(copied, _off(problem, loads, share)))
    return (*points, last)


def _off(problem: Problem, loads: Floats, share: Floats) -> float:
    """How far the furthest broker is off its fair share of any metric, as a share of it."""
    found = scores(problem, loads, share).values()
    return round(max(max(1 - score.min_over_mean, score.max_over_mean - 1) for score in found), 6)


class _Changes:
    """The partitions that a plan changes, and what each of them does to the loads. All arrays are [change]."""

    def __init__(self, problem: Problem, replicas: Ints, leaders: Ints) -> None:
        width = max(replicas.shape[1], problem.replicas.shape[1])
        was, now = widened(problem.replicas, width), widened(replicas, width)
        rows = np.flatnonzero((was != now).any(axis=1) | (leaders != problem.leader))
        was, now = was[rows], now[rows]
        new, gone = added(now, was), added(was, now)
        self.brokers = len(problem.brokers)
        self.bytes: Ints = problem.size_bytes[rows] * new.sum(axis=1)
        self.free = int((self.bytes == 0).sum())
        self.new, self.gone = np.where(new, now, -1), np.where(gone, was, -1)  # [change, position] brokers; -1: none
        self.weights = replica_weights(problem)[rows]
        self.led_by, self.to_lead = problem.leader[rows], leaders[rows]
        self.led = leader_weights(problem, problem.replicas)[rows]
        self.leads = leader_weights(problem, replicas)[rows]

    def gain_for_bytes(self, some: Ints, slope: Floats) -> Floats:
        """[some] How much each of these changes evens out, for each byte that it copies.

        `slope` is [broker, METRICS], half the slope of the squared distances to the bands. The last row is added here:
        a replica that does not exist has no slope.
        """
        steep = np.vstack([slope, np.zeros(slope.shape[1])])
        gone, new = self.gone[some], self.new[some]
        gain = np.zeros(len(some))
        for k in range(LEADERS):
            gain += self.weights[some, k] * (steep[gone, k].sum(axis=1) - steep[new, k].sum(axis=1))
        gain += (steep[self.led_by[some], LEADERS:] * self.led[some]).sum(axis=1)
        gain -= (steep[self.to_lead[some], LEADERS:] * self.leads[some]).sum(axis=1)
        rate: Floats = gain / np.maximum(self.bytes[some], 1)
        return rate

    def loads(self, some: Ints) -> Floats:
        """[broker, METRICS] What these changes add to the loads."""
        weights, brokers = self.weights[some], self.brokers
        held = replica_loads(self.new[some], weights, brokers) - replica_loads(self.gone[some], weights, brokers)
        led = leader_loads(self.to_lead[some], self.leads[some], brokers)
        return np.hstack([held, led - leader_loads(self.led_by[some], self.led[some], brokers)])
