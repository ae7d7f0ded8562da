"""What new partitions will hold, by broker."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.topics.forecast import broker_costs, disk_problems, expected_replica_bytes

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("rate", "partitions", "retention_ms", "retention_bytes", "policy", "expected"),
    [
        (1000, 10, DAY_MS, -1, ("delete",), 100 * 86_400),  # rate x retention over the partitions
        (1000, 10, DAY_MS, 5_000, ("delete",), 5_000),  # the size limit comes first
        (None, 10, DAY_MS, 5_000, ("delete",), 5_000),  # no rate: the size limit alone bounds it
        (1000, 10, -1, -1, ("delete",), None),  # unlimited
        (None, 10, DAY_MS, -1, ("delete",), None),  # nobody said how much is written
        (1000, 10, DAY_MS, -1, ("compact",), None),  # compaction bounds keys, not bytes
        (1000, 10, DAY_MS, -1, ("compact", "delete"), 100 * 86_400),
        (0, 10, DAY_MS, -1, ("delete",), 0),
    ],
)
def test_a_replica_holds_rate_times_retention_up_to_the_size_limit(
    rate: int | None, partitions: int, retention_ms: Any, retention_bytes: int, policy: Any, expected: Any
) -> None:
    found = expected_replica_bytes(
        rate, partitions, retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=policy
    )
    assert found == expected


def test_every_broker_is_told_what_it_gets() -> None:
    first, second = broker_costs({0: (1, 2), 1: (2, 1), 2: (1, 2)}, 10, {1: (100, 50)})
    assert (first.broker, first.replicas, first.leaders, first.bytes) == (1, 3, 2, 30)
    assert first.disk_fraction_after == 0.8
    assert (second.broker, second.leaders, second.disk_fraction_after) == (2, 1, None)


def test_only_a_disk_that_is_known_to_fill_up_is_a_problem() -> None:
    costs = broker_costs({0: (1, 2)}, 50, {1: (100, 45), 2: (None, None)})
    assert disk_problems(costs, 0.05) == ()
    assert disk_problems(costs, 0.1) == (
        "the disk of broker 1 would be 95 % full with 50 bytes of this topic, but 10 % must stay free",
    )
    assert disk_problems(broker_costs({0: (1,)}, None, {1: (100, 99)}), 0.1) == ()
