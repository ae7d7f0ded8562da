"""Clusters with fewer partitions than brokers: the most even plan there is does the job."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.plans.small_snapshots import broker_rows, partition_rows, plan_of

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


@pytest.mark.parametrize("name", ["light", "balanced"])
@pytest.mark.parametrize(
    ("brokers", "lists", "racks"),
    [
        (3, [[1, 3, 2]], None),
        (3, [[3]], None),
        (6, [[3]], RACKS),
        (6, [[1], [5], [3]], None),
        (6, [[1, 2, 3], [4, 5, 6]], RACKS),
    ],
)
def test_the_most_even_lists_there_are_do_the_job(
    name: str, brokers: int, lists: Sequence[Sequence[int]], racks: dict[int, str] | None
) -> None:
    plan = plan_of(broker_rows(range(1, brokers + 1), racks), partition_rows(lists), name)
    assert plan.candidate.status == "ok"
    assert "not reached" not in plan.note
    assert plan.candidate.moves == ()
    assert plan.shortfall_after.is_met


def test_a_broker_with_two_of_two_partitions_is_still_off() -> None:
    plan = plan_of(broker_rows([1, 2, 3]), partition_rows([[1], [1]]), max_bytes=0)
    assert plan.candidate.status == "partial"
    assert "replicas 0.00 to 3.00 of the reachable share" in plan.note


def test_a_giant_excuses_its_broker_only_until_what_lies_beside_it_could_go() -> None:
    beside = partition_rows([[1]] * 3, topic="large", size=10**5) + partition_rows([[2], [3]] * 4, topic="small")
    stopped = plan_of(broker_rows([1, 2, 3]), partition_rows([[1]], size=10**6) + beside, max_bytes=0)
    assert stopped.candidate.status == "partial"
    assert "disk" in stopped.note
    alone = plan_of(
        broker_rows([1, 2, 3]), partition_rows([[1]], size=10**6) + partition_rows([[2], [3]], topic="small")
    )
    assert alone.candidate.status == "ok"
