"""What a plan risks: the loss of a broker or a rack, and full log dirs, while it runs and afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_rebalance.documents.proposals import (
    AfterLoss,
    BrokerLoss,
    Course,
    DiskAfterLoss,
    Loss,
    NetworkAfterLoss,
    WorstCase,
)
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Floats,
    Ints,
    Problem,
    known_of_all,
    lagging,
    leader_loads,
    replica_loads,
    replication,
    sent_bytes,
    shares,
    totals,
    widened,
)
from kafka_rebalance.planning.rules.disk_limits import used_bytes

# The effect of losing one broker on the network and the disks of the others, before a plan and after it.
#
# The next replica in sync leads what the lost broker led: the first of the list that is alive and in the ISR (Kafka,
# PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection). Then people copy the lost replicas anew: to the
# rest of the rack, each broker by its capacity. If the broker has no rack, or no other is in it, all others share
# them. So every leader has as many followers as before. With pools, the others are those of its pool.


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
    fair = shares(problem)[:, -1] * totals(problem, base[:, None])[:, 0]
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
    pool = problem.pools.of_broker
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


# The effect of losing one broker or one rack while a plan runs, and afterwards.
#
# Between two batches, each partition that has moved is in sync on its new replicas. While a batch runs, its partitions
# are in sync on the old replicas. New replicas count after the batch: the controller removes old replicas only when
# all new ones are in the ISR (KafkaController.onPartitionReassignment). So the state in a batch is the state before
# it. Partitions that do not move keep the ISR of the snapshot.


TOPICS_NAMED = 3


def worst_case(problem: Problem, replicas: Ints, batch: Ints) -> WorstCase:
    """The worst single losses. `replicas` are the lists after; `batch` is [partition row], 0: it does not move."""
    least, moved, lost_anyway = problem.min_insync, batch > 0, len(problem.brokers)
    known = least > 0

    def exposed(lists: Ints, rows: Bools) -> Ints:
        """[row, position] Brokers whose loss the partition does not survive, or one `lost_anyway`; -1: none."""
        counts = replication(lists)
        found = np.where((rows & (counts == least))[:, None], lists, -1)
        found[rows & (counts < least), 0] = lost_anyway
        return found

    in_sync_before, after = np.where(problem.in_sync, problem.replicas, -1), np.where(moved[:, None], replicas, -1)
    by_broker = exposed(in_sync_before, known), exposed(after, known & moved)
    under_before, under_after = (lists[:, 0] == lost_anyway for lists in by_broker)
    racks = sorted({rack for rack, here in zip(problem.racks, problem.registered, strict=True) if here and rack})
    number = {rack: index for index, rack in enumerate(racks)}
    rack_of = np.array([number.get(rack, -1) if rack else -1 for rack in problem.racks], dtype=np.int64)
    by_rack = _only_rack(rack_of, in_sync_before), _only_rack(rack_of, after)
    return WorstCase(
        _worst(problem, *by_broker, problem.brokers.tolist(), batch) if known.any() else None,
        _worst(problem, *by_rack, racks, batch) if len(racks) > 1 else None,
        int((~known).sum()),
        int(under_before.sum()),
        int(np.where(moved, under_after, under_before).sum()),
    )


def _only_rack(rack_of: Ints, lists: Ints) -> Ints:
    """[row, 1] The rack of all replicas of a list; -1: there are several racks, or it is unknown."""
    racks = np.where(lists >= 0, rack_of[lists], -2)  # -2: past the end
    first = racks[np.arange(len(racks)), (lists >= 0).argmax(axis=1)] if racks.size else np.empty(0, dtype=np.int64)
    same = ((racks == first[:, None]) | (racks == -2)).all(axis=1) & (first >= 0)
    return np.where(same, first, -1)[:, None]


def _worst(problem: Problem, before: Ints, after: Ints, names: Sequence[int | str], batch: Ints) -> Course:
    """`before` and `after` are [row, position], the losses that the partition does not survive.

    They are indices of `names`, the brokers or racks; -1: none. The number of names means that it is lost with any of
    them, so that fewer replicas never look better. State k is after k batches, while batch k + 1 runs.
    """
    width = max(before.shape[1], after.shape[1])
    before, after = widened(before, width), widened(after, width)
    states, columns, moved = int(batch.max(initial=0)) + 1, len(names) + 1, np.flatnonzero(batch > 0)
    change = np.zeros(states * columns, dtype=np.int64)
    change[:columns] = np.bincount(before[before >= 0], minlength=columns)
    for lists, sign in ((before[moved], -1), (after[moved], 1)):
        rows, positions = np.nonzero(lists >= 0)
        cells = batch[moved][rows] * columns + lists[rows, positions]
        change += sign * np.bincount(cells, minlength=len(change))
    hit = np.cumsum(change.reshape(states, columns), axis=0)
    hit = hit[:, :-1] + hit[:, -1:]
    most = hit.max(axis=1)

    def loss(state: int, number: int) -> Loss:
        lost = int(hit[state].argmax())
        yet = (batch > state) | (batch == 0)
        held = np.where(yet[:, None], before, after)
        rows = np.flatnonzero(((held == lost) | (held == len(names))).any(axis=1))
        topics, counts = np.unique(problem.topic[rows], return_counts=True)
        first = sorted(range(len(topics)), key=lambda at: (-counts[at], topics[at]))[:TOPICS_NAMED]
        named = tuple(problem.topics[topics[at]] for at in first)
        return Loss(number, names[lost], int(most[state]), named, len(topics))

    worst = int(most[:-1].argmax()) if states > 1 else 0
    return Course(loss(0, 0), loss(worst, worst + 1) if states > 1 else None, loss(states - 1, 0))
