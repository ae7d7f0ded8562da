"""How even a cluster is, what is wrong with it, and what no move can mend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_rebalance.documents.proposals import (
    BrokerShare,
    Diagnosis,
    FirstFull,
    FullestDisk,
    FurtherBrokers,
    Leaving,
    Off,
    Score,
    Strays,
)
from kafka_rebalance.documents.snapshot import FullestLogDir
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    LEADERS,
    METRICS,
    REPLICAS,
    Bools,
    Floats,
    Problem,
    all_loads,
    known_metrics,
    leader_weights,
    loads_now,
    replica_weights,
    replication,
    shares,
    totals,
    widened,
)
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules.disk_limits import sized_disks, used_bytes
from kafka_rebalance.planning.rules.rack_rule import broken_now, rack_rule

# How balanced an assignment is, and how balanced a cluster ends when not all of a plan is done.


def ratios(problem: Problem, loads: Floats, shares: Floats) -> Floats:
    """[broker, metric] Load over the share of the whole that the broker should carry; 1 where there is no load.

    With pools, the whole is what all brokers of its pool carry. A broker without a share has no finite multiple, except
    of leaders with `leader_racks`.
    """
    mean = shares * totals(problem, loads)
    none = np.where(loads > 0, np.inf, 1.0)
    if problem.settings.leader_racks:  # a leader outside them is too much, and counts against what a broker inside has
        usual = mean[:, LEADERS:].sum(axis=0) / np.maximum(1, (mean[:, LEADERS:] > 0).sum(axis=0))
        none[:, LEADERS:] = 1 + loads[:, LEADERS:] / np.maximum(usual, 1e-300)
    relative: Floats = np.divide(loads, mean, out=none, where=mean > 0)
    return relative


def scores(problem: Problem, loads: Floats, shares: Floats) -> dict[str, Score]:
    """The scores of every metric that is known, in the order of METRICS."""
    known = known_metrics(problem)
    relative = ratios(problem, loads, shares)[problem.staying]
    return {
        metric: Score(
            round(float(relative[:, k].max()), 6),
            round(float(relative[:, k].min()), 6),
            round(_spread(relative[:, k]), 6),
        )
        for k, metric in enumerate(METRICS)
        if metric in known
    }


def _spread(relative: Floats) -> float:
    """The standard deviation; infinite if a broker has a load and no share, which alone would give no number."""
    return float(relative.std()) if np.isfinite(relative).all() else np.inf


def scores_now(problem: Problem) -> dict[str, Score]:
    """The scores of the cluster as it is."""
    return scores(problem, loads_now(problem), shares(problem))


def scores_with(problem: Problem, lists: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Score]:
    """The scores once these partitions have these replicas and preferred leaders; every other one as in the snapshot.

    A partition or broker that the snapshot does not have has no load that could be counted: such a list is left as it
    was there.
    """
    index = {int(broker): number for number, broker in enumerate(problem.brokers)}
    known = {tp: replicas for tp, replicas in lists.items() if replicas and all(broker in index for broker in replicas)}
    if not known:
        return scores_now(problem)
    after = widened(problem.replicas, max(map(len, known.values()))).copy()
    leaders = problem.leader.copy()
    topics = {topic: number for number, topic in enumerate(problem.topics)}
    for tp, replicas in known.items():
        if tp.topic not in topics:
            continue
        rows = np.flatnonzero((problem.topic == topics[tp.topic]) & (problem.partition == tp.partition))
        after[rows] = -1
        after[rows, : len(replicas)] = [index[broker] for broker in replicas]
        leaders[rows] = index[replicas[0]]
    return scores(problem, all_loads(problem, after, leaders), shares(problem))


def outside_band(
    loads: Floats, targets: Floats, heaviest: Floats, own: Floats, tolerance: float, evened: Bools
) -> Bools:
    """[broker, resource] Whether a load lies outside the tolerance, and by more than moving one replica could mend.

    `heaviest` is [resource], the heaviest single replica or leader: with few or huge partitions no plan is finer.
    `own` is [broker, resource], the heaviest that the broker itself holds. Without it the broker may be below its
    target, however far above it is now: so it is with fewer partitions than brokers, and with giants.
    """
    slack = np.maximum(targets * tolerance, np.minimum(heaviest, targets.max(axis=0, initial=0.0)))
    above = np.maximum(slack, own)
    # The search stops a hair outside: 1/10,000 of the target is no imbalance.
    apart, fine = loads - targets, 1e-4 * targets
    off: Bools = (-apart > slack + fine) | (apart > above + fine)
    return off & evened[:, None]


# What is wrong with the cluster as the snapshot found it, and where it is heading: why a plan is proposed.


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
    capacity, growth = problem.disk_capacity, problem.rates.growth_bytes_per_day
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


# How many further brokers the cluster needs, so that disks keep their headroom while partitions go on growing.


DAYS = (30, 90, 180)


def further_brokers(problem: Problem) -> FurtherBrokers | None:
    """By the growth of each partition, in a straight line. None if nobody knows it, or the size of a disk that stays.

    None with pools, too: `further_brokers_of_pools` tells each.

    Disks count as evenly used. If most bytes have a replica in every rack, each rack needs its own brokers. A new
    broker has the median disk.
    """
    return None if problem.pools.are_several else next(iter(_further_brokers(problem)), None)


def further_brokers_of_pools(problem: Problem) -> tuple[FurtherBrokers, ...]:
    """The same for each pool that has partitions, as if its strays lay in it already; without pools none."""
    return _further_brokers(problem) if problem.pools.are_several else ()


def _further_brokers(problem: Problem) -> tuple[FurtherBrokers, ...]:
    """Of each pool. What brokers that leave hold has to lie somewhere: in the same rack, or anywhere."""
    used = used_bytes(problem) - _of_strays(problem)
    found = []
    for part in parts_of(problem):
        own = problem.registered & ~part.problem.pools.foreign
        needed = _needed(part.problem, float(used[own].sum() + _of_strays(part.problem).sum()))
        found += [replace(needed, pool=part.name or None)] if needed is not None else []
    return tuple(found)


def _of_strays(problem: Problem) -> Floats:
    """[broker] The bytes of the replicas on it that are outside their pool."""
    there = strays(problem, problem.replicas)
    sizes = problem.size_bytes[np.nonzero(there)[0]].astype(np.float64)
    return np.bincount(problem.replicas[there], sizes, len(problem.brokers)).astype(np.float64)


def _needed(problem: Problem, used: float) -> FurtherBrokers | None:
    growth, stays = problem.rates.growth_bytes_per_day, problem.staying
    if not stays.any() or not sized_disks(problem)[stays].all():
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


# Partitions that alone are more than any broker's share: no move of replicas can mend that.


@dataclass(frozen=True, slots=True)
class HotSpot:
    """One partition of which a single replica, or its leader, is this multiple of the largest broker's share."""

    topic: str
    partition: int
    share: float


