"""Topics over brokers: what crowds a broker, and that no plan crowds more than there was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.planning.candidates import propose
from kafka_rebalance.planning.problem.arrays import replication
from kafka_rebalance.planning.rules.crowding import Crowding, left_by_racks
from kafka_rebalance.planning.rules.goals import goal_of
from kafka_rebalance.planning.rules.rack_rule import rack_rule
from kafka_rebalance.planning.search.fewest_bytes import fewest_bytes
from kafka_rebalance.planning.search.frame import frame_of
from kafka_rebalance.planning.search.optimal import crowds_more
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, broker_rows, lists_after, partition_rows, plan_of, problem_of

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


def narrow_rack() -> tuple[Rows, Rows]:
    """Six brokers in three racks. Broker 6 leaves, so broker 3 is alone in its rack.

    A topic of 60 partitions has a replica in each rack. Another topic has 40 partitions with two replicas.
    """
    state = dict.fromkeys(range(1, 6), "keep") | {6: "drain"}
    brokers = broker_rows(range(1, 7), {one: f"rack-{one % 3}" for one in range(1, 7)}, state=state)
    in_each = [[1, 2, 3], [4, 5, 6], [1, 5, 6], [4, 2, 3]] * 15
    in_two = [[1, 2], [4, 5], [2, 3], [5, 6], [3, 1], [6, 4], [1, 5], [4, 2]] * 5
    return brokers, partition_rows(in_each, topic="in-each") + partition_rows(in_two, topic="in-two")


def test_a_topic_has_its_even_share_where_racks_leave_room_for_it() -> None:
    problem = problem_of(*narrow_rack())
    targets = np.array([50.0, 50.0, 60.0, 50.0, 50.0, 0.0])
    left = left_by_racks(problem, rack_rule(problem), replication(problem.replicas), targets)
    assert left is not None
    assert np.round(left, 6).tolist() == [[30, 30, 60, 30, 30, 0], [20, 20, 0, 20, 20, 0]]
    found = Crowding(problem.replicas, problem.topic, np.full(6, 0.2), left)
    assert found.room[:, :3].tolist() == [
        [36 + 1 - 30, 36 + 1 - 30, 60 + 1 - 30],
        [20 + 1 - 15, 20 + 1 - 15, 16 + 1 - 10],
    ]


def test_racks_that_are_alike_change_no_share() -> None:
    problem = problem_of(*narrow_rack())
    even = np.array([52.0] * 5 + [0.0])
    assert left_by_racks(problem, rack_rule(problem), replication(problem.replicas), even) is None


def test_a_drain_that_leaves_a_narrow_rack_ends_within_the_tolerance() -> None:
    brokers, partitions = narrow_rack()
    problem = problem_of(brokers, partitions, tolerance=0.1)
    plan = propose(problem, "balanced")
    verify(plan, problem.snapshot_digest, brokers, partitions, problem.settings)
    assert plan.shortfall_after.is_met_exactly
    held = [broker for replicas in lists_after(plan, partitions).values() for broker in replicas]
    assert held.count(3) <= 66


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
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


def test_a_topic_crowds_a_broker_anew_by_a_single_move_once_it_crowds_another_less() -> None:
    fixed = partition_rows([[0]] * 4 + [[1]] * 10, topic="fixed")
    rows = fixed + partition_rows([[0]] * 4 + [[1]] * 10, topic="moves")
    for name in ("balanced", "optimal"):
        plan = plan_of(broker_rows([0, 1], {0: "a", 1: "b"}), rows, name, topics_out=["fixed"])
        held = [broker for brokers in lists_after(plan, rows).values() for broker in brokers]
        assert plan.candidate.status == "ok"
        assert {held.count(0), held.count(1)} <= {13, 14, 15}
        assert plan.candidate.summary["crowded_replicas"] <= plan.candidate.summary["crowded_replicas_before"]


def test_no_optimum_crowds_brokers_more_than_they_were() -> None:
    """Only `moves` can fill broker 5. Within the tolerance it would hold five of twelve, and that is one too many."""
    lists = [[1], [2], [3], [4]] * 3
    rows = partition_rows(lists, topic="moves") + partition_rows([*lists, [4]], topic="fixed")
    problem = problem_of(broker_rows(range(1, 6)), rows, topics_out=["fixed"])
    frame = frame_of(problem, goal_of(problem.settings, "optimal"), replication(problem.replicas))
    free = fewest_bytes(frame)
    assert free.replicas is not None
    assert crowds_more(frame, free.replicas)
    optimum = propose(problem, "optimal")
    assert optimum.candidate.summary["crowded_replicas"] == optimum.candidate.summary["crowded_replicas_before"] == 0
    assert optimum.notes[0].figures["crowds_no_more"], "plans that crowd brokers more do not count"
