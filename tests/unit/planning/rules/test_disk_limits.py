"""Brokers with several log dirs: Kafka puts a new replica where there are fewest, however full that directory is."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kafka_rebalance.errors import ArtifactError, PlanningError
from kafka_rebalance.planning.rules.rack_rule import domains_of, rack_rule
from kafka_rebalance.planning.rules.where_replicas_may_go import allowed, move_rules
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

GB = 10**9


def log_dirs(*usable: int | None, total: int | None = 1000 * GB) -> list[dict[str, Any]]:
    return [
        {"path": f"/data{number}", "total_bytes": total, "usable_bytes": free} for number, free in enumerate(usable, 1)
    ]


def brokers_with(dirs: list[dict[str, Any]]) -> Rows:
    """Broker 1 holds everything on one large directory, brokers 2 and 3 are empty; 3 has these directories."""
    return broker_rows([1, 2, 3], log_dirs={1: log_dirs(0), 2: log_dirs(900 * GB, 900 * GB), 3: dirs})


def added(plan: Any) -> dict[int, list[int]]:
    """The sizes of the replicas that each broker is given, in the order of the batches."""
    sizes: dict[int, list[int]] = {}
    for move in plan.candidate.moves:
        for broker in move.added:
            sizes.setdefault(broker, []).append(move.size_bytes)
    return sizes


def test_a_broker_with_a_full_log_dir_is_given_nothing() -> None:
    plan = plan_of(brokers_with(log_dirs(900 * GB, 900 * GB, 50 * GB)), partition_rows([[1]] * 60, size=GB))
    assert set(added(plan)) == {2}
    assert "broker 3 with uneven log dirs, which Kafka fills by number and not by size: /data3" in (
        plan.note.replace("Broker", "broker")
    )
    assert "has room for 0 bytes" in plan.note


def test_a_broker_with_a_nearly_full_log_dir_is_given_no_replica_that_this_one_cannot_take() -> None:
    sizes = [GB * (1 + number % 20) for number in range(60)]
    rows = partition_rows([[1]] * 60, size_bytes=sizes)
    plan = plan_of(brokers_with(log_dirs(900 * GB, 900 * GB, 105 * GB)), rows)
    assert 0 < max(added(plan)[3]) <= 5 * GB
    assert sum(added(plan)[3]) <= 3 * 5 * GB
    assert max(added(plan)[2]) > 5 * GB


def test_a_replica_goes_where_it_just_fits_and_not_where_it_is_one_byte_too_large() -> None:
    brokers = broker_rows([1, 2, 3], log_dirs={2: log_dirs(60 * GB, 105 * GB), 3: log_dirs(105 * GB, 900 * GB)})
    problem = problem_of(brokers, partition_rows([[1]] * 2, size_bytes=[5 * GB, 5 * GB + 1]))
    rule, lists = rack_rule(problem), problem.replicas
    rows, columns = np.array([0, 1]), np.array([0, 0])
    others = move_rules(problem, rule)
    masks = allowed(rule, others, lists, domains_of(rule, lists), rows, columns, np.array([1, 2]))
    assert masks.tolist() == [[False, True], [False, False]]


def test_kafkas_own_choice_of_log_dirs_overflows_none_of_them() -> None:
    left = {"/data1": 300 * GB, "/data2": 160 * GB, "/data3": 150 * GB}
    rows = partition_rows([[1]] * 300, size_bytes=[GB * (1 + number % 7) for number in range(300)])
    plan = plan_of(brokers_with(log_dirs(*left.values())), rows)
    arriving = added(plan)[3]
    assert sum(arriving) > 100 * GB
    for seed in range(20):
        random.Random(seed).shuffle(arriving)
        counts, free = Counter(dict.fromkeys(left, 5)), left.copy()
        for size in arriving:
            path = min(counts, key=counts.__getitem__)
            counts[path] += 1
            free[path] -= size
        assert min(free.values()) >= 0


def test_even_log_dirs_of_a_new_broker_are_filled_like_one_disk() -> None:
    many = broker_rows([1, 2], log_dirs={2: log_dirs(*[1000 * GB] * 12)})
    one = broker_rows([1, 2])
    rows = partition_rows([[1]] * 40, size=200 * GB)
    assert plan_of(many, rows).candidate.moves == plan_of(one, rows).candidate.moves
    assert "log dirs" not in plan_of(many, rows).note


def test_a_drain_whose_replicas_fit_no_log_dir_is_refused_with_both_figures() -> None:
    brokers = broker_rows([1, 2], log_dirs={2: log_dirs(900 * GB, 120 * GB)})
    with pytest.raises(PlanningError) as refused:
        plan_of(brokers, partition_rows([[1]] * 3, size_bytes=[1, 30 * GB, 2]), job="drain", drain=[1])
    assert "orders-1 has 30,000,000,000 bytes" in str(refused.value)
    assert "takes one above 20,000,000,000 bytes with 10 % kept free" in str(refused.value)


def test_more_than_the_log_dirs_take_together_is_infeasible_with_what_is_left() -> None:
    brokers = broker_rows([1, 2, 3], log_dirs={2: log_dirs(900 * GB, 120 * GB), 3: log_dirs(900 * GB, 120 * GB)})
    rows = partition_rows([[1]] * 50, size=GB * 2)
    with pytest.raises(PlanningError, match=r"100,000,000,000 bytes of replicas do not fit .* 80,000,000,000"):
        plan_of(brokers, rows, job="drain", drain=[1])


def test_log_dirs_of_unknown_size_limit_nothing_and_are_named() -> None:
    rows = partition_rows([[1]] * 10)
    unknown = plan_of(brokers_with(log_dirs(None, None, total=None)), rows)
    assert set(added(unknown)) == {2, 3}
    assert "broker 3 with several log dirs of unknown size" in unknown.note.replace("Broker", "broker")
    single = plan_of(broker_rows([1, 2], log_dirs={2: log_dirs(None, total=None)}), rows)
    assert "log dirs" not in single.note


def test_a_given_plan_that_a_log_dir_cannot_take_is_not_offered() -> None:
    text = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3]}]}'
    full = brokers_with(log_dirs(900 * GB, 900 * GB, 50 * GB))
    plan = plan_of(full, partition_rows([[1]] * 4, size=GB), "given", plan=text)
    assert plan.candidate.status == "infeasible"
    assert "orders-0 (1,000,000,000 bytes) is larger than /data3 of broker 3 takes (0)" in plan.note


@pytest.mark.parametrize("wrong", [-1, 2**60])
def test_a_log_dir_of_an_impossible_size_is_refused(wrong: int) -> None:
    with pytest.raises(ArtifactError, match=f"log_dirs holds {wrong} bytes for /data2"):
        problem_of(brokers_with(log_dirs(5, wrong)), partition_rows([[1]]))
