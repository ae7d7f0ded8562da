"""What new partitions will hold, by broker: rate times retention, where both are known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kafka_rebalance.model.amounts_in_words import share_in_words

DELETE = "delete"


@dataclass(frozen=True, slots=True)
class BrokerCost:
    """What one broker gets. Bytes are None where the topic grows without bound or its rate is not known."""

    broker: int
    replicas: int
    leaders: int
    bytes: int | None
    disk_capacity_bytes: int | None
    disk_used_bytes: int | None

    @property
    def disk_fraction_after(self) -> float | None:
        """How full its disk will be; None where a figure for that is missing."""
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
    """Bytes that one replica of one partition comes to hold, if its topic's rate spreads evenly over its partitions.

    None where nothing bounds it or the rate is not known: no retention, or a topic that is only compacted.
    `retention_bytes` is of one partition; -1 is unlimited in both. The segment that is being written comes on top.
    """
    if DELETE not in cleanup_policy or partitions < 1:
        return None
    by_size = None if retention_bytes < 0 else retention_bytes
    by_time = None
    if bytes_in_per_second is not None and retention_ms >= 0:
        by_time = int(bytes_in_per_second / partitions * retention_ms / 1000)
    bounds = [bound for bound in (by_size, by_time) if bound is not None]
    return min(bounds, default=None)


def broker_costs(
    partitions: Mapping[int, Sequence[int]],
    replica_bytes: int | None,
    disks: Mapping[int, tuple[int | None, int | None]],
) -> tuple[BrokerCost, ...]:
    """One entry for each broker that gets something, by id. `disks` is {broker: (capacity, used)} in bytes."""
    replicas: dict[int, int] = {}
    leaders: dict[int, int] = {}
    for held in partitions.values():
        for broker in held:
            replicas[broker] = replicas.get(broker, 0) + 1
        leaders[held[0]] = leaders.get(held[0], 0) + 1
    return tuple(
        BrokerCost(
            broker,
            count,
            leaders.get(broker, 0),
            None if replica_bytes is None else replica_bytes * count,
            *disks.get(broker, (None, None)),
        )
        for broker, count in sorted(replicas.items())
    )


def disk_problems(costs: Sequence[BrokerCost], headroom: float) -> tuple[str, ...]:
    """The brokers whose disk would be fuller than the headroom allows, in words."""
    return tuple(
        f"broker {cost.broker} would be {share_in_words(cost.disk_fraction_after)} full with {cost.bytes:,} "
        "bytes of this topic, "
        f"and {share_in_words(headroom)} must stay free"
        for cost in costs
        if cost.disk_fraction_after is not None and cost.disk_fraction_after > 1 - headroom and cost.bytes
    )
