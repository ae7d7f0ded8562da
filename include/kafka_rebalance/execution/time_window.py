"""When batches may begin, and whether a batch would still end in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kafka_rebalance.errors import ClusterNotReadyError, SettingsError

CLOCKS_MAY_DIFFER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Window:
    """When batches may begin, and by when all must be over; None: no limit. Times have a zone."""

    not_before: datetime | None = None
    finish_by: datetime | None = None

    def to_mapping(self) -> dict[str, str | None]:
        return {
            name: None if at is None else at.isoformat()
            for name, at in (("not_before", self.not_before), ("finish_by", self.finish_by))
        }

    def waits_until(self, now: datetime) -> datetime | None:
        """The time to wait for; None where a batch may begin."""
        return self.not_before if self.not_before is not None and now < self.not_before else None

    def closed_for(self, seconds: float, now: datetime) -> str | None:
        """Why a batch that takes so many seconds may not begin; None if it may."""
        if self.finish_by is None or now + timedelta(seconds=seconds) <= self.finish_by:
            return None
        return (
            f"it is predicted to take {seconds:.0f} s from {now.isoformat(timespec='seconds')} on, so it would end "
            f"after finish_by, {self.finish_by.isoformat(timespec='seconds')}"
        )

    def not_begun(self, predicted: Sequence[float], now: datetime, pace: float) -> int:
        """How many batches of these predicted seconds, one after the other, will not begin if each takes `pace` times
        as long. The first that may not begin ends the run, so no later one begins.
        """
        for at, seconds in enumerate(predicted):
            if self.closed_for(seconds, now) is not None:
                return len(predicted) - at
            now += timedelta(seconds=seconds * pace)
        return 0


def check_clock(now: datetime, cluster: datetime) -> None:
    """For a run with a window. Raises ClusterNotReadyError if this worker's clock differs from the cluster's: one of
    them is wrong, so nobody can tell whether the window is open. `cluster`: the time of a write of just now.
    """
    if abs(now - cluster) <= CLOCKS_MAY_DIFFER:
        return
    raise ClusterNotReadyError(
        f"This worker's clock says {now:%Y-%m-%d %H:%M %Z}, the cluster's says {cluster:%Y-%m-%d %H:%M %Z}. So the "
        "run cannot tell whether its window (not_before, finish_by) is open. No move was requested. Correct the wrong "
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


def _time(params: Mapping[str, Any], name: str) -> datetime | None:
    given = params.get(name)
    if given in (None, ""):
        return None
    try:
        at = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        at = None
    if at is None or at.tzinfo is None:
        raise SettingsError(
            f"{name}: {given!r} is not a time with its zone, as in 2026-11-21T22:00:00+01:00. Nothing was read or "
            "written. Correct it."
        )
    return at
