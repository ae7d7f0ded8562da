"""The fields of the forms, by the kind of their value, and what all Dags have that people start by a form."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from kafka_rebalance.workflow.notices import FAILED, Notice

STARTED_BY_PEOPLE: dict[str, Any] = {
    "schedule": None,
    "catchup": False,
    # Airflow queues the others. Its default of 16 counts runs that wait a day for an answer, so an urgent roll-back
    # would queue behind them. The cluster's lock lets only one run of a cluster move anything. Not 0: Airflow takes
    # that for "none may start" where it looks for queued runs.
    "max_active_runs": 1000,
    "tags": ["kafka"],
    "default_args": {"retries": 0, "retry_delay": timedelta(seconds=30), "on_failure_callback": Notice(FAILED)},
}
TWO_HOURS_OF_RETRIES: dict[str, Any] = {  # of a task
    "retries": 28,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=5),
}

# The most that a field takes. A form refuses what is above at once, before a worker begins to work on it.
MOST_PARTITIONS = 1_000_000  # of one topic; no cluster of Kafka has as many
MOST_REPLICAS = 2**15 - 1  # of a partition: a 16-bit integer in Kafka's protocol
LARGEST_ID = 2**31 - 1  # of a broker: a 32-bit integer there
LARGEST_NUMBER = 2**53 - 1  # a browser counts exactly up to here
MOST_COPIES = 10_000
LONGEST_TEXT = 10_000_000  # characters


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
    limits = {"maximum": LARGEST_ID} if kind == "integer" else {}
    items = {"type": kind, **limits, **schema.pop("items", {})}
    return Param(
        list(default), type="array", items=items, title=title, description=description, section=section, **schema
    )
