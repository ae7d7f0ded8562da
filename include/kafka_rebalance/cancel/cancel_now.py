"""`cancel` takes back the approved moves in flight until none is left, `stop` lets the run end, `verify` checks it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka_rebalance.cancel import target_run
from kafka_rebalance.cancel.cancel_file import CANCEL_FILE, CancelRequest
from kafka_rebalance.clock import looks
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.json_files import plain
from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves import cancel_plan
from kafka_rebalance.moves.cancel_plan import CancelPlan, CancelWay, Fate
from kafka_rebalance.moves.move_stage import Stage, stage_in
from kafka_rebalance.run import stop_and_cancel_requests
from kafka_rebalance.run.approved_plan import ApprovedPlan, ApprovedRequest, check_may_begin, read_approved_request
from kafka_rebalance.run.check_result import Check, CheckName, check_passed, settled, write_checks
from kafka_rebalance.run.checks_before_write import read_view_of
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.passed_over_tasks import check_rest_will_run
from kafka_rebalance.run.replicas_in_place import check_placement
from kafka_rebalance.run.run_folder import open_run_folder
from kafka_rebalance.run.running_rebalance import asked_for, still_running
from kafka_rebalance.run.stop_and_cancel_requests import ask_stop
from kafka_rebalance.throttle import throttle_in_force
from kafka_rebalance.throttle.cordon_leaving import put_back_cordon
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.controller_deletion import ask_for_original_lists

log = logging.getLogger(__name__)


SETTLE_SECONDS = 120.0  # until the lists are back; a healthy controller takes less than one
LOOK_SECONDS = 0.5
_SHOWN = 20


def cancel_now(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Checks lock, policy and cluster again, then cancels. A retry cancels nothing twice.

    It writes control.json first. So `reassign` requests nothing more, and the follower of the batch knows why its
    partitions go back.
    """
    approved = _read_approved_cancel(inputs, decision)
    plan = approved.plan
    inputs.deployment.check_policy_unchanged(approved.connection_id, approved.decision.policy_digest)
    connection = inputs.deployment.read_connection(approved.connection_id)
    target = open_run_folder(inputs.deployment, approved.written.target_folder)
    with open_cluster(connection) as cluster:
        if ended := target_run.ended(inputs, cluster, plan.run, plan.candidate_digest):
            return ended
        cluster.check_same_cluster(_view(cluster, plan))
        if stop_and_cancel_requests.read_control(target).cancelled is None:  # else a retry: the first try began in time
            check_may_begin(inputs.deployment, approved)
        stop_and_cancel_requests.ask_cancel(target, approved.decision.by or "somebody")
        # Only now: a worker that has read the old control.json can no longer request a batch.
        late = cluster.stop_requests().taken_back
        holder = cluster.lock.read()
        if holder is not None:  # Kafka refuses lists that name a broker which the run has cordoned
            put_back_cordon(ClusterLease(inputs.deployment, cluster, plan.cluster_id), holder)
        cancelled = late | _take_back(inputs, cluster, connection, approved)
    for tp in sorted(cancelled):
        log.info("%s was taken back", tp)
    check_rest_will_run(inputs, f"{len(cancelled)} partitions were taken back.", ("verify",))
    return {"run": plan.run, "cancelled": len(cancelled)}


def _read_approved_cancel(
    inputs: StepInputs, decision: Mapping[str, Any]
) -> ApprovedRequest[CancelRequest, CancelPlan]:
    """The approved plan. Raises ApprovalError if cancel.json holds another one, ArtifactError."""
    return read_approved_request(
        inputs,
        decision,
        CANCEL_FILE,
        lambda written: written.cancel_plan,
        lambda plan: f"The cancelling of {plan.run}",
    )


