"""How balanced an assignment is, and in words why a move helps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_rebalance.model.proposal import Move
from kafka_rebalance.planning.arrays import METRICS, Bools, Floats, Problem, known_metrics

_NOUNS = {
    "replicas": "replicas",
    "disk": "bytes on disk",
    "bytes_in": "bytes in",
    "leaders": "leaders",
    "leader_bytes_out": "bytes out of leaders",
}


@dataclass(frozen=True, slots=True)
class Score:
    """One metric over the brokers that stay, as multiples of the share each should carry. 1, 1, 0 is even."""

    max_over_mean: float
    min_over_mean: float
    cv: float


def ratios(loads: Floats, shares: Floats) -> Floats:
    """[broker, metric] Load over the share of the whole that the broker should carry; 1 where there is no load."""
    mean = shares * loads.sum(axis=0)
    relative: Floats = np.divide(loads, mean, out=np.where(loads > 0, np.inf, 1.0), where=mean > 0)
    return relative


def scores(problem: Problem, loads: Floats, shares: Floats) -> dict[str, Score]:
    """The scores of every metric that is known, in the order of METRICS."""
    known = known_metrics(problem)
    relative = ratios(loads, shares)[problem.staying]
    return {
        metric: Score(
            round(float(relative[:, k].max()), 6),
            round(float(relative[:, k].min()), 6),
            round(float(relative[:, k].std()), 6),
        )
        for k, metric in enumerate(METRICS)
        if metric in known
    }


def reason(problem: Problem, relative: Floats, move: Move, *, repairs_rack: bool) -> str:
    """One clause on why the move is there. `relative` are the ratios before; `move` names brokers by id."""
    index = {broker: int(np.searchsorted(problem.brokers, broker)) for broker in (*move.before, *move.after)}
    emptied = [broker for broker in move.removed if problem.leaving[index[broker]]]
    replace = problem.settings.replace
    parts = []
    for broker in emptied:
        if replace.get(broker) in move.added:
            parts.append(f"broker {replace[broker]} takes the place of broker {broker}")
        else:
            parts.append(f"empties broker {broker}")
    if len(move.before) != len(move.after):
        parts.append(f"replication factor {len(move.before)} to {len(move.after)}")
    if repairs_rack:
        parts.append("spreads the replicas over more racks")
    if not parts and move.added and move.removed:
        parts.append(_contrast(problem, relative, index, move.removed, move.added, METRICS[:3]))
    if move.changes_leader and not move.added and not move.removed:
        parts.append(_contrast(problem, relative, index, move.before[:1], move.after[:1], METRICS[3:]))
    return "; ".join(parts)


def _contrast(
    problem: Problem,
    relative: Floats,
    index: dict[int, int],
    givers: tuple[int, ...],
    takers: tuple[int, ...],
    metrics: tuple[str, ...],
) -> str:
    """The metric in which giver and taker were furthest apart, with both figures."""
    known = known_metrics(problem)
    giver, taker, metric = max(
        ((giver, taker, metric) for metric in metrics if metric in known for giver in givers for taker in takers),
        key=lambda t: relative[index[t[0]], METRICS.index(t[2])] - relative[index[t[1]], METRICS.index(t[2])],
    )
    if problem.leaving[index[giver]]:
        return f"takes {_NOUNS[metric]} off broker {giver}"
    k = METRICS.index(metric)
    high, low = relative[index[giver], k], relative[index[taker], k]
    return f"{_NOUNS[metric]}: broker {giver} at {high:.0%} of its share, broker {taker} at {low:.0%}"


def outside_band(loads: Floats, targets: Floats, heaviest: Floats, tolerance: float, receivers: Bools) -> Bools:
    """[broker, resource] Whether a load lies outside the tolerance, and by more than moving one replica could mend.

    `heaviest` is [resource], the heaviest single replica or leader: with few or huge partitions no plan is finer.
    """
    slack = np.maximum(targets * tolerance, np.minimum(heaviest, targets.max(axis=0, initial=0.0)))
    # The search stops a hair outside: 1/10,000 of the target is no imbalance.
    off: Bools = np.abs(loads - targets) > slack + 1e-4 * targets
    return off & receivers[:, None]
