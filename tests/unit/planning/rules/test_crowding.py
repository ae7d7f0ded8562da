"""Topics over brokers: what crowds a broker, and that no plan crowds more than there was."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.planning.rules.crowding import Crowding
from support.plans.small_snapshots import broker_rows, lists_after, partition_rows, plan_of

EVEN = np.full(4, 0.25)


def lists(*rows: tuple[int, ...]) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(rows, dtype=np.int64)


def crowded(assignment: list[list[int]], topic: list[int], brokers: int) -> int:
    """Replicas of a topic beyond its even share, rounded up, and one: counted out one by one."""
    total = 0
    for name in set(topic):
        held = [broker for row, of in zip(assignment, topic, strict=True) if of == name for broker in row]
        most = -(-len(held) // brokers) + 1
        total += sum(max(0, held.count(broker) - most) for broker in set(held))
    return total


def test_one_more_than_an_even_spread_is_no_crowd() -> None:
    replicas = lists((0, 1), (0, 1), (0, 1), (0, 2))
    found = Crowding(replicas, np.zeros(4, dtype=np.int64), EVEN)
    assert found.room.tolist() == [[-1, 0, 2, 3]]
    assert found.replicas == 1


def test_a_replica_may_go_where_there_is_room_and_one_that_crowds_anywhere() -> None:
    replicas = lists((0, 1), (0, 1), (0, 1), (0, 2))
    found = Crowding(replicas, np.zeros(4, dtype=np.int64), EVEN)
    rows = np.array([0, 0])
    assert found.allows(rows, np.array([0, 1]), np.array([1, 3])).tolist() == [[True, True], [False, True]]
    found.move(rows[:1], np.array([0]), np.array([3]))
    assert found.room.tolist() == [[0, 0, 2, 2]]
    assert (found.replicas, found.spare) == (0, 1)


def test_in_total_a_topic_may_crowd_where_another_crowds_less() -> None:
    replicas = lists((0, 1), (0, 1), (0, 1), (0, 2))
    found = Crowding(replicas, np.zeros(4, dtype=np.int64), EVEN)
    found.in_total = 1
    row, source = np.array([0]), np.array([1])
    assert not found.allows(row, np.array([2]), source[:, None]).any()
    found.move(np.array([3]), np.array([0]), np.array([3]))
    assert found.allows(row, np.array([2]), source[:, None]).all()


def test_a_broker_of_twice_the_size_takes_twice_as_many() -> None:
    replicas = lists(*[(0,)] * 6)
    found = Crowding(replicas, np.zeros(6, dtype=np.int64), np.array([0.5, 0.25, 0.25]))
    assert found.room.tolist() == [[3 + 1 - 6, 3, 3]]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_balance_crowds_brokers_more_than_they_were(data: st.DataObject) -> None:
    brokers = data.draw(st.integers(3, 6))
    ids = list(range(1, brokers + 1))
    topics = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    partitions, before, topic = [], [], []
    for number, count in enumerate(topics):
        rows = [data.draw(st.permutations(ids))[:2] for _ in range(count)]
        partitions += partition_rows(rows, topic=f"t{number}", size=data.draw(st.integers(1, 50)))
        before += rows
        topic += [number] * count
    plan = plan_of(broker_rows(ids), partitions, tolerance=0.05)
    after = lists_after(plan, partitions)
    now = [list(after[f"t{number}", index]) for number, count in enumerate(topics) for index in range(count)]
    assert crowded(now, topic, brokers) <= crowded(before, topic, brokers)
    figures = plan.candidate.summary
    assert figures["crowded_replicas_before"] == crowded(before, topic, brokers)
    assert figures["crowded_replicas"] == crowded(now, topic, brokers)
