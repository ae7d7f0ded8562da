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


def some(names: Sequence[object], count: int | None = None, *, most: int = SHOWN) -> str:
    """The first names, and how many more there are; `count`: of so many, if only the first are known."""
    more = (len(names) if count is None else count) - most
    return listed(names[:most]) + (f" and {more} more" if more > 0 else "")


def listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))


def broker_ids(ids: Sequence[int], one: str = "", many: str = "", *, most: int = 40) -> str:
    """With a verb: `broker 3 has`, `brokers 3, 4 have`."""
    noun, verb = ("broker", one) if len(ids) == 1 else ("brokers", many)
    return f"{noun} {some(ids, most=most)} {verb}".rstrip()
