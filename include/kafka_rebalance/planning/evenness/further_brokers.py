"""How many further brokers the cluster needs, so that disks keep their headroom while partitions go on growing."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.documents.proposals.proposals import FurtherBrokers
from kafka_rebalance.planning.problem.arrays import Problem, replication
from kafka_rebalance.planning.rules.disk_limits import sized_disks, used_bytes
from kafka_rebalance.planning.rules.rack_rule import rack_rule

DAYS = (30, 90, 180)


def further_brokers(problem: Problem) -> FurtherBrokers | None:
    """By the growth of each partition, in a straight line. None if nobody knows it, or the size of a disk that stays.

    None with pools, too: a further broker helps its own pool alone.

    Disks count as evenly used. If most bytes have a replica in every rack, each rack needs its own brokers. A new
    broker has the median disk.
    """
    growth, stays = problem.growth_bytes_per_day, problem.staying
    if problem.pools is not None or growth is None or not stays.any() or not sized_disks(problem)[stays].all():
        return None
    counts = replication(problem.replicas)
    grows = float((growth * counts).sum())
    if grows <= 0:
        return None
    # What brokers that leave hold has to lie somewhere: in the same rack, or anywhere.
    used = float(used_bytes(problem)[problem.registered].sum())
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
