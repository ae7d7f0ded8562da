"""The limits of a run where several connections, each with a policy of its own, lead to the same cluster."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import reduce

from kafka_rebalance.documents.janitor_report import read_janitor_report
from kafka_rebalance.errors import ArtifactError, PolicyError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.policy import STRICTER, Policy
from kafka_rebalance.run import policy_file
from kafka_rebalance.run.inputs import Deployment

log = logging.getLogger(__name__)


def bound_policy(deployment: Deployment, own: Policy, connection_id: str, cluster_id: str, brokers: int = 0) -> Policy:
    """The policy of this connection, with the limits of all others that lead to the same cluster.

    Another connection leads there if it expects its id, names one of its bootstrap servers, or if the janitor has met
    the cluster behind it. Planning, approval and the checks before a write use this. Its digest is no policy's: compare
    that of `own`.
    """
    return bound_by(own, other_policies(deployment, connection_id, cluster_id).values(), brokers)


def bound_by(own: Policy, others: Collection[Policy], brokers: int) -> Policy:
    """The policy with each limit of `others` too: the stricter one of each counts, in a cluster of so many brokers.

    What the others say of people, times, places and racks does not bind. Raises PolicyError if no throttle is within
    the range of each.
    """
    if not others:
        return own
    policies = (own, *others)
    least = max(policy.min_throttle_bytes_per_second for policy in policies)
    most = min(policy.max_throttle_bytes_per_second for policy in policies)
    if least > most:
        raise PolicyError(
            f"Policies of this cluster leave no throttle: one allows no less than {least} bytes/s, and one no more "
            f"than {most}. Correct the policies, and start again."
        )
    has_batches = any(policy.partitions_per_batch for policy in policies)
    has_copies = any(policy.copies_per_broker for policy in policies)
    return replace(
        own,
        **{key: reduce(stricter, (getattr(policy, key) for policy in policies)) for key, stricter in STRICTER.items()},
        partitions_per_batch=min(policy.partitions_limit(brokers) for policy in policies) if has_batches else 0,
        copies_per_broker=min(policy.copies_limit for policy in policies) if has_copies else 0,
    )


def other_policies(deployment: Deployment, connection_id: str, cluster_id: str) -> dict[str, Policy]:
    """Those that differ from this connection's own, by connection. Raises PolicyError for one that cannot be read: its
    limits are unknown.
    """
    others: dict[str, Policy] = {}
    own = deployment.read_policy(connection_id)
    for name in policy_file.connections(deployment.policies_folder):
        if name == connection_id or not _is_same_cluster(deployment, name, connection_id, cluster_id):
            continue
        try:
            policy = deployment.read_policy(name)
        except PolicyError as unreadable:
            raise PolicyError(
                f"The connection {name} leads to the same cluster as {connection_id}, so its policy limits this one "
                f"too, and its limits are unknown. {unreadable}"
            ) from unreadable
        if policy is not None and (own is None or policy.digest != own.digest):
            others[name] = policy
    return others


def _is_same_cluster(deployment: Deployment, name: str, connection_id: str, cluster_id: str) -> bool:
    with suppress(ArtifactError):
        report = read_janitor_report(deployment.runs_root, name)
        if report is not None and report.cluster_id == cluster_id:
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
