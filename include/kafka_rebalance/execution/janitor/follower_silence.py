"""Since when whoever follows a run gives no sign, told without trust in their clock.

A sign carries the writer's time, and that clock may be a day off. So who looks remembers the signs of the last look:
a sign that is new was written between the two looks, whatever its time says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

# After a longer gap between two looks the first one's time says nothing: who looks was away, or its clock was set.
LONGEST_GAP = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Sighting:
    """The signs at a look, and since when there has been no newer one. Times are of the clock of who looks."""

    signs: tuple[str, ...]
    since: datetime
    looked_at: datetime

    @property
    def silent_seconds(self) -> float:
        return (self.looked_at - self.since).total_seconds()

    def to_mapping(self) -> dict[str, Any]:
        times = {"since": self.since.isoformat(), "looked_at": self.looked_at.isoformat()}
        return {"signs": list(self.signs), **times}

    @classmethod
    def from_mapping(cls, note: object) -> Self | None:
        """None for what is no such note."""
        try:
            signs, since, looked_at = (note[name] for name in ("signs", "since", "looked_at"))  # type: ignore[index]
            return cls(tuple(map(str, signs)), _time(since), _time(looked_at))
        except (KeyError, TypeError, ValueError):
            return None


def sighted(before: Sighting | None, signs: Sequence[object], now: datetime, believed_seconds: float) -> Sighting:
    """After another look. `before`: the last one. Of a first look a sign's time is believed if it is no older than
    `believed_seconds`, and not of the future: a follower that is dead is told so much later then.
    """
    texts = tuple(map(str, signs))
    newest = max((at for text in texts if (at := _parsed(text)) is not None), default=None)
    if before is None or not timedelta(0) <= now - before.looked_at <= LONGEST_GAP:
        is_believed = newest is not None and timedelta(0) <= now - newest <= timedelta(seconds=believed_seconds)
        return Sighting(texts, newest if newest is not None and is_believed else now, now)
    if texts == before.signs:
        return Sighting(texts, min(before.since, now), now)
    is_between = newest is not None and before.looked_at <= newest <= now
    return Sighting(texts, newest if newest is not None and is_between else now, now)


def _time(text: object) -> datetime:
    at = _parsed(str(text))
    if at is None:
        raise ValueError(f"{text!r} is no time")
    return at


def _parsed(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo is not None else None
