"""The end of a run's copies: cancels those under way, puts the rate back, and gives the cluster's lock back.

A run that has ended as approved has no copies under way. A run that failed, or that somebody has stopped, leaves no
future replica behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.log_dirs.approved_moves import read_approved_moves
from kafka_rebalance.log_dirs.move_replicas import cancel_copies
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.late_tasks import check_rest_will_run
from kafka_rebalance.run.run_lock import lock_owner
from kafka_rebalance.throttle.cluster_lease import ClusterLease
from kafka_rebalance.throttle.release_throttle import give_back
from kafka_rebalance.throttle.throttle_in_force import check_nothing_set
from kafka_rebalance.throttle.wanted import desired_log_dir_rate


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
        cancelled = 0
        if kept.read_own(owner) is not None:
            with open_wire(connection.kafka) as wire:
                cancelled = cancel_copies(kept, wire, connection.kafka, plan, owner)
        wanted = desired_log_dir_rate(plan.brokers, plan.throttle_bytes_per_second)
        released = give_back(
            kept, owner, approved.connection_id, lambda: check_nothing_set(cluster, wanted, "The lock is kept.")
        )
    check_rest_will_run(inputs, "The rate is put back, and the lock is given back.", ("verify",))
    return {"cancelled": cancelled, **released}
