"""What a page says of a candidate's moves: counts, the largest, and a search with its sort, group and page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from kafka_rebalance.errors import InputError
from kafka_rebalance.model.candidate import Move

PAGE_ROWS = 100
MOST_TEXT, MOST_PAGES = 200, 100_000
SORTS = {  # of a search; the first is where nothing is asked for
    "bytes": "most bytes first",
    "partition": "topic and partition",
    "batch": "batch",
    "reason": "reason",
}


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a long table. Pages are counted from 1; `group` is the number of a group of reasons."""

    candidate: str
    sort: str
    text: str = ""
    group: int | None = None
    page: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, str], sorts: Mapping[str, str]) -> Query:
        """The query of an address. Raises InputError for what is not one of ours."""
        sort = asked.get("sort") or next(iter(sorts))
        if sort not in sorts:
            raise InputError(f"sort is one of {', '.join(sorts)}.")
        text = asked.get("q", "").strip()
        if len(text) > MOST_TEXT or not text.isprintable():
            raise InputError(f"q has at most {MOST_TEXT} printable characters.")
        group = _number("group", asked.get("group"), 0) if asked.get("group") else None
        return cls(asked.get("candidate", ""), sort, text, group, _number("page", asked.get("page") or "1", 1))

    def link(self, **changes: str | int | None) -> str:
        """The query of an address that asks for this with those changes; of another search, the first page."""
        other = replace(self, **{"page": 1, **changes})  # type: ignore[arg-type]  # ours, from the templates
        asked = {"candidate": other.candidate, "q": other.text, "group": other.group, "sort": other.sort}
        asked |= {"page": other.page if other.page > 1 else None}
        return "?" + urlencode({key: value for key, value in asked.items() if value not in (None, "")})


def _number(name: str, value: str | None, least: int) -> int:
    if value is None or not (value.isascii() and value.isdecimal() and len(value) <= len(str(MOST_PAGES))):
        raise InputError(f"{name} is a whole number from {least}.")
    if int(value) < least:
        raise InputError(f"{name} is a whole number from {least}.")
    return int(value)


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Moves with one kind of reason; `number` is what a query asks for it by."""

    number: int
    text: str
    moves: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MovesPage:
    """What a query finds: its rows, and of how many."""

    query: Query
    moves: tuple[Move, ...]
    found: int
    found_bytes: int
    total: int
    groups: tuple[ReasonGroup, ...]  # of what the text finds, whatever the group asked for

    @property
    def pages(self) -> int:
        return max(1, -(-self.found // PAGE_ROWS))

    @property
    def first(self) -> int:
        """The number of the first row, counted from 1."""
        return (self.query.page - 1) * PAGE_ROWS + 1
