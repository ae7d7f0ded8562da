"""A limit of any load of a broker is a class and its entry in the list: every search keeps it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kafka_rebalance.documents.candidate_notes import Note
from kafka_rebalance.planning.problem.arrays import BYTES_IN, Floats, Ints, Problem, replica_loads, replica_weights
from kafka_rebalance.planning.rules import where_replicas_may_go
from kafka_rebalance.planning.rules.where_replicas_may_go import BROKER_LIMITS
from support.plans.small_snapshots import broker_rows, lists_after, partition_rows, plan_of

RATE = 100  # bytes a second of each partition
# By its disk broker 3 would get half of the replicas.
BROKERS = broker_rows([1, 2, 3], disk_capacity_bytes={1: 100_000, 2: 100_000, 3: 200_000})
PARTITIONS = [{**row, "bytes_in_per_second": RATE} for row in partition_rows([[1], [2]] * 6)]


class WrittenToBrokerThree:
    """It takes the bytes a second of two replicas."""

    metric = BYTES_IN

    def in_the_end(self, problem: Problem) -> Floats:
        return np.where(problem.brokers == 3, 2.0 * RATE, np.inf)

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        yield from ()

    def reached_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        yield from ()

    def check(self, problem: Problem, wanted: Ints) -> None:
        written = replica_loads(problem.replicas, replica_weights(problem), len(problem.brokers))
        assert written[:, self.metric].sum() == RATE * len(PARTITIONS)


def held_by_three(name: str) -> int:
    plan = plan_of(BROKERS, PARTITIONS, name)
    return sum(3 in after for after in lists_after(plan, PARTITIONS).values())


@pytest.mark.parametrize("name", ["light", "balanced", "optimal"])
def test_no_plan_brings_a_broker_beyond_a_limit_of_bytes_in(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert held_by_three(name) > 2
    limits = (*BROKER_LIMITS, WrittenToBrokerThree())
    monkeypatch.setattr(where_replicas_may_go, "BROKER_LIMITS", limits)
    # No plan within the tolerance has so few there, so there is no optimum.
    assert held_by_three(name) == (0 if name == "optimal" else 2)
