"""What counts as a material change since a rebalance was rejected."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_rebalance.nightly.after_rejection import ClusterState, RejectedState, changed_since

AT = datetime(2026, 5, 3, 8, 0, tzinfo=UTC)
THEN = ClusterState(frozenset({1, 2, 3}), {"disk": 0.3, "leaders": 0.1}, 0, "a" * 64)


def changes(days: float = 1, limit: float = 0.2, **now: Any) -> list[str]:
    rejected = RejectedState("one", "uma", AT, "", THEN)
    return changed_since(rejected, dataclasses.replace(THEN, **now), AT + timedelta(days=days), limit)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"skew": {"disk": 0.4, "leaders": 0.1}}, ["bytes on disk were 30 % off then and are 40 % now"]),
        ({"skew": {"disk": 0.3, "leaders": 0.5}}, ["leaders were 10 % off then and are 50 % now"]),
        ({"brokers": frozenset({1, 2, 3, 4})}, ["broker 4 came"]),
        ({"brokers": frozenset({1, 2})}, ["broker 3 went"]),
        ({"rack_violations": 2}, ["2 rack violations instead of 0"]),
        ({"rack_violations": 1}, ["1 rack violation instead of 0"]),
        ({"policy_digest": "b" * 64}, ["the policy has changed"]),
        ({"days": 14}, ["14 days have passed"]),
    ],
)
def test_a_material_change_is_named(now: dict[str, Any], said: list[str]) -> None:
    assert changes(**now) == said


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"skew": {"disk": 0.39, "leaders": 0.1}},
        {"skew": {"disk": 0.1, "leaders": 0.1}},
        {"skew": {"disk": 0.3, "leaders": 0.2}},
        {"days": 13.9},
    ],
)
def test_what_is_like_before_or_better_is_none(now: dict[str, Any]) -> None:
    assert changes(**now) == []
