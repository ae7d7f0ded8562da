"""Brokers for new partitions, of a topic that is created or expanded.

First, every broker gets its number of new replicas: the topic's replicas are as even as racks and disks allow, and
among brokers with equally many of them, the one with the smallest loads comes first. Then the partitions get their
replicas from these numbers, and every partition gets its leader.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    Floats,
    Ints,
    Problem,
    leader_loads,
    leader_weights,
    replica_loads,
    replica_weights,
    shares,
)
from kafka_rebalance.planning.problem.pools import part_for
from kafka_rebalance.planning.rules.disk_limits import disk_limits_meanwhile
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule

_NOTHING = "Nothing was planned."


def place_partitions(
    problem: Problem,
    topic: str,
    partitions: Sequence[int],
    replication_factor: int,
    *,
    size_bytes: int = 0,
    bytes_in_per_second: float = 0.0,
) -> dict[int, tuple[int, ...]]:
    """The brokers of each new partition, preferred leader first. The topic may exist already.

    `size_bytes` is the expected size of one replica, `bytes_in_per_second` the expected rate of one partition. Brokers
    that leave, are not registered, in `brokers_out` or outside the topic's pool get nothing, nor do those to which
    Kafka gives nothing. The lists keep the rack rule (`rules.rack_rule`). Raises PlanningError, with figures, if there
    is no such placement.
    """
    problem = part_for(problem, topic)
    rule = rack_rule(problem, replication_factor)
    number = problem.topics.index(topic) if topic in problem.topics else -1
    of_topic = np.flatnonzero(problem.topic == number)
    _check_partitions(topic, partitions, problem.partition[of_topic].tolist())
    _check_racks(problem, rule, topic, replication_factor)
    existing = problem.replicas[of_topic]
    of_topic_now = np.bincount(existing[existing >= 0], minlength=len(problem.brokers))
    weight = np.array([1.0, size_bytes, bytes_in_per_second])
    loads = replica_loads(problem.replicas, replica_weights(problem), len(problem.brokers))
    share, count = shares(problem), len(partitions)
    fullness = _Fullness(loads, weight, share[:, : len(weight)], count * replication_factor)
    room = np.minimum(_room(problem, loads[:, DISK], size_bytes), count)
    quota = _quotas(rule, room, of_topic_now, fullness, count, replication_factor)
    if quota is None:
        raise PlanningError(_does_not_fit(problem, rule, room, topic, count, replication_factor, size_bytes))
    lists = _dealt(quota, rule, count, replication_factor, _pairs(existing, len(problem.brokers)))
    led = np.bincount(existing[:, 0], minlength=len(problem.brokers)) if len(existing) else np.zeros_like(of_topic_now)
    leading = leader_loads(problem.replicas[:, 0], leader_weights(problem, problem.replicas), len(problem.brokers))
    leader_weight = np.array([1.0, (replication_factor - 1) * bytes_in_per_second])
    _order(lists, led, _Fullness(leading, leader_weight, share[:, len(weight) :], count))
    ids = problem.brokers.tolist()
    return {
        number: tuple(ids[broker] for broker in replicas)
        for number, replicas in zip(sorted(partitions), lists, strict=True)
    }


class _Fullness:
    """How full brokers are while they receive replicas: the squares of their loads over their shares."""

    def __init__(self, loads: Floats, weight: Floats, share: Floats, given: int) -> None:
        """`loads` and `share` are [broker, resource]. `given` replicas in all have `weight` [resource] each."""
        target = share * (loads.sum(axis=0) + given * weight)
        self.loads = np.divide(loads, target, out=np.zeros(loads.shape), where=target > 0)
        self.weight = np.divide(weight, target, out=np.zeros(loads.shape), where=target > 0)

    def of(self, broker: int) -> float:
        """With one more replica than the broker has now."""
        after = self.loads[broker] + self.weight[broker]
        return float(after @ after)

    def add(self, broker: int) -> None:
        self.loads[broker] += self.weight[broker]


def _check_partitions(topic: str, partitions: Sequence[int], existing: Collection[int]) -> None:
    wrong = {*existing} & {*partitions} or {number for number, times in Counter(partitions).items() if times > 1}
    if wrong or not partitions:
        what = f"partition {min(wrong)} already exists, or is named twice" if wrong else "no partition is named"
        raise PlanningError(f"Topic {topic!r}: {what}. {_NOTHING} Name each new partition once.")


def _check_racks(problem: Problem, rule: RackRule, topic: str, replication_factor: int) -> None:
    """Raises PlanningError unless there are enough brokers, in enough racks, for one partition."""
    open_brokers = int(problem.receivers.sum())
    if not 1 <= replication_factor <= open_brokers:
        raise PlanningError(
            f"Topic {topic!r}: replication factor {replication_factor} needs as many brokers that may receive "
            f"replicas, but only {open_brokers} of {len(problem.brokers)} may. {_NOTHING} Lower the replication factor."
        )
    reached = len(np.unique(rule.domain[problem.receivers]))
    wanted = min(replication_factor, rule.racks)
    if rule.known and reached < wanted:
        raise PlanningError(
            f"Topic {topic!r}: {replication_factor} replicas must lie on {wanted} of the {rule.racks} racks, but the "
            f"{open_brokers} brokers that may receive replicas are in {reached}. {_NOTHING} Keep a broker open in each "
            "rack, or lower the replication factor."
        )


def _room(problem: Problem, held_bytes: Floats, size_bytes: int) -> Ints:
    """[broker] How many of the new replicas its disk takes below the headroom; 0 if it may receive nothing."""
    room = np.full(len(problem.brokers), np.iinfo(np.int64).max)
    free = disk_limits_meanwhile(problem) - np.fmax(held_bytes, problem.disk_used)
    known = np.isfinite(free)
    room[known & (free < 0)] = 0
    if size_bytes:
        room[known] = (free[known] // size_bytes).astype(np.int64)
        dirs = problem.log_dirs
        several = dirs.count > 0  # each gets as many new replicas as the others, so the fullest limits them all
        room[several] = np.minimum(room, dirs.count * (np.where(several, dirs.room, 0.0) // size_bytes))[several]
    return np.where(problem.receivers, np.maximum(room, 0), 0)


def _quotas(
    rule: RackRule, room: Ints, held: Ints, fullness: _Fullness, partitions: int, replication_factor: int
) -> Ints | None:
    """[broker] How many new replicas each broker gets, or None if they do not fit.

    The partitions can take the replicas of a rack if it has at most one for each of them. If a partition has more
    replicas than there are racks, they can take them if the rack has for each what the rack rule asks for, and no more
    than it allows (see `_dealt`).
    """
    quota = np.zeros_like(room)
    of_rack = dict.fromkeys(rule.domain[room > 0].tolist(), 0)
    crowded = replication_factor > len(of_rack)
    each = np.array([replication_factor])

    def fill(brokers: Ints, replicas: int) -> bool:
        """Gives each replica to the broker with the fewest of the topic. Returns whether all found room."""
        queue = [(int(held[b] + quota[b]), fullness.of(b), b) for b in brokers.tolist() if room[b] > quota[b]]
        heapq.heapify(queue)
        while replicas and queue:
            of_topic, _, broker = heapq.heappop(queue)
            rack = int(rule.domain[broker])
            if of_rack[rack] == partitions * (int(rule.most(each, rack)[0]) if crowded else 1):
                continue
            quota[broker] += 1
            of_rack[rack] += 1
            replicas -= 1
            fullness.add(broker)
            if room[broker] > quota[broker]:
                heapq.heappush(queue, (of_topic + 1, fullness.of(broker), broker))
        return not replicas

    if crowded:
        if len(of_rack) < rule.racks:
            return None
        least = {rack: partitions * int(rule.least(each, rack)[0]) for rack in of_rack}
        if not all(fill(np.flatnonzero(rule.domain == rack), least[rack]) for rack in of_rack):
            return None
    rest = partitions * replication_factor - int(quota.sum())
    return quota if fill(np.arange(len(room)), rest) else None


def _pairs(replicas: Ints, brokers: int) -> Ints:
    """[broker, broker] How many of the lists name both."""
    pairs = np.zeros((brokers, brokers), dtype=np.int64)
    for column in range(replicas.shape[1]):
        for other in range(replicas.shape[1]):
            both = (replicas[:, column] >= 0) & (replicas[:, other] >= 0) & (column != other)
            np.add.at(pairs, (replicas[both, column], replicas[both, other]), 1)
    return pairs


def _dealt(quota: Ints, rule: RackRule, partitions: int, replication_factor: int, pairs: Ints) -> list[list[int]]:
    """A list of distinct brokers for every partition, so that each broker is in as many lists as its quota.

    It combines brokers that share few partitions of the topic (`pairs`), so that others share the load of one that
    fails. With `left` partitions to go, a broker or rack with one replica left for each of them must be in this one.
    None may keep so many that the last partitions could not take them. Then every choice works out.
    """
    rest = quota.copy()
    racks, domain = np.unique(rule.domain, return_inverse=True)
    crowded = replication_factor > len(np.unique(domain[quota > 0]))
    each = np.array([replication_factor])
    least_of_rack, most_of_rack = (
        np.array([limit(each, max(0, rack))[0] for rack in racks]) for limit in (rule.least, rule.most)
    )
    lists = []
    for to_go in range(partitions, 0, -1):
        of_rack = np.bincount(domain, rest)
        # So many that the partitions after this one can take the rest. Only even racks limit what one may take.
        forced = of_rack - most_of_rack * (to_go - 1) if rule.even is not None else 0
        least = np.where(of_rack > 0, np.maximum(least_of_rack, forced), 0) if crowded else of_rack == to_go
        most = np.minimum(most_of_rack, of_rack - least_of_rack * (to_go - 1)) if crowded else np.ones_like(of_rack)
        chosen = np.flatnonzero(rest == to_go).tolist()
        while len(chosen) < replication_factor:
            taken = np.bincount(domain[chosen], minlength=len(of_rack))
            possible = (rest > 0) & (taken < most)[domain]
            possible[chosen] = False
            owed = possible & (taken < least)[domain]
            among = np.flatnonzero(owed if owed.any() else possible)
            shared = pairs[chosen][:, among].sum(axis=0)
            chosen.append(int(among[np.lexsort((-rest[among], shared))[0]]))
        rest[chosen] -= 1
        pairs[np.ix_(chosen, chosen)] += 1
        lists.append(chosen)
    return lists


def _order(lists: list[list[int]], led: Ints, fullness: _Fullness) -> None:
    """Orders each list: leaders as even over the topic as the lists allow, then by load, and followers in turn.

    `led` is [broker], how many partitions of the topic the broker already leads.
    """
    for replicas in lists:
        replicas.sort(key=lambda broker: (led[broker], fullness.of(broker), broker))
        led[replicas[0]] += 1
        fullness.add(replicas[0])
    _even_leaders(lists, led)
    places = np.zeros(
        (len(led), max(map(len, lists))), dtype=np.int64
    )  # [broker, position] how often the broker is there
    for replicas in lists:
        for position in range(1, len(replicas)):
            best = min(range(position, len(replicas)), key=lambda k: (places[replicas[k], position], replicas[k]))
            replicas[position], replicas[best] = replicas[best], replicas[position]
            places[replicas[position], position] += 1


def _even_leaders(lists: list[list[int]], led: Ints) -> None:
    """Passes leadership on, list by list, from the broker that leads most to one that leads at least two fewer.

    If there is no such path, nothing is more even (Harvey, Ladner, Lovász, Tamir: Semi-matchings for bipartite graphs,
    2006). Brokers that a failed search reached lead too many to end any later path.
    """
    led_by: dict[int, set[int]] = defaultdict(set)  # {leader: lists}
    for number, replicas in enumerate(lists):
        led_by[replicas[0]].add(number)
    waiting = set(led_by)
    done: set[int] = set()
    while waiting:
        start = max(waiting, key=lambda broker: (led[broker], -broker))
        reached, end = _reached(lists, led, led_by, start, done)
        if end is None:
            done |= reached.keys()
            waiting -= done
            continue
        while end != start:
            number, leader = reached[end]
            replicas = lists[number]
            position = replicas.index(end)
            replicas[0], replicas[position] = end, leader
            led_by[leader].remove(number)
            led_by[end].add(number)
            waiting.add(end)
            led[leader] -= 1
            led[end] += 1
            end = leader


def _reached(
    lists: list[list[int]], led: Ints, led_by: Mapping[int, set[int]], start: int, done: Collection[int]
) -> tuple[dict[int, tuple[int, int]], int | None]:
    """({broker: the list that reached it, and that list's leader}, the first broker that leads two fewer)."""
    reached = {start: (-1, start)}
    queue = deque([start])
    while queue:
        leader = queue.popleft()
        for number in sorted(led_by[leader]):
            for broker in lists[number]:
                if broker in reached or broker in done:
                    continue
                reached[broker] = (number, leader)
                if led[broker] <= led[start] - 2:
                    return reached, broker
                queue.append(broker)
    return reached, None


def _does_not_fit(
    problem: Problem, rule: RackRule, room: Ints, topic: str, partitions: int, replication_factor: int, size_bytes: int
) -> str:
    """That the disks have no room for all of the replicas, and where they have some."""
    if rule.known:
        open_racks = {
            rack for rack, receives in zip(problem.racks, problem.receivers, strict=True) if receives and rack
        }
        where = [
            f"rack {rack} takes {int(room[[r == rack for r in problem.racks]].sum()):,}" for rack in sorted(open_racks)
        ]
    else:
        where = [f"the {int(problem.receivers.sum())} brokers that may receive replicas take {int(room.sum()):,}"]
    return (
        f"Topic {topic!r}: {partitions:,} new partitions with {replication_factor} replicas of {size_bytes:,} bytes do "
        f"not fit the disks with {share_in_words(problem.settings.disk_headroom)} kept free. No broker may hold a "
        f"partition twice, and {', '.join(where)} replicas. {_NOTHING} Add disks or brokers, or ask for fewer "
        "partitions or replicas."
    )
