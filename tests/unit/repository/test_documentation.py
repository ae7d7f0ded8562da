"""README and docs: every link leads somewhere, and what a page names is there."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
PACKAGE = ROOT / "include" / "kafka_rebalance"
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


@cache
def prose(path: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """What a heading is called in an address, as GitHub has it."""
    headings = re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path, text: str) -> list[str]:
    """Relative links to a file or a heading that is not there; addresses of other hosts are not asked."""
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = path.parent / name if name else path
        if not linked.exists() or (anchor and anchor not in anchors(prose(linked))):
            broken.append(target)
    return broken


def missing_modules(text: str) -> list[str]:
    """Rooms and modules in backquotes (`room/module`, `room/module.py`) that the package does not have."""
    named = [
        name for name in re.findall(r"`([a-z_]+(?:/[a-z0-9_]+)+/?(?:\.py)?)`", text) if name.split("/")[0] in ROOMS
    ]
    return [name for name in named if not ((PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists())]


@pytest.mark.parametrize("name", NAMES)
def test_every_module_that_a_page_names_is_there(name: str) -> None:
    assert missing_modules((ROOT / name).read_text(encoding="utf-8")) == []


def test_a_module_that_has_moved_is_found() -> None:
    assert missing_modules("`run/checks`, `planning/bounds/`, `kafka/partitioner.py`, `else/where`") == []
    assert missing_modules("see `workflow/gone.py` and `run/nowhere`") == ["workflow/gone.py", "run/nowhere"]


@pytest.mark.parametrize("name", NAMES)
def test_every_relative_link_leads_to_a_file_and_a_heading_that_are_there(name: str) -> None:
    assert broken_links(ROOT / name, prose(ROOT / name)) == []


@pytest.mark.parametrize(
    "link", ["[x](docs/none.md)", "[x](docs/running.md#none)", "[x](#none)", "![x](docs/img/none.png)"]
)
def test_a_broken_link_is_found(link: str) -> None:
    assert len(broken_links(ROOT / "README.md", f"See {link}.")) == 1


def test_every_test_that_a_page_names_is_there() -> None:
    written = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"^ *(?:async )?def (test_\w+)", written, flags=re.MULTILINE))
    named = {name for page in NAMES for name in re.findall(r"`(test_\w+)`", prose(ROOT / page))}
    assert len(named) > 50
    assert named - there == set()


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, open_pages = set[Path](), [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        reached.add(page)
        linked = {(page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(prose(page))}
        open_pages.extend(found for found in linked if found in PAGES and found not in reached)
    assert [name for name in NAMES if ROOT / name not in reached] == []


def test_the_pictures_of_the_pages_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs").rglob("*.png")}
    assert {name: size for name, size in sizes.items() if size > 300_000} == {}
    assert len(sizes) > 2


def test_every_picture_is_shown_by_a_page_and_in_words_too() -> None:
    shown = {
        (path.parent / target).resolve(): words
        for path in PAGES
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^()\s]+)\)", prose(path))
    }
    kept = [path for path in (ROOT / "docs").rglob("*") if path.suffix in {".png", ".svg"}]
    light = [path.with_name(path.name.replace("-dark.png", ".png")) for path in kept]
    assert [path.name for path in light if path not in shown] == []
    assert [path.name for path, words in shown.items() if len(words.split()) < 5] == []


def test_every_name_that_stays_can_be_imported() -> None:
    text = (ROOT / "docs/tables.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(kafka_rebalance[\w.]+)`[^|]*\| (.*) \|$", text, flags=re.MULTILINE)
    assert len(rows) > 5
    missing = [
        f"{module}.{name}"
        for module, names in rows
        for name in re.findall(r"`(\w+)`", names)
        if not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []
