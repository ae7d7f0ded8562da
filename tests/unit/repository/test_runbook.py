"""The runbook has every error of the package, in the order of the tree, with all that one needs at night."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from kafka_rebalance import errors
from kafka_rebalance.errors import NothingToDoError, RebalanceError
from kafka_rebalance.run.retried_errors import is_final

PAGE = (Path(__file__).parents[3] / "docs/runbook.md").read_text(encoding="utf-8")
PARTS = ("It means", "Not changed", "Do")
KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RebalanceError)
]  # as errors.py defines them, which is the order of its tree


def sections(page: str) -> list[tuple[int, str, str]]:
    """Level, name and text of every section."""
    found = list(re.finditer(r"^(##+) (\w+)$", page, flags=re.MULTILINE))
    ends = [*(after.start() for _, after in pairwise(found)), len(page)]
    return [(len(one[1]), one[2], page[one.end() : end]) for one, end in zip(found, ends, strict=True)]


def parts(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^- \*\*([^*]+):\*\*(.*(?:\n  .*)*)", text, flags=re.MULTILINE)


def problems(page: str) -> list[str]:
    named = [name for _, name, _ in sections(page)]
    wanted = [kind.__name__ for kind in KINDS]
    found = [] if named == wanted else [f"sections are {named}, errors are {wanted}"]
    for level, name, text in sections(page):
        kind = getattr(errors, name, None)
        if kind is not None and level != max(2, len(kind.__mro__) - len(RebalanceError.__mro__) + 1):
            found.append(f"{name} stands at another level than in the tree")
        if tuple(title for title, _ in parts(text)) != PARTS or not all(said.strip() for _, said in parts(text)):
            found.append(f"{name} lacks one of {PARTS}")
    return found


def test_every_error_has_a_section_with_its_three_parts_in_the_order_of_the_tree() -> None:
    assert len(KINDS) > 30
    assert problems(PAGE) == []


def test_an_error_that_is_missing_gone_or_half_described_is_found() -> None:
    section = re.search(r"^### FrozenError\n.*?(?=^## )", PAGE, flags=re.MULTILINE | re.DOTALL)[0]
    assert problems(PAGE.replace(section, ""))
    assert problems(PAGE + "\n## GoneError\n\n" + section.partition("\n\n")[2])
    assert problems(PAGE + "\n" + section)
    assert problems(PAGE.replace("### FrozenError", "## FrozenError"))
    assert problems(PAGE.replace(section, re.sub(r"- \*\*Not changed:.*\n(?:  .*\n)*", "", section)))


def test_the_table_says_of_each_error_what_the_tree_says_and_whether_airflow_tries_again() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert [name for name, _, _, _ in rows] == [kind.__name__ for kind in KINDS]
    for kind, (name, anchor, again, words) in zip(KINDS, rows, strict=True):
        assert anchor == name.lower()
        final = is_final(kind.__new__(kind))
        assert again == ("skipped" if kind is NothingToDoError else "no" if final else "yes"), name
        assert kind is RebalanceError or re.search(rf"─ {name} +{re.escape(words)}", errors.__doc__), name
