"""README and docs: what a page names is there, and every command and example can be read."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
import pytest
import yaml

from demo.local_airflow import LOCAL_SETTINGS
from kafka_rebalance.command.main import _connection, main
from kafka_rebalance.local_cluster.__main__ import _parser as local_parser

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
PACKAGE = ROOT / "include" / "kafka_rebalance"
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


@cache
def prose(path: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def missing_modules(text: str) -> list[str]:
    """Rooms and modules in backquotes (`room/module`, `room/module.py`) that the package does not have."""
    named = [
        name for name in re.findall(r"`([a-z_]+(?:/[a-z0-9_]+)+/?(?:\.py)?)`", text) if name.split("/")[0] in ROOMS
    ]
    return [name for name in named if not ((PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists())]


@pytest.mark.parametrize("name", NAMES)
def test_every_module_that_a_page_names_is_there(name: str) -> None:
    assert missing_modules((ROOT / name).read_text(encoding="utf-8")) == []


def test_every_test_that_a_page_names_is_there() -> None:
    written = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"^ *(?:async )?def (test_\w+)", written, flags=re.MULTILINE))
    named = {name for page in NAMES for name in re.findall(r"`(test_\w+)`", prose(ROOT / page))}
    assert len(named) > 50
    assert named - there == set()


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
    # Names that never go: they were public before this page was written.
    assert {"kafka_rebalance.kafka.reassignment_json", "kafka_rebalance.zookeeper.znodes"} <= {
        module for module, _ in rows
    }


# --- commands and examples ---


def commands(pattern: str) -> list[str]:
    """What a reader types that begins like this: in blocks of code, and between backquotes."""
    found = []
    for page in PAGES:
        blocks = re.findall(r"^ *```.*?^ *```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
        spans = re.findall(r"`([^`\n]+)`", prose(page))
        found += [command for command in (*lines, *spans) if re.match(pattern, command)]
    return found


def read_as_the_command_does(line: str) -> None:
    """Raises UsageError or SystemExit if the command does not take this line. Runs nothing."""
    name, *arguments = shlex.split(line.replace("…", ""))[1:]
    command = main.commands.get(name)
    if command is None:
        raise click.UsageError(f"there is no {name}")
    if name == "local":
        local_parser().parse_args(arguments)
        return
    command.make_parser(click.Context(command)).parse_args(arguments)


def test_every_command_of_the_pages_is_one_that_the_command_takes() -> None:
    lines = commands(r"kafka-rebalance \w")
    assert len(lines) > 5
    for line in lines:
        read_as_the_command_does(line)


def missing_of(line: str) -> list[str]:
    """The modules, files and options of this command that are not there."""
    words = [word.strip("[]") for word in shlex.split(line) if word != "…"]
    paths = [ROOT / word for word in words if re.fullmatch(r"(include|tests|scripts|bench|faults)/[\w./]+", word)]
    missing = [str(path) for path in paths if not path.exists()]
    if "-m" in words and not any(word.endswith("pytest") for word in words):
        module = words[words.index("-m") + 1].replace(".", "/")
        homes = [root / module for root in (ROOT, ROOT / "include")]
        paths += [one for home in homes for one in (home.with_suffix(".py"), home) if one.exists()]
        missing += [] if paths else [module]
    if any(word.endswith("pytest") for word in words):
        return missing  # its options are its own
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]) if file.exists()]
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    used = [
        ROOT / "include" / f"{name.replace('.', '/')}.py"
        for name in re.findall(r"from (kafka_rebalance\S+) import", sources)
    ]
    sources += "".join(file.read_text(encoding="utf-8") for file in used if file.exists())
    return missing + [word for word in words if word.startswith("--") and f'"{word}"' not in sources]


def test_every_module_file_and_option_that_a_command_of_the_pages_names_is_there() -> None:
    lines = commands(r"([A-Z_]+=\S+ )*(\.venv/bin/)?(python|pytest|spark-submit|sh) ")
    assert len(lines) > 10
    assert {line: missing for line in lines if (missing := missing_of(line))} == {}


def connections(text: str) -> list[dict[str, Any]]:
    """The connections that the pages show as an environment variable."""
    return [
        json.loads(found) for found in re.findall(r"^ *(?:export )?AIRFLOW_CONN_\w+='(\{.*?\})'$", text, re.M | re.S)
    ]


def test_every_connection_of_the_pages_is_json_and_those_of_clusters_are_taken(tmp_path: Path) -> None:
    found = [one for page in PAGES for one in connections(page.read_text(encoding="utf-8"))]
    clusters = [one for one in found if one["conn_type"].startswith("kafka_")]
    assert len(found) > len(clusters) >= 2
    for one in clusters:
        (file := tmp_path / "connection.json").write_text(json.dumps(one))
        assert _connection(None, None, file).kafka.bootstrap_servers


def test_every_block_of_yaml_and_python_in_the_pages_can_be_read() -> None:
    blocks = [
        (page.name, *found)
        for page in PAGES
        for found in re.findall(r"^ *```(yaml|python)\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.M | re.S)
    ]
    assert {language for _, language, _ in blocks} == {"yaml", "python"}
    for name, language, text in blocks:
        if language == "python":
            compile(text, name, "exec")
        else:
            assert yaml.safe_load(text), name


# --- steps of Dags, which are named by dotted path, so that heavy imports load with the task ---

DAGS = sorted((PACKAGE / "dags").glob("*_dag.py"))
DOTTED = re.compile(r"kafka_rebalance(\.\w+){2,}")


def named_in(file: Path) -> Iterator[str]:
    """Dotted names below the package."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.value


def steps() -> list[str]:
    files = [*DAGS, *(PACKAGE / "workflow").rglob("*.py")]
    # What is in Airflow's own room, Airflow finds when it imports the provider.
    return sorted({name for file in files for name in named_in(file) if ".workflow." not in name})


@pytest.mark.parametrize("name", steps())
def test_each_step_that_a_dag_or_an_operator_names_exists(name: str) -> None:
    assert resolve_name(name)


@pytest.mark.parametrize("dag", DAGS, ids=lambda file: file.stem)
def test_every_dag_names_steps(dag: Path) -> None:
    assert list(named_in(dag))


def test_each_module_that_the_settings_of_a_local_airflow_import_exists() -> None:
    """They are a text, so nobody sees a name that has changed before an Airflow starts."""
    imports = [node for node in ast.walk(ast.parse(LOCAL_SETTINGS)) if isinstance(node, ast.ImportFrom)]
    named = [f"{node.module}.{alias.name}" for node in imports for alias in node.names]
    ours = [name for name in named if name.startswith("kafka_rebalance.") and ".workflow." not in name]
    assert ours
    assert all(resolve_name(name) for name in ours)
