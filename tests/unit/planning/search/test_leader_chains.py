"""Leaders that are passed on from broker to broker, where two brokers share no list."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from support.plans.small_snapshots import broker_rows, lists_after, partition_rows, plan_of

# One topic each, so that topics spread their leaders as they like.
Lists = Sequence[Sequence[int]]


def led(lists: Lists, brokers: int, job: str = "leaders", name: str = "leaders_only") -> tuple[list[int], str]:
    """(how many partitions each broker leads afterwards, status)"""
    rows = [row for number, held in enumerate(lists) for row in partition_rows([held], topic=f"topic-{number}")]
    plan = plan_of(broker_rows(range(brokers)), rows, name, job=job)
    count = Counter(held[0] for held in lists_after(plan, rows).values())
    return [count[broker] for broker in range(brokers)], plan.candidate.status


def test_a_broker_in_the_middle_passes_a_leader_on() -> None:
    assert led([[0, 1], [0, 1], [1, 2]], 3) == ([1, 1, 1], "ok")


def test_a_chain_over_four_brokers_makes_six_five_four_five_even() -> None:
    lists = [[0, 1]] * 6 + [[1, 3]] * 5 + [[3, 2]] * 5 + [[2]] * 4
    assert led(lists, 4) == ([5, 5, 5, 5], "ok")


@pytest.mark.slow
def test_chains_end_at_the_most_even_leaders_that_any_order_gives() -> None:
    rng = random.Random(26)
    for _ in range(20):
        brokers = rng.randint(3, 5)
        lists = [rng.sample(range(brokers), rng.choice((1, 2, 2, 2, 3))) for _ in range(rng.randint(4, 8))]
        best = min(sum(count**2 for count in Counter(leaders).values()) for leaders in itertools.product(*lists))
        assert sum(count**2 for count in led(lists, brokers)[0]) == best


def test_brokers_that_only_a_chain_could_help_are_not_within_the_tolerance() -> None:
    rows = [row for n, held in enumerate([[0, 1], [0, 1], [1, 2]]) for row in partition_rows([held], topic=f"t{n}")]
    plan = plan_of(broker_rows(range(3)), rows, "leaders_only", job="leaders", max_leader_changes=1)
    assert "leaders 0.00 to 2.00 of the reachable share" in plan.note


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_chain_is_within_max_leader_changes_or_is_not_begun(most: int) -> None:
    rows = [row for n, held in enumerate([[0, 1], [0, 1], [1, 2]]) for row in partition_rows([held], topic=f"t{n}")]
    plan = plan_of(broker_rows(range(3)), rows, "leaders_only", job="leaders", max_leader_changes=most)
    assert len(plan.candidate.moves) == (2 if most == 2 else 0)


def test_no_replica_that_is_out_of_sync_is_part_of_a_chain() -> None:
    lists, isr = [[0, 1], [0, 1], [1, 2]], [[0, 1], [0, 1], [1]]
    rows = [
        row
        for n, (held, synced) in enumerate(zip(lists, isr, strict=True))
        for row in partition_rows([held], topic=f"t{n}", isr=[synced])
    ]
    assert plan_of(broker_rows(range(3)), rows, "leaders_only", job="leaders").candidate.moves == ()
