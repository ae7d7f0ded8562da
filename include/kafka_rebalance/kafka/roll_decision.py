"""Whether the active segment of a log is closed and a new one begun: decided at each append, never on a timer."""

from __future__ import annotations

from enum import StrEnum

_INT_MAX = 2**31 - 1


class RollReason(StrEnum):
    """Which of the five conditions held."""

    SIZE = "size"
    TIME = "time"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    OFFSET = "offset"


def should_roll(
    *,
    segment_size: int,
    max_segment_bytes: int,
    messages_size: int,
    first_batch_timestamp: int | None,
    max_timestamp_in_messages: int,
    created_ms: int,
    now_ms: int,
    segment_ms: int,
    roll_jitter_ms: int,
    offset_index_entries: int,
    offset_index_max_entries: int,
    time_index_entries: int,
    time_index_max_entries: int,
    base_offset: int,
    max_offset_in_messages: int,
) -> RollReason | None:
    """Why a new segment is begun before these messages are appended, the first reason that holds; None: it is not.

    Sizes in bytes, times in milliseconds. `first_batch_timestamp` is the largest timestamp of the segment's first
    batch; None or negative means that it has none (magic 0): then the wall clock and the time at which the segment
    was opened count instead. `offset_index_max_entries` is segment.index.bytes / 8, `time_index_max_entries`
    segment.index.bytes / 12, rounded down. Leaders and followers decide alike.
    Source: LogSegment.shouldRoll and timeWaitedForRoll, the same from 2.0 to 3.9.
    """
    if segment_size > max_segment_bytes - messages_size:
        return RollReason.SIZE
    if first_batch_timestamp is not None and first_batch_timestamp >= 0:
        # Message time alone: a message older than the first one has waited a negative time, and never rolls.
        waited_ms = max_timestamp_in_messages - first_batch_timestamp
    else:
        waited_ms = now_ms - created_ms
    if segment_size > 0 and waited_ms > segment_ms - roll_jitter_ms:
        return RollReason.TIME
    if offset_index_entries >= offset_index_max_entries:
        return RollReason.OFFSET_INDEX
    # One slot is kept for the entry that rolling itself appends.
    if time_index_entries >= time_index_max_entries - 1:
        return RollReason.TIME_INDEX
    # Indexes hold offsets relative to the base in 32 bits.
    if not 0 <= max_offset_in_messages - base_offset <= _INT_MAX:
        return RollReason.OFFSET
    return None
