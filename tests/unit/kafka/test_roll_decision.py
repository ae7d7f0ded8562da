"""When a log segment is rolled: five conditions, the first that holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_rebalance.kafka.segment_roll import RollReason, should_roll

GIB = 1 << 30
WEEK_MS = 604_800_000
INT_MAX = 2**31 - 1
NOW = 1_700_000_000_000

# A segment with Kafka's defaults in the middle of its life, and a batch that fits it.
QUIET: dict[str, Any] = {
    "segment_size": 500_000_000,
    "max_segment_bytes": GIB,
    "messages_size": 16_384,
    "first_batch_timestamp": NOW - 1000,
    "max_timestamp_in_messages": NOW,
    "created_ms": NOW - 1000,
    "now_ms": NOW,
    "segment_ms": WEEK_MS,
    "roll_jitter_ms": 0,
    "offset_index_entries": 1000,
    "offset_index_max_entries": 10_485_760 // 8,
    "time_index_entries": 1000,
    "time_index_max_entries": 10_485_760 // 12,
    "base_offset": 1_000_000,
    "max_offset_in_messages": 2_000_000,
}
HELD = {
    RollReason.SIZE: {"segment_size": GIB},
    RollReason.TIME: {"first_batch_timestamp": NOW - WEEK_MS - 1},
    RollReason.OFFSET_INDEX: {"offset_index_entries": 10_485_760 // 8},
    RollReason.TIME_INDEX: {"time_index_entries": 10_485_760 // 12 - 1},
    RollReason.OFFSET: {"max_offset_in_messages": 1_000_000 + INT_MAX + 1},
}


def reason(**changes: Any) -> RollReason | None:
    return should_roll(**(QUIET | changes))


def test_segment_roll_any_condition_suffices() -> None:
    """Seed 002, row 1: four roll conditions, any suffices: size, time, index, offset (five, in fact)."""
    assert reason() is None
    for expected, change in HELD.items():
        assert reason(**change) is expected


def test_the_first_condition_that_holds_is_the_reason() -> None:
    order = list(HELD)
    assert order == list(RollReason)
    for place, first in enumerate(order):
        for second in order[place:]:
            assert reason(**HELD[second] | HELD[first]) is first


@pytest.mark.parametrize(("size", "messages", "expected"), [(GIB - 100, 100, None), (GIB - 100, 101, RollReason.SIZE)])
def test_a_segment_may_become_exactly_full(size: int, messages: int, expected: RollReason | None) -> None:
    assert reason(segment_size=size, messages_size=messages) is expected


def test_an_empty_segment_rolls_by_size_when_the_batch_alone_is_larger() -> None:
    assert reason(segment_size=0, messages_size=GIB + 1) is RollReason.SIZE


@pytest.mark.parametrize(
    ("waited", "jitter", "expected"),
    [(WEEK_MS, 0, None), (WEEK_MS + 1, 0, RollReason.TIME), (WEEK_MS, 1, RollReason.TIME), (WEEK_MS - 1, 1, None)],
)
def test_time_must_be_exceeded_and_jitter_shortens_it(waited: int, jitter: int, expected: RollReason | None) -> None:
    assert reason(first_batch_timestamp=NOW - waited, roll_jitter_ms=jitter) is expected


def test_an_empty_segment_never_rolls_by_time() -> None:
    assert reason(segment_size=0, **HELD[RollReason.TIME]) is None
    assert reason(segment_size=0, first_batch_timestamp=None, created_ms=0) is None


def test_with_timestamps_the_wall_clock_plays_no_role() -> None:
    assert reason(now_ms=NOW + 100 * WEEK_MS, created_ms=0) is None


@pytest.mark.parametrize("older", [NOW - 2000, 0, -1])
def test_an_older_message_and_one_without_timestamp_wait_a_negative_time(older: int) -> None:
    """A batch without timestamp says -1."""
    assert reason(max_timestamp_in_messages=older) is None


@pytest.mark.parametrize("none", [None, -1, -5])
def test_without_a_first_timestamp_the_wall_clock_counts_from_the_segments_creation(none: int | None) -> None:
    late = {"first_batch_timestamp": none, "now_ms": NOW, "max_timestamp_in_messages": NOW + 9 * WEEK_MS}
    assert reason(**late, created_ms=NOW - WEEK_MS) is None
    assert reason(**late, created_ms=NOW - WEEK_MS - 1) is RollReason.TIME


def test_zero_is_a_timestamp() -> None:
    assert reason(first_batch_timestamp=0, max_timestamp_in_messages=WEEK_MS, created_ms=0) is None
    assert reason(first_batch_timestamp=0, max_timestamp_in_messages=WEEK_MS + 1) is RollReason.TIME


def test_the_time_index_keeps_a_slot_and_the_offset_index_does_not() -> None:
    assert reason(offset_index_entries=9, offset_index_max_entries=10) is None
    assert reason(time_index_entries=9, time_index_max_entries=10) is RollReason.TIME_INDEX
    assert reason(time_index_entries=8, time_index_max_entries=10) is None
    # segment.index.bytes from 12 to 23 holds one entry: always full.
    assert reason(time_index_entries=0, time_index_max_entries=1) is RollReason.TIME_INDEX


@pytest.mark.parametrize(
    ("delta", "expected"), [(INT_MAX, None), (INT_MAX + 1, RollReason.OFFSET), (-1, RollReason.OFFSET), (0, None)]
)
def test_offsets_must_fit_the_index(delta: int, expected: RollReason | None) -> None:
    assert reason(max_offset_in_messages=QUIET["base_offset"] + delta) is expected


@given(st.dictionaries(st.sampled_from(sorted(QUIET)), st.integers(0, 2**40)))
def test_a_larger_batch_never_keeps_a_segment_that_a_smaller_one_rolls(changes: dict[str, int]) -> None:
    smaller = QUIET | changes
    larger = smaller | {"messages_size": smaller["messages_size"] + 1}
    assert should_roll(**smaller) is None or should_roll(**larger) is not None
