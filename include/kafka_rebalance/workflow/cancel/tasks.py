"""What the tasks of `kafka_rebalance_cancel` do once the request is written down (and, to cancel now, approved)."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.admin import running_reassignments
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ApprovalError, ClusterNotReadyError, ExecutionError, VerificationError
from kafka_rebalance.execution.approval_rules import check_policy_unchanged
from kafka_rebalance.execution.cancel.cancel_fates import CancelPlan, Fate, Way, has_fate, out_of_order, plan_cancel
from kafka_rebalance.execution.move_stage import Stage, stage_in
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.cancel.actions import CONSENT
from kafka_rebalance.steps.deployment import read_connection
from kafka_rebalance.steps.inputs import RunName, StartedRun, StepInputs
from kafka_rebalance.verification.check_result import Check, CheckName, document, summarise
from kafka_rebalance.verification.replicas_in_place import check_placement
from kafka_rebalance.workflow.cancel.may_begin import check_may_begin
from kafka_rebalance.workflow.cancel.request import rate_digest
from kafka_rebalance.workflow.run import control
from kafka_rebalance.workflow.run.approved import ApprovedPlan, check_digest, decider, read_decision
from kafka_rebalance.workflow.run.asked_batches import asked_for
from kafka_rebalance.workflow.run.folder import RunFolder, open_own_folder, open_run_folder
from kafka_rebalance.workflow.run.policies import read_policy
from kafka_rebalance.workflow.run.running import approved_in, still_running
from kafka_rebalance.workflow.run.same_cluster import check_same_cluster
from kafka_rebalance.workflow.throttle import in_force
from kafka_rebalance.workflow.throttle.rate_change import change_rate
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.request_replacement import ask_for_original_lists
from kafka_rebalance.zookeeper.writer import create_reassignment

log = logging.getLogger(__name__)

SETTLE_SECONDS = 120.0  # for lists to be back; a healthy controller takes less than one
RELEASE_SECONDS = 300.0  # for the cancelled run to notice, and to put its throttles back
LOOK_SECONDS = 0.5
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ApprovedCancel:
    """The plan that was approved, with the documents it belongs to."""

    folder: RunFolder
    written: Mapping[str, Any]  # cancel.json
    decision: Mapping[str, Any]
    plan: CancelPlan

    @property
    def connection_id(self) -> str:
        return str(self.written["connection_id"])

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(move.topic_partition.topic for move in self.plan.moves)


def stop(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Asks the run to request no further batch; returns what remains undone, as seen when this was requested."""
    written, target = _read_request(run_folder, inputs.run)
    with open_client(read_connection(written["connection_id"]).zookeeper) as client:
        if not still_running(client, written["run"], written["candidate_digest"]):
            return _say_ended(written)
        asked = control.ask_stop(target, _who(inputs.run))
        # After that: a worker that read control.json before it, and is about to request a batch, no longer can.
        cluster_lock.raise_fence(client)
    log.info("%s stops after the batch under way, as %s asked", written["run"], asked.stop_after_batch)
    return {"run": written["run"], **written["remaining"]}


