"""Scores an assignment from the tables alone, without any code of the planner.

So a mistake of the planner in its own loads, bytes or batches shows as a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

METRICS = ("replicas", "disk", "bytes_in", "leaders", "leader_bytes_out")
NOWHERE = -1  # past the end of a list
UNKNOWN = -2  # a broker that is not in the table


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A snapshot. Brokers and topics are indices; the order of rows is the table's."""

    brokers: dict[int, int]  # {id: index}
    racks: Ints  # [broker]
    staying: Bools  # [broker] True unless the broker is drained
    capacity: dict[str, Floats]  # {metric: [broker] capacity, to which the broker's share is proportional}
    rows: dict[tuple[str, int], int]  # {(topic, partition): row}
    topic: Ints  # [row]
    replicas: Ints  # [row, position]
    size_bytes: Floats  # [row]
    bytes_in: Floats
    bytes_out: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """One candidate of the table `moves`, by row."""

    keys: Sequence[tuple[str, int]]
    before: Sequence[Sequence[int]]  # broker ids
    after: Sequence[Sequence[int]]
    batch: Sequence[int]


@dataclass(frozen=True, slots=True)
class Spread:
    """One metric over the brokers that stay, relative to the share that racks and capacities allow."""

    most: float
    least: float
    cv: float
    grain: float  # the largest partition over the smallest share: no plan can be finer


@dataclass(frozen=True, slots=True)
class Score:
    """The score of an assignment, and of the moves to it from the snapshot."""

    spreads: Mapping[str, Spread]  # by METRICS
    rack_violations: int  # replicas in a rack that has one of the same partition
    invalid_lists: int  # lists with a broker twice, unknown, or of another length than before
    left_on_drained: int  # replicas
    crowding: float  # share of replicas above ceil(topic's replicas / brokers) + 1 of one topic on one broker
    excess_leaders: int  # first replicas above ceil(topic's share of the broker), of partitions with several replicas
    moved_bytes: int
    leader_changes: int

    @property
    def violations(self) -> int:
        """The number of findings that no plan may have."""
        return self.rack_violations + self.invalid_lists + self.left_on_drained


def read_cluster(folder: Path) -> Cluster:
    """The two tables of a snapshot."""
    brokers, partitions = (pq.read_table(folder / f"{name}.parquet").to_pydict() for name in ("brokers", "partitions"))
    index = {broker: number for number, broker in enumerate(brokers["broker"])}
    keys = list(zip(partitions["topic"], partitions["partition"], strict=True))
    disk = np.array(brokers["disk_capacity_bytes"], dtype=np.float64)
    received, sent = (np.array(brokers[f"nic_{way}_bytes_per_second"], dtype=np.float64) for way in ("in", "out"))
    return Cluster(
        brokers=index,
        racks=np.unique(brokers["rack"], return_inverse=True)[1],
        staying=np.array([state != "drain" for state in brokers["state"]]),
        capacity=dict(zip(METRICS, (disk, disk, received, sent, sent), strict=True)),
        rows={key: row for row, key in enumerate(keys)},
        topic=np.unique(partitions["topic"], return_inverse=True)[1],
        replicas=_lists(partitions["replicas"], index),
        size_bytes=np.array(partitions["size_bytes"], dtype=np.float64),
        bytes_in=np.array(partitions["bytes_in_per_second"], dtype=np.float64),
        bytes_out=np.array(partitions["bytes_out_per_second"], dtype=np.float64),
    )


def read_moves(out: Path, candidate: str) -> Moves:
    """The moves that the planner wrote for one candidate."""
    columns = ["candidate", "topic", "partition", "before", "after", "batch"]
    rows = [row for row in pq.read_table(out / "moves", columns=columns).to_pylist() if row["candidate"] == candidate]
    return Moves(
        [(row["topic"], row["partition"]) for row in rows],
        [row["before"] for row in rows],
        [row["after"] for row in rows],
        [row["batch"] for row in rows],
    )


