"""Text in the cells of a CSV file, which people open with a spreadsheet."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def cell(text: str) -> str:
    """The text; behind an apostrophe where a spreadsheet would compute it: topics and racks may be named so."""
    return f"'{text}" if text.startswith(_FORMULA) else text
