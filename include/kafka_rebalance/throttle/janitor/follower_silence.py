"""Since when the follower of a run has given no sign, without trust in the follower's clock.

A sign carries the follower's time, and that clock may be a day off. So each look remembers the signs of the last one: a
new sign was written between the two looks, whatever its time says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

# After a longer gap the time of the first look says nothing: the janitor was away, or somebody set its clock.
LONGEST_GAP = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Sighting:
    """The signs at a look. Times are of the janitor's clock."""

    signs: tuple[str, ...]
    since: datetime  # when the newest sign came
    looked_at: datetime

    @property
    def silent_seconds(self) -> float:
        return (self.looked_at - self.since).total_seconds()

    def to_mapping(self) -> dict[str, Any]:
        times = {name: getattr(self, name).isoformat() for name in ("since", "looked_at")}
        return {"signs": list(self.signs), **times}

    @classmethod
    def from_mapping(cls, note: object) -> Self | None:
        """None for a note of another form."""
        match note:
            case {"signs": [*signs], "since": since, "looked_at": looked_at}:
                began, looked = _parsed(str(since)), _parsed(str(looked_at))
                if began is not None and looked is not None:
                    return cls(tuple(map(str, signs)), began, looked)
        return None


def sighted(before: Sighting | None, signs: Sequence[object], now: datetime, believed_seconds: float) -> Sighting:
    """After another look. `before`: the last one.

    A first look believes the time of a sign that is not in the future and no older than `believed_seconds`. So the
    janitor reports a dead follower later by no more than that.
    """
    texts = tuple(map(str, signs))
    newest = max((at for text in texts if (at := _parsed(text)) is not None), default=None)
    oldest = now - timedelta(seconds=believed_seconds)
    if before is not None and timedelta(0) <= now - before.looked_at <= LONGEST_GAP:
        if texts == before.signs:
            return Sighting(texts, min(before.since, now), now)
        oldest = before.looked_at
    return Sighting(texts, newest if newest is not None and oldest <= newest <= now else now, now)


def _parsed(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo is not None else None
