"""The inputs of a step: its run, where that runs, and a way to tell later steps something."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kafka_rebalance.documents.storage import FolderOfRuns
from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.run import freeze, policy_file
from kafka_rebalance.run.approval_rules import check_policy_unchanged


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
        half = re.search("[\ud800-\udfff]", value)
        return half[0] if half else None
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


# Where this product runs: its configuration there, and the other runs.


class OtherRuns(Protocol):
    """Questions about other runs of this Airflow. Each names one run, or one Dag."""

    def state(self, dag_id: str, run_id: str) -> AirflowState:
        """UNKNOWN if Airflow does not tell."""

    def is_active(self, dag_id: str, run_id: str) -> bool:
        """Whether the run is queued or running; False if it does not exist. Raises if Airflow does not tell."""

    def task_states(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> Mapping[str, str] | None:
        """Airflow's states of these tasks of the run, without those that have none yet; None if it does not tell."""

    def told_decision(self, dag_id: str, run_id: str) -> object:
        """The XCom `decision` of the run's task `approve`; None if there is none. Raises ReadError."""

    def is_paused(self, dag_id: str) -> bool | None:
        """None if there is no such Dag. Raises ReadError if Airflow does not tell."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """`address` is for people. `frozen_text` reads the freeze switch before each write, and raises ReadError.
    `read_connection` raises ConnectionSettingsError, which says where to make one. `has_connection` raises ReadError.
    """

    runs_root: FolderOfRuns
    open_folder: Callable[[str], FolderOfRuns]  # by its URL, without a read
    address: str
    policies_folder: Path
    plans_folder: Path
    read_connection: Callable[[str], ClusterConnection]
    has_connection: Callable[[str], bool]
    frozen_text: Callable[[], str | None]
    other_runs: OtherRuns

    def read_policy(self, connection_id: str) -> Policy | None:
        return policy_file.read_policy(self.policies_folder, connection_id)

    def check_policy_unchanged(self, connection_id: str, digest: str | None) -> Policy:
        """The policy. Raises StaleProposalError unless it still has this digest."""
        policy = self.read_policy(connection_id)
        check_policy_unchanged(digest, policy.digest if policy else None)
        assert policy is not None  # or the digests could not be the same
        return policy

    def check_not_frozen(self, connection_id: str) -> None:
        """See `steps.freeze`. Raises ReadError if the switch cannot be read."""
        freeze.check_not_frozen(self.frozen_text(), connection_id, self.exists)

    def exists(self, connection_id: str) -> bool:
        """Whether this is the id of a cluster: it has a policy or a connection. Raises ReadError."""
        return connection_id in policy_file.connections(self.policies_folder) or self.has_connection(connection_id)
