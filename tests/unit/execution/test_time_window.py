"""When a batch may begin, and by when all must be over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.execution.eta import CONTROLLER_SECONDS, predicted_seconds
from kafka_rebalance.execution.time_window import Window, read_window
from support.kafka.small_clusters import move

NOW = datetime(2026, 11, 21, 22, tzinfo=UTC)


def test_a_batch_takes_as_long_as_its_busiest_broker() -> None:
    moves = [move("t-0", [1, 2], [3, 2], size=600), move("t-1", [1, 2], [4, 2], size=400)]
    assert predicted_seconds(moves, 10) == 100 + CONTROLLER_SECONDS, "broker 1 sends both"
    assert predicted_seconds([move("t-0", [1, 2], [2, 1], size=600)], 10) == CONTROLLER_SECONDS, "copies nothing"


def test_a_window_says_when_a_batch_may_begin() -> None:
    window = read_window({"not_before": "2026-11-21T23:00:00+00:00", "finish_by": "2026-11-22T02:00:00+01:00"})
    assert window.waits_until(NOW) == NOW + timedelta(hours=1)
    at = NOW + timedelta(hours=2)
    assert window.waits_until(at) is None
    assert window.closed_for(3600, at) is None
    assert "would end after finish_by, 2026-11-22T02:00:00+01:00" in (window.closed_for(3601, at) or "")
    assert read_window(window.to_mapping()) == window
    assert read_window({}) == read_window({"not_before": "", "finish_by": None}) == Window()


@pytest.mark.parametrize(
    ("minutes", "pace", "not_begun"),
    [
        (60, 1.0, 0),  # the last one ends with the window
        (59, 1.0, 1),
        (60, 1.5, 1),  # each takes half as long again: the third begins after 45 min, and may not
        (60, 0.5, 0),
        (20, 1.0, 3),  # the second is too long, so the third, which would fit, is not begun either
        (9, 0.1, 4),
    ],
)
def test_the_first_batch_that_could_not_end_in_time_holds_back_all_after_it(
    minutes: int, pace: float, not_begun: int
) -> None:
    predicted = [600.0, 900.0, 300.0, 1800.0]
    window = Window(finish_by=NOW + timedelta(minutes=minutes))
    assert window.not_begun(predicted, NOW, pace) == not_begun
    assert Window().not_begun(predicted, NOW, 9.0) == 0


@pytest.mark.parametrize("given_", ["2026-11-21T23:00:00", "tonight", 7, "2026-11-21"])
@pytest.mark.parametrize("name", ["not_before", "finish_by"])
def test_a_time_without_its_zone_is_refused(name: str, given_: int | str) -> None:
    with pytest.raises(SettingsError, match=rf"{name}: .* is not a time with its zone"):
        read_window({name: given_})


def test_a_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(SettingsError, match="no batch could begin"):
        read_window({"not_before": "2026-11-21T23:00:00+01:00", "finish_by": "2026-11-21T22:00:00Z"})