def _take_back(
    inputs: StepInputs,
    cluster: OpenCluster,
    connection: ClusterConnection,
    approved: ApprovedRequest[CancelRequest, CancelPlan],
) -> set[TopicPartition]:
    """Cancels until nothing is in flight, and restores the order of lists. Raises ExecutionError after a time limit."""
    plan, cancelled, reordered = approved.plan, set[TopicPartition](), set[TopicPartition]()
    target = open_run_folder(inputs.deployment, approved.written.target_folder)
    for _ in looks(SETTLE_SECONDS, LOOK_SECONDS):
        view = _view(cluster, plan)
        noted = asked_for(target, plan.moves, cluster)
        steps = cancel_plan.plan_cancel(plan.moves, view, plan.way, asked=noted)
        blocked = cancel_plan.has_fate(steps, Fate.BLOCKED)
        flying = cancel_plan.has_fate(steps, Fate.BACK)
        going = cancel_plan.has_fate(steps, Fate.ENDING, Fate.RETURNING)
        if blocked and not (flying and plan.way is CancelWay.API):
            raise ExecutionError(
                f"{len(blocked)} partitions cannot be taken back: "
                f"{'; '.join(f'{step.move.topic_partition} {step.note}' for step in blocked[:10])}. {len(cancelled)} "
                "others were taken back. The run requests no further batch. Clear this task when the reason is gone."
            )
        waits = plan.way is CancelWay.ZNODE and cancel_plan.has_fate(steps, Fate.ENDING)
        if flying and not waits:
            if plan.way is CancelWay.API:
                partitions = {step.move.topic_partition for step in flying}
                cancelled |= set(cluster.cancel_moves(partitions))
            else:
                with open_client(connection.zookeeper) as client:
                    back = ask_for_original_lists(client, plan, approved.decision.i_consent_to or "", noted)
                log.info("Requested the original lists of %d partitions. Another broker becomes controller.", len(back))
                cancelled |= {move.topic_partition for move in back}
        order = cancel_plan.out_of_order(plan.moves, view) if not flying and view.reassignments is None else ()
        if order and not {move.topic_partition for move in order} <= reordered:
            # This copies nothing: each list keeps its brokers. The fence keeps it from writing beside another run.
            fence = cluster.lock.read_fence()
            still_running(inputs.deployment, cluster, plan.run, plan.candidate_digest)
            batch = Batch(1, order, plan.digest)
            refused = cluster.request_moves(batch, plan.digest, view.brokers, view=view, fence=fence)
            if refused:
                shown = "; ".join(f"{tp} ({words})" for tp, words in sorted(refused.items())[:_SHOWN])
                raise ExecutionError(
                    f"Kafka refuses the original order of {len(refused)} lists: {shown}. No copy of the plan is in "
                    f"flight. {len(cancelled)} were taken back. Clear this task when the reason is gone: it goes on."
                )
            reordered |= {move.topic_partition for move in order}
        elif not flying and not [step for step in going if not _stays_disordered(step.move, view)]:
            return cancelled
    away = ", ".join(str(step.move.topic_partition) for step in (*flying, *going)[:_SHOWN])
    raise ExecutionError(
        f"After {SETTLE_SECONDS:.0f} s these partitions are not back: {away}. {len(cancelled)} were asked to go back. "
        "The run requests no further batch. Read the controller's log, then clear this task: it goes on."
    )


def _view(cluster: OpenCluster, plan: CancelPlan) -> ClusterView:
    return read_view_of(cluster, {move.topic_partition.topic for move in plan.moves}, plan.cluster_id)


def _stays_disordered(move: Move, view: ClusterView) -> bool:
    """Whether the move is back, but its order cannot be restored because one of its brokers is not registered."""
    back = stage_in(move, view) is Stage.TAKEN_BACK and view.reassignments is None
    return back and not set(move.before) <= set(view.brokers)


# `stop`: lets the running rebalance request no further batch.


def stop_run(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Returns what remains undone, as `request` has seen it."""
    written, target = target_run.read_request(inputs, run_folder)
    with open_cluster(inputs.deployment.read_connection(written.connection_id)) as cluster:
        if ended := target_run.ended(inputs, cluster, written.run, written.candidate_digest):
            return ended
        control = ask_stop(target, target_run.who(inputs.run))
        # Only now: a worker that has read the old control.json can no longer request a batch.
        cluster.stop_requests()
    log.info("%s stops after the current batch. %s asked for it.", written.run, control.stop_after_batch)
    return {"run": written.run, **plain(written.remaining)}


# `verify`: checks lists and throttles after a cancel, and reports where each partition is.


RELEASE_SECONDS = 300.0  # until the cancelled run has noticed it and put its throttles back

Ends = dict[str, list[TopicPartition]]


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Raises VerificationError if a check fails."""
    approved = _read_approved_cancel(inputs, decision)
    target = target_run.plan_of(open_run_folder(inputs.deployment, approved.written.target_folder), approved.written)
    ends: Ends = {}

    def look() -> tuple[Check, ...]:
        checks, where = _checks(cluster, approved.plan, target)
        ends.update(where)
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
    is_held = holder is not None and (holder.run, holder.digest) == (plan.run, plan.candidate_digest)
    given_back = Check(
        CheckName.LOCK,
        plan.run,
        "the run has put back its throttles and given the cluster back",
        "it still holds the cluster: its task release_throttle, or the janitor, has yet to do that"
        if is_held
        else "the cluster is free, or another run's",
        not is_held,
    )
    throttles = () if is_held else throttle_in_force.check_put_back(cluster, target)
    return (*check_placement(expected, view), given_back, *throttles), ends
