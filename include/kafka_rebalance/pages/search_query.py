"""A search in a long table of a candidate: its text, sort, group and page, and the moves that it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from kafka_rebalance.errors import InputError
from kafka_rebalance.model.candidate import Move

PAGE_ROWS = 100
MOST_TEXT, MOST_PAGES = 200, 100_000
SORTS = {  # of moves; the first is the default
    "bytes": "most bytes first",
    "partition": "topic and partition",
    "batch": "batch",
    "reason": "reason",
}


@dataclass(frozen=True, slots=True)
class Query:
    """A search in a long table. The first page is 1; `group` is the number of a ReasonGroup."""

    candidate: str
    sort: str
    text: str = ""
    group: int | None = None
    page: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, str], sorts: Mapping[str, str]) -> Query:
        """The query in the address of a page. Raises InputError for an unknown sort or a wrong value."""
        sort = asked.get("sort") or next(iter(sorts))
        if sort not in sorts:
            raise InputError(f"sort is one of {', '.join(sorts)}.")
        text = asked.get("q", "").strip()
        if len(text) > MOST_TEXT or not text.isprintable():
            raise InputError(f"q has at most {MOST_TEXT} printable characters.")
        group = _number("group", asked["group"], 0) if asked.get("group") else None
        return cls(asked.get("candidate", ""), sort, text, group, _number("page", asked.get("page") or "1", 1))

    def link(self, **changes: str | int | None) -> str:
        """The query with `changes`, for an address; it is the first page unless `changes` name one."""
        other = replace(self, **{"page": 1, **changes})  # type: ignore[arg-type]  # from the templates
        asked = {"candidate": other.candidate, "q": other.text, "group": other.group, "sort": other.sort}
        asked |= {"page": other.page if other.page > 1 else None}
        return "?" + urlencode({key: value for key, value in asked.items() if value not in (None, "")})


def _number(name: str, value: str, least: int) -> int:
    is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(MOST_PAGES))
    if not is_number or int(value) < least:
        raise InputError(f"{name} is a whole number from {least}.")
    return int(value)


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Moves with one kind of reason; `number` is its number in a query."""

    number: int
    text: str
    moves: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MovesPage:
    """The moves of one page of a query."""

    query: Query
    moves: tuple[Move, ...]
    found: int
    found_bytes: int
    total: int
    groups: tuple[ReasonGroup, ...]  # of all moves that the text finds, in any group

    @property
    def pages(self) -> int:
        return max(1, -(-self.found // PAGE_ROWS))

    @property
    def first(self) -> int:
        """The number of the page's first row, from 1."""
        return (self.query.page - 1) * PAGE_ROWS + 1
