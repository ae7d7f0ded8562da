"""Seeded clusters as the planner's tables: `python -m bench.clusters M drain FOLDER --seed 2` writes a snapshot.

Sizes and rates are log-normal over topics, and again within each topic. A few topics have most of the partitions.
Kafka's own assignment has aged: some leaders are swapped, some replicas moved, a few lists break the rack rule.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafka_rebalance.kafka.assignment import assign_replicas
from kafka_rebalance.planning.tables.read_problem import write_snapshot

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SCENARIOS = ("add", "drain", "skew")  # 15 % of the brokers are new and empty; 2 % must be emptied; neither
FIRST_BROKER = 1001
REPLICAS = 3
DISK_BYTES, IN_BYTES_PER_SECOND = 4e12, 1e8  # sum over the replicas on a mean broker
NIC_BYTES_PER_SECOND = 1.25e9
LARGEST_SHARE = 0.08  # of a mean broker's load: the most for one partition
TOPIC_SIZES = np.array([1, 3, 6, 12, 24, 48, 96, 192, 384])  # partitions; larger topics are rarer
CONSUMERS = (0, 1, 1, 2, 3, 5)  # consumer groups of a topic
SWAPPED, WANDERED, BROKEN = 0.10, 0.15, 0.005  # shares of all partitions


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a cluster."""

    brokers: int
    racks: int
    partitions: int
    partitions_per_topic: int  # on average, approximately
    factor_two: float = 0.0  # share of topics with two replicas instead of three
    disk_filled: float = 0.55  # share of a mean broker's disk


SIZES = {
    # If S is drained, one broker takes all replicas of its rack, and needs room for them.
    "S": Size(6, 3, 500, 12, factor_two=0.1, disk_filled=0.4),
    "12x1200": Size(12, 3, 1_200, 12, factor_two=0.1, disk_filled=0.4),
    "M": Size(60, 3, 20_000, 40),
    "L": Size(300, 6, 150_000, 60),
    "XL": Size(1000, 10, 333_334, 70),
    "2xXL": Size(2000, 20, 666_668, 70),
}


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A snapshot's tables as rows."""

    brokers: list[dict[str, Any]]
    partitions: list[dict[str, Any]]


def make_cluster(size: Size, scenario: str, seed: int) -> Cluster:
    """A cluster. The same arguments give the same cluster."""
    rng = np.random.default_rng([seed, size.brokers, SCENARIOS.index(scenario)])
    rack = np.arange(size.brokers) % size.racks
    state = _states(rng, scenario, size.brokers)
    counts = _topic_sizes(rng, size)
    topic = np.repeat(np.arange(len(counts)), counts)
    factor = np.where(rng.random(len(counts)) < size.factor_two, 2, REPLICAS)
    size_bytes, bytes_in, bytes_out = _weights(rng, topic, factor[topic], size.brokers)
    old = np.flatnonzero(state != "new")
    replicas = _aged(rng, _assigned(rng, counts, factor, rack, old), rack, old)
    used = np.bincount(
        replicas[replicas >= 0], size_bytes[np.nonzero(replicas >= 0)[0]], minlength=size.brokers
    ).astype(np.int64)
    capacity = int(DISK_BYTES / size.disk_filled)
    brokers = [
        {
            "broker": FIRST_BROKER + number,
            "rack": f"rack-{rack[number]}",
            "state": str(state[number]),
            "disk_capacity_bytes": capacity,
            "disk_used_bytes": int(used[number]),
            "nic_in_bytes_per_second": NIC_BYTES_PER_SECOND,
            "nic_out_bytes_per_second": NIC_BYTES_PER_SECOND,
        }
        for number in range(size.brokers)
    ]
    partitions = [
        {
            "topic": f"topic-{number:05d}",
            "topic_id": f"{number:022d}",  # Kafka 2.8 and later
            "partition": partition,
            "replicas": [FIRST_BROKER + broker for broker in held if broker >= 0],
            "size_bytes": stored,
            "bytes_in_per_second": written,
            "bytes_out_per_second": read,
        }
        for number, partition, held, stored, written, read in zip(
            topic.tolist(),
            np.concatenate([np.arange(count) for count in counts]).tolist(),
            replicas.tolist(),
            size_bytes.tolist(),
            bytes_in.tolist(),
            bytes_out.tolist(),
            strict=True,
        )
    ]
    return Cluster(brokers, partitions)


def _states(rng: np.random.Generator, scenario: str, brokers: int) -> NDArray[np.str_]:
    """[broker] The column `state`."""
    state = np.full(brokers, "keep", dtype="<U5")
    if scenario == "add":
        state[brokers - max(1, round(0.15 * brokers)) :] = "new"
    elif scenario == "drain":
        state[rng.choice(brokers, max(1, round(0.02 * brokers)), replace=False)] = "drain"
    return state


