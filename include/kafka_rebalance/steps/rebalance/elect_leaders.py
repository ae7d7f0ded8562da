"""Preferred leaders of the approved partitions, elected once all are in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import RunName, StepInputs
from kafka_rebalance.steps.reassignment import elect_preferred
from kafka_rebalance.steps.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.steps.run.run_lock import lock_owner
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client


def elect_leaders(inputs: StepInputs, decision: Mapping[str, Any]) -> list[str]:
    """Preferred election for approved partitions whose leader is not the first replica; returns what is left."""
    plan = read_approved(inputs, decision)
    with open_client(inputs.deployment.read_connection(plan.connection_id).zookeeper) as client:
        left = elect(inputs.deployment, client, plan, inputs.run)
    return [str(tp) for tp in left]


def elect(
    deployment: Deployment, client: KazooClient, plan: ApprovedPlan, started: RunName
) -> tuple[TopicPartition, ...]:
    """Elects leaders of the whole plan where nobody else holds the cluster; gives who is not led as approved yet."""
    owner = lock_owner(deployment, plan.candidate.digest, started)
    allowed = elect_preferred.may_elect(deployment, plan, lambda: cluster_lock.read_own_fence(client, owner))
    most = elect_preferred.most_at_once(plan)
    return elect_preferred.elect_preferred(client, plan.candidate.moves, most=most, allowed=allowed)
