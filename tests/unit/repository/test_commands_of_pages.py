"""Every `kafka-rebalance` command of the pages has a form that the command takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from kafka_rebalance.command.main import main
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
