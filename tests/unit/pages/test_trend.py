"""The small line of a cluster's skew over 30 days, with its limit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_rebalance.pages.fleet import NIGHTS, Trend, trends

NOW = datetime(2026, 5, 31, 2, 15, tzinfo=UTC)


def line(*points: tuple[float, float], limit: float = 0.2) -> Trend:
    """From (days ago, skew)."""
    (found,) = trends([(NOW - timedelta(days=days), "disk", skew, limit) for days, skew in points], NOW)
    return found


def coordinates(trend: Trend) -> list[tuple[float, ...]]:
    return [tuple(map(float, point.split(","))) for point in trend.points.split()]


def test_the_line_of_every_cluster_has_the_same_days_from_left_to_right() -> None:
    whole, late = line((NIGHTS, 0.1), (0, 0.1)), line((3, 0.1), (0, 0.1))
    assert [x for x, _ in coordinates(whole)] == [2, 118]
    assert [x for x, _ in coordinates(late)] == [106.4, 118]


def test_more_skew_is_higher_and_the_limit_is_among_it() -> None:
    trend = line((2, 0.1), (1, 0.3))
    (_, low), (_, high) = coordinates(trend)
    assert 0 < high < trend.limit_height < low < 30
    assert trend.last_point == coordinates(trend)[-1]
    assert trend.is_past
    assert not line((1, 0.2)).is_past


@pytest.mark.parametrize("skew", [0.0, 0.01, 0.2, 40.0])
def test_line_and_limit_stay_in_the_box_whatever_the_skew(skew: float) -> None:
    trend = line((NIGHTS + 1, skew), (0, skew), limit=0.2 if skew else 0.0)
    heights = [*(y for _, y in coordinates(trend)), trend.limit_height]
    assert all(2 <= y <= 28 for y in heights)
    assert all(2 <= x <= 118 for x, _ in coordinates(trend))


def test_the_worst_resource_comes_first_and_one_of_a_later_version_last() -> None:
    found = trends([(NOW, name, 0.1, 0.2) for name in ("odd", "leaders", "disk", "imbalance")], NOW)
    assert [trend.resource for trend in found] == ["imbalance", "disk", "leaders", "odd"]
    assert [trend.title for trend in found] == ["Worst resource", "Bytes on disk", "Leaders", "Odd"]


def test_checks_are_drawn_in_the_order_of_time() -> None:
    assert line((1, 0.3), (5, 0.1), (3, 0.2)).skew == (0.1, 0.2, 0.3)
