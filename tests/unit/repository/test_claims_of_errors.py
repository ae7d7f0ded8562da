"""No error claims that nothing was written if its code cannot know: `run/retried_errors.py` adds what is known."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kafka_rebalance import errors
from kafka_rebalance.run.retried_errors import _COME_AT_ANY_TIME, _NO_FAILURE

PACKAGE = Path(errors.__file__).parent
CLAIMS = ("othing was written", "othing was read or written", "try has changed nothing")
KINDS = {
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
    assert {"ReadError", "LockLostError", "StoppedError", "FrozenError", "StorageError", "PolicyError"} <= KINDS
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if "local_cluster" in path.parts:
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
                name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
                if name in KINDS and any(claim in said for said in texts_of(call) for claim in CLAIMS):
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
        if isinstance(made, ast.ClassDef) and KINDS & {base.id for base in made.bases if isinstance(base, ast.Name)}
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
