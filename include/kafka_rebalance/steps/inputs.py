"""The inputs of a step: its run, where that runs, and a way to tell later steps something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_rebalance.steps.deployment import Deployment


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


class SparkArguments(Protocol):
    """What a task is about to give to Spark. It contains XComs, which people can edit.

    `py_files` is code. The operator takes the installed package, so nothing else may be there.
    """

    application_args: Sequence[str]
    py_files: str | None
