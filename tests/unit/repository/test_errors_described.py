"""The runbook has every error of the package, and no error claims that nothing was written if its code cannot know."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from kafka_rebalance import errors
from kafka_rebalance.errors import NothingToDoError, RebalanceError
from kafka_rebalance.run.retried_errors import _COME_AT_ANY_TIME, _NO_FAILURE, is_final

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


def test_the_table_says_of_each_error_what_the_tree_says_and_whether_airflow_tries_again() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert [name for name, _, _, _ in rows] == [kind.__name__ for kind in KINDS]
    for kind, (name, anchor, again, words) in zip(KINDS, rows, strict=True):
        assert anchor == name.lower()
        final = is_final(kind.__new__(kind))
        assert again == ("skipped" if kind is NothingToDoError else "no" if final else "yes"), name
        assert kind is RebalanceError or re.search(rf"─ {name} +{re.escape(words)}", errors.__doc__), name


# --- what an error claims: `run/retried_errors.py` adds what is known ---

PACKAGE = Path(errors.__file__).parent
CLAIMS = ("othing was written", "othing was read or written", "try has changed nothing")
AT_ANY_TIME = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, _COME_AT_ANY_TIME) and not issubclass(kind, _NO_FAILURE)
}
# Rooms whose code runs before, in and after a plan, whatever error it raises.
ROOMS = (
    "admin",
    "zookeeper",
    "cluster",
    "run/checks",
    "throttle",
    "rebalance/batch_file.py",
    "rebalance/batch_notes.py",
    "rebalance/elect_leaders.py",
    "rebalance/follow.py",
    "rebalance/progress_notes.py",
    "rebalance/request_batch.py",
)


@pytest.mark.slow
def test_no_error_that_comes_at_any_time_claims_that_nothing_was_written() -> None:
    assert {"ReadError", "LockLostError", "StoppedError", "FrozenError", "StorageError", "PolicyError"} <= AT_ANY_TIME
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if "local_cluster" in path.parts:
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
                name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
                if name in AT_ANY_TIME and any(claim in said for said in texts_of(call) for claim in CLAIMS):
                    found.append(f"{path.relative_to(PACKAGE)}:{call.lineno}")
    assert found == []


def test_no_text_of_a_room_that_does_not_know_the_run_claims_it() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{text.lineno}"
        for room in ROOMS
        for path in modules_of(PACKAGE / room)
        for text in ast.walk(ast.parse(path.read_text()))
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
        if any(claim in text.value for claim in (*CLAIMS, "othing was changed")) and text.col_offset
        if not text.value.startswith("Raises")
    ]
    assert found == []


@pytest.mark.slow
def test_no_error_with_a_text_of_its_own_claims_it() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{made.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for made in ast.walk(ast.parse(path.read_text()))
        if isinstance(made, ast.ClassDef)
        and AT_ANY_TIME & {base.id for base in made.bases if isinstance(base, ast.Name)}
        if any(claim in said for said in texts_of(made) for claim in CLAIMS)
    ]
    assert found == []


def modules_of(room: Path) -> list[Path]:
    found = [room] if room.suffix else sorted(room.glob("*.py"))
    assert all(path.is_file() for path in found)
    assert found, room
    return found


def texts_of(call: ast.AST) -> list[str]:
    return [one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
