"""The approved moves of a run, and the cluster on which they may begin."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka_rebalance.admin import api_versions
from kafka_rebalance.admin.replica_sizes import BrokerDisks
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.requests.log_dir_plan import LOG_DIRS_FILE, LogDirPlan
from kafka_rebalance.execution.check.broker_versions import harmed_by_copies_within
from kafka_rebalance.execution.check.cluster_ready import readiness_findings, refuse
from kafka_rebalance.execution.log_dirs.copy_states import DirsNow, offline_dirs
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.steps.log_dirs.read_dirs import dirs_now, read_disks
from kafka_rebalance.steps.run import cluster_snapshot
from kafka_rebalance.steps.run.approved_plan import ApprovedRequest, read_approved_request


def read_approved_moves(inputs: StepInputs, decision: Mapping[str, Any]) -> ApprovedRequest[LogDirPlan]:
    """Raises ApprovalError if log_dirs.json holds another plan, ArtifactError."""
    return read_approved_request(
        inputs,
        decision,
        json_files.LOG_DIRS,
        lambda written: LOG_DIRS_FILE.decode(written).plan,
        lambda plan: f"The plan of {len(plan.moves)} moves between log dirs",
    )


def read_if_ready(
    cluster: OpenCluster, connection: ClusterConnection, cluster_id: str | None
) -> tuple[ClusterView, BrokerDisks]:
    """The cluster and the log dirs of all its brokers. `cluster_id` is the expected one; None: any.

    Raises ClusterNotReadyError if a log dir is offline, a broker is away or its Kafka is below 2.2, or somebody moves
    replicas between brokers or log dirs. Raises ReadError if a broker does not answer.
    """
    cluster.check_controller_stable(lambda: time.sleep(cluster_snapshot.STORM_PAUSE_SECONDS))
    view = cluster.read_view()
    cluster.check_is_whole(view)
    cluster.check_same_cluster(view)
    spoken = api_versions.read_api_versions(connection.kafka, sorted(view.brokers))
    disks = read_disks(connection.kafka, view.brokers)
    now = dirs_now(disks)
    refuse(
        [
            *readiness_findings(view, expected_cluster_id=cluster_id),
            *harmed_by_copies_within(spoken),
            *offline_dirs(now.disks),
            *_copies_of_others(now),
        ]
    )
    return view, disks


def _copies_of_others(now: DirsNow) -> Iterator[Finding]:
    if now.future:
        yield Finding(
            "log dirs",
            f"replicas are on their way to another log dir of their broker ({some(sorted(now.future))})",
            "Wait for their end, or cancel them with kafka-reassign-partitions",
        )
