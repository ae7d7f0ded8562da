"""`cancel`: takes back what is in flight, as approved, until nothing is."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.admin import running_reassignments
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.execution.cancel.cancel_fates import (
    CancelPlan,
    CancelWay,
    Fate,
    has_fate,
    out_of_order,
    plan_cancel,
)
from kafka_rebalance.execution.move_stage import Stage, stage_in
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.cancel import target_run
from kafka_rebalance.steps.cancel.actions import CONSENT
from kafka_rebalance.steps.clock import looks
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.steps.run import stop_requests
from kafka_rebalance.steps.run.approved_plan import ApprovedRequest, check_may_begin, decider, read_approved_request
from kafka_rebalance.steps.run.asked_batches import asked_for
from kafka_rebalance.steps.run.running_rebalance import still_running
from kafka_rebalance.steps.run.same_cluster import check_same_cluster, read_view_of
from kafka_rebalance.steps.run_folder import open_run_folder
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.request_replacement import ask_for_original_lists
from kafka_rebalance.zookeeper.writer import create_reassignment

log = logging.getLogger(__name__)

SETTLE_SECONDS = 120.0  # for lists to be back; a healthy controller takes less than one
LOOK_SECONDS = 0.5
_SHOWN = 20


def cancel_now(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """A last look at lock, policy and cluster, then the cancelling. A retry cancels nothing twice.

    control.json comes first, so that `reassign` requests nothing more, and whoever follows the batch knows why its
    partitions go back.
    """
    approved = read_approved_cancel(inputs, decision)
    plan = approved.plan
    inputs.deployment.check_policy_unchanged(approved.connection_id, approved.decision["policy_digest"])
    connection = inputs.deployment.read_connection(approved.connection_id)
    target = open_run_folder(inputs.deployment, approved.written["target_folder"])
    with open_client(connection.zookeeper) as client:
        if said := target_run.ended(inputs, client, plan.run, plan.candidate_digest):
            return said
        check_same_cluster(connection, _view(client, plan))
        if stop_requests.read_control(target).cancelled is None:  # else this is a retry of what was begun in time
            check_may_begin(inputs.deployment, approved)
        stop_requests.ask_cancel(target, decider(approved.decision) or "somebody")
        # After that: a worker that read control.json before it, and is about to request a batch, no longer can.
        cluster_lock.raise_fence(client)
        cancelled = _take_back(inputs, client, connection, approved)
    for tp in sorted(cancelled):
        log.info("%s was taken back", tp)
    return {"run": plan.run, "cancelled": len(cancelled)}


def read_approved_cancel(inputs: StepInputs, decision: Mapping[str, Any]) -> ApprovedRequest[CancelPlan]:
    """The plan of cancel.json, if it is the one that was approved. Raises ApprovalError, ArtifactError."""
    return read_approved_request(
        inputs,
        decision,
        json_files.CANCEL,
        lambda written: CancelPlan.from_mapping(written["plan"]),
        lambda plan: f"The cancelling of {plan.run}",
    )


def _take_back(
    inputs: StepInputs, client: KazooClient, connection: ClusterConnection, approved: ApprovedRequest[CancelPlan]
) -> set[TopicPartition]:
    """Cancels what is in flight until nothing is, and restores the order of lists. Raises where that takes too long."""
    plan, cancelled, reordered = approved.plan, set[TopicPartition](), set[TopicPartition]()
    target = open_run_folder(inputs.deployment, approved.written["target_folder"])
    for _ in looks(SETTLE_SECONDS, LOOK_SECONDS):
        view = _view(client, plan)
        asked = asked_for(target, client)
        steps = plan_cancel(plan.moves, view, plan.way, asked=asked)
        blocked = has_fate(steps, Fate.BLOCKED)
        flying = has_fate(steps, Fate.BACK)
        going = has_fate(steps, Fate.ENDING, Fate.RETURNING)
        if blocked and not (flying and plan.way is CancelWay.API):
            raise ExecutionError(
                f"{len(blocked)} partitions cannot be taken back: "
                f"{'; '.join(f'{step.move.topic_partition} {step.note}' for step in blocked[:10])}. {len(cancelled)} "
                "others were. The run requests no further batch. Clear this task when that has changed."
            )
        waits = plan.way is CancelWay.ZNODE and has_fate(steps, Fate.ENDING)
        if flying and not waits:
            cancelled |= _cancel_in_flight(client, connection, approved, [step.move for step in flying], asked)
        order = out_of_order(plan.moves, view) if not flying and view.reassignments is None else ()
        if order and not {move.topic_partition for move in order} <= reordered:
            # Copies nothing: each list has the same brokers before and after. Not beside another run: the fence first.
            fence = cluster_lock.read_fence(client)
            still_running(inputs.deployment, client, plan.run, plan.candidate_digest)
            batch = Batch(1, order, plan.digest)
            create_reassignment(client, batch, plan.digest, view.brokers, view=view, fence=fence)
            reordered |= {move.topic_partition for move in order}
        elif not flying and not [step for step in going if not _stays_disordered(step.move, view)]:
            return cancelled
    left = ", ".join(str(step.move.topic_partition) for step in (*flying, *going)[:_SHOWN])
    raise ExecutionError(
        f"After {SETTLE_SECONDS:.0f} s these are not back: {left}. {len(cancelled)} were asked to go back, and "
        "the run requests no further batch. Look at the controller's log, then clear this task: it goes on."
    )


def _view(client: KazooClient, plan: CancelPlan) -> ClusterView:
    return read_view_of(client, {move.topic_partition.topic for move in plan.moves}, plan.cluster_id)


def _cancel_in_flight(
    client: KazooClient,
    connection: ClusterConnection,
    approved: ApprovedRequest[CancelPlan],
    moves: Sequence[Move],
    asked: Collection[int],
) -> set[TopicPartition]:
    partitions = {move.topic_partition for move in moves}
    if approved.plan.way is CancelWay.API:
        return set(running_reassignments.cancel_reassignments(connection.kafka, partitions))
    back = ask_for_original_lists(client, approved.plan, approved.decision[CONSENT], asked)
    log.info("Asked for the original lists of %d partitions; another broker becomes controller", len(back))
    return {move.topic_partition for move in back}


def _stays_disordered(move: Move, view: ClusterView) -> bool:
    """Whether it is back, in an order that cannot be mended since one of its brokers is not registered."""
    back = stage_in(move, view) is Stage.TAKEN_BACK and view.reassignments is None
    return back and not set(move.before) <= set(view.brokers)
