"""The cluster and the request, as the judge reads them; no code of the planner."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from bench.odd_clusters.drawn import OddCluster, Row

Key = tuple[str, int]
Lists = dict[Key, list[int]]

METRICS = ("replicas", "disk", "bytes_in", "leaders", "leader_bytes_out")


class Known:
    """The rows of both tables by key, and what follows from the settings."""

    def __init__(self, cluster: OddCluster) -> None:
        self.settings = settings = cluster.settings
        self.brokers = {row["broker"]: row for row in cluster.brokers}
        self.rows: dict[Key, Row] = {(row["topic"], row["partition"]): row for row in cluster.partitions}
        self.before: Lists = {key: row["replicas"] for key, row in self.rows.items()}
        self.size = {key: row["size_bytes"] or 0 for key, row in self.rows.items()}
        self.led = {
            key: row["leader"] if row["leader"] in row["replicas"] else row["replicas"][0]
            for key, row in self.rows.items()
        }
        named = set(self.brokers) | {broker for held in self.before.values() for broker in held}
        self.all_brokers = sorted(named)
        self.leaving = set(settings.get("drain", ())) | {int(old) for old in settings.get("replace", {})}
        self.staying = [broker for broker in sorted(self.brokers) if broker not in self.leaving]
        self.closed = set(settings.get("brokers_out", ()))
        holding = {broker for held in self.before.values() for broker in held}
        self.only = (
            set(self.brokers) - holding
            if settings.get("brokers_in") == "new"
            else set(settings["brokers_in"])
            if settings.get("brokers_in")
            else None
        )
        self.headroom = settings.get("disk_headroom", 0.10)
        self.used = self.used_bytes()
        self.pools = settings.get("broker_pools", [])

    def used_bytes(self) -> dict[int, int]:
        held = self.loads_of(self.before, self.led)["disk"]
        found = {}
        for broker in self.all_brokers:
            stated = self.brokers.get(broker, {}).get("disk_used_bytes")
            found[broker] = max(int(held[broker]), stated or 0)
        return found

    def loads_of(self, lists: Lists, leaders: Mapping[Key, int]) -> dict[str, dict[int, float]]:
        """{metric: {broker: load}}"""
        found: dict[str, dict[int, float]] = {metric: defaultdict(float) for metric in METRICS}
        for key, held in lists.items():
            row = self.rows[key]
            comes, goes = row["bytes_in_per_second"] or 0.0, row["bytes_out_per_second"] or 0.0
            for broker in held:
                found["replicas"][broker] += 1
                found["disk"][broker] += self.size[key]
                found["bytes_in"][broker] += comes
            found["leaders"][leaders[key]] += 1
            found["leader_bytes_out"][leaders[key]] += goes + (len(held) - 1) * comes
        return found

    def pool_of(self, topic: str) -> set[int]:
        """The brokers that may hold the topic."""
        taken = {broker for pool in self.pools for broker in pool["brokers"]}
        for pool in self.pools:
            if any(fnmatchcase(topic, glob) for glob in pool["topics"]):
                return set(pool["brokers"])
        return set(self.all_brokers) - taken

    def racks_of(self, held: Sequence[int]) -> list[str | None]:
        return [self.brokers.get(broker, {}).get("rack") for broker in held]

    def matches(self, topic: str, setting: str) -> bool:
        return any(fnmatchcase(topic, glob) for glob in self.settings.get(setting, ()))

    def selects(self, topic: str) -> bool:
        chosen = "topics_in" not in self.settings or self.matches(topic, "topics_in")
        return chosen and not self.matches(topic, "topics_out")

    def has_to_move(self) -> bool:
        """Whether some replicas have to leave their brokers or racks whatever the job. No rack is a rack too."""
        racks = set(self.racks_of(self.staying))
        broken = any(len(set(self.racks_of(held))) < min(len(held), len(racks)) for held in self.before.values())
        return racks != {None} and (broken or bool(self.leaving))

    def share(self, metric: str, pool: set[int]) -> dict[int, float]:
        """{broker that stays: its share of what the pool carries}"""
        column = {
            "replicas": "disk_capacity_bytes",
            "disk": "disk_capacity_bytes",
            "bytes_in": "nic_in_bytes_per_second",
        }.get(metric, "nic_out_bytes_per_second")
        here = [broker for broker in self.staying if broker in pool]
        capacities = [self.brokers[broker][column] for broker in here if column in self.brokers[broker]]
        if len(capacities) < len(here) or None in capacities:
            return {broker: 1 / len(here) for broker in here}
        return {broker: capacity / sum(capacities) for broker, capacity in zip(here, capacities, strict=True)}

    def all_pools(self) -> list[set[int]]:
        named = [set(pool["brokers"]) for pool in self.pools]
        rest = set(self.all_brokers) - {broker for pool in named for broker in pool}
        return [pool for pool in (*named, rest) if pool]

    def crowded(self, lists: Lists) -> int | None:
        """Replicas beyond an even share of their topic and one more on one broker."""
        total = 0
        for topic in {topic for topic, _ in lists}:
            pool = self.pool_of(topic)
            share = self.share("replicas", pool)
            if not share:
                return None
            held = Counter(broker for key, brokers in lists.items() if key[0] == topic for broker in brokers)
            for broker, count in held.items():
                part = share.get(broker, 0.0) or max(share.values())
                total += max(0, count - math.ceil(part * sum(held.values()) - 1e-9) - 1)
        return total

    def cross_rack_bytes(self, moves: Sequence[Row]) -> int | None:
        """Bytes that leaders send to another rack; None if a rack of one of these brokers is unknown."""
        total = 0
        for move in moves:
            key = move["topic"], move["partition"]
            source, *others = self.racks_of([self.led[key], *(set(move["after"]) - set(move["before"]))])
            if others and None in (source, *others):
                return None
            total += sum(rack != source for rack in others) * self.size[key]
        return total

    def disk(self, broker: int) -> int | None:
        size: int | None = self.brokers[broker].get("disk_capacity_bytes")
        return size

    def beyond(self, broker: int, held: int) -> str | None:
        size = self.disk(broker) if broker in self.brokers else None
        if not size or held <= max(size * (1 - self.headroom) + 1, self.used[broker]):
            return None
        return f"to {100 * held / size:.2f} % (headroom {self.headroom}, {100 * self.used[broker] / size:.2f} % before)"
