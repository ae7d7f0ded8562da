"""What is wrong with the cluster as the snapshot found it, and where it is heading: why a plan is proposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafka_rebalance.planning.evenness.scores import ratios
from kafka_rebalance.planning.problem.arrays import Floats, Problem
from kafka_rebalance.planning.problem.loads import DISK, METRICS, known_metrics, loads_now, shares
from kafka_rebalance.planning.rules.disk_limits import sized_disks, used_bytes
from kafka_rebalance.planning.rules.rack_rule import broken_now


def outlook(problem: Problem) -> dict[str, Any]:
    """`outlook` of proposals.json, plain JSON.

    Off are brokers beyond the settings' tolerance of their share. A disk fills up at the growth that the ledger's
    samples show; where it has none, or nothing grows, `first_full` is null.
    """
    loads, share = loads_now(problem), shares(problem)
    return {
        "tolerance": problem.settings.tolerance,
        "off": _off(problem, ratios(loads, share)),
        "rack_violations": broken_now(problem),
        "fullest_disk": _fullest(problem),
        "first_full": _first_full(problem),
        "leaving": _leaving(problem, loads),
    }


def _off(problem: Problem, relative: Floats) -> list[dict[str, Any]]:
    """One entry a metric that is known, in the order of METRICS; `relative` is [broker, metric] of the fair share."""
    stays, tolerance = problem.staying, problem.settings.tolerance
    found = []
    for metric in known_metrics(problem):
        column = relative[:, METRICS.index(metric)]
        highest = int(np.where(stays, column, -np.inf).argmax())
        lowest = int(np.where(stays, column, np.inf).argmin())
        found.append(
            {
                "metric": metric,
                "above": int((stays & (column > 1 + tolerance)).sum()),
                "below": int((stays & (column < 1 - tolerance)).sum()),
                "highest": _at(problem, highest, float(column[highest])),
                "lowest": _at(problem, lowest, float(column[lowest])),
            }
        )
    return found


def _at(problem: Problem, broker: int, share: float) -> dict[str, Any]:
    return {"broker": int(problem.brokers[broker]), "share": round(share, 4) if np.isfinite(share) else None}


def _fullest(problem: Problem) -> dict[str, Any] | None:
    capacity, known = problem.disk_capacity, sized_disks(problem)
    if not known.any():
        return None
    used = used_bytes(problem)
    fullness = np.divide(used, capacity, out=np.full(len(used), -1.0), where=known)
    fullest = int(fullness.argmax())
    return {
        "broker": int(problem.brokers[fullest]),
        "used_bytes": int(used[fullest]),
        "capacity_bytes": int(capacity[fullest]),
    }


def _first_full(problem: Problem) -> dict[str, Any] | None:
    """The disk that is full first, if its partitions go on growing as they did."""
    capacity, growth = problem.disk_capacity, problem.growth_bytes_per_day
    if growth is None:
        return None
    held = problem.replicas >= 0
    by_broker = np.bincount(problem.replicas[held], growth[np.nonzero(held)[0]], len(problem.brokers))
    left = np.maximum(0.0, capacity - used_bytes(problem))
    grows = sized_disks(problem) & (by_broker > 0)
    if not grows.any():
        return None
    days = np.divide(left, by_broker, out=np.full(len(left), np.inf), where=grows)
    first = int(days.argmin())
    return {
        "broker": int(problem.brokers[first]),
        "days": round(float(days[first]), 1),
        "growth_bytes_per_day": round(float(by_broker[first])),
    }


def _leaving(problem: Problem, loads: Floats) -> dict[str, Any] | None:
    leaving = problem.leaving & (loads[:, 0] > 0)
    if not leaving.any():
        return None
    return {
        "brokers": problem.brokers[leaving].tolist(),
        "replicas": int(loads[leaving, 0].sum()),
        "bytes": int(loads[leaving, DISK].sum()),
    }
