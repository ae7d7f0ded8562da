"""The effect of losing one broker on the network and the disks of the others, before a plan and after it.

The next replica in sync leads what the lost broker led: the first of the list that is alive and in the ISR (Kafka,
PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection). Then people copy the lost replicas anew: to the rest
of the rack, each broker by its capacity. If the broker has no rack, or no other is in it, all others share them. So
every leader has as many followers as before. With pools, the others are those of its pool.
"""

from __future__ import annotations

import numpy as np

from kafka_rebalance.documents.candidate_figures import AfterLoss, BrokerLoss, DiskAfterLoss, NetworkAfterLoss
from kafka_rebalance.planning.problem.arrays import Floats, Ints, Problem, lagging
from kafka_rebalance.planning.problem.loads import known_of_all, leader_loads, replica_loads, sent_bytes, shares, totals
from kafka_rebalance.planning.rules.disk_limits import used_bytes


def broker_loss(problem: Problem, replicas: Ints, leaders: Ints) -> BrokerLoss:
    """`replicas` and `leaders` are those after the plan."""
    held_before, held_after = _held(problem, problem.replicas), _held(problem, replicas)
    used = used_bytes(problem)
    return BrokerLoss(
        AfterLoss(_network(problem, problem.replicas, problem.leader), _disk(problem, held_before, used)),
        AfterLoss(_network(problem, replicas, leaders), _disk(problem, held_after, used + held_after - held_before)),
    )


def _held(problem: Problem, replicas: Ints) -> Floats:
    """[broker] Bytes of the replicas on each broker."""
    return replica_loads(replicas, problem.size_bytes[:, None].astype(np.float64), len(problem.brokers))[:, 0]


def next_leaders(problem: Problem, replicas: Ints, leaders: Ints) -> Ints:
    """[partition row] The broker that leads if the leader is lost; -1: no other replica is alive and in sync."""
    alive = (replicas >= 0) & problem.registered[np.maximum(replicas, 0)] & (replicas != leaders[:, None])
    able = alive & ~lagging(problem, replicas)
    rows = np.arange(len(replicas))
    return np.where(able.any(axis=1), replicas[rows, able.argmax(axis=1)], -1)


def _network(problem: Problem, replicas: Ints, leaders: Ints) -> NetworkAfterLoss | None:
    sent = sent_bytes(problem, replicas)
    if sent is None or sent.sum() <= 0:
        return None
    brokers = len(problem.brokers)
    base = leader_loads(leaders, sent[:, None], brokers)[:, 0]
    follows = next_leaders(problem, replicas, leaders)
    fair = shares(problem)[:, -1] * (sent.sum() if problem.pools is None else totals(problem, base[:, None])[:, 0])
    # A broker that leaves, or has no share, is no yardstick.
    taken = (follows >= 0) & (fair[np.maximum(follows, 0)] > 0) & problem.registered[leaders]
    if not taken.any():
        return None
    # Only pairs that occur: a table of all pairs would grow with the square of the brokers.
    pairs, pair = np.unique(leaders[taken] * brokers + follows[taken], return_inverse=True)
    lost, takes = np.divmod(pairs, brokers)
    total = base[takes] + np.bincount(pair, sent[taken])
    worst = int((total / fair[takes]).argmax())
    at = int(takes[worst])
    whole = problem.networks[at, 1]
    return NetworkAfterLoss(
        int(problem.brokers[lost[worst]]),
        int(problem.brokers[at]),
        round(float(total[worst] / fair[at]), 6),
        round(float(total[worst])),
        None if np.isnan(whole) else round(float(whole)),
    )


def _disk(problem: Problem, held: Floats, used: Floats) -> DiskAfterLoss | None:
    capacity = known_of_all(problem, problem.disk_capacity)
    staying = np.flatnonzero(problem.staying)
    if capacity is None or len(staying) < 2 or not (capacity[staying] > 0).all():
        return None
    pool = np.zeros(len(held), dtype=np.int64) if problem.pools is None else problem.pools.of_broker
    groups: dict[tuple[int, str | None], list[int]] = {}
    for broker in staying.tolist():
        groups.setdefault((int(pool[broker]), problem.racks[broker]), []).append(broker)
    fullness = np.divide(used, capacity, out=np.zeros(len(used)), where=capacity > 0)

    def fullest_first(members: Ints) -> tuple[Ints, float]:
        """(its two fullest brokers, its capacity)"""
        return members[np.argsort(-fullness[members], kind="stable")[:2]], float(capacity[members].sum())

    everywhere = {own: fullest_first(staying[pool[staying] == own]) for own in np.unique(pool[staying]).tolist()}
    by_rack = {group: fullest_first(np.array(here)) for group, here in groups.items() if group[1] is not None}
    worst: tuple[float, int, int, float] | None = None
    for lost in np.flatnonzero(problem.registered & (held > 0)).tolist():
        own = float(capacity[lost]) if problem.staying[lost] else 0.0
        in_pool = everywhere.get(int(pool[lost]))
        if in_pool is None or in_pool[0].tolist() == [lost]:
            continue  # nobody else may take its replicas
        fullest, total = by_rack.get((int(pool[lost]), problem.racks[lost]), in_pool)
        if fullest.tolist() == [lost]:
            fullest, total = in_pool
        at = int(fullest[fullest != lost][0])
        filled = held[lost] / (total - own)
        if worst is None or fullness[at] + filled > worst[0]:
            worst = float(fullness[at] + filled), lost, at, filled
    if worst is None:
        return None
    _, lost, at, filled = worst
    bytes_then = round(float(used[at] + filled * capacity[at]))
    return DiskAfterLoss(int(problem.brokers[lost]), int(problem.brokers[at]), bytes_then, int(capacity[at]))
