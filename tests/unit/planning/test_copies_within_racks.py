"""Replicas that are copied within their rack move in place of others: where that is cheap, or at any price."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.search import frame
from support.plans.plan_verifier import verify
from support.plans.small_snapshots import Rows, broker_rows, partition_rows, plan_of, problem_of

RACKS = {broker: "abc"[broker % 3] for broker in range(1, 16)}
BROKERS = broker_rows(RACKS, RACKS)  # 13 to 15 are empty


def lists(count: int = 720) -> Rows:
    """Each partition has a replica in every rack, and each rack leads a third of them."""
    rng = random.Random(7)
    drawn = [[rng.choice([b for b in range(1, 13) if RACKS[b] == rack]) for rack in "abc"] for _ in range(count)]
    turned = [one[number % 3 :] + one[: number % 3] for number, one in enumerate(drawn)]
    sizes = [rng.randint(10**6, 10**8) for _ in range(count)]
    return partition_rows(turned, size_bytes=sizes, isr=[None] * count, leader=[None] * count)


def planned(name: str = "balanced", brokers: Rows = BROKERS, **settings: Any) -> DescribedCandidate:
    rows = lists()
    plan = plan_of(brokers, rows, name, **settings)
    if brokers is BROKERS:
        verify(
            plan, problem_of(brokers, rows, **settings).snapshot_digest, brokers, rows, Settings.from_mapping(settings)
        )
    return plan


def bytes_between(plan: DescribedCandidate) -> int:
    """Counted from the moves: a copy comes from the first replica, which leads here."""
    return sum(
        move.size_bytes for move in plan.candidate.moves for new in move.added if RACKS[new] != RACKS[move.before[0]]
    )


def as_by_chance(name: str = "balanced") -> DescribedCandidate:
    """The plan of a search that prefers no copy to another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "PREFERRED", 1.0)
        return planned(name)


def worth_a_leader() -> int:
    """The size below which all replicas together hold a third of all bytes."""
    sizes = sorted(row["size_bytes"] for row in lists())
    return next(size for size in sizes if sum(one for one in sizes if one <= size) >= sum(sizes) / 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["light", "balanced"])
def test_copies_within_racks_are_preferred_where_a_further_leader_change_is_worth_it(name: str) -> None:
    usual, preferred = as_by_chance(name), planned(name)
    assert bytes_between(preferred) < 0.8 * bytes_between(usual)
    assert preferred.copied_bytes <= 1.01 * usual.copied_bytes
    further = (preferred.candidate.summary["leader_changes"] or 0) - (usual.candidate.summary["leader_changes"] or 0)
    assert bytes_between(usual) - bytes_between(preferred) >= further * worth_a_leader()
    assert preferred.candidate.status == usual.candidate.status == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["light", "balanced"])
def test_copies_stay_within_their_racks_for_at_most_a_hundredth_more_bytes(name: str) -> None:
    usual, within = as_by_chance(name), planned(name, copies_within_racks=True)
    assert bytes_between(within) < bytes_between(usual) / 2
    assert within.copied_bytes <= 1.01 * usual.copied_bytes
    assert within.candidate.status == usual.candidate.status == "ok"
    assert within.candidate.summary["cross_rack_bytes"] == bytes_between(within)


@pytest.mark.slow
def test_it_costs_leaders_and_a_limit_on_these_holds() -> None:
    usual, within = as_by_chance(), planned(copies_within_racks=True)
    changes = usual.candidate.summary["leader_changes"]
    assert within.candidate.summary["leader_changes"] > changes
    limited = planned(copies_within_racks=True, max_leader_changes=changes)
    assert limited.candidate.summary["leader_changes"] <= changes


@pytest.mark.slow
def test_where_a_rack_is_unknown_the_plan_is_as_usual() -> None:
    brokers = [{**row, "rack": None} for row in BROKERS]
    plans = [planned(brokers=brokers, copies_within_racks=asked) for asked in (False, True)]
    assert plans[0].candidate.moves == plans[1].candidate.moves
