"""Elects the preferred leaders of the approved partitions when all batches are in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance.elect_preferred import elect_preferred, may_elect, most_at_once
from kafka_rebalance.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.run_lock import lock_owner


def elect_leaders(inputs: StepInputs, decision: Mapping[str, Any]) -> list[str]:
    """Returns the approved partitions that their preferred leader does not lead yet."""
    plan = read_approved(inputs, decision)
    with open_cluster(inputs.deployment.read_connection(plan.connection_id)) as cluster:
        return [str(tp) for tp in elect(inputs, cluster, plan)]


def elect(inputs: StepInputs, cluster: OpenCluster, plan: ApprovedPlan) -> tuple[TopicPartition, ...]:
    """Elects the leaders of the whole plan unless another run holds the cluster; returns what is left."""
    owner = lock_owner(inputs.deployment, plan.candidate.digest, inputs.run)
    allowed = may_elect(inputs.deployment, plan, lambda: cluster.lock.read_own_fence(owner))
    return elect_preferred(cluster, plan.candidate.moves, most=most_at_once(plan), allowed=allowed)
