"""When to look at a batch again, how long a batch should take, and whether one may still begin."""

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
        """Why a batch that takes so many seconds may not begin; None where it may."""
        if self.finish_by is None or now + timedelta(seconds=seconds) <= self.finish_by:
            return None
        return (
            f"its predicted {seconds:.0f} s from {now.isoformat(timespec='seconds')} on would end after finish_by, "
            f"{self.finish_by.isoformat(timespec='seconds')}"
        )

    def not_begun(self, predicted: Sequence[float], now: datetime, pace: float) -> int:
        """How many batches of so many predicted seconds, one after the other, will not begin, where each takes `pace`
        times as long: the first that is not allowed ends the run, and so holds back all that come after it.
        """
        for at, seconds in enumerate(predicted):
            if self.closed_for(seconds, now) is not None:
                return len(predicted) - at
            now += timedelta(seconds=seconds * pace)
        return 0


def check_clock(now: datetime, zookeeper: datetime) -> None:
    """For a run with a window. Raises ClusterNotReadyError where this worker's clock is not ZooKeeper's: one of both is
    wrong, so nobody can tell whether the window is open. `zookeeper`: the time of a write of just now.
    """
    if abs(now - zookeeper) <= CLOCKS_MAY_DIFFER:
        return
    raise ClusterNotReadyError(
        f"This worker's clock says {now:%Y-%m-%d %H:%M %Z}, ZooKeeper's says {zookeeper:%Y-%m-%d %H:%M %Z}: whether "
        "the run's window (not_before, finish_by) is open cannot be told. No move was requested. Correct the clock "
        "that is wrong, then clear this task."
    )


def read_window(params: Mapping[str, Any]) -> Window:
    """From the params `not_before` and `finish_by`. Raises SettingsError for what is no time with a zone."""
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
