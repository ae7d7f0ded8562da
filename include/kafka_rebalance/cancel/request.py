"""`request` of `kafka_rebalance_cancel`: reads the runs and writes cancel.json. The cluster stays as it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.admin import log_dirs
from kafka_rebalance.cancel import words
from kafka_rebalance.cancel.cancel_file import (
    CANCEL_FILE,
    CANCEL_NOW,
    CONSENT,
    ELECT_CONTROLLER,
    ROLL_BACK,
    SET_THROTTLE,
    STOP,
    CancelRequest,
    StepShown,
)
from kafka_rebalance.cancel.elect_controller import show_stuck_request
from kafka_rebalance.cancel.roll_back import plan_roll_back
from kafka_rebalance.cancel.set_throttle import AskedRate
from kafka_rebalance.cancel.target_run import find_log_dir_run
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.log_dir_plan import LogDirPlan, PlannedLogDirs
from kafka_rebalance.documents.storage import write_whole
from kafka_rebalance.errors import ClusterNotReadyError, NothingToDoError, PolicyError, ReadError, SettingsError
from kafka_rebalance.model.candidate import Move, brokers_touched
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import ReplicaBytes
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.moves import cancel_plan
from kafka_rebalance.moves.cancel_plan import CancelPlan, CancelWay, Fate, check_consent, plan_cancel
from kafka_rebalance.moves.run_position import position
from kafka_rebalance.moves.stuck_request import ElectionPlan
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks, offer_in
from kafka_rebalance.run.approval_rules import REJECT, Answer, Question
from kafka_rebalance.run.approved_plan import ApprovedPlan, ApprovedRequest
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.requester import check_somebody_may_approve, hand_on, read_requester, with_own_request
from kafka_rebalance.run.run_folder import RunFolder, begin_run_folder
from kafka_rebalance.run.running_rebalance import Running, asked_for, find_moved, find_running

log = logging.getLogger(__name__)


# The next task: the task of the action, or the task that asks for its approval.
APPROVE_RATE = "approve_rate"
NEXT = {
    STOP: "stop",
    CANCEL_NOW: "approve",
    ROLL_BACK: "roll_back",
    SET_THROTTLE: "set_throttle",
    ELECT_CONTROLLER: "approve_election",
}
ROLL_BACK_FILE = "roll_back.json"  # in the JSON of kafka-reassign-partitions


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the request is about. `target` is the run that holds the cluster, or that `roll_back` undoes."""

    cluster: OpenCluster
    params: Mapping[str, Any]
    connection: ClusterConnection
    policy: Policy | None
    view: ClusterView
    target: ApprovedPlan
    run: str


