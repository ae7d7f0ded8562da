"""Named situations with real topics and real data. The same cluster, size and seed give the same situation.

`total_bytes` is the disk space of all replicas together, without the few bytes that Kafka adds to each record.
Replicas of a partition are in different racks as long as there are racks left. Each scenario returns the bytes that it
wrote: topic → partition → bytes of one replica.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafka_rebalance.local_cluster.cluster import LocalCluster
from kafka_rebalance.local_cluster.errors import LocalClusterError

SizeBytes = dict[str, dict[int, int]]
Scenario = Callable[..., SizeBytes]

# name, partitions, replication factor, share of the data
_TOPICS = (("orders", 12, 3, 0.35), ("page-views", 18, 2, 0.4), ("payments", 6, 3, 0.15), ("audit-log", 4, 2, 0.1))
_NEW_BROKERS = 2
_LEAST_BYTES = 1024


class Fillable(Protocol):
    """What a scenario needs of a cluster to fill it. See `LocalCluster`."""

    @property
    def brokers(self) -> Mapping[int, str | None]: ...

    def create_topic(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None: ...

    def produce(self, topic: str, size_bytes: Mapping[int, int]) -> None: ...


def new_empty_brokers(cluster: LocalCluster, *, total_bytes: int = 200_000_000, seed: int = 0) -> SizeBytes:
    """Skewed data, with more bytes and more leaders on brokers with lower ids; then two empty brokers are added."""
    written = skewed_data(cluster, total_bytes=total_bytes, seed=seed)
    for _ in range(_NEW_BROKERS):
        cluster.add_broker()
    return written


def skewed_data(cluster: Fillable, *, total_bytes: int = 200_000_000, seed: int = 0) -> SizeBytes:
    """More bytes and more leaders on brokers with lower ids."""
    likely = {broker: 0.6**index for index, broker in enumerate(sorted(cluster.brokers))}
    return _fill(cluster, total_bytes, seed, leader_likely=likely, follower_likely=likely, spread=0.8)


def one_broker_leads_all(cluster: LocalCluster, *, total_bytes: int = 50_000_000, seed: int = 0) -> SizeBytes:
    """The first broker is the preferred and the current leader of every partition."""
    first = min(cluster.brokers)
    even = dict.fromkeys(cluster.brokers, 1.0)
    return _fill(cluster, total_bytes, seed, leader_likely={first: 1.0}, follower_likely=even, spread=0.3)


def broker_to_drain(cluster: LocalCluster, *, total_bytes: int = 50_000_000, seed: int = 0) -> SizeBytes:
    """Even data and leaders. Every broker, also that with the highest id, has replicas and leads partitions."""
    even = dict.fromkeys(cluster.brokers, 1.0)
    return _fill(cluster, total_bytes, seed, leader_likely=even, follower_likely=even, spread=0.3, in_turn=True)


def sizes_heavy_tailed(cluster: LocalCluster, *, total_bytes: int = 50_000_000, seed: int = 0) -> SizeBytes:
    """Replica and leader counts are even, but a few partitions hold most of the bytes."""
    even = dict.fromkeys(cluster.brokers, 1.0)
    return _fill(cluster, total_bytes, seed, leader_likely=even, follower_likely=even, spread=2.0, in_turn=True)


SCENARIOS: dict[str, Scenario] = {
    "new_empty_brokers": new_empty_brokers,
    "one_broker_leads_all": one_broker_leads_all,
    "broker_to_drain": broker_to_drain,
    "sizes_heavy_tailed": sizes_heavy_tailed,
}


def _fill(
    cluster: Fillable,
    total_bytes: int,
    seed: int,
    *,
    leader_likely: Mapping[int, float],
    follower_likely: Mapping[int, float],
    spread: float,
    in_turn: bool = False,
) -> SizeBytes:
    """Creates topics with log-normal sizes; `spread` is the sigma.

    Brokers are drawn by likelihood. With `in_turn` replicas are as even as racks allow.
    """
    rng = random.Random(seed)
    written: SizeBytes = {}
    held = dict.fromkeys(cluster.brokers, 0)
    for topic, partitions, wanted_replicas, share in _TOPICS:
        replication_factor = min(wanted_replicas, len(cluster.brokers))
        sizes = _sizes(rng, partitions, int(total_bytes * share / replication_factor), spread)
        if min(sizes) < 1:
            raise LocalClusterError(
                f"{total_bytes} bytes are too few for topic {topic} with {partitions} partitions. "
                f"The topic was not created. "
                f"Ask for {_LEAST_BYTES * 1000} or more."
            )
        replicas: dict[int, Sequence[int]] = {}
        for partition in range(partitions):
            if in_turn:
                leader = sorted(leader_likely)[partition % len(leader_likely)]
                weights = {broker: 1000.0 ** (min(held.values()) - held[broker]) for broker in held}
            else:
                leader = _draw(rng, leader_likely)
                weights = dict(follower_likely)
            chosen = _place(rng, cluster.brokers, leader, replication_factor, weights)
            for broker in chosen:
                held[broker] += 1
            replicas[partition] = chosen
        cluster.create_topic(topic, replicas)
        written[topic] = dict(enumerate(sizes))
        cluster.produce(topic, written[topic])
    return written


def _sizes(rng: random.Random, count: int, total: int, spread: float) -> list[int]:
    raw = [rng.lognormvariate(0, spread) for _ in range(count)]
    return [int(total * size / sum(raw)) for size in raw]


def _place(
    rng: random.Random, racks: Mapping[int, str | None], leader: int, count: int, weights: Mapping[int, float]
) -> tuple[int, ...]:
    """The leader, then others drawn by weight, from unused racks as long as there are any."""
    chosen = [leader]
    while len(chosen) < count:
        left = {broker: weights[broker] for broker in sorted(racks) if broker not in chosen}
        used = {racks[broker] for broker in chosen}
        elsewhere = {broker: weight for broker, weight in left.items() if racks[broker] not in used}
        chosen.append(_draw(rng, elsewhere or left))
    return tuple(chosen)


def _draw(rng: random.Random, weights: Mapping[int, float]) -> int:
    brokers = sorted(weights)
    return rng.choices(brokers, [weights[broker] for broker in brokers])[0]
