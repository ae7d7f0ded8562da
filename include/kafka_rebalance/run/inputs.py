"""The inputs of a step: its run, where that runs, and a way to tell later steps something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.run.deployment import Deployment


class RunName(Protocol):
    """The name of one run of a Dag."""

    @property
    def dag_id(self) -> str: ...
    @property
    def run_id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class StartedRun:
    """The run that a step works for. `kind` is Airflow's run type; `conf` comes from whoever started the run."""

    dag_id: str
    run_id: str
    started_by: str | None = None
    kind: str = "manual"
    conf: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """`tell` passes a value on at once, under its key, even if the step fails afterwards."""

    run: StartedRun
    deployment: Deployment
    tell: Callable[[str, Any], None]


def check_params(params: Mapping[str, Any]) -> None:
    """Raises SettingsError for what no Dag can use: the forms do not look at it, and neither does Airflow's API.

    JSON may hold half of a surrogate pair, which has no bytes: no file, page or znode could be written with it.
    """
    for name, value in params.items():
        if (half := _half_a_pair(value)) is not None:
            raise _unusable(f"{name!a} holds half of a surrogate pair, {half!a}, which is no character")
    for name in ("kafka_conn_id", "reason"):
        if not isinstance(params.get(name), str | None):
            raise _unusable(f"{name} must be a text, and is {params[name]!a}")


def _half_a_pair(value: Any) -> str | None:
    if isinstance(value, str):
        return next((one for one in value if "\ud800" <= one <= "\udfff"), None) if not value.isascii() else None
    inner = [*value, *value.values()] if isinstance(value, Mapping) else value
    return next(filter(None, map(_half_a_pair, inner)), None) if isinstance(inner, list | tuple) else None


def _unusable(why: str) -> SettingsError:
    return SettingsError(f"{why[:300]}. Nothing was read or written. Correct it, and start a new Dag run.")


class SparkArguments(Protocol):
    """What a task is about to give to Spark. It contains XComs, which people can edit.

    `py_files` is code. The operator takes the installed package, so nothing else may be there.
    """

    application_args: Sequence[str]
    py_files: str | None
