"""What is wrong with the cluster as the snapshot found it, and where it is heading: why a plan is proposed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafka_rebalance.documents.disks import FullestLogDir
from kafka_rebalance.documents.proposals import BrokerShare, Diagnosis, FirstFull, FullestDisk, Leaving, Off, Strays
from kafka_rebalance.planning.evenness.further_brokers import further_brokers, further_brokers_of_pools
from kafka_rebalance.planning.evenness.scores import ratios
from kafka_rebalance.planning.problem.arrays import Floats, Problem
from kafka_rebalance.planning.problem.loads import DISK, LEADERS, METRICS, REPLICAS, known_metrics, loads_now, shares
from kafka_rebalance.planning.problem.pools import strays
from kafka_rebalance.planning.rules.disk_limits import sized_disks, used_bytes
from kafka_rebalance.planning.rules.rack_rule import broken_now


def outlook(problem: Problem) -> Diagnosis:
    """Off are brokers beyond the settings' tolerance of their share. A disk fills up at the growth that the ledger's
    samples show; where it has none, or nothing grows, `first_full` is None.
    """
    loads, share = loads_now(problem), shares(problem)
    return Diagnosis(
        problem.settings.tolerance,
        tuple(_off(problem, ratios(problem, loads, share))),
        broken_now(problem),
        fullest_disk(problem),
        first_full(problem),
        _leaving(problem, loads),
        further_brokers(problem),
        _strays(problem),
        further_brokers_of_pools(problem),
    )


def _strays(problem: Problem) -> Strays | None:
    outside = problem.replicas[strays(problem, problem.replicas)]
    return Strays(len(outside), tuple(sorted(problem.brokers[np.unique(outside)].tolist()))) if len(outside) else None


def _off(problem: Problem, relative: Floats) -> Iterator[Off]:
    """One entry a metric that is known, in the order of METRICS; `relative` is [broker, metric] of the fair share."""
    stays, tolerance = problem.staying, problem.settings.tolerance
    for metric in known_metrics(problem):
        column = relative[:, METRICS.index(metric)]
        highest = int(np.where(stays, column, -np.inf).argmax())
        lowest = int(np.where(stays, column, np.inf).argmin())
        yield Off(
            metric,
            int((stays & (column > 1 + tolerance)).sum()),
            int((stays & (column < 1 - tolerance)).sum()),
            _at(problem, highest, float(column[highest])),
            _at(problem, lowest, float(column[lowest])),
        )


def _at(problem: Problem, broker: int, share: float) -> BrokerShare:
    return BrokerShare(int(problem.brokers[broker]), round(share, 4) if np.isfinite(share) else None)


def fullest_disk(problem: Problem) -> FullestDisk | None:
    """Of the brokers that stay, by all log dirs of a broker together; None if no size is known."""
    capacity, known = problem.disk_capacity, sized_disks(problem)
    if not known.any():
        return None
    used = used_bytes(problem)
    fullness = np.divide(used, capacity, out=np.full(len(used), -1.0), where=known)
    fullest = int(fullness.argmax())
    return FullestDisk(int(problem.brokers[fullest]), int(used[fullest]), int(capacity[fullest]))


def fullest_log_dir(problem: Problem) -> FullestLogDir | None:
    """Of the brokers that stay and have several log dirs of known size; None if there is none."""
    contents = problem.dir_contents
    known = problem.staying[contents.broker] & (contents.total_bytes > 0)  # NaN is not
    if not known.any():
        return None
    fullness = np.divide(contents.used_bytes, contents.total_bytes, out=np.full(len(known), -1.0), where=known)
    at = int(fullness.argmax())
    broker = int(problem.brokers[contents.broker[at]])
    return FullestLogDir(broker, contents.path[at], int(contents.used_bytes[at]), int(contents.total_bytes[at]))


def first_full(problem: Problem) -> FirstFull | None:
    """By the straight line from each partition's first sample to its last; None if nothing grows, or nobody knows."""
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
    return FirstFull(int(problem.brokers[first]), round(float(days[first]), 1), round(float(by_broker[first])))


def _leaving(problem: Problem, loads: Floats) -> Leaving | None:
    leaving = problem.leaving & (loads[:, REPLICAS] > 0)
    if not leaving.any():
        return None
    brokers = tuple(problem.brokers[leaving].tolist())
    replicas, size, leaders = (int(loads[leaving, metric].sum()) for metric in (REPLICAS, DISK, LEADERS))
    return Leaving(brokers, replicas, size, leaders)
