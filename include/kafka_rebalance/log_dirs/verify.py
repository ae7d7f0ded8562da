"""`verify` of `kafka_log_dirs`: checks every replica's log dir and the rates, and adds a row to the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.log_dir_plan import LogDirMove, LogDirPlan, PlannedLogDirs
from kafka_rebalance.errors import ReadError
from kafka_rebalance.log_dirs.approved_moves import read_approved_moves
from kafka_rebalance.log_dirs.copy_states import CopyState, states_of
from kafka_rebalance.log_dirs.read_dirs import dirs_now, read_disks
from kafka_rebalance.log_dirs.rules import check_log_dirs
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approved_plan import ApprovedRequest
from kafka_rebalance.run.check_result import Check, check_passed, write_checks
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.throttle.entity_configs import read_away, read_configs
from kafka_rebalance.throttle.in_force import check_throttles, check_unrecorded, desired_log_dir_rate, set_now
from kafka_rebalance.throttle.lease_files import read_copy


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Raises VerificationError if a replica is not in its log dir, is still copied, or a rate is not as before."""
    approved = read_approved_moves(inputs, decision)
    plan = approved.plan
    connection = inputs.deployment.read_connection(approved.connection_id)
    try:
        now = dirs_now(read_disks(connection.kafka, plan.brokers))
        future = {replica: path for replica, (path, _) in now.future.items()}
        with open_cluster(connection) as cluster:
            checks = (*check_log_dirs(plan.moves, now.paths, future), *_rates(cluster, plan, approved.folder))
    except ReadError:
        _record(inputs, approved, None, verified=False)  # until a later try replaces it
        raise
    summary = write_checks(approved.folder, checks, plan.digest)
    _record(inputs, approved, states_of(plan.moves, now)[CopyState.DONE], verified=summary.passed)
    check_passed(summary)
    return {"checks": len(checks), "warnings": len(summary.warnings)}


def _record(
    inputs: StepInputs,
    approved: ApprovedRequest[PlannedLogDirs, LogDirPlan],
    in_place: Sequence[LogDirMove] | None,
    *,
    verified: bool,
) -> None:
    """A cleared or repeated task replaces its run's row."""
    plan, lease = approved.plan, read_copy(approved.folder)
    began, ended = (lease.taken_at, lease.released_at) if lease is not None else (None, None)
    row = {
        "run_id": inputs.run.run_id,
        "job": plan.job,
        "digest": plan.digest,
        "requested_by": approved.written.requested_by,
        "approved_by": approved.decision.by_id,
        "verified": verified,
        "brokers": sorted(plan.brokers),
        "replicas": len(plan.moves),
        "in_place": None if in_place is None else len(in_place),
        "predicted_bytes": plan.size_bytes,
        "copied_bytes": None if in_place is None else sum(move.size_bytes for move in in_place),
        "predicted_seconds": plan.seconds,
        "began_at": None if began is None else datetime.fromisoformat(began),
        "ended_at": None if ended is None else datetime.fromisoformat(ended),
        "throttle_bytes_per_second": plan.throttle_bytes_per_second,
    }
    now = clock.utc_now()
    ledger.append(inputs.deployment, "log_dirs", approved.connection_id, inputs.run.run_id, now, [row])


def _rates(cluster: OpenCluster, plan: LogDirPlan, folder: RunFolder) -> tuple[Check, ...]:
    """The janitor puts back the rates of brokers that are away, when they return."""
    wanted = desired_log_dir_rate(plan.brokers, plan.throttle_bytes_per_second)
    away = read_away(cluster, wanted)
    now = read_configs(cluster, wanted.keys() - away)
    lease = read_copy(folder)
    if lease is None:
        return check_unrecorded(set_now(wanted, now))
    lease = lease.without(away)
    return check_throttles(lease.prior, lease.wanted, now, lease.own_rates)
