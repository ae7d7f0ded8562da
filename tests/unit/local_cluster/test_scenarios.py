"""Scenarios, on a cluster that only notes what it is asked to do."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from kafka_rebalance.local_cluster import LocalClusterError
from kafka_rebalance.local_cluster.scenarios import SCENARIOS


class NotedCluster:
    def __init__(self, brokers: int = 4, racks: int = 3) -> None:
        self.brokers: dict[int, str | None] = {
            broker: f"rack-{(broker - 1) % racks}" for broker in range(1, brokers + 1)
        }
        self.replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        self.size_bytes: dict[tuple[str, int], int] = {}

    def create_topic(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        self.replicas.update({(topic, partition): tuple(ids) for partition, ids in replicas.items()})

    def produce(self, topic: str, size_bytes: Mapping[int, int]) -> None:
        self.size_bytes.update({(topic, partition): size for partition, size in size_bytes.items()})

    def add_broker(self) -> int:
        broker = len(self.brokers) + 1
        self.brokers[broker] = f"rack-{(broker - 1) % 3}"
        return broker

    def bytes_on(self) -> Counter[int]:
        held: Counter[int] = Counter()
        for partition, replicas in self.replicas.items():
            for broker in replicas:
                held[broker] += self.size_bytes[partition]
        return held


def run(name: str, seed: int = 7, total_bytes: int = 10_000_000) -> NotedCluster:
    cluster = NotedCluster()
    SCENARIOS[name](cluster, total_bytes=total_bytes, seed=seed)
    return cluster


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_gives_the_same_cluster_and_another_seed_another(name: str) -> None:
    first, second, third = run(name), run(name), run(name, seed=8)
    assert (first.replicas, first.size_bytes) == (second.replicas, second.size_bytes)
    assert (first.replicas, first.size_bytes) != (third.replicas, third.size_bytes)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", range(5))
def test_no_partition_has_two_replicas_in_a_rack(name: str, seed: int) -> None:
    cluster = run(name, seed)
    for replicas in cluster.replicas.values():
        assert len({cluster.brokers[broker] for broker in replicas}) == len(replicas) >= 2


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_replicas_together_are_the_bytes_asked_for(name: str) -> None:
    assert sum(run(name).bytes_on().values()) == pytest.approx(10_000_000, rel=0.001)


@pytest.mark.parametrize("seed", range(5))
def test_new_brokers_are_empty_and_the_old_ones_skewed(seed: int) -> None:
    cluster = run("new_empty_brokers", seed)
    held = cluster.bytes_on()
    assert set(cluster.brokers) == {1, 2, 3, 4, 5, 6}
    assert held[5] == held[6] == 0
    assert max(held.values()) > 1.3 * min(held[broker] for broker in (1, 2, 3, 4))


def test_one_broker_is_the_first_replica_of_everything() -> None:
    assert {replicas[0] for replicas in run("one_broker_leads_all").replicas.values()} == {1}


def test_the_broker_to_drain_holds_and_leads_its_share() -> None:
    cluster = run("broker_to_drain")
    leads = Counter(replicas[0] for replicas in cluster.replicas.values())
    holds = Counter(broker for replicas in cluster.replicas.values() for broker in replicas)
    assert leads[4] >= len(cluster.replicas) // 4 - 2
    assert holds[4] >= 10


@pytest.mark.parametrize("seed", range(5))
def test_a_few_partitions_hold_most_of_a_heavy_tailed_cluster(seed: int) -> None:
    sizes = sorted(run("sizes_heavy_tailed", seed).size_bytes.values(), reverse=True)
    assert sum(sizes[: len(sizes) // 5]) > 0.5 * sum(sizes)


def test_too_few_bytes_are_refused_before_anything_is_created() -> None:
    cluster = NotedCluster()
    with pytest.raises(LocalClusterError, match="too few for topic orders"):
        SCENARIOS["sizes_heavy_tailed"](cluster, total_bytes=10)
    assert cluster.replicas == {}


def test_a_cluster_smaller_than_the_replication_factor_gets_fewer_replicas() -> None:
    cluster = NotedCluster(brokers=1)
    SCENARIOS["one_broker_leads_all"](cluster, total_bytes=1_000_000)
    assert set(cluster.replicas.values()) == {(1,)}
