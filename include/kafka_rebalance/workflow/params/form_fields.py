"""The fields of the forms, by the kind of their value, and the two fields that every form has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Param


def cluster() -> Param:
    return Param(
        "kafka_default", type="string", minLength=1, title="Cluster", description="Airflow connection of the cluster."
    )


def reason() -> Param:
    return optional("string", "Reason", "Why you ask for this. The approver reads it.")


def optional(kind: str, title: str, description: str, section: str | None = None, **schema: Any) -> Param:
    """A field that may stay empty. `kind` is a type of JSON Schema, `schema` holds more of its keywords."""
    return Param(None, type=["null", kind], title=title, description=description, section=section, **schema)


def number(default: float, title: str, description: str, section: str, **limits: float) -> Param:
    kind = "integer" if isinstance(default, int) else "number"
    return Param(default, type=kind, title=title, description=description, section=section, **limits)


def flag(title: str, description: str, section: str | None = None) -> Param:
    return Param(False, type="boolean", title=title, description=description, section=section)


def choice(choices: Iterable[str], default: str, title: str, description: str, section: str | None = None) -> Param:
    return Param(default, type="string", enum=list(choices), title=title, description=description, section=section)


def several(
    title: str,
    description: str,
    section: str | None = None,
    default: Iterable[str] = (),
    kind: str = "string",
    **schema: Any,
) -> Param:
    """A list; `kind` is the JSON Schema type of its items."""
    items = {"type": kind, **schema.pop("items", {})}
    return Param(
        list(default), type="array", items=items, title=title, description=description, section=section, **schema
    )
