"""Lists that lie in one rack are led there: the most even leaders there are do the job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from support.plans.small_snapshots import broker_rows, lists_after, partition_rows, plan_of

RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def lists_within(first: int, second: int) -> list[list[int]]:
    """So many lists in rack a, and so many in rack b."""
    return [[1, 2], [2, 1]] * (first // 2) + [[3, 4], [4, 3]] * (second // 2)


@pytest.mark.parametrize("settings", [{"job": "leaders"}, {"rack_pinned_topics": ["orders"]}])
@pytest.mark.parametrize(("first", "second"), [(24, 8), (12, 4), (2, 20)])
def test_the_most_even_leaders_there_are_do_the_job(first: int, second: int, settings: dict[str, Any]) -> None:
    plan = plan_of(broker_rows(RACKS, RACKS), partition_rows(lists_within(first, second)), **settings)
    assert plan.candidate.status == "ok", plan.note
    assert plan.candidate.moves == ()


def test_leaders_within_a_rack_are_still_evened() -> None:
    partitions = partition_rows([[1, 2]] * 12 + [[3, 4]] * 4)
    plan = plan_of(broker_rows(RACKS, RACKS), partitions, rack_pinned_topics=["orders"])
    assert plan.candidate.status == "ok", plan.note
    assert led(lists_after(plan, partitions).values()) == [6, 6, 2, 2]


def test_what_may_be_led_elsewhere_makes_up_for_a_rack_that_leads_too_much() -> None:
    partitions = partition_rows([[1, 2]] * 8) + partition_rows([[1, 3], [2, 4]] * 4, topic="free")
    plan = plan_of(broker_rows(RACKS, RACKS), partitions, job="leaders")
    assert plan.candidate.status == "ok", plan.note
    assert led(lists_after(plan, partitions).values()) == [4, 4, 4, 4]


def led(lists: Collection[Sequence[int]]) -> list[int]:
    firsts = [one[0] for one in lists]
    return [firsts.count(broker) for broker in RACKS]
