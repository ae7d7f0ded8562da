"""Where this product runs: its configuration there, and the other runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafka_rebalance.documents.storage import FolderOfRuns
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.run import freeze, policy_file
from kafka_rebalance.run.approval_rules import check_policy_unchanged


class OtherRuns(Protocol):
    """Questions about other runs of this Airflow. Each names one run, or one Dag."""

    def state(self, dag_id: str, run_id: str) -> AirflowState:
        """UNKNOWN if Airflow does not tell."""

    def is_active(self, dag_id: str, run_id: str) -> bool:
        """Whether the run is queued or running; False if it does not exist. Raises if Airflow does not tell."""

    def task_states(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> Mapping[str, str] | None:
        """Airflow's states of these tasks of the run, without those that have none yet; None if it does not tell."""

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
