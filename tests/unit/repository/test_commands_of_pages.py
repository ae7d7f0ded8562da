"""Every command of the pages has a form that it takes, and every example can be read."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kafka_rebalance.command.main import _connection, main
from kafka_rebalance.local_cluster.__main__ import _parser as local_parser

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text: str) -> list[str]:
    """In blocks of code, and between backquotes."""
    blocks = re.findall(r"^ *```.*?^ *```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    return [one for one in (*lines, *spans) if re.match(r"kafka-rebalance \w", one)]


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
    found = [line for page in PAGES for line in commands(page.read_text(encoding="utf-8"))]
    assert len(found) > 5
    for line in found:
        read_as_the_command_does(line)


@pytest.mark.parametrize("line", ["kafka-rebalance look", "kafka-rebalance check --bootstrap b1:9092"])
def test_a_command_that_is_not_there_is_found(line: str) -> None:
    assert commands(f"`{line}`") == [line]
    with pytest.raises(click.UsageError):
        read_as_the_command_does(line)


# Commands of other programs


def other_commands(text: str) -> list[str]:
    """In blocks of code and between backquotes: what a reader types that runs a module, a script or tests of ours."""
    blocks = re.findall(r"^ *```.*?^ *```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    program = r"([A-Z_]+=\S+ )*(\.venv/bin/)?(python|pytest|spark-submit|sh) "
    return [one for one in (*lines, *spans) if re.match(program, one)]


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
    found = [line for page in PAGES for line in other_commands(page.read_text(encoding="utf-8"))]
    assert len(found) > 10
    assert {line: missing for line in found if (missing := missing_of(line))} == {}


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("python -m bench.gone", ["bench/gone"]),
        ("python -m kafka_rebalance.planning --snapshot DIR --gone X", ["--gone"]),
        ("sh scripts/gone.sh", [str(ROOT / "scripts/gone.sh")]),
        (".venv/bin/pytest -q tests/unit/gone", [str(ROOT / "tests/unit/gone")]),
    ],
)
def test_what_a_command_names_and_is_not_there_is_found(line: str, missing: list[str]) -> None:
    assert other_commands(f"`{line}`") == [line]
    assert missing_of(line) == missing


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
