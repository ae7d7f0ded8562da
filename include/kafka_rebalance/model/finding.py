"""Anything wrong, in words for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHOWN = 10  # objects that one finding names; it counts the others


@dataclass(frozen=True, slots=True)
class Finding:
    """One object, what is wrong with it, and what to do."""

    subject: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}. {self.remedy}"


def some(names: Sequence[object]) -> str:
    """The first SHOWN names, and how many more there are."""
    return some_of(names, len(names))


def some_of(names: Sequence[object], count: int) -> str:
    """The same where of `count` names only the first are known."""
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown if count <= SHOWN else f"{shown} and {count - SHOWN} more"


def listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))


def first_of(names: Sequence[object], most: int) -> str:
    """The first so many names, and how many more there are."""
    return listed(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def broker_ids(ids: Sequence[int], one: str = "", many: str = "", *, most: int = 40) -> str:
    """With a verb: `broker 3 has`, `brokers 3, 4 have`."""
    noun, verb = ("broker", one) if len(ids) == 1 else ("brokers", many)
    return f"{noun} {first_of(ids, most)} {verb}".rstrip()
