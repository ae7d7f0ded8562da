"""What of a run was noticed when: each thing that goes wrong, and each wait, as it begins and as it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

KEPT = 40  # events, the newest


class Event(NamedTuple):
    """Seconds of the wall clock, and what happened."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Happenings:
    """`open`: subject -> what is said of it, for what is wrong or waited for now. `events`: oldest first."""

    open: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def events_after(before: Happenings, now: float, found: Mapping[str, str]) -> Happenings:
    """After another look, which has `found` this. A subject is told once, however its words change meanwhile."""
    over = [f"No longer: {_first_sentence(text)}" for subject, text in before.open.items() if subject not in found]
    begun = [text for subject, text in found.items() if subject not in before.open]
    events = (*before.events, *(Event(now, text) for text in (*over, *begun)))
    return Happenings(dict(found), events[-KEPT:])


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")
