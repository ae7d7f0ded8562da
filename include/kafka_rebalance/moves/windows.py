"""The windows of a policy: when one is open, and whether batches fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from kafka_rebalance.documents.snapshot import AskedWindow
from kafka_rebalance.errors import ClusterNotReadyError, SettingsError, StoppedError
from kafka_rebalance.model.amounts_in_words import duration_in_words
from kafka_rebalance.model.recurring_window import Opening, RecurringWindow, openings, read_recurring_window

# When batches may begin, and whether a batch would still end in time.
#
# Either a person has asked for `not_before` and `finish_by`, which end the run, or the windows of the policy count.
# With these the run pauses when one closes, and goes on when the next one opens.


CLOCKS_MAY_DIFFER = timedelta(minutes=5)
_YEARS = range(1970, 3000)  # from every zone's time to UTC, and with all durations added, within Python's calendar


@dataclass(frozen=True, slots=True)
class Window:
    """When batches may begin, and by when all must be over; None: no limit. Times have a zone.

    `recurring`: each batch begins and ends while these are open; empty: at any time.
    """

    not_before: datetime | None = None
    finish_by: datetime | None = None
    recurring: tuple[RecurringWindow, ...] = ()

    @property
    def written(self) -> AskedWindow:
        """As snapshot.json has it."""
        return AskedWindow(self.not_before, self.finish_by, tuple(window.text for window in self.recurring))

    @classmethod
    def of(cls, written: AskedWindow | None) -> Self:
        """The window that snapshot.json has. Raises SettingsError."""
        if written is None:
            return cls()
        return cls(written.not_before, written.finish_by, recurring_windows(written.recurring))

    def waits_until(self, now: datetime) -> datetime | None:
        """The time to wait for; None where the window is open."""
        if self.not_before is not None and now < self.not_before:
            return self.not_before
        opening = next(openings(self.recurring, now), None)
        return opening.opens_at if opening is not None and now < opening.opens_at else None

    def closes_at(self, now: datetime) -> datetime | None:
        """When the window that is open now closes; None if it never does."""
        opening = next(openings(self.recurring, now), None)
        return self.finish_by if opening is None else opening.closes_at

    def room_for(self, seconds: float, now: datetime) -> Opening | None:
        """The next opening in which moves of so many seconds have room; None if no opening is long enough."""
        longest = timedelta(seconds=seconds)
        return next((o for o in openings(self.recurring, now) if max(now, o.opens_at) + longest <= o.closes_at), None)

    def closed_for(self, seconds: float, now: datetime) -> str | None:
        """Why a batch that takes up to so many seconds may not begin; None if it may."""
        if self.finish_by is None or now + timedelta(seconds=seconds) <= self.finish_by:
            return None
        return (
            f"it may take up to {duration_in_words(seconds)} from {now.isoformat(timespec='seconds')} on, so it may "
            f"end after finish_by, {self.finish_by.isoformat(timespec='seconds')}"
        )

    def not_begun(self, slowest: Sequence[float], now: datetime, lasts: Sequence[float]) -> int:
        """How many batches, one after the other from `now` on, will not begin if each takes the seconds of `lasts`.

        `slowest`: what each may take, which is what holds it back. The first that may not begin ends the run, so no
        later one begins.
        """
        for number, (most, seconds) in enumerate(zip(slowest, lasts, strict=True)):
            if self.closed_for(most, now) is not None:
                return len(slowest) - number
            now += timedelta(seconds=seconds)
        return 0


def pause_until(
    window: Window, seconds: float, now: datetime, approval_ends: datetime, *, is_paused: bool
) -> datetime | None:
    """Until when moves that take up to so many seconds wait for an opening of a recurring window; None: they may begin.

    `is_paused`: the run has waited for this opening. Raises StoppedError if it waits in vain: no opening is long
    enough, or the next one comes after `approval_ends`.
    """
    if not window.recurring:
        return None
    opening, names = window.room_for(seconds, now), "; ".join(recurring.text for recurring in window.recurring)
    takes = f"it may take up to {duration_in_words(seconds)}"
    if opening is None:
        longest = duration_in_words(max(opening.seconds for opening in openings(window.recurring, now)))
        raise StoppedError(
            f"{takes}, and the policy's windows ({names}) are open for {longest} at most. Start a new Dag run with a "
            "higher throttle or with outside_windows. A rebalance may also take a smaller partitions_per_batch"
        )
    waits = now < opening.opens_at
    if (waits or is_paused) and approval_ends < opening.opens_at:
        raise StoppedError(
            f"{takes}, and the policy's windows ({names}) have room for it from {opening.opens_at:%Y-%m-%d %H:%M %Z} "
            f"on. The approval ends before that, at {approval_ends:%Y-%m-%d %H:%M %Z}: the policy's "
            "approval_expires_after_seconds allows no more. Start a new Dag run for the rest"
        )
    return opening.opens_at if waits else None


def check_clock(now: datetime, cluster: datetime) -> None:
    """For a run with a window. Raises ClusterNotReadyError if this worker's clock differs from the cluster's: one of
    them is wrong, so nobody can tell whether the window is open. `cluster`: the time of a write of just now.
    """
    if abs(now - cluster) <= CLOCKS_MAY_DIFFER:
        return
    raise ClusterNotReadyError(
        f"This worker's clock says {now:%Y-%m-%d %H:%M %Z}, the cluster's says {cluster:%Y-%m-%d %H:%M %Z}. So the "
        "run cannot tell whether its window is open. No move was requested. Correct the wrong "
        "clock, then clear this task."
    )


def read_window(params: Mapping[str, Any]) -> Window:
    """From the params `not_before` and `finish_by`. Raises SettingsError for a time without its zone."""
    window = Window(_time(params, "not_before"), _time(params, "finish_by"))
    if window.not_before and window.finish_by and window.not_before >= window.finish_by:
        raise SettingsError(
            f"not_before ({window.not_before.isoformat()}) is not before finish_by ({window.finish_by.isoformat()}), "
            "so no batch could begin. Nothing was read or written. Correct one of them."
        )
    return window


def recurring_windows(texts: Iterable[str]) -> tuple[RecurringWindow, ...]:
    """Raises SettingsError."""
    try:
        return tuple(map(read_recurring_window, texts))
    except ValueError as wrong:
        raise SettingsError(f"A recurring window {wrong}. Nothing was read or written. Start a new Dag run.") from wrong


def _time(params: Mapping[str, Any], name: str) -> datetime | None:
    given = params.get(name)
    if given in (None, ""):
        return None
    try:
        moment = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise SettingsError(
            f"{name}: {given!r} is not a time with its zone, as in 2026-11-21T22:00:00+01:00. Nothing was read or "
            "written. Correct it."
        )
    if moment.year not in _YEARS:
        raise SettingsError(
            f"{name}: {given!r} is not in the years {_YEARS[0]} to {_YEARS[-1]}. Nothing was read or written. Correct "
            "it."
        )
    return moment


# How the batches of a plan go into the openings of recurring windows.


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
    free_at, last = now, 0
    for placed, batch in enumerate(seconds):
        lasts = timedelta(seconds=batch)
        index = next((i for i in range(last, len(to_come)) if _has_room(to_come[i], free_at, lasts)), None)
        if index is None:
            is_too_long = all(opening.seconds < batch for opening in to_come)
            return WindowFit(tuple(used), placed, None, NoRoom.TOO_LONG if is_too_long else NoRoom.TOO_FAR)
        opening = to_come[index]
        if approval_ends is not None and free_at < opening.opens_at and approval_ends < opening.opens_at:
            return WindowFit(tuple(used), placed, None, NoRoom.APPROVAL_ENDED)
        if not used or used[-1] != opening:
            used.append(opening)
        free_at, last = max(free_at, opening.opens_at) + lasts, index
    return WindowFit(tuple(used), len(seconds), free_at)


def _has_room(opening: Opening, free_at: datetime, lasts: timedelta) -> bool:
    return max(free_at, opening.opens_at) + lasts <= opening.closes_at
