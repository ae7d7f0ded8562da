"""A batch is looked at often when it is young or near its end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.rebalance.follow import seconds_to_next_look


@pytest.mark.parametrize(
    ("age", "quiet", "eta", "expected"),
    [
        (0, 0, 3600, 0.5),  # a young batch
        (600, 600, 3600, 15),  # the middle of a long copy
        (600, 600, 60, 6),
        (600, 600, 3, 0.5),  # near its end
        (600, 0, None, 0.5),  # a partition just went on, and nobody knows for how long the others will not
        (600, 60, None, 6),
        (9000, 9000, None, 15),  # waits for a broker
    ],
)
def test_a_batch_is_looked_at_often_when_it_is_young_or_near_its_end(
    age: int, quiet: int, eta: int | None, expected: float | int
) -> None:
    assert seconds_to_next_look(0.5, 15, age_seconds=age, quiet_seconds=quiet, eta_seconds=eta) == expected


@given(*[st.floats(0, 1e6)] * 2, st.none() | st.floats(0, 1e9))
def test_the_bounds_hold(age: Any, quiet: Any, eta: Any) -> None:
    assert 2 <= seconds_to_next_look(2, 30, age_seconds=age, quiet_seconds=quiet, eta_seconds=eta) <= 30
