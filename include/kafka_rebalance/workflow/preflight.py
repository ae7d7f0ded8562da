"""The last look before a write: is it allowed, is the cluster ready, and is everything still as it was approved?"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kafka_rebalance.brokers import sizes
from kafka_rebalance.execution.findings import some
from kafka_rebalance.execution.readiness import check_cluster_ready
from kafka_rebalance.execution.recovery import Position
from kafka_rebalance.execution.staleness import (
    Baseline,
    Drift,
    MoveDrift,
    check_approval_fresh,
    check_growth,
    check_no_conflict,
    check_policy_unchanged,
    conflicts,
    drifts,
    named_by_reason,
)
from kafka_rebalance.model.cluster import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import LEAVE_OUT, Policy
from kafka_rebalance.model.proposal import brokers_touched
from kafka_rebalance.workflow.approved import ApprovedPlan
from kafka_rebalance.workflow.baseline import read_baseline, read_held
from kafka_rebalance.workflow.freeze import check_not_frozen
from kafka_rebalance.workflow.left_out import leave_out
from kafka_rebalance.workflow.policies import read_policy

log = logging.getLogger(__name__)


def check_before_write(
    connection: ClusterConnection,
    plan: ApprovedPlan,
    view: ClusterView,
    where: Position,
    *,
    requesting: int | None = None,
) -> ApprovedPlan:
    """The plan that may be executed now: the approved one, less what the policy lets be left out.

    Raises where the cluster is frozen or not ready, policy or partitions are no longer those that were approved, and
    before the first write also where the approval has expired or there is much more to copy. Nothing is written then.
    `requesting`: the batch that is about to be requested; what differs without harm in it is logged.
    """
    check_not_frozen(plan.connection_id)
    policy = read_policy(plan.connection_id)
    check_policy_unchanged(plan.decision["policy_digest"], policy.digest if policy else None)
    assert policy is not None  # or the digests could not be the same
    begun = bool(where.touched)
    if not begun:
        check_approval_fresh(plan.decision["approved_at"], policy.approval_expires_after_seconds, datetime.now(UTC))
    check_cluster_ready(view, expected_cluster_id=plan.snapshot["cluster_id"], topics=())
    then = read_baseline(plan.folder, plan.topics)
    disks = _read_disks(connection, plan, view)
    found = drifts(
        plan.candidate.moves,
        view,
        then,
        batches_touched=where.touched,
        came_back_empty=_came_back_empty(plan, view, then, disks),
    )
    plan = _settle(plan, view, policy, found, begun)
    remaining = {move.topic_partition.topic for move in plan.candidate.moves}
    check_cluster_ready(view, may_be_down=plan.leaving, topics=remaining)
    if not begun:
        check_growth(plan.candidate.moves, _leader_sizes(plan, view, disks), policy.growth_limit)
    _log_harmless([one for one in found if one.move.batch == requesting])
    return plan


def _settle(
    plan: ApprovedPlan, view: ClusterView, policy: Policy, found: Sequence[MoveDrift], begun: bool
) -> ApprovedPlan:
    """Stops for conflicts, or leaves them out."""
    against = conflicts(found)
    if policy.on_conflict != LEAVE_OUT or len(against) == len(found):
        check_no_conflict(found, begun=begun)
        return plan
    if not against:
        return plan
    left_out = leave_out(plan.folder, plan.approved, plan.left_out, against, view)
    for line in named_by_reason(against):
        log.warning("left out from now on (on_conflict: leave_out of the policy): %s", line)
    return dataclasses.replace(plan, left_out=left_out)


def _log_harmless(found: Sequence[MoveDrift]) -> None:
    harmless = [one for one in found if one.drift is Drift.HARMLESS]
    if harmless:
        log.info(
            "%d partitions of batch %d differ from the snapshot without harm: %s",
            len(harmless),
            harmless[0].move.batch,
            some(named_by_reason(harmless)),
        )


def _read_disks(connection: ClusterConnection, plan: ApprovedPlan, view: ClusterView) -> sizes.BrokerDisks:
    """What the brokers that send or receive copies of this plan have on their disks now; one request a broker."""
    copied = [move for move in plan.candidate.moves if move.added]
    wanted = brokers_touched(copied) & set(view.brokers)
    return sizes.read_log_dirs(connection.kafka, sorted(wanted))


def _leader_sizes(
    plan: ApprovedPlan, view: ClusterView, disks: sizes.BrokerDisks
) -> Mapping[TopicPartition, int | None]:
    return {
        tp: disks.replicas.get(tp, {}).get(view.partitions[tp].leader)
        for move in plan.candidate.moves
        if (tp := move.topic_partition) in view.partitions
    }


def _came_back_empty(plan: ApprovedPlan, view: ClusterView, then: Baseline, disks: sizes.BrokerDisks) -> frozenset[int]:
    """Targets that registered again and have lost most of what the snapshot found there."""
    again = [
        broker
        for broker in disks.log_dirs
        if broker in then.brokers and then.brokers[broker].czxid not in (None, view.brokers[broker].czxid)
    ]
    return frozenset(broker for broker in again if _lost(read_held(plan.folder, broker), broker, disks))


def _lost(held: Mapping[TopicPartition, int], broker: int, disks: sizes.BrokerDisks) -> bool:
    found = sum(size for tp, size in held.items() if disks.replicas.get(tp, {}).get(broker))
    return found < sum(held.values()) / 2
