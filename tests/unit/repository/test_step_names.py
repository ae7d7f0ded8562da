"""Dags name steps by dotted path, so that heavy imports load with the task. Each name leads to something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

import kafka_rebalance

PACKAGE = Path(kafka_rebalance.__file__).parent
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
