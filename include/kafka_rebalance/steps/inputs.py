"""What a step is given: the run that it works for, where that runs, and how it tells the steps behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_rebalance.steps.deployment import Deployment


class RunName(Protocol):
    """What tells one run of a Dag from any other."""

    @property
    def dag_id(self) -> str: ...
    @property
    def run_id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class StartedRun:
    """The run of a Dag that a step works for. `kind` is Airflow's run type; `conf` is of whoever started it."""

    dag_id: str
    run_id: str
    started_by: str | None = None
    kind: str = "manual"
    conf: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """`tell` hands a value on at once, under its key: also where the step fails afterwards."""

    run: StartedRun
    deployment: Deployment
    tell: Callable[[str, Any], None]


class SparkArguments(Protocol):
    """What a task is about to give to Spark; XComs are part of it, which can be edited."""

    application_args: Sequence[str]
    py_files: str