def hot_spots(problem: Problem, metrics: Sequence[str], limit: float) -> Mapping[str, tuple[HotSpot, ...]]:
    """By metric, the partitions above the largest share by more than the limit, the largest first.

    With pools these are those of each pool.
    """
    found = [_hot_spots(part.problem, metrics, limit) for part in parts_of(problem)]
    return {metric: tuple(spot for own in found for spot in own[metric]) for metric in metrics}


def _hot_spots(problem: Problem, metrics: Sequence[str], limit: float) -> Mapping[str, tuple[HotSpot, ...]]:
    weights = np.hstack([replica_weights(problem), leader_weights(problem, problem.replicas)])
    largest = (shares(problem) * loads_now(problem).sum(axis=0)).max(axis=0)
    return {
        metric: _above(problem, weights[:, k], float(largest[k]), limit)
        for metric in metrics
        for k in (METRICS.index(metric),)
    }


def _above(problem: Problem, weight: Floats, largest: float, limit: float) -> tuple[HotSpot, ...]:
    rows = np.flatnonzero(weight > (1 + limit) * largest)
    return tuple(
        HotSpot(problem.topics[problem.topic[row]], int(problem.partition[row]), round(float(weight[row] / largest), 2))
        for row in rows[np.argsort(-weight[rows], kind="stable")].tolist()
    )
