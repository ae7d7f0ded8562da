"""The history of a run: when each finding and each wait began, and when it was over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

KEPT = 40  # events, the newest


class Event(NamedTuple):
    at: float  # seconds of the wall clock
    text: str


@dataclass(frozen=True, slots=True)
class Happenings:
    """`open`: {what is wrong or waited for now, in short: the whole text}. `events`: oldest first."""

    open: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def events_after(before: Happenings, now: float, found: Mapping[str, str]) -> Happenings:
    """The history after another look. `found` is of the form of `open`: the same short form is told once."""
    over = [f"No longer: {short}" for short in before.open if short not in found]
    begun = [text for short, text in found.items() if short not in before.open]
    events = (*before.events, *(Event(now, text) for text in (*over, *begun)))
    return Happenings(dict(found), events[-KEPT:])
