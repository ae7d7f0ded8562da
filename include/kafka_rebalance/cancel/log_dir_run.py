"""The run of `kafka_log_dirs` that holds a cluster. Its rate can be changed; its own task cancels its copies."""

from __future__ import annotations

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, LogDirPlan
from kafka_rebalance.run.approval_rules import REJECT
from kafka_rebalance.run.approved_plan import ApprovedRequest
from kafka_rebalance.run.clusters import LOG_DIRS_DAG
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.running_rebalance import Running, find_holder


def find_log_dir_run(
    deployment: Deployment, cluster: OpenCluster, connection_id: str
) -> Running[ApprovedRequest[LogDirPlan]] | None:
    """None if no such run holds the cluster. Errors as in `find_holder`."""
    return find_holder(deployment, cluster, connection_id, LOG_DIRS_DAG, approved_log_dirs)


def approved_log_dirs(folder: RunFolder, digest: str) -> ApprovedRequest[LogDirPlan] | None:
    """The plan between log dirs that was approved in this folder; None if there is none, or it has another digest."""
    written = json_files.read_json_if_there(folder, json_files.LOG_DIRS)
    decision = json_files.read_json_if_there(folder, json_files.DECISION) or {}
    if written is None or decision.get("choice") in (None, REJECT) or decision.get("digest") != digest:
        return None
    plan = LOG_DIRS_FILE.decode(written).plan
    return ApprovedRequest(folder, written, decision, plan) if plan.digest == digest else None
