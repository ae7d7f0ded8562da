"""One reason not to go on, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHOWN = 10  # objects named in one finding; the rest is counted


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason not to go on: which object, what is wrong with it, what to do."""

    subject: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}. {self.remedy}"


def some(names: Sequence[object]) -> str:
    """The first few names, and how many more."""
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def listed(names: Iterable[object]) -> str:
    """All of them."""
    return ", ".join(map(str, names))
