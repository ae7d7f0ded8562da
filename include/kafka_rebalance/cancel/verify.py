"""`verify`: checks lists and throttles after a cancel, and reports where each partition is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka_rebalance.cancel.cancel_now import read_approved_cancel
from kafka_rebalance.cancel.target_run import plan_of
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.cancel_plan import CancelPlan
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.check_result import Check, CheckName, check_passed, settled, write_checks
from kafka_rebalance.run.checks_before_write import read_view_of
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.replicas_in_place import check_placement
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.throttle import throttle_in_force

log = logging.getLogger(__name__)

RELEASE_SECONDS = 300.0  # until the cancelled run has noticed it and put its throttles back
_SHOWN = 20

Ends = dict[str, list[TopicPartition]]


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Raises VerificationError if a check fails."""
    approved = read_approved_cancel(inputs, decision)
    target = plan_of(open_run_folder(inputs.deployment, approved.written.target_folder), approved.written)
    ends: Ends = {}

    def look() -> tuple[Check, ...]:
        checks, found = _checks(cluster, approved.plan, target)
        ends.update(found)
        return checks

    with open_cluster(inputs.deployment.read_connection(approved.connection_id)) as cluster:
        checks = settled(look, RELEASE_SECONDS)
    held_by = {where: [str(tp) for tp in held] for where, held in ends.items()}
    summary = write_checks(approved.folder, checks, approved.plan.digest, ends=held_by)
    for where, held in held_by.items():
        more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
        log.info("%d %s: %s%s", len(held), where, ", ".join(held[:_SHOWN]), more)
    check_passed(summary)
    return {"checks": len(checks), **{where.replace(" ", "_"): len(held) for where, held in ends.items()}}


def _checks(cluster: OpenCluster, plan: CancelPlan, target: ApprovedPlan) -> tuple[tuple[Check, ...], Ends]:
    view = read_view_of(cluster, {move.topic_partition.topic for move in plan.moves}, plan.cluster_id)
    ends: Ends = {"in place": [], "where it was before": []}
    expected = []
    for move in plan.moves:
        partition = view.partitions.get(move.topic_partition)
        moved = partition is not None and partition.replicas == move.after
        ends["in place" if moved else "where it was before"].append(move.topic_partition)
        expected.append(move if moved else Move(move.topic_partition, move.after, move.before, move.size_bytes))
    holder = cluster.lock.read()
    held = holder is not None and (holder.run, holder.digest) == (plan.run, plan.candidate_digest)
    given_back = Check(
        CheckName.LOCK,
        plan.run,
        "the run has put back its throttles and given the cluster back",
        "it still holds the cluster: its task release_throttle, or the janitor, has yet to do that"
        if held
        else "the cluster is free, or another run's",
        not held,
    )
    throttles = () if held else throttle_in_force.check_put_back(cluster, target)
    return (*check_placement(expected, view), given_back, *throttles), ends
