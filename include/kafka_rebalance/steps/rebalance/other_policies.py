"""Policies of other connections to the same cluster. Each of their limits binds this run too: the stricter one counts.

A cluster is the same if the connection expects its id, names one of its bootstrap servers, or if the janitor has met
the cluster behind it. No other cluster is asked.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, RebalanceError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.steps import policy_file
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.run_folder import file_name

log = logging.getLogger(__name__)


def other_policies(deployment: Deployment, connection: ClusterConnection, cluster_id: str) -> dict[str, Policy]:
    """Those that differ from this connection's own, by connection. One that cannot be read is logged and left out."""
    found: dict[str, Policy] = {}
    own = deployment.read_policy(connection.connection_id)
    for name in policy_file.connections(deployment.policies_folder):
        if name == connection.connection_id or not _is_same_cluster(deployment, name, connection, cluster_id):
            continue
        try:
            policy = deployment.read_policy(name)
        except RebalanceError as unreadable:
            log.warning("The policy of %s, which is the same cluster, is left out: %s", name, unreadable)
            continue
        if policy is not None and (own is None or policy.digest != own.digest):
            found[name] = policy
    return found


def bound_by_all(
    own: Policy,
    others: Mapping[str, Policy],
    asked: Settings,
    *,
    cluster_bytes: int,
    brokers: int,
    internal_topics: bool,
) -> Settings:
    """The settings of a run, with each limit of the others too. What these say of places and racks does not bind.

    Raises PolicyError if one of the policies forbids the request.
    """
    tighten = partial(Policy.tighten, cluster_bytes=cluster_bytes, brokers=brokers, internal_topics=internal_topics)
    if others and asked.throttle_bytes_per_second is None:
        highest = min(one.max_throttle_bytes_per_second for one in (own, *others.values()))
        asked = dataclasses.replace(asked, throttle_bytes_per_second=highest)
    settings = tighten(own, asked)
    for name, policy in others.items():
        log.warning("%s is the same cluster, and has another policy. The stricter limit of each counts", name)
        settings = dataclasses.replace(
            tighten(policy, settings),
            policy_digest=settings.policy_digest,
            broker_pools=settings.broker_pools,
            more_replicas_than_racks=settings.more_replicas_than_racks,
            rackless_brokers=settings.rackless_brokers,
        )
    return settings


def _is_same_cluster(deployment: Deployment, name: str, ours: ClusterConnection, cluster_id: str) -> bool:
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
    return bool(_servers(theirs) & _servers(ours))


def _servers(connection: ClusterConnection) -> set[str]:
    return {server.strip() for server in connection.kafka.bootstrap_servers.split(",")}
