"""The figures of a page or a sentence: numbers with their units, times, digests and names, and none of the words."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

_UNITS = r"(?:[KMGTP]iB|B|ms|s|min|h|d|%|×)(?![A-Za-z])(?:/s)?"
_FIGURE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?"  # a day, a time
    r"|(?<![\w])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}(?![\w])"  # a digest, or its first characters
    rf"|(?<![\w.])[-−+]?\d+(?:,\d{{3}})*(?:\.\d+)?(?: ?{_UNITS})?"  # a number, perhaps with its unit
)
_CELLS, _SKIPPED = ("td", "th"), ("script", "style", "svg", "head")
_INLINE = ("a", "abbr", "b", "code", "em", "i", "span", "strong", "time")
_VOID = ("br", "hr", "img", "input", "link", "meta", "col", "source", "wbr")


def figures_in(text: str, names: Collection[str] = ()) -> list[str]:
    """In the order in which they stand. `names` are found as wholes, with a partition's number behind them."""
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    if not names:
        return _FIGURE.findall(text)
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    named = rf"(?<![\w.-])(?:{'|'.join(longest_first)})(?:-\d+)?(?![\w-])"
    return re.findall(rf"{named}|{_FIGURE.pattern}", text)


@dataclass
class _Section:
    text: str = ""
    tables: list[list[list[str]]] = field(default_factory=list)  # cells by row, by table


class _Page(HTMLParser):
    """Collects text by section, and by cell within tables. Sections are told by their id, or else by their number."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: dict[str, _Section] = {"0": _Section()}
        self._open: list[tuple[str, str | None]] = []  # tags, and the section that each began
        self._numbered = 0

    @property
    def _section(self) -> _Section:
        return self.sections[next((name for _, name in reversed(self._open) if name is not None), "0")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            self._part(tag)
            self._add(f"{dict(attrs).get('alt') or ''}\n")  # what a picture shows, in words
            return
        name = dict(attrs).get("id")
        if name is None and tag == "section":
            self._numbered += 1
            name = f"section {self._numbered}"
        if name is not None:
            self.sections.setdefault(name, _Section())
        self._part(tag)
        self._open.append((tag, name))
        if tag == "table":
            self._section.tables.append([])
        if tag == "tr":
            self._section.tables[-1].append([])
        if tag in _CELLS:
            self._section.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._part(tag)
        while any(opened == tag for opened, _ in self._open):
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._open]
        if any(tag in _SKIPPED for tag in tags):
            return
        self._add(data)

    def _part(self, tag: str) -> None:
        """What two blocks say is not one number."""
        if tag not in _INLINE:
            self._add("\n")

    def _add(self, text: str) -> None:
        if any(tag in _CELLS for tag, _ in self._open):
            self._section.tables[-1][-1][-1] += text
        else:
            self._section.text += text


def figures_of_page(html: str, names: Collection[str]) -> list[dict[str, Any]]:
    """One object for the `text` of each section, and one for the `rows` of each of its tables.

    Cells without a figure are left out. Of a picture there is what its text says.
    """
    page = _Page()
    page.feed(html)
    page.close()
    found: list[dict[str, Any]] = []
    for name, section in page.sections.items():
        if text := figures_in(section.text, names):
            found.append({"section": name, "text": text})
        for number, table in enumerate(section.tables, 1):
            cells = [[" ".join(figures_in(cell, names)) for cell in row] for row in table]
            if rows := [row for row in ([cell for cell in row if cell] for row in cells) if row]:
                found.append({"section": name, "table": number, "rows": rows})
    return found
