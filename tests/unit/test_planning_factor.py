"""Replication factors up and down: which replicas stay, where new ones go."""

from __future__ import annotations

from snapshots import broker_rows, lists_after, partition_rows, plan_of, problem_of

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


def test_a_lower_factor_keeps_the_replicas_that_are_in_the_isr() -> None:
    partitions = partition_rows([[1, 2, 3]] * 3, isr=[[1, 2], [2, 3], [3, 1]])
    plan = plan_of(
        broker_rows([1, 2, 3]), partitions, "light", job="replication_factor", replication_factor=2, tolerance=0.9
    )
    after = lists_after(plan, partitions)
    assert [set(after["orders", number]) for number in range(3)] == [{1, 2}, {2, 3}, {3, 1}]


def test_a_lower_factor_keeps_the_racks_even_if_a_replica_that_lags_has_to_stay() -> None:
    partitions = partition_rows([[1, 4, 2]], isr=[[1, 4]])
    plan = plan_of(broker_rows([1, 2, 4], RACKS), partitions, "light", job="replication_factor", replication_factor=2)
    assert {RACKS[broker] for broker in lists_after(plan, partitions)["orders", 0]} == {"a", "b"}


def test_an_isr_that_is_missing_empty_or_null_says_nothing() -> None:
    brokers = broker_rows([1, 2, 3])
    partitions = partition_rows([[1, 2], [2, 3, 1], [3]], isr=[None, [], [3, 9]])
    assert problem_of(brokers, partitions).in_sync.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert problem_of(brokers, partition_rows([[1, 2]])).in_sync.tolist() == [[True, True]]
    lags = partition_rows([[1, 2, 3]], isr=[[3]])
    assert problem_of(brokers, lags).in_sync.tolist() == [[False, False, True]]


def test_replicas_on_brokers_that_are_out_keep_another_where_alone_they_would_share_a_rack() -> None:
    partitions = partition_rows([[1, 2, 4], [1, 5, 4], [1, 5, 2]])
    plan = plan_of(
        broker_rows([1, 2, 4, 5], RACKS),
        partitions,
        "light",
        job="replication_factor",
        replication_factor=1,
        brokers_out=[1, 4],
    )
    after = lists_after(plan, partitions)
    assert [set(after["orders", number]) for number in range(3)] == [{1, 2, 4}, {1, 4, 5}, {1}]
    assert "2 partitions keep more than 1 replicas, because of those on brokers_out" in plan.candidate.note