def set_throttle(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Gives the copies of the running rebalance another rate, none above the approved one; it works within seconds."""
    written, target = _read_request(run_folder, inputs.run)
    policy = read_policy(written["connection_id"])
    check_policy_unchanged(written["policy_digest"], policy.digest if policy else None)
    approved = _plan_of(target, written).throttle_bytes_per_second
    if written["bytes_per_second"] > approved:
        raise ApprovalError(
            f"{written['bytes_per_second']} bytes/s is above the {approved} bytes/s that {written['run']} was approved "
            "with. Nothing was changed. Start a new run of kafka_rebalance_cancel, which asks for an approval."
        )
    return _change_rate(written, target, by=_who(inputs.run))


def raise_throttle(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """The same with a rate above the one that the run was approved with, which a person has approved by itself."""
    folder, given = read_decision(decision, inputs.run)
    written, target = _read_request(str(folder), inputs.run)
    asked = rate_digest(written["run"], written["candidate_digest"], written["cluster_id"], written["bytes_per_second"])
    check_digest(f"The throttle of {written['run']}", asked, given)
    check_may_begin(folder, written["connection_id"], given)
    return _change_rate(written, target, by=decider(given) or "somebody")


def _change_rate(written: Mapping[str, Any], target: RunFolder, *, by: str) -> dict[str, Any]:
    connection, rate = read_connection(written["connection_id"]), int(written["bytes_per_second"])
    with open_client(connection.zookeeper) as client:
        if not still_running(client, written["run"], written["candidate_digest"]):
            return _say_ended(written)
        check_same_cluster(connection, read_cluster_view(client, ()))
    change_rate(target, rate, by=by)
    log.info("%s: the throttle is now %d bytes/s per broker", written["run"], rate)
    return {"run": written["run"], "throttle_bytes_per_second": rate}


def cancel(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Takes back what is in flight, after a last look at lock, policy and cluster. A retry cancels nothing twice.

    control.json comes first, so that `reassign` requests nothing more, and whoever follows the batch knows why its
    partitions go back.
    """
    approved = read_approved_cancel(decision, inputs.run)
    policy = read_policy(approved.connection_id)
    check_policy_unchanged(approved.decision["policy_digest"], policy.digest if policy else None)
    connection = read_connection(approved.connection_id)
    target = open_run_folder(approved.written["target_folder"])
    with open_client(connection.zookeeper) as client:
        if not still_running(client, approved.plan.run, approved.plan.candidate_digest):
            return _say_ended(approved.written)
        check_same_cluster(connection, _view(client, approved))
        if control.read_control(target).cancelled is None:  # else this is a retry of what was begun in time
            check_may_begin(approved.folder, approved.connection_id, approved.decision)
        control.ask_cancel(target, decider(approved.decision) or "somebody")
        # After that: a worker that read control.json before it, and is about to request a batch, no longer can.
        cluster_lock.raise_fence(client)
        cancelled = _take_back(client, connection, approved)
    for tp in sorted(cancelled):
        log.info("%s was taken back", tp)
    return {"run": approved.plan.run, "cancelled": len(cancelled)}


def read_approved_cancel(decision: Mapping[str, Any], started: RunName) -> ApprovedCancel:
    """The plan of cancel.json, if it is the one that was approved. Raises ApprovalError, ArtifactError."""
    folder, written = read_decision(decision, started)
    found = json_files.read_json(folder, json_files.CANCEL)
    plan = CancelPlan.from_mapping(found["plan"])
    check_digest(f"The cancelling of {plan.run}", plan.digest, written)
    return ApprovedCancel(folder, found, written, plan)


def _take_back(client: KazooClient, connection: ClusterConnection, approved: ApprovedCancel) -> set[TopicPartition]:
    """Cancels what is in flight until nothing is, and restores the order of lists. Raises where that takes too long."""
    plan, cancelled, reordered = approved.plan, set[TopicPartition](), set[TopicPartition]()
    give_up = time.monotonic() + SETTLE_SECONDS
    while True:
        view = _view(client, approved)
        asked = asked_for(open_run_folder(approved.written["target_folder"]), client)
        steps = plan_cancel(plan.moves, view, plan.way, asked=asked)
        blocked = has_fate(steps, Fate.BLOCKED)
        flying = has_fate(steps, Fate.BACK)
        going = has_fate(steps, Fate.ENDING, Fate.RETURNING)
        if blocked and not (flying and plan.way is Way.API):
            raise ExecutionError(
                f"{len(blocked)} partitions cannot be taken back: "
                f"{'; '.join(f'{step.move.topic_partition} {step.note}' for step in blocked[:10])}. {len(cancelled)} "
                "others were. The run requests no further batch. Clear this task when that has changed."
            )
        waits = plan.way is Way.ZNODE and has_fate(steps, Fate.ENDING)
        if flying and not waits:
            cancelled |= _cancel_in_flight(client, connection, approved, [step.move for step in flying], asked)
        order = out_of_order(plan.moves, view) if not flying and view.reassignments is None else ()
        if order and not {move.topic_partition for move in order} <= reordered:
            # Copies nothing: each list has the same brokers before and after. Not beside another run: the fence first.
            fence = cluster_lock.read_fence(client)
            still_running(client, plan.run, plan.candidate_digest)
            batch = Batch(1, order, plan.digest)
            create_reassignment(client, batch, plan.digest, view.brokers, view=view, fence=fence)
            reordered |= {move.topic_partition for move in order}
        elif not flying and not [step for step in going if not _stays_disordered(step.move, view)]:
            return cancelled
        if time.monotonic() > give_up:
            left = ", ".join(str(step.move.topic_partition) for step in (*flying, *going)[:_SHOWN])
            raise ExecutionError(
                f"After {SETTLE_SECONDS:.0f} s these are not back: {left}. {len(cancelled)} were asked to go back, and "
                "the run requests no further batch. Look at the controller's log, then clear this task: it goes on."
            )
        time.sleep(LOOK_SECONDS)


def _view(client: KazooClient, approved: ApprovedCancel) -> ClusterView:
    view = read_cluster_view(client, approved.topics)
    if view.cluster_id != approved.plan.cluster_id:
        raise ClusterNotReadyError(
            f"This is cluster {view.cluster_id}, approved was the cancelling on {approved.plan.cluster_id}. Nothing "
            "was written. Correct the connection."
        )
    return view


def _cancel_in_flight(
    client: KazooClient,
    connection: ClusterConnection,
    approved: ApprovedCancel,
    moves: Sequence[Move],
    asked: Collection[int],
) -> set[TopicPartition]:
    partitions = {move.topic_partition for move in moves}
    if approved.plan.way is Way.API:
        return set(running_reassignments.cancel_reassignments(connection.kafka, partitions))
    back = ask_for_original_lists(client, approved.plan, approved.decision[CONSENT], asked)
    log.info("Asked for the original lists of %d partitions; another broker becomes controller", len(back))
    return {move.topic_partition for move in back}


def _stays_disordered(move: Move, view: ClusterView) -> bool:
    """Whether it is back, in an order that cannot be mended since one of its brokers is not registered."""
    back = stage_in(move, view) is Stage.TAKEN_BACK and view.reassignments is None
    return back and not set(move.before) <= set(view.brokers)


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Waits until lists are whole and throttles put back, holds the cluster against both, and says what is where.

    Raises VerificationError where the end is not that.
    """
    approved = read_approved_cancel(decision, inputs.run)
    with open_client(read_connection(approved.connection_id).zookeeper) as client:
        checks, ends = _settled(client, approved)
    summary = summarise(checks)
    json_files.write_json(
        approved.folder,
        json_files.VERIFICATION,
        {
            **document(checks),
            "verified_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "ends": {where: [str(tp) for tp in held] for where, held in ends.items()},
        },
        source_digest=approved.plan.digest,
    )
    for where, held in ends.items():
        more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
        log.info("%d %s: %s%s", len(held), where, ", ".join(map(str, held[:_SHOWN])), more)
    for line in summary.lines():
        log.info("%s", line)
    if not summary.passed:
        first = summary.failed[0]
        raise VerificationError(
            f"{len(summary.failed)} of {len(checks)} checks failed; first {first.name} of {first.subject}: "
            f"{first.words}, must be {first.expectation}. Nothing more was written. Clear this task to look again."
        )
    return {"checks": len(checks), **{where.replace(" ", "_"): len(held) for where, held in ends.items()}}


Ends = dict[str, list[TopicPartition]]


def _settled(client: KazooClient, approved: ApprovedCancel) -> tuple[tuple[Check, ...], Ends]:
    """The checks, once they all pass or the time is up."""
    give_up, said = time.monotonic() + RELEASE_SECONDS, ""
    target = _plan_of(open_run_folder(approved.written["target_folder"]), approved.written)
    while True:
        checks, ends = _checks(client, approved, target)
        failed = summarise(checks).failed
        if not failed or time.monotonic() > give_up:
            return checks, ends
        if failed[0].finding != said:
            said = failed[0].finding
            log.info("%d of %d checks to go: %s, %s", len(failed), len(checks), failed[0].subject, said)
        time.sleep(LOOK_SECONDS)


def _checks(client: KazooClient, approved: ApprovedCancel, target: ApprovedPlan) -> tuple[tuple[Check, ...], Ends]:
    view = _view(client, approved)
    ends: Ends = {"in place": [], "where it was before": []}
    expected = []
    for move in approved.plan.moves:
        partition = view.partitions.get(move.topic_partition)
        moved = partition is not None and partition.replicas == move.after
        ends["in place" if moved else "where it was before"].append(move.topic_partition)
        expected.append(move if moved else Move(move.topic_partition, move.after, move.before, move.size_bytes))
    holder = cluster_lock.read(client)
    held = holder is not None and (holder.run, holder.digest) == (approved.plan.run, approved.plan.candidate_digest)
    given_back = Check(
        CheckName.LOCK,
        approved.plan.run,
        "the run has put back its throttles and given the cluster back",
        "it still holds the cluster: its task release_throttle, or the janitor, has yet to do that"
        if held
        else "the cluster is free, or another run's",
        not held,
    )
    throttles = () if held else in_force.check_put_back(client, target)
    return (*check_placement(expected, view), given_back, *throttles), ends


def _read_request(run_folder: str, started: RunName) -> tuple[dict[str, Any], RunFolder]:
    """cancel.json, and the folder of the run that it is about."""
    written = json_files.read_json(open_own_folder(run_folder, started), json_files.CANCEL)
    return written, open_run_folder(written["target_folder"])


def _plan_of(folder: RunFolder, written: Mapping[str, Any]) -> ApprovedPlan:
    plan = approved_in(folder, written["candidate_digest"])
    if plan is None:
        raise ExecutionError(
            f"{folder} no longer holds what {written['run']} was approved to do. Nothing was changed. Start a new run "
            "of kafka_rebalance_cancel."
        )
    return plan


def _say_ended(written: Mapping[str, Any]) -> dict[str, Any]:
    log.warning(
        "%s has ended meanwhile and holds nothing: there is nothing to do. Nothing was changed.", written["run"]
    )
    return {"run": written["run"], "ended": True}


def _who(started: StartedRun) -> str:
    return started.started_by or f"{started.dag_id}/{started.run_id}"