def _lists(lists: Sequence[Sequence[int]], index: Mapping[int, int]) -> Ints:
    """[row, position] Lists of ids as indices."""
    found = np.full((len(lists), max(map(len, lists), default=1)), NOWHERE)
    for row, ids in enumerate(lists):
        found[row, : len(ids)] = [index.get(broker, UNKNOWN) for broker in ids]
    return found


def moved(cluster: Cluster, moves: Moves) -> Ints:
    """[row, position] The lists after all moves. Raises ValueError if a move starts from another list."""
    after, before = _lists(moves.after, cluster.brokers), _lists(moves.before, cluster.brokers)
    width = max(after.shape[1], before.shape[1], cluster.replicas.shape[1])
    result, after, before = (
        np.pad(lists, ((0, 0), (0, width - lists.shape[1])), constant_values=NOWHERE)
        for lists in (cluster.replicas, after, before)
    )
    rows = [cluster.rows[key] for key in moves.keys]
    wrong = np.flatnonzero((result[rows] != before).any(axis=1))
    if len(wrong):
        topic, partition = moves.keys[int(wrong[0])]
        raise ValueError(f"The move of {topic}-{partition} starts from a list that the snapshot does not have.")
    result[rows] = after
    return result


def score(cluster: Cluster, replicas: Ints) -> Score:
    """The score of these lists, [row, position] of broker indices, for the same partitions."""
    before = np.pad(
        cluster.replicas, ((0, 0), (0, replicas.shape[1] - cluster.replicas.shape[1])), constant_values=NOWHERE
    )
    sound = _distinct(replicas) & ~(replicas == UNKNOWN).any(axis=1)
    sound &= (replicas != NOWHERE).sum(axis=1) == (before != NOWHERE).sum(axis=1)
    held = replicas >= 0
    racks = np.where(held, cluster.racks[replicas], -1 - np.arange(replicas.shape[1]))
    ordered = np.sort(racks, axis=1)
    added = held & ~(replicas[:, :, None] == before[:, None, :]).any(axis=2)
    return Score(
        spreads=_spreads(cluster, replicas),
        rack_violations=int((ordered[:, 1:] == ordered[:, :-1]).sum()),
        invalid_lists=int((~sound).sum()),
        left_on_drained=int((~cluster.staying[replicas[held]]).sum()),
        crowding=_crowding(cluster, replicas),
        excess_leaders=_excess_leaders(cluster, replicas),
        moved_bytes=int(cluster.size_bytes[np.nonzero(added)[0]].sum()),
        leader_changes=int((replicas[:, 0] != before[:, 0]).sum()),
    )


