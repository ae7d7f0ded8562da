"""Each line of the threat model names tests that exist, and no source runs text as code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/threats.md"
SOURCES = ("dags", "include", "plugins")
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
UNPICKLES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def rows(text: str) -> list[tuple[str, str, str]]:
    """Attempt, what stops it, and the cell with the tests."""
    found = re.findall(r"^\| (.+?) \| (.+?) \| (.+) \|$", text, flags=re.MULTILINE)
    return [row for row in found if row[0] != "attempt"]


def missing_tests(cell: str) -> list[str]:
    """Those of the cell that are not there."""
    missing = []
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", cell):
        file = ROOT / path
        if not file.is_file() or not re.search(rf"^ *(async )?def {name}\(", file.read_text(), flags=re.MULTILINE):
            missing.append(f"{path}::{name}")
    return missing


def test_every_threat_names_tests_that_are_there() -> None:
    found = rows(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 15
    for attempt, _, cell in found:
        assert re.fullmatch(r"`tests/[\w/]+\.py::test_\w+`(, `tests/[\w/]+\.py::test_\w+`)*", cell), attempt
        assert missing_tests(cell) == [], attempt


def runs_text(source: str) -> list[str]:
    """Calls that run text as code, and imports of what unpickles."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            # The policies' loader is derived from yaml.SafeLoader.
            safe = called == "yaml.load" and [ast.unparse(one) for one in node.args[1:]] == ["_Loader"]
            if called in RUNS_TEXT or (called in {"yaml.load", "yaml.unsafe_load", "os.system"} and not safe):
                found.append(called)
            found += [called for word in node.keywords if word.arg == "shell" and ast.unparse(word.value) != "False"]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found += [name for name in names if name.split(".")[0] in UNPICKLES]
    return found


@pytest.mark.slow
def test_no_source_runs_text_as_code() -> None:
    files = [path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    assert {path.name: found for path in files if (found := runs_text(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    "source",
    ["eval(text)", "import pickle", "from pickle import loads", "yaml.load(text)", "run(text, shell=True)"],
)
def test_text_that_runs_as_code_is_noticed(source: str) -> None:
    assert len(runs_text(source)) == 1
