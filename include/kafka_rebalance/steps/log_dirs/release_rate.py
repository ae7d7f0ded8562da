"""The end of a run's copies: cancels those under way, puts the rate back, and gives the cluster's lock back.

A run that has ended as approved has no copies under way. A run that failed, or that somebody has stopped, leaves no
future replica behind: a broker cancels a copy if it is asked for the log dir in which the replica lies.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka_rebalance.admin.replica_sizes import read_log_dirs
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.requests.log_dir_plan import LogDirPlan
from kafka_rebalance.execution.log_dirs.copy_states import CopyState, states_of
from kafka_rebalance.execution.throttle.wanted import desired_log_dir_rate
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.steps.log_dirs.approved_moves import read_approved_moves
from kafka_rebalance.steps.log_dirs.move_replicas import send
from kafka_rebalance.steps.log_dirs.read_dirs import dirs_now
from kafka_rebalance.steps.run.run_lock import lock_owner
from kafka_rebalance.steps.throttle.cluster_lease import ClusterLease
from kafka_rebalance.steps.throttle.release_throttle import give_back
from kafka_rebalance.steps.throttle.throttle_in_force import check_nothing_set

log = logging.getLogger(__name__)


def release_rate(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ThrottleError while copies that cannot be cancelled go on: rate and lock stay then, and the janitor has
    them from then on. This task may be repeated.
    """
    approved = read_approved_moves(inputs, decision)
    plan = approved.plan
    connection = inputs.deployment.read_connection(approved.connection_id)
    owner = lock_owner(inputs.deployment, plan.digest, inputs.run)
    with open_cluster(connection) as cluster:
        kept = ClusterLease(inputs.deployment, cluster, plan.cluster_id)
        cancelled = 0 if kept.read_own(owner) is None else _cancel(kept, connection.kafka, plan, owner)
        wanted = desired_log_dir_rate(plan.brokers, plan.throttle_bytes_per_second)
        released = give_back(
            kept, owner, approved.connection_id, lambda: check_nothing_set(cluster, wanted, "The lock is kept.")
        )
    return {"cancelled": cancelled, **released}


def _cancel(kept: ClusterLease, kafka: KafkaConnection, plan: LogDirPlan, owner: LockOwner) -> int:
    """Cancels this run's copies on the brokers that answer, and returns how many."""
    now = dirs_now(read_log_dirs(kafka, sorted(plan.brokers), of_the_rest=True))
    copying = [move for move in states_of(plan.moves, now)[CopyState.COPYING] if move.broker in now.disks]
    if not copying:
        return 0
    kept.cluster.lock.raise_held(owner)  # a worker of this run that stood still requests nothing more
    log.warning("These copies are cancelled: %s", some([move.replica for move in copying]))
    with open_wire(kafka) as wire:
        refused = send(kept, wire, owner, now, {move: move.before for move in copying})
    for name, why in refused:
        log.error("%s: its copy was not cancelled (%s)", name, why)
    return len(copying) - len(refused)
