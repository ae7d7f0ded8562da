"""`make reference`: what a run, a policy and each form of a Dag take, from the code into docs/reference.md.

A table has names, what a value must be, defaults and meanings. What a value must be is what its reader says when it
refuses one; a meaning is the comment beside the field, or the description in the form.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.pages import with_section
from kafka_rebalance.model import policy, settings
from kafka_rebalance.workflow.connection_form import get_provider_info

PAGE = Path(__file__).parents[1] / "docs/reference.md"
HEAD = ["| name | a value | default | meaning |", "|---|---|---|---|"]
_NO_LIMIT = " and at most 9223372036854775807"  # the largest long of Java
_KINDS = {
    "string": ("a text", "texts"),
    "integer": ("an integer", "integers"),
    "number": ("a number", "numbers"),
    "boolean": ("true or false", "true or false"),
    "object": ("an object", "objects"),
}
_FORMATS = {"date-time": "a time with its zone", "password": "a text, which Airflow masks"}
_LIMITS = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_FIELD = r"^    {}: [^\n]*?(?:#|\(\n +[^#\n]*#) *([^\n]+)$"


def model_sections() -> dict[str, list[str]]:
    """Settings and policy."""
    return {
        "settings": [*HEAD, *_fields(settings.Settings, settings, settings._READERS)],
        "policy": [*HEAD, *_fields(policy.Policy, policy, policy._READERS)],
    }


def connection_sections() -> dict[str, list[str]]:
    """The fields of each type of connection beside host, login and password."""
    return {
        f"connection-{one['connection-type'].replace('_', '-')}": [
            *HEAD,
            *(
                _form_row(name, field["schema"], field["schema"].get("default"), field["label"], field["description"])
                for name, field in one["conn-fields"].items()
            ),
        ]
        for one in get_provider_info()["connection-types"]
    }


def form_sections() -> dict[str, list[str]]:
    """The params of each Dag that has a form. Imports Airflow."""
    from kafka_rebalance import dags

    forms = {form.dag_id: form.params for form in (getattr(dags, name) for name in dags.__all__)}
    return {
        f"params-{dag.replace('_', '-')}": [*HEAD, *(_param(name, form.get_param(name)) for name in form)]
        for dag, form in forms.items()
        if form
    }


def write(sections: Mapping[str, list[str]]) -> None:
    for name, lines in sections.items():
        PAGE.write_text(with_section(PAGE, name, lines), encoding="utf-8")


def differing(sections: Mapping[str, list[str]]) -> list[str]:
    """Names of the sections that the page does not have like this."""
    page = PAGE.read_text(encoding="utf-8")
    return [
        name
        for name, lines in sections.items()
        if "\n".join([f"<!-- {name} -->", *lines, f"<!-- /{name} -->"]) not in page
    ]


def _fields(kind: Any, module: Any, readers: Mapping[str, Callable[[Any], Any]]) -> Iterable[str]:
    source = Path(module.__file__).read_text(encoding="utf-8").partition(f"class {kind.__name__}:")[2]
    for field in dataclasses.fields(kind):
        found = re.search(_FIELD.format(field.name), source, flags=re.MULTILINE)
        if found is None:
            raise ValueError(f"{kind.__name__}.{field.name} has no comment that says what it means.")
        if field.default_factory is not dataclasses.MISSING:
            default = _code(field.default_factory())
        else:
            default = "must be given" if field.default is dataclasses.MISSING else _code(field.default)
        yield _row(field.name, _allowed(readers[field.name]), default, found[1][0].upper() + found[1][1:])


def _allowed(reader: Callable[[Any], Any]) -> str:
    """In the reader's own words: what it says of a value that nothing allows."""
    try:
        reader(object())
    except ValueError as refused:
        return str(refused).removeprefix("must be ").replace(_NO_LIMIT, "")
    raise ValueError(f"{reader} takes every value")


def _param(name: str, param: Any) -> str:
    return _form_row(name, param.schema, param.value, param.schema["title"], param.description)


def _form_row(name: str, schema: Mapping[str, Any], default: Any, label: str, description: str) -> str:
    return _row(name, _kinds(schema), _code(default), f"{label}. {description}")


def _kinds(schema: Mapping[str, Any]) -> str:
    """What a schema of JSON allows, in words; nothing of null, which an empty field has."""
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    return " or ".join(dict.fromkeys(_kind(kind, schema) for kind in kinds if kind != "null"))


def _kind(kind: str, schema: Mapping[str, Any]) -> str:
    """A type of JSON Schema and its limits, in words."""
    if allowed := schema.get("enum"):
        return f"one of {', '.join(allowed)}"
    if kind == "array":
        items = schema["items"]
        kinds = [items["type"]] if isinstance(items["type"], str) else items["type"]
        words = [
            items["pattern"].strip("^$") if kind == "string" and "pattern" in items else _KINDS[kind][1]
            for kind in kinds
        ]
        return f"a list of {' or '.join(words)}" + (f": {', '.join(items['enum'])}" if "enum" in items else "")
    if kind in ("integer", "number"):
        limits = [f"{words} {schema[key]:,}" for key, words in _LIMITS.items() if key in schema]
        said = " and ".join(limits)
        return " ".join([_KINDS[kind][0], f"of {said}" if said.startswith("at most") else said]).strip()
    if kind == "string" and "pattern" in schema:
        return str(schema["pattern"]).strip("^$")
    return _FORMATS.get(schema.get("format", ""), _KINDS[kind][0])


def _row(name: str, allowed: str, default: str, meaning: str) -> str:
    cells = (f"`{name}`", allowed, default, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _code(default: Any) -> str:
    if default is None or default == "":
        return ""
    plain = list(default) if isinstance(default, tuple) else default
    return f"`{plain if isinstance(plain, str) else json.dumps(plain)}`"


def main() -> None:
    with tempfile.TemporaryDirectory() as home:  # Airflow writes its configuration there at its import
        os.environ["AIRFLOW_HOME"] = home
        write(model_sections() | connection_sections() | form_sections())
    print(PAGE)


if __name__ == "__main__":
    main()
