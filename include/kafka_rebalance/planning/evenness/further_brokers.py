"""How many further brokers the cluster needs, so that disks keep their headroom while partitions go on growing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_rebalance.documents.proposals import FurtherBrokers
from kafka_rebalance.planning.problem.arrays import Floats, Problem, replication
from kafka_rebalance.planning.problem.pools import foreign, parts_of, strays
from kafka_rebalance.planning.rules.disk_limits import sized_disks, used_bytes
from kafka_rebalance.planning.rules.rack_rule import rack_rule

DAYS = (30, 90, 180)


def further_brokers(problem: Problem) -> FurtherBrokers | None:
    """By the growth of each partition, in a straight line. None if nobody knows it, or the size of a disk that stays.

    None with pools, too: `further_brokers_of_pools` tells each.

    Disks count as evenly used. If most bytes have a replica in every rack, each rack needs its own brokers. A new
    broker has the median disk.
    """
    # What brokers that leave hold has to lie somewhere: in the same rack, or anywhere.
    return None if problem.pools is not None else _needed(problem, float(used_bytes(problem)[problem.registered].sum()))


def further_brokers_of_pools(problem: Problem) -> tuple[FurtherBrokers, ...]:
    """The same for each pool that has partitions, as if its strays lay in it already; without pools none."""
    if problem.pools is None:
        return ()
    used = used_bytes(problem) - _of_strays(problem)
    found = []
    for part in parts_of(problem):
        own = problem.registered & ~foreign(part.problem)
        needed = _needed(part.problem, float(used[own].sum() + _of_strays(part.problem).sum()))
        found += [replace(needed, pool=part.name)] if needed is not None else []
    return tuple(found)


def _of_strays(problem: Problem) -> Floats:
    """[broker] The bytes of the replicas on it that are outside their pool."""
    there = strays(problem, problem.replicas)
    sizes = problem.size_bytes[np.nonzero(there)[0]].astype(np.float64)
    return np.bincount(problem.replicas[there], sizes, len(problem.brokers)).astype(np.float64)


def _needed(problem: Problem, used: float) -> FurtherBrokers | None:
    growth, stays = problem.growth_bytes_per_day, problem.staying
    if growth is None or not stays.any() or not sized_disks(problem)[stays].all():
        return None
    counts = replication(problem.replicas)
    grows = float((growth * counts).sum())
    if grows <= 0:
        return None
    capacity = problem.disk_capacity[stays]
    share, each = 1 - problem.settings.disk_headroom, float(np.median(capacity))
    rule = rack_rule(problem)
    racks = [capacity.sum()]
    sizes = counts * problem.size_bytes
    if rule.known and rule.strict and float(sizes[counts == rule.racks].sum()) > float(sizes.sum()) / 2:
        domain = rule.domain[stays]
        racks = [capacity[domain == rack].sum() for rack in np.unique(domain)]
    needed = []
    for days in DAYS:
        held = (used + grows * days) / len(racks)
        lacking = [max(0.0, held / share - rack) / each for rack in racks]
        needed.append(int(sum(np.ceil(round(lack, 9)) for lack in lacking)))
    return FurtherBrokers(int(each), round(share, 4), DAYS, tuple(needed))