def _topic_sizes(rng: np.random.Generator, size: Size) -> Ints:
    """[topic] Random numbers of partitions, until the cluster is full. No topic has more than a quarter of all."""
    rarity = TOPIC_SIZES**-0.75 / (TOPIC_SIZES**-0.75).sum()
    stretch = size.partitions_per_topic / (TOPIC_SIZES * rarity).sum()
    counts: list[int] = []
    left = size.partitions
    while left:
        drawn = int(rng.choice(TOPIC_SIZES, p=rarity) * stretch * rng.uniform(0.8, 1.25))
        counts.append(min(max(1, drawn), size.partitions // 4, left))
        left -= counts[-1]
    return np.array(counts)


def _weights(rng: np.random.Generator, topic: Ints, factor: Ints, brokers: int) -> tuple[Ints, Floats, Floats]:
    """[partition row] Bytes on disk (the rate times a retention), bytes in per second, bytes out per second."""
    topics, rows = int(topic[-1]) + 1, len(topic)
    rate = rng.lognormal(0, 1.7, topics)[topic] * rng.lognormal(0, 0.45, rows)
    stored = rate * rng.lognormal(0, 1.0, topics)[topic] * rng.lognormal(0, 0.25, rows)
    rate = _scaled(rate, factor, brokers, IN_BYTES_PER_SECOND)
    stored = _scaled(stored, factor, brokers, DISK_BYTES)
    read = rate * rng.choice(CONSUMERS, topics)[topic] * rng.lognormal(0, 0.2, rows)
    return np.maximum(1, stored).astype(np.int64), rate, read


def _scaled(values: Floats, factor: Ints, brokers: int, mean: float) -> Floats:
    """The values, scaled so that brokers hold `mean` on average. No value is above the largest share."""
    for _ in range(20):  # each round spreads over all others what the last one cut off the largest
        values = np.minimum(values * (mean * brokers / (values * factor).sum()), LARGEST_SHARE * mean)
    return values


def _assigned(rng: np.random.Generator, counts: Ints, factor: Ints, rack: Ints, old: Ints) -> Ints:
    """[partition row, position] Each topic as Kafka assigns a new topic to the old brokers."""
    racks = {int(broker): f"rack-{rack[broker]}" for broker in old}
    replicas = np.full((int(counts.sum()), REPLICAS), -1)
    first = 0
    for count, wanted in zip(counts.tolist(), factor.tolist(), strict=True):
        start, shift = (int(value) for value in rng.integers(len(old), size=2))
        lists = assign_replicas(sorted(racks), count, wanted, racks=racks, start_index=start, replica_shift=shift)
        replicas[first : first + count, :wanted] = [lists[partition] for partition in range(count)]
        first += count
    return replicas


def _aged(rng: np.random.Generator, replicas: Ints, rack: Ints, old: Ints) -> Ints:
    """The lists some years later. Moved replicas stay in their racks; a broken list may have a rack twice."""
    aged, rows = replicas.copy(), len(replicas)
    swapped = np.flatnonzero(rng.random(rows) < SWAPPED)
    aged[swapped, :2] = aged[swapped, 1::-1]
    liked = rng.lognormal(0, 0.5, len(rack))  # some brokers got more than others, as after years of manual repairs
    factor = (aged >= 0).sum(axis=1)
    wandered = np.flatnonzero(rng.random(rows) < WANDERED)
    position = rng.integers(factor[wandered])
    left = rack[aged[wandered, position]]
    for number in range(int(rack.max()) + 1):
        here, there = left == number, old[rack[old] == number]
        chance = liked[there] / liked[there].sum()
        aged[wandered[here], position[here]] = rng.choice(there, int(here.sum()), p=chance)
    broken = np.flatnonzero(rng.random(rows) < BROKEN)
    position, broker = rng.integers(1, factor[broken]), rng.choice(old, len(broken))
    possible = (aged[broken] != broker[:, None]).all(axis=1)
    aged[broken[possible], position[possible]] = broker[possible]
    return aged


def write_cluster(folder: Path, name: str, scenario: str, seed: int, *, racks: int | None = None) -> None:
    """Writes the snapshot's two tables of a cluster of the named size. `racks`: if not as many as the size has."""
    size = SIZES[name] if racks is None else replace(SIZES[name], racks=racks)
    made = make_cluster(size, scenario, seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_snapshot(folder, made.brokers, made.partitions)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    write_cluster(asked.folder, asked.size, asked.scenario, asked.seed)


if __name__ == "__main__":
    main()
