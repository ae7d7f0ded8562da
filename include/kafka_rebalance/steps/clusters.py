"""The clusters that the nightly check, the janitor and the overview look at, and the ids of our Dags.

Another connection leads to the same cluster if it expects its id, names one of its bootstrap servers, or if the janitor
has met the cluster behind it. No other cluster is asked. Its policy binds a run too: the stricter limit of each counts.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, RebalanceError, SettingsError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.steps import policy_file
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.run_folder import file_name

log = logging.getLogger(__name__)

REBALANCE_DAG = "kafka_rebalance"
CANCEL_DAG = "kafka_rebalance_cancel"
TOPICS_DAG = "kafka_topics"
LOG_DIRS_DAG = "kafka_log_dirs"
CHECK_DAG = "kafka_balance_check"
JANITOR_DAG = "kafka_throttle_janitor"
CLUSTERS = "kafka_rebalance_clusters"  # an Airflow Variable
# Active runs of one Dag; Airflow queues the others. Its default of 16 counts runs that wait a day for an answer, so an
# urgent roll-back would queue behind them. The cluster's lock lets only one run of a cluster move anything. Not 0:
# Airflow takes that for "none may start" where it looks for queued runs.
RUNS_THAT_MAY_WAIT = 1000
VERDICT = "verdict.json"  # of the nightly check, in its run's folder


def how_to_stop(run: str) -> str:
    """What ends this run early and gives its cluster to others: words after "stop it"."""
    if run.startswith(f"{LOG_DIRS_DAG}/"):
        return "mark its task move as failed"
    return f"stop it with {CANCEL_DAG}"


def fleet(variable: Any) -> list[str]:
    """The connection ids of the Variable `kafka_rebalance_clusters`. Raises SettingsError if it is not such a list."""
    if variable is None:
        log.warning("The Variable kafka_rebalance_clusters is not set: no cluster is checked")
        return []
    try:
        names = json.loads(variable) if isinstance(variable, str) else variable
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise SettingsError(
            "The Variable kafka_rebalance_clusters must be a JSON list of connection ids, as in "
            '["kafka_eu", "kafka_us"]. No cluster was checked. Correct it under Admin, Variables.'
        )
    return list(dict.fromkeys(names))


def bound_policy(deployment: Deployment, own: Policy, connection_id: str, cluster_id: str, brokers: int = 0) -> Policy:
    """The policy of this connection, with the limits of all others that lead to the same cluster.

    Planning, approval and the checks before a write use it. Its digest is no policy's: compare that of `own`.
    """
    return own.bound_by(tuple(other_policies(deployment, connection_id, cluster_id).values()), brokers)


def other_policies(deployment: Deployment, connection_id: str, cluster_id: str) -> dict[str, Policy]:
    """Those that differ from this connection's own, by connection. One that cannot be read is logged and left out."""
    found: dict[str, Policy] = {}
    own = deployment.read_policy(connection_id)
    names = [name for name in policy_file.connections(deployment.policies_folder) if name != connection_id]
    for name in names:
        if not _is_same_cluster(deployment, name, connection_id, cluster_id):
            continue
        try:
            policy = deployment.read_policy(name)
        except RebalanceError as unreadable:
            log.warning("The policy of %s, which is the same cluster, is left out: %s", name, unreadable)
            continue
        if policy is not None and (own is None or policy.digest != own.digest):
            found[name] = policy
    return found


def _is_same_cluster(deployment: Deployment, name: str, connection_id: str, cluster_id: str) -> bool:
    with suppress(ArtifactError):
        looked_at = json_files.read_json(deployment.runs_root / json_files.JANITOR, f"{file_name(name)}.json")
        if looked_at.get("cluster_id") == cluster_id:
            return True
    try:
        theirs = deployment.read_connection(name)
    except Exception as unknown:
        log.info("The connection %s cannot be read (%s), so its cluster is not known", name, type(unknown).__name__)
        return False
    if theirs.expected_cluster_id is not None:
        return theirs.expected_cluster_id == cluster_id
    return bool(_servers(theirs) & _servers(deployment.read_connection(connection_id)))


def _servers(connection: ClusterConnection) -> set[str]:
    return {server.strip() for server in connection.kafka.bootstrap_servers.split(",")}