def request(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    """Finds the run and writes down what the action would do to it.

    Skips all later tasks and says so if no rebalance runs (for roll_back: if none has moved anything).
    """
    connection_id, action = params["kafka_conn_id"], params["action"]
    policy = inputs.deployment.read_policy(connection_id)
    connection = inputs.deployment.read_connection(connection_id)
    _check_somebody_may_approve(inputs, action, policy)
    if action == ELECT_CONTROLLER:
        _need_policy(policy, connection_id)
        shown = show_stuck_request(connection)
    else:
        with open_cluster(connection) as cluster:
            shown = _show_run(inputs.deployment, params, connection, policy, cluster)
    folder, nonce = begin_run_folder(inputs, connection_id)
    if action == ROLL_BACK:
        write_whole(folder / ROLL_BACK_FILE, f"{shown['conf']['plan']}\n".encode())
        inputs.tell("conf", hand_on(folder, shown["conf"], inputs.run))
    document = CancelRequest(
        action=action,
        connection_id=connection_id,
        policy_digest=policy.digest if policy else None,
        requested_by=inputs.run.started_by,
        reason=params.get("reason") or "",
        observed_at=clock.utc_second(),
        nonce=nonce,
        **shown,
    )
    CANCEL_FILE.write(folder, document)
    lines = words.lines(document)
    for line in lines:
        log.info("%s", line)
    if document.needs_approval:  # a rate above the approved one
        check_somebody_may_approve(_need_policy(policy, connection_id), read_requester(inputs.deployment, inputs.run))
    following = APPROVE_RATE if document.needs_approval else NEXT[action]
    return {"next": following, "run": document.run, "said": list(lines[:10])}


def _check_somebody_may_approve(inputs: StepInputs, action: str, policy: Policy | None) -> None:
    """Before anything is read. Raises ApprovalError. The run that `roll_back` starts looks for itself."""
    if policy is None or action not in (CANCEL_NOW, ELECT_CONTROLLER):
        return
    requester = read_requester(inputs.deployment, inputs.run)
    if action == CANCEL_NOW:
        policy = with_own_request(policy, requester, inputs.run)
    check_somebody_may_approve(policy, requester)


def _show_run(
    deployment: Deployment,
    params: Mapping[str, Any],
    connection: ClusterConnection,
    policy: Policy | None,
    cluster: OpenCluster,
) -> dict[str, Any]:
    """What cancel.json says of the run to stop, cancel, throttle or roll back: fields of CancelRequest."""
    connection_id, action = params["kafka_conn_id"], params["action"]
    cluster_id = cluster.read_view([]).cluster_id
    if policy is not None and action == SET_THROTTLE:  # whoever stops copies does not wait for another's policy
        policy = bound_policy(deployment, policy, connection_id, cluster_id)
    between_dirs = find_log_dir_run(deployment, cluster, connection_id)
    if between_dirs is not None and action != ROLL_BACK:
        return _show_log_dir_run(params, policy, between_dirs, cluster_id)
    running = find_running(deployment, cluster, connection_id)
    if action == ROLL_BACK:
        target, run = _moved(deployment, running, connection_id, cluster_id, params.get("run_id") or None)
    elif running is not None:
        target, run = running.plan, running.holder.run
    else:
        raise _skip(
            f"No rebalance runs on cluster {cluster_id} ({connection_id}): nobody holds its lock. Nothing was "
            "changed. If a run waits for approval, reject it. If it has ended, use roll_back."
        )
    _check_its_cluster(cluster_id, target.snapshot.cluster_id)
    asked = _Asked(cluster, params, connection, policy, cluster.read_view(target.topics), target, run)
    return {
        "cluster_id": cluster_id,
        "run": run,
        "target_folder": str(target.folder),
        "candidate_digest": target.candidate.digest,
        **_WORK[action](asked),
    }


def _show_log_dir_run(
    params: Mapping[str, Any],
    policy: Policy | None,
    running: Running[ApprovedRequest[PlannedLogDirs, LogDirPlan]],
    cluster_id: str,
) -> dict[str, Any]:
    """The same of a run of kafka_log_dirs, which takes another rate alone."""
    run, plan = running.holder.run, running.plan.plan
    if params["action"] != SET_THROTTLE:
        raise _skip(
            f"Run {run} holds cluster {cluster_id}. It moves replicas between log dirs, and {params['action']} is for "
            "rebalances. Nothing was changed. To stop that run, mark its task move as failed. Its copies are then "
            "cancelled, and what is in place stays."
        )
    _check_its_cluster(cluster_id, plan.cluster_id)
    return {
        "cluster_id": cluster_id,
        "run": run,
        "target_folder": str(running.plan.folder),
        "candidate_digest": plan.digest,
        "between_log_dirs": True,
        **_another_rate(
            params, _need_policy(policy, running.plan.connection_id), AskedRate(run, plan.digest, cluster_id, 0), plan
        ),
    }


def _check_its_cluster(cluster_id: str, of_run: str) -> None:
    if of_run != cluster_id:
        raise ClusterNotReadyError(
            f"The connection now leads to cluster {cluster_id}, but the run was on {of_run}. "
            "Nothing was changed. Correct the connection."
        )


def _moved(
    deployment: Deployment,
    running: Running[ApprovedPlan] | None,
    connection_id: str,
    cluster_id: str,
    run_id: str | None,
) -> tuple[ApprovedPlan, str]:
    """The run to roll back."""
    if running is not None:
        raise ClusterNotReadyError(
            f"Run {running.holder.run} holds cluster {cluster_id}. Nothing was changed. Stop or cancel it. Roll back "
            "when it has given the cluster back."
        )
    moved = find_moved(deployment, connection_id, run_id)
    if moved is None:
        which = f"Run {run_id} has moved nothing" if run_id else "No run has moved anything"
        raise _skip(f"{which} on {connection_id}, so there is nothing to roll back. Nothing was changed.")
    return moved, f"{REBALANCE_DAG}/{moved.snapshot.run_id}"


def _stop(asked: _Asked) -> dict[str, Any]:
    batches = asked.target.candidate.batches
    noted = asked_for(asked.target.folder, asked.target.candidate.moves, asked.cluster)
    where = position(batches, asked.view, noted, limits=asked.target.limits)
    return {
        "remaining": cancel_plan.remaining(batches, where),
        "cannot_restore": cancel_plan.STOP_CANNOT_RESTORE,
    }


def _cancel_now(asked: _Asked) -> dict[str, Any]:
    _need_policy(asked.policy, asked.connection.connection_id)
    asked.cluster.check_same_cluster(asked.view)
    moves = asked.target.candidate.moves
    way = CancelWay.API if asked.cluster.can_cancel() else CancelWay.ZNODE
    sizes = _sizes(asked, moves)
    noted = asked_for(asked.target.folder, moves, asked.cluster)
    steps = plan_cancel(moves, asked.view, way, sizes, asked=noted)
    open_moves = tuple(step.move for step in steps if step.fate not in (Fate.DONE, Fate.CHANGED))
    plan = CancelPlan(asked.run, asked.view.cluster_id, asked.target.candidate.digest, way, open_moves)
    return {
        "plan": plan.to_mapping(),
        "digest": plan.digest,
        "consent": plan.consent,
        "sizes_known": sizes is not None,
        "steps": tuple(_step_shown(step, asked.view) for step in steps),
        "cannot_restore": cancel_plan.CANCEL_CANNOT_RESTORE,
    }


def _step_shown(step: cancel_plan.CancelStep, view: ClusterView) -> StepShown:
    partition = view.partitions.get(step.move.topic_partition)
    now, in_sync = (partition.replicas, partition.isr) if partition else ((), ())
    name, before, after = str(step.move.topic_partition), step.move.before, step.move.after
    return StepShown(name, step.fate, now, in_sync, before, after, step.bytes_thrown_away, step.note)


def _set_throttle(asked: _Asked) -> dict[str, Any]:
    target = asked.target
    unrated = AskedRate(asked.run, target.candidate.digest, asked.view.cluster_id, 0)
    return _another_rate(asked.params, _need_policy(asked.policy, target.connection_id), unrated, target)


def _another_rate(
    params: Mapping[str, Any], policy: Policy, unrated: AskedRate, plan: ApprovedPlan | LogDirPlan
) -> dict[str, Any]:
    rate = params.get("throttle_bytes_per_second")
    if rate is None:
        raise SettingsError("set_throttle needs throttle_bytes_per_second. Nothing was changed. Give the rate.")
    rate = int(rate)  # for a JSON schema 3000000.0 is an integer too
    problem = policy.throttle_problem(rate)
    if problem is not None:
        raise PolicyError(f"The rate cannot be set: {problem}. Nothing was changed. Ask for a rate within the limits.")
    approved = plan.throttle_bytes_per_second
    return {
        "bytes_per_second": rate,
        "approved_bytes_per_second": approved,
        "needs_approval": rate > approved,
        "digest": replace(unrated, bytes_per_second=rate).digest,
    }


def _roll_back(asked: _Asked) -> dict[str, Any]:
    moves = asked.target.candidate.moves
    back = plan_roll_back(moves, asked.view, asked.target.tables.baseline.topics, _sizes(asked, moves))
    if not back.moves:
        why = f" {'; '.join(back.left_out[:5])}." if back.left_out else ""
        raise _skip(
            f"{asked.run}: {back.unchanged} of {len(moves)} partitions have the lists recorded before the run, so "
            f"there is nothing to roll back. Nothing was changed.{why}"
        )
    kafkas_own = asked.cluster.read_kafkas_own(asked.view)
    return {
        "partitions": len(back.moves),
        "bytes": back.bytes_to_copy,
        "unchanged": back.unchanged,
        "left_out": back.left_out,
        "cannot_restore": (*cancel_plan.ROLL_BACK_CANNOT_RESTORE, *back.left_out),
        "conf": {
            "kafka_conn_id": asked.params["kafka_conn_id"],
            "plan": back.plan,
            "candidates": [],  # the run judges and offers only the way back
            "internal_topics": any(kafkas_own.holds_back(move.topic_partition.topic) for move in back.moves),
            "reason": f"Way back from {asked.run}" + (f": {r}" if (r := asked.params.get("reason")) else ""),
        },
    }


def _sizes(asked: _Asked, moves: tuple[Move, ...]) -> ReplicaBytes | None:
    """The replicas' bytes on the brokers that are up; None if they cannot be read, and cancel.json says so."""
    wanted = sorted(set(asked.view.brokers) & brokers_touched(moves))
    try:
        return log_dirs.read_log_dirs(asked.connection.kafka, wanted).replicas
    except ReadError as unread:
        log.warning("The bytes that a cancel throws away are unknown: %s", unread)
        return None


def _need_policy(policy: Policy | None, connection_id: str) -> Policy:
    if policy is None:
        raise PolicyError(
            f"There is no policy file for the connection {connection_id!r}, so nobody may approve. "
            "Nothing was changed. Put the file back."
        )
    return policy


def _skip(why: str) -> NothingToDoError:
    log.warning("%s", why)
    return NothingToDoError(why)


_WORK = {STOP: _stop, CANCEL_NOW: _cancel_now, SET_THROTTLE: _set_throttle, ROLL_BACK: _roll_back}


# A person approves cancel.json: to cancel now, elect a controller, or set a rate above the approved one.


class CancelApproval(Approval):
    """If the action deletes the controller's znodes, the approver must repeat a sentence that names them."""

    behind = ("cancel", "verify", "raise_throttle", "elect_controller")  # those of other actions are skipped
    shown = (json_files.CANCEL,)

    def offer(self, folder: RunFolder) -> Offer:
        written, digest = CANCEL_FILE.read_with_digest(folder)
        plan = _plan(written)
        return offer_in(written, digest, {written.action: written.digest if plan is None else plan.digest})

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        return words.approval_texts(CANCEL_FILE.read(folder))

    def questions(self, folder: RunFolder, offer: Offer, policy: Policy) -> tuple[Question, ...]:
        plan = _plan(CANCEL_FILE.read(folder))
        if plan is None or plan.consent is None:
            return ()
        return (Question(CONSENT, "I consent to", f"To go on, repeat word for word: {plan.consent}"),)

    def asking_approves(self, offer: Offer) -> bool:
        """What takes back moves in flight. A higher rate and another controller need a second person."""
        return CANCEL_NOW in offer.digests

    def details(self, folder: RunFolder, choice: str, answer: Answer) -> Mapping[str, Any]:
        plan = _plan(CANCEL_FILE.read(folder))
        if plan is None:
            return {}
        if choice != REJECT:
            check_consent(plan.consent, answer.consent)
        return {CONSENT: answer.consent}


def _plan(written: CancelRequest) -> CancelPlan | ElectionPlan | None:
    """None for a rate: its digest is in cancel.json."""
    if written.action == SET_THROTTLE:
        return None
    return written.election_plan if written.action == ELECT_CONTROLLER else written.cancel_plan
