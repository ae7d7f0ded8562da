"""How long a rebalance takes, by what earlier ones took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.moves.eta import (
    ASSUMED,
    MIN_RUNS,
    RUNS_COUNTED,
    EtaRange,
    eta_range,
    paused_seconds,
    rest_range,
    run_ratios,
    slowest_seconds,
)


def outcome(predicted: float | None = 600.0, actual: float | None = 900.0, verified: bool = True) -> dict[str, Any]:
    return {"predicted_seconds": predicted, "actual_seconds": actual, "verified": verified}


@pytest.mark.parametrize(
    ("ratios", "low", "high"),
    [
        ([1.0] * 5, 600, 600),
        ([0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5], 600, 3000),
        ([5.0, 1.0, 3.0, 2.0, 4.0], 600 * 1.4, 600 * 4.6),
    ],
)
def test_the_range_is_the_middle_eight_tenths_of_what_such_plans_took(
    ratios: list[float], low: float, high: float
) -> None:
    found = eta_range(600, ratios)
    assert (found.low, found.high, found.runs) == (pytest.approx(low), pytest.approx(high), len(ratios))
    assert found.is_measured


@pytest.mark.parametrize("ratios", [[], [7.0], [7.0] * (MIN_RUNS - 1)])
def test_too_few_runs_give_the_assumed_range_and_say_so(ratios: list[float]) -> None:
    found = eta_range(100, ratios)
    assert found == EtaRange(100 * ASSUMED[0], 100 * ASSUMED[1], len(ratios))
    assert not found.is_measured


def test_a_plan_without_copies_has_no_range_but_now() -> None:
    assert eta_range(0, [1.0] * 9) == EtaRange(0, 0, 9)


def test_only_runs_count_that_reached_their_end_and_were_long_enough_to_tell() -> None:
    rows = [
        outcome(),
        outcome(verified=False),
        outcome(actual=None),
        outcome(predicted=None),
        outcome(predicted=59.9),
        outcome(predicted=60, actual=30),
        outcome(predicted=120, actual=40) | {"batches": 20},  # of which it copies for 20 s
        outcome(predicted=0, actual=10),
        outcome(actual=0),
    ]
    assert run_ratios(rows) == (1.5, 0.5)


def test_of_many_runs_the_newest_count() -> None:
    rows = [outcome(actual=600 + number) for number in range(RUNS_COUNTED + 10)]
    assert run_ratios(rows) == tuple((600 + number) / 600 for number in range(RUNS_COUNTED))


def test_what_is_left_holds_the_plans_range_and_the_runs_own_pace() -> None:
    ratios = [1.0] * 4 + [2.0] * 4
    assert rest_range(100, None, ratios) == eta_range(100, ratios)
    assert rest_range(100, 50, ratios) == EtaRange(50, 200, 8)
    assert rest_range(100, 150, ratios) == EtaRange(100, 200, 8)
    assert rest_range(100, 300, ratios) == EtaRange(100, 300, 8)


def test_without_a_planned_time_the_pace_alone_tells_and_without_both_nothing() -> None:
    assert rest_range(None, 100, [1.0] * 9) == EtaRange(90, 150, 0)
    assert rest_range(None, None, [1.0] * 9) is None


def test_the_slowest_time_is_the_upper_end_of_the_range_and_never_below_the_plan() -> None:
    assert slowest_seconds(100, []) == 100 * ASSUMED[1]
    assert slowest_seconds(100, [0.5] * MIN_RUNS) == 100
    assert slowest_seconds(100, [3.0] * MIN_RUNS) == pytest.approx(300)


@pytest.mark.parametrize(
    ("pauses", "seconds"),
    [
        ([], 0),
        ([(1, 4)], 3 * 3600),
        ([(1, 2), (5, 9)], 5 * 3600),
        ([(-3, 2)], 2 * 3600),  # before the first request it waited too
        ([(8, 12)], 2 * 3600),
        ([(7, None)], 3 * 3600),  # it still waits
        ([(-3, -1), (11, 12), (12, None)], 0),
    ],
)
def test_only_the_part_of_a_pause_within_the_run_counts(pauses: list[tuple[int, int | None]], seconds: int) -> None:
    began = datetime(2026, 11, 20, tzinfo=UTC)
    hours = [(began + timedelta(hours=at), None if end is None else began + timedelta(hours=end)) for at, end in pauses]
    assert paused_seconds(hours, began, began + timedelta(hours=10)) == seconds
