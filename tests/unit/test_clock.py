"""Who follows a batch counts by a clock that nobody sets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafka_rebalance import clock as steady_clock


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_set_meanwhile_moves_no_steady_clock(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    wall, passed = [1_000_000.0], [5.0]
    monkeypatch.setattr(steady_clock, "time", SimpleNamespace(time=lambda: wall[0], monotonic=lambda: passed[0]))
    clock = steady_clock.SteadyClock()
    assert clock() == 1_000_000.0
    wall[0] += days * 86_400
    passed[0] += 15
    assert clock() == 1_000_015.0
