"""How much each broker may still copy between its log dirs before a window closes, and what no window can hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf

import pytest

from kafka_rebalance.documents.log_dir_plan import LogDirMove, LogDirPlan, Replica
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.log_dirs.next_copies import DirsNow, DiskOfDir, next_moves
from kafka_rebalance.log_dirs.rules import bytes_in_time, check_fits_openings, seconds_at_most, window_of

RATE = 1000
MOVES = tuple(LogDirMove("t", number, 1, "/a", "/b", size) for number, size in enumerate((500, 300, 100)))
PLAN = LogDirPlan("id", "drain", MOVES, RATE, 3, 0.1, ("daily 22:00-23:00 UTC",))
NIGHT = datetime(2026, 1, 5, 22, 30, tzinfo=UTC)  # half an hour before it closes


def dirs(**future: int) -> DirsNow:
    """`future`: bytes copied so far, by the partition's name as in p0."""
    return DirsNow(
        disks={1: {"/a": DiskOfDir(), "/b": DiskOfDir()}},
        paths={move.replica: "/a" for move in MOVES},
        sizes={move.replica: move.size_bytes for move in MOVES},
        future={Replica("t", int(name[1:]), 1): ("/b", size) for name, size in future.items()},
    )


def chosen(in_time: float, now: DirsNow) -> list[int]:
    return [move.partition for move in next_moves(PLAN, now, in_time)]


def test_a_window_lets_through_what_ends_in_it_even_at_the_slow_estimate() -> None:
    assert bytes_in_time(window_of(PLAN), RATE, NIGHT) == 1800 * RATE / 1.5
    assert seconds_at_most(1800 * RATE, RATE) == 2700
    assert bytes_in_time(window_of(PLAN), 2 * RATE, NIGHT) == 2 * 1800 * RATE / 1.5


@pytest.mark.parametrize("at", [NIGHT + timedelta(minutes=30), NIGHT - timedelta(minutes=31)])
def test_a_closed_window_lets_nothing_through_and_no_window_everything(at: datetime) -> None:
    assert bytes_in_time(window_of(PLAN), RATE, at) == 0
    assert bytes_in_time(window_of(replace(PLAN, windows=())), RATE, at) == inf


def test_copies_of_one_broker_share_the_time_that_is_left_and_smaller_ones_pass_those_without_room() -> None:
    assert chosen(inf, dirs()) == [0, 1, 2]
    assert chosen(800, dirs()) == [0, 1]
    assert chosen(450, dirs()) == [1, 2]
    assert chosen(0, dirs()) == []


def test_what_is_left_of_a_copy_under_way_counts_and_what_it_has_copied_does_not() -> None:
    assert chosen(500, dirs(p0=0)) == []
    assert chosen(500, dirs(p0=400)) == [1, 2]


def test_only_the_largest_copy_decides_whether_the_openings_are_long_enough() -> None:
    hour = LogDirMove("t", 3, 1, "/a", "/b", 2400 * RATE)
    check_fits_openings(replace(PLAN, moves=(*MOVES, hour)), NIGHT)
    too_large = replace(PLAN, moves=(*MOVES, replace(hour, size_bytes=2401 * RATE)))
    with pytest.raises(
        PlanningError, match=r"t-3 on broker 1 may take up to 1 h.*open for 1 h at most.*higher throttle"
    ):
        check_fits_openings(too_large, NIGHT)
    check_fits_openings(replace(too_large, windows=()), NIGHT)
    check_fits_openings(replace(too_large, throttle_bytes_per_second=2 * RATE), NIGHT)
