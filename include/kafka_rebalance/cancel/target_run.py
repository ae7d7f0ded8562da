"""The run that `kafka_rebalance_cancel` stops, cancels or throttles."""

from __future__ import annotations

import logging
from typing import Any

from kafka_rebalance.cancel.cancel_file import CANCEL_FILE, CancelRequest
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, LogDirPlan, PlannedLogDirs
from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.run.approval_rules import DECISION_FILE
from kafka_rebalance.run.approved_plan import ApprovedPlan, ApprovedRequest
from kafka_rebalance.run.clusters import LOG_DIRS_DAG
from kafka_rebalance.run.inputs import Deployment, StartedRun, StepInputs
from kafka_rebalance.run.run_folder import RunFolder, open_own_folder, open_run_folder
from kafka_rebalance.run.running_rebalance import Running, approved_in, find_holder, still_running

log = logging.getLogger(__name__)


def read_request(inputs: StepInputs, run_folder: str) -> tuple[CancelRequest, RunFolder]:
    """cancel.json, and the folder of the target run."""
    written = CANCEL_FILE.read(open_own_folder(inputs.deployment, run_folder, inputs.run))
    return written, open_run_folder(inputs.deployment, written.target_folder)


def plan_of(target: RunFolder, written: CancelRequest) -> ApprovedPlan:
    """The approved plan of the target run."""
    plan = approved_in(target, written.candidate_digest)
    if plan is None:
        raise ExecutionError(
            f"{target} no longer holds the approved plan of {written.run}. Nothing was changed. Start a new run "
            "of kafka_rebalance_cancel."
        )
    return plan


def approved_rate(target: RunFolder, written: CancelRequest) -> int:
    """In bytes per second: of a rebalance, or of a run between log dirs."""
    between_dirs = _approved_log_dirs(target, written.candidate_digest)
    plan = plan_of(target, written) if between_dirs is None else between_dirs.plan
    return plan.throttle_bytes_per_second


def ended(inputs: StepInputs, cluster: OpenCluster, run: str, digest: str) -> dict[str, Any] | None:
    """The task's result if that run has ended meanwhile; None if it goes on. Raises LockHeldError."""
    if still_running(inputs.deployment, cluster, run, digest):
        return None
    log.warning("%s has ended meanwhile, so there is nothing to do. Nothing was changed.", run)
    return {"run": run, "ended": True}


def who(started: StartedRun) -> str:
    """The name under which the run's page shows who asks."""
    return started.started_by or f"{started.dag_id}/{started.run_id}"


# The run of `kafka_log_dirs` that holds a cluster. Its rate can be changed; its own task cancels its copies.


def find_log_dir_run(
    deployment: Deployment, cluster: OpenCluster, connection_id: str
) -> Running[ApprovedRequest[PlannedLogDirs, LogDirPlan]] | None:
    """None if no such run holds the cluster. Errors as in `find_holder`."""
    return find_holder(deployment, cluster, connection_id, LOG_DIRS_DAG, _approved_log_dirs)


def _approved_log_dirs(folder: RunFolder, digest: str) -> ApprovedRequest[PlannedLogDirs, LogDirPlan] | None:
    """The plan between log dirs that was approved in this folder; None if there is none, or it has another digest."""
    written = LOG_DIRS_FILE.read_if_there(folder)
    decision = DECISION_FILE.read_if_there(folder)
    if written is None or decision is None or not decision.is_approval or decision.digest != digest:
        return None
    plan = written.plan
    return ApprovedRequest(folder, written, decision, plan) if plan.digest == digest else None
