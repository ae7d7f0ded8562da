"""Loads: the weight of each replica and leader, the sums on brokers, and each broker's share by capacity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_rebalance.model.metrics import Metric
from kafka_rebalance.planning.problem.arrays import Floats, Ints, Problem, replication

METRICS = tuple(Metric)
REPLICAS, DISK, BYTES_IN, LEADERS, _ = range(len(METRICS))
REPLICA_METRICS = METRICS[:LEADERS]  # loads of replicas: a move copies bytes
LEADER_METRICS = METRICS[LEADERS:]  # loads of leaders: a new order of a list, or an election, copies nothing


def replica_weights(problem: Problem) -> Floats:
    """[partition row, REPLICA_METRICS] The weight of one replica: 1, bytes, bytes a second (0 where unknown)."""
    rows = len(problem.size_bytes)
    bytes_in = problem.bytes_in if problem.bytes_in is not None else np.zeros(rows)
    lasting = problem.size_bytes if problem.lasting_bytes is None else problem.lasting_bytes
    return np.stack([np.ones(rows), lasting.astype(np.float64), bytes_in], axis=1)


def leader_weights(problem: Problem, replicas: Ints) -> Floats:
    """[partition row, LEADER_METRICS] The weight of leading: 1, and bytes a second to followers and consumers."""
    rows = len(problem.size_bytes)
    out = problem.bytes_out.copy() if problem.bytes_out is not None else np.zeros(rows)
    if problem.bytes_in is not None:
        out += (replication(replicas) - 1) * problem.bytes_in
    return np.stack([np.ones(rows), out], axis=1)


def replica_loads(replicas: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, resource] The summed weights of the replicas on each broker."""
    rows = np.nonzero(replicas >= 0)[0]
    held = replicas[replicas >= 0]
    return np.stack([np.bincount(held, weights[rows, k], brokers) for k in range(weights.shape[1])], axis=1)


def leader_loads(leaders: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, resource] The summed weights of the partitions that each broker leads. `leaders` is [partition row]."""
    return np.stack([np.bincount(leaders, weights[:, k], brokers) for k in range(weights.shape[1])], axis=1)


def bytes_out(problem: Problem, replicas: Ints, leaders: Ints) -> Floats | None:
    """[broker] Bytes a second that leave it; None if bytes in are unknown. `leaders` is [partition row].

    If it is unknown what consumers read, they count as one reader of all that is written, as for the throttle `auto`
    (`execution.throttle.auto_rate.traffic`). The planner's own metric leaves them out then.
    """
    sent = sent_bytes(problem, replicas)
    return None if sent is None else leader_loads(leaders, sent[:, None], len(problem.brokers))[:, 0]


def sent_bytes(problem: Problem, replicas: Ints) -> Floats | None:
    """[partition row] Bytes a second that its leader sends, as `bytes_out` counts them; None likewise."""
    if problem.bytes_in is None:
        return None
    read = problem.bytes_in if problem.bytes_out is None else problem.bytes_out
    sent: Floats = (replication(replicas) - 1) * problem.bytes_in + read
    return sent


def loads_now(problem: Problem) -> Floats:
    """[broker, METRICS] Every load now, with today's leaders, in its own unit."""
    return all_loads(problem, problem.replicas, problem.leader)


def all_loads(problem: Problem, replicas: Ints, leaders: Ints) -> Floats:
    """[broker, METRICS] Every load, in its own unit. `leaders` is [partition row], broker indices."""
    brokers = len(problem.brokers)
    held = replica_loads(replicas, replica_weights(problem), brokers)
    return np.hstack([held, leader_loads(leaders, leader_weights(problem, replicas), brokers)])


def totals(problem: Problem, loads: Floats) -> Floats:
    """[metric] The loads of all brokers together; with pools [broker, metric], of all brokers of its pool."""
    if problem.pools is None:
        return np.asarray(loads.sum(axis=0))
    of_broker = problem.pools.of_broker
    return np.stack([np.bincount(of_broker, column)[of_broker] for column in loads.T], axis=1).astype(np.float64)


def known_metrics(problem: Problem) -> tuple[str, ...]:
    """The metrics for which this snapshot has figures."""
    comes_in, goes_out = problem.bytes_in is not None, problem.bytes_out is not None
    is_known = (True, True, comes_in, True, comes_in or goes_out)
    return tuple(metric.value for metric, known in zip(METRICS, is_known, strict=True) if known)


def known_of_all(problem: Problem, capacity: Floats) -> Floats | None:
    """[broker] The capacity, or None unless it is known for every broker that stays: shares need all of them."""
    return None if np.isnan(capacity[problem.staying]).any() else capacity


def shares(problem: Problem) -> Floats:
    """[broker, METRICS] The share of the whole that each staying broker should carry; columns sum to 1.

    With pools it is the share of what the broker's pool carries (`totals`), and columns sum to 1 in each pool.

    Shares go by capacity if it is known for every broker that stays; else they are equal. Replicas go by the disk and
    leaders by the network: equal counts on unequal brokers would contradict the other resources. If the network is
    unknown, leaders are equal even on unequal disks, because a broker with a larger disk need not send faster.
    """
    if problem.pools is not None:
        of_broker = problem.pools.of_broker
        alone = (replace(problem, pools=None, foreign=of_broker != number) for number in np.unique(of_broker))
        return sum((shares(pool) for pool in alone if pool.staying.any()), np.zeros((len(of_broker), len(METRICS))))
    stays = problem.staying.astype(np.float64)
    disk, received, sent = (known_of_all(problem, one) for one in (problem.disk_capacity, *problem.networks.T))
    by_metric = (disk, disk, received, sent, sent)
    columns = [stays if capacity is None else np.where(problem.staying, capacity, 0.0) for capacity in by_metric]
    return np.stack([column / column.sum() for column in columns], axis=1)
