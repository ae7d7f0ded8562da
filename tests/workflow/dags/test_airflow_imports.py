"""What the sources import of Airflow is there, and what Airflow does not promise to keep stands in the docs' table."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import airflow.sdk
import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ("dags", "include", "plugins")
PAGE = ROOT / "docs/airflow_imports.md"
# Documented in Airflow's page "Public Interface". Of a provider's operators the parameters are, not the methods.
PUBLIC_MODULES = {"airflow.plugins_manager", "airflow.triggers.base", "airflow.utils.state"}
PUBLIC_EXCEPTIONS = {"AirflowException", "AirflowFailException", "AirflowSkipException"}
OPERATORS = re.compile(r"airflow\.providers\.[\w.]+\.operators\.\w+")


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Each module and name of Airflow's; an import inside a function counts, and one for types alone."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "airflow":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "airflow")


def base_classes(text: str) -> set[str]:
    """What classes of this source are derived from."""
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    return {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)}


TEXTS = [path.read_text(encoding="utf-8") for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
IMPORTED = sorted({one for text in TEXTS for one in imported(text)})
DERIVED_FROM = {name for text in TEXTS for name in base_classes(text)}


def is_public(module: str, name: str) -> bool:
    if module == "airflow.sdk":
        return name in airflow.sdk.__all__
    if module == "airflow.sdk.exceptions":
        return name in PUBLIC_EXCEPTIONS
    return module in PUBLIC_MODULES or (OPERATORS.fullmatch(module) is not None and name not in DERIVED_FROM)


@pytest.mark.parametrize(("module", "name"), IMPORTED, ids=".".join)
def test_what_is_imported_of_airflow_is_there(module: str, name: str) -> None:
    found = importlib.import_module(module)
    if name and not hasattr(found, name):
        importlib.import_module(f"{module}.{name}")


def test_an_import_that_is_gone_is_noticed() -> None:
    source = "def later():\n    from airflow.sdk import Gone\n"
    ((module, name),) = imported(source)
    with pytest.raises(ModuleNotFoundError):
        test_what_is_imported_of_airflow_is_there(module, name)


def test_every_import_without_a_promise_is_in_the_table_with_what_replaces_it() -> None:
    rows = re.findall(
        r"^\| `(airflow[\w.]+)` \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    wanted = sorted(".".join(one) for one in IMPORTED if not is_public(*one))
    assert sorted(name for name, _, _ in rows) == wanted
    assert len(IMPORTED) > len(wanted) > 10
    assert all(why.strip() and instead.strip() for _, why, instead in rows)
