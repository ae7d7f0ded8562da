"""How the batches of a plan go into the openings of recurring windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kafka_rebalance.model.recurring_window import Opening, openings
from kafka_rebalance.moves.time_window import Window


class NoRoom(StrEnum):
    """Why the next batch of a plan has no opening."""

    TOO_LONG = "too_long"  # it is longer than every opening
    APPROVAL_ENDED = "approval_ended"  # before the next opening with room for it
    TOO_FAR = "too_far"  # nobody looks so far ahead


@dataclass(frozen=True, slots=True)
class WindowFit:
    """`used`: the openings in which batches run. `placed`: how many run. Either `ends_at` or `no_room` is None."""

    used: tuple[Opening, ...]
    placed: int
    ends_at: datetime | None
    no_room: NoRoom | None = None


def fit(window: Window, seconds: Sequence[float], now: datetime, approval_ends: datetime | None = None) -> WindowFit:
    """For batches of so many seconds, one after the other from `now` on, as `pause_until` holds them back. No batch
    begins in an opening after `approval_ends`.
    """
    to_come = list(openings(window.recurring, now))
    used: list[Opening] = []
    at, last = now, 0
    for placed, batch in enumerate(seconds):
        lasts = timedelta(seconds=batch)
        found = next((i for i in range(last, len(to_come)) if _has_room(to_come[i], at, lasts)), None)
        if found is None:
            is_too_long = all(one.seconds < batch for one in to_come)
            return WindowFit(tuple(used), placed, None, NoRoom.TOO_LONG if is_too_long else NoRoom.TOO_FAR)
        opening = to_come[found]
        if approval_ends is not None and at < opening.opens_at and approval_ends < opening.opens_at:
            return WindowFit(tuple(used), placed, None, NoRoom.APPROVAL_ENDED)
        if not used or used[-1] != opening:
            used.append(opening)
        at, last = max(at, opening.opens_at) + lasts, found
    return WindowFit(tuple(used), len(seconds), at)


def _has_room(opening: Opening, at: datetime, lasts: timedelta) -> bool:
    return max(at, opening.opens_at) + lasts <= opening.closes_at