def _distinct(replicas: Ints) -> Bools:
    """[row] Whether each broker is in the list at most once."""
    ordered = np.sort(np.where(replicas >= 0, replicas, -1 - np.arange(replicas.shape[1])), axis=1)
    distinct: Bools = (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
    return distinct


def weights(cluster: Cluster, replicas: Ints) -> dict[str, Floats]:
    """{metric: [row] load of one replica, or for leader metrics the load of leading}."""
    copies = (replicas != NOWHERE).sum(axis=1)
    ones = np.ones(len(replicas))
    sent = cluster.bytes_out + (copies - 1) * cluster.bytes_in  # to consumers and to followers
    return dict(zip(METRICS, (ones, cluster.size_bytes, cluster.bytes_in, ones, sent), strict=True))


def loads(cluster: Cluster, replicas: Ints) -> dict[str, Floats]:
    """{metric: [broker] load}"""
    found: dict[str, Floats] = {}
    for metric, weight in weights(cluster, replicas).items():
        lists = replicas[:, :1] if metric.startswith("leader") else replicas
        rows = np.nonzero(lists >= 0)[0]
        found[metric] = np.bincount(lists[lists >= 0], weight[rows], minlength=len(cluster.racks)).astype(float)
    return found


def _spreads(cluster: Cluster, replicas: Ints) -> dict[str, Spread]:
    stays, weighed, spreads = cluster.staying, weights(cluster, replicas), {}
    for metric, load in loads(cluster, replicas).items():
        share = reachable(cluster, metric)[stays]
        relative = load[stays] / share
        spreads[metric] = Spread(
            float(relative.max()),
            float(relative.min()),
            float(relative.std()),
            float(weighed[metric].max() / share.min()),
        )
    return spreads


def reachable(cluster: Cluster, metric: str) -> Floats:
    """[broker] The load in the most even assignment of the snapshot's replicas, if replicas could be cut into pieces.

    Loads are proportional to capacity, as far as racks allow. A partition with as many replicas as there are racks has
    one in each, and no partition has two in a rack. Any broker of a partition can lead it: racks do not bind leaders.
    """
    weight = weights(cluster, cluster.replicas)[metric]
    capacity = np.where(cluster.staying, cluster.capacity[metric], 0.0)
    if metric.startswith("leader"):
        even: Floats = weight.sum() * capacity / capacity.sum()
        return even
    copies = (cluster.replicas != NOWHERE).sum(axis=1)
    total = float((weight * copies).sum())
    by_rack = np.bincount(cluster.racks, capacity)
    racks = int((by_rack > 0).sum())
    must = float((weight * (copies >= racks)).sum())
    may = float((weight * np.maximum(1, copies - racks + 1)).sum())
    low, high = 0.0, total / by_rack[by_rack > 0].min()
    for _ in range(100):  # finds the level at which all racks together hold the total
        level = (low + high) / 2
        held = np.where(by_rack > 0, np.clip(level * by_rack, must, may), 0.0)
        low, high = (level, high) if held.sum() < total else (low, level)
    per_capacity = np.divide(held, by_rack, out=np.zeros_like(held), where=by_rack > 0)
    share: Floats = capacity * per_capacity[cluster.racks]
    return share


def _crowding(cluster: Cluster, replicas: Ints) -> float:
    rows, brokers = np.nonzero(replicas >= 0)[0], len(cluster.racks)
    pair, found = np.unique(cluster.topic[rows] * brokers + replicas[replicas >= 0], return_counts=True)
    even = np.ceil(np.bincount(cluster.topic[rows]) / cluster.staying.sum())
    return float(np.maximum(0, found - even[pair // brokers] - 1).sum() / len(rows))


def _excess_leaders(cluster: Cluster, replicas: Ints) -> int:
    """A broker that must be emptied should lead nothing; the others share a topic's leaders by capacity."""
    capacity = np.where(cluster.staying, cluster.capacity["leaders"], 0.0)
    share, several = capacity / capacity.sum(), (cluster.replicas != NOWHERE).sum(axis=1) > 1
    total = 0
    for topic in np.unique(cluster.topic[several]):
        led = np.bincount(replicas[several & (cluster.topic == topic), 0], minlength=len(share))
        total += int(np.maximum(0, led - np.ceil(led.sum() * share - 1e-9)).sum())
    return total


def simple_bound(cluster: Cluster, tolerance: float) -> int:
    """The least bytes of any plan whose disks end within `tolerance` of their reachable share.

    Bytes above that band must leave a broker, and bytes missing below it must come.
    """
    load, share = loads(cluster, cluster.replicas)["disk"], reachable(cluster, "disk")
    leaving = load[~cluster.staying].sum() + np.maximum(0, load - (1 + tolerance) * share)[cluster.staying].sum()
    return int(max(leaving, np.maximum(0, (1 - tolerance) * share - load).sum()))


def makespan_ratio(cluster: Cluster, moves: Moves) -> float:
    """The time of all batches one after the other, over the least time of any order of the copies; 1 without copies.

    A batch lasts as long as the bytes in or out of its busiest broker. All brokers have the same rate. Leaders send.
    """
    brokers = len(cluster.racks)
    traffic = np.zeros((max(moves.batch, default=0) + 1, 2 * brokers))  # bytes in by broker, then bytes out
    for key, before, after, batch in zip(moves.keys, moves.before, moves.after, moves.batch, strict=True):
        size = cluster.size_bytes[cluster.rows[key]]
        for added in set(after) - set(before):
            traffic[batch, cluster.brokers[added]] += size
            traffic[batch, brokers + cluster.brokers[before[0]]] += size
    bound = float(traffic.sum(axis=0).max())
    return float(traffic.max(axis=1).sum()) / bound if bound else 1.0


_BATCHES = 3  # the longest, to look at for each broker
_PAIRS = 20  # brokers with large parts to look at


def least_makespan_ratio(cluster: Cluster, moves: Moves, partitions: int, copies: int) -> float:
    """What no batches can stay below, over the least time of any order; 1 without copies.

    A batch has at most so many partitions, and a broker receives or sends at most so many copies in it. Partitions in
    order of the bytes that their busiest broker copies: the longest n batches last at least as long as number 1,
    1 + `partitions`, … of them together. They bring a group of brokers at most its n x `partitions` largest parts, and
    each broker at most its n x `copies` largest. The rest takes the group at least its mean. That holds for every n and
    every group; here it is each broker, and each share of the busiest receivers and of the busiest senders.

    Two large parts of one broker are in one batch, which lasts as long as both, or the second-longest batch lasts at
    least as long as the smaller of them. The result is the shorter of these two cases, for the broker that is worst.
    """
    brokers, parts = len(cluster.racks), _copied(cluster, moves)
    move, end, size = (np.array(column) for column in zip(*parts, strict=True)) if parts else (np.zeros(0, int),) * 3
    total = np.bincount(end, size, 2 * brokers)
    bound = float(total.max())
    if not bound:
        return 1.0
    longest = np.zeros(len(moves.keys))
    np.maximum.at(longest, move, size)
    longest = np.sort(longest)[::-1]
    firsts = longest[::partitions]
    lasts = np.concatenate([[0.0], np.cumsum(np.pad(firsts, (0, max(0, _BATCHES - len(firsts)))))])
    taken = np.minimum(np.arange(len(lasts)) * partitions, len(longest))
    order = np.lexsort((-size, end))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order)) - np.searchsorted(end[order], end[order])
    earliest = number // copies  # [part] so many batches the broker needs for its larger parts
    # [n] at least so much takes a broker or a group of them after the n longest batches
    rest = np.zeros(len(lasts))
    for batches in range(_BATCHES + 1):
        brought = np.bincount(end, size * (earliest < batches), 2 * brokers)
        rest[batches] = (total - brought).max()
    for way in (np.arange(brokers), np.arange(brokers, 2 * brokers)):
        busiest = way[np.argsort(-total[way], kind="stable")]
        for count in sorted({max(1, round(brokers * 0.9**step)) for step in range(70)}):
            theirs = np.isin(end, busiest[:count])
            of_moves = np.sort(np.bincount(move[theirs], size[theirs], len(longest)))[::-1]
            by_copies = np.bincount(earliest[theirs], size[theirs], len(lasts)).cumsum()[: len(lasts) - 1]
            brought = np.minimum(np.cumsum([0.0, *of_moves])[taken], np.concatenate([[0.0], by_copies]))
            rest = np.maximum(rest, (of_moves.sum() - brought) / count)
    least = float((lasts + rest).max())
    two = np.zeros((2, 2 * brokers))  # [larger or smaller, end]
    two[number[number < 2], end[number < 2]] = size[number < 2]
    for larger, smaller in two.T[np.argsort(-two[1])[:_PAIRS]]:
        together, apart = lasts.copy(), lasts.copy()
        together[1:] += max(0.0, larger + smaller - lasts[1])
        apart[2:] += max(0.0, smaller - (lasts[2] - lasts[1]))
        least = max(least, min(float((together + rest).max()), float((apart + rest).max())))
    return least / bound


def _copied(cluster: Cluster, moves: Moves) -> list[tuple[int, int, float]]:
    """(move, receiver, bytes) of each copy, and (move, sender + brokers, bytes) of each move that copies."""
    found = []
    for number, (key, before, after) in enumerate(zip(moves.keys, moves.before, moves.after, strict=True)):
        size, added = float(cluster.size_bytes[cluster.rows[key]]), sorted(set(after) - set(before))
        found += [(number, cluster.brokers[one], size) for one in added]
        if added:
            found.append((number, len(cluster.racks) + cluster.brokers[before[0]], size * len(added)))
    return found
