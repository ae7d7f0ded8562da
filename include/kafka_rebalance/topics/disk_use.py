"""The bytes that new partitions will hold on each broker: rate times retention, if both are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kafka_rebalance.model.amounts_in_words import share_in_words


@dataclass(frozen=True, slots=True)
class BrokerCost:
    """What one broker gets. Bytes are None if the topic grows without bound, or if its rate is unknown."""

    broker: int
    replicas: int
    leaders: int
    bytes: int | None
    disk_capacity_bytes: int | None
    disk_used_bytes: int | None

    @property
    def disk_fraction_after(self) -> float | None:
        """The share of its disk in use afterwards; None if a figure is missing."""
        if self.bytes is None or self.disk_capacity_bytes is None or self.disk_used_bytes is None:
            return None
        return (self.disk_used_bytes + self.bytes) / self.disk_capacity_bytes

    def to_mapping(self) -> dict[str, Any]:
        return {**asdict(self), "disk_fraction_after": self.disk_fraction_after}


def expected_replica_bytes(
    bytes_in_per_second: float | None,
    partitions: int,
    *,
    retention_ms: int,
    retention_bytes: int,
    cleanup_policy: Collection[str],
) -> int | None:
    """Bytes that one replica of one partition will hold, if the topic's rate spreads evenly over its partitions.

    None if nothing bounds them, as in a topic that is only compacted, or if the rate is unknown. `retention_bytes` is
    of one partition; -1 is unlimited in both. The segment that Kafka writes to comes on top.
    """
    if "delete" not in cleanup_policy or partitions < 1:
        return None
    bounds = [retention_bytes] if retention_bytes >= 0 else []
    if bytes_in_per_second is not None and retention_ms >= 0:
        bounds.append(int(bytes_in_per_second / partitions * retention_ms / 1000))
    return min(bounds, default=None)


def broker_costs(
    partitions: Mapping[int, Sequence[int]],
    replica_bytes: int | None,
    disks: Mapping[int, tuple[int | None, int | None]],
) -> tuple[BrokerCost, ...]:
    """One entry for each broker that gets a replica, by id. `disks` is {broker: (capacity, used)} in bytes."""
    replicas = Counter(broker for held in partitions.values() for broker in held)
    leaders = Counter(held[0] for held in partitions.values())
    return tuple(
        BrokerCost(
            broker,
            count,
            leaders[broker],
            None if replica_bytes is None else replica_bytes * count,
            *disks.get(broker, (None, None)),
        )
        for broker, count in sorted(replicas.items())
    )


def disk_problems(costs: Sequence[BrokerCost], headroom: float) -> tuple[str, ...]:
    """Brokers whose disk would be fuller than the headroom allows, in words."""
    return tuple(
        f"the disk of broker {cost.broker} would be {share_in_words(full)} full with {cost.bytes:,} bytes of this "
        f"topic, but {share_in_words(headroom)} must stay free"
        for cost in costs
        if (full := cost.disk_fraction_after) is not None and full > 1 - headroom and cost.bytes
    )
