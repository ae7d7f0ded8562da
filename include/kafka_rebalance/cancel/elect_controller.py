"""`elect_controller`: for a request that does not end. Another broker becomes controller and reads it again.

It needs no run. If a run holds the cluster, that run goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.cancel.cancel_file import CANCEL_FILE
from kafka_rebalance.clock import looks
from kafka_rebalance.cluster.with_zookeeper import check_same_cluster
from kafka_rebalance.errors import ClusterNotReadyError, ExecutionError, NothingToDoError
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.moves.stuck_request import ElectionPlan, EntryState, entry_states
from kafka_rebalance.run.approved_plan import check_may_begin, read_approved_request
from kafka_rebalance.run.checks_before_write import check_approved_cluster
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.zookeeper import controller_deletion
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.reader import check_controller_stable, read_cluster_view

log = logging.getLogger(__name__)

PAUSE_SECONDS = 5.0  # between two looks; a controller starts a request within a second
ELECTION_SECONDS = 120.0  # until there is a controller; an election takes seconds
SETTLE_SECONDS = 120.0  # until it reads the request; in a big cluster it first loads all partitions
LOOK_SECONDS = 0.5


class Result(StrEnum):
    CLEARED = "cleared"  # it is gone
    TAKEN_UP = "taken up"  # the next controller moves its partitions
    REMAINS = "remains"


def show_stuck_request(connection: ClusterConnection) -> dict[str, Any]:
    """What cancel.json says about the election: fields of CancelRequest.

    Raises NothingToDoError if there is no request, and ClusterNotReadyError if the request needs no other controller,
    or if none can be elected.
    """
    with open_client(connection.zookeeper) as client:
        return _show(client, connection)


def _show(client: KazooClient, connection: ClusterConnection) -> dict[str, Any]:
    first = _planned(client)
    check_same_cluster(connection, first[1])
    check_controller_stable(client, lambda: time.sleep(PAUSE_SECONDS))
    plan, view = _planned(client)
    states = {tp: state for tp, (_, state) in plan.requested.items()}
    moving = {tp for tp, state in states.items() if state is EntryState.MOVING}
    # If a partition moved or was in sync at the first look, and its state has changed since, the controller works.
    going_on = (EntryState.MOVING, EntryState.IN_SYNC)
    moving |= {tp for tp, (_, old) in first[0].requested.items() if old in going_on and states.get(tp) is not old}
    if moving:
        raise _no_use(f"the controller is at work on it ({some(sorted(moving))})", "Let it end.")
    if not states:
        raise _no_use("it names no partition, and no controller removes such a request", "Find out who wrote it.")
    if plan.digest != first[0].digest:
        raise ClusterNotReadyError(
            "The controller or the request have changed between two looks, so the controller still works. Nothing was "
            "changed. Start a new run of kafka_rebalance_cancel if the request stays."
        )
    return {
        "cluster_id": plan.cluster_id,
        "run": plan.holder,
        "plan": plan.to_mapping(),
        "digest": plan.digest,
        "consent": plan.consent,
        "deletions": tuple(sorted(view.deletions)),
    }


def _no_use(why: str, remedy: str) -> ClusterNotReadyError:
    return ClusterNotReadyError(
        f"Another controller would not help the request /admin/reassign_partitions: {why}. Nothing was changed. "
        f"{remedy}"
    )


def _planned(client: KazooClient) -> tuple[ElectionPlan, ClusterView]:
    planned = controller_deletion.plan_election(client)
    if planned is None:
        why = "/admin/reassign_partitions does not exist, so there is nothing to clear. Nothing was changed."
        log.warning("%s", why)
        raise NothingToDoError(why)
    return planned


def elect_controller(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the cluster again and lets another broker become controller. Returns who it is, and the request's result.

    A retry deletes nothing twice: if the controller is not the one in the approval, it only looks.
    """
    approved = read_approved_request(
        inputs,
        decision,
        CANCEL_FILE,
        lambda written: written.election_plan,
        lambda plan: f"The controller election of cluster {plan.cluster_id}",
    )
    plan, connection_id = approved.plan, approved.connection_id
    inputs.deployment.check_policy_unchanged(connection_id, approved.decision.policy_digest)
    connection = inputs.deployment.read_connection(connection_id)
    with open_client(connection.zookeeper) as client:
        view = _view(client, plan)
        check_same_cluster(connection, view)
        if plan.is_of(view):  # else an earlier try or somebody else elected it: nothing is written
            check_may_begin(inputs.deployment, approved)
            inputs.deployment.check_not_frozen(connection_id)
            check_controller_stable(client, lambda: time.sleep(PAUSE_SECONDS))
        deleted = controller_deletion.delete_controller(client, plan, approved.decision.i_consent_to or "")
        if not deleted:
            log.warning("Broker %d is no longer controller of epoch %d: nothing was deleted", plan.broker, plan.epoch)
        view = _next_controller(client, plan)
        assert view.controller is not None
        log.info("The controller is broker %d, epoch %d", view.controller.broker, view.controller.epoch)
        result = _result(client, plan)
    if result is Result.REMAINS:
        raise ExecutionError(
            f"Broker {view.controller.broker} is controller now (epoch {view.controller.epoch}), but after "
            f"{SETTLE_SECONDS:.0f} s /admin/reassign_partitions still lists {some(sorted(plan.requested))}. Read "
            "that controller's log. Do not delete the znode. Clear this task to look again."
        )
    log.info("The request %s", "is gone" if result is Result.CLEARED else "goes on: its partitions move now")
    return {
        "controller": view.controller.broker,
        "epoch": view.controller.epoch,
        "deleted": deleted,
        "request": str(result),
    }


def _next_controller(client: KazooClient, plan: ElectionPlan) -> ClusterView:
    """The cluster, once a live broker is controller in a later epoch."""
    for _ in looks(ELECTION_SECONDS, LOOK_SECONDS):
        view = _view(client, plan)
        controller = view.controller
        if controller is not None and controller.epoch > plan.epoch and controller.broker in view.brokers:
            return view
    raise ExecutionError(
        f"/controller of broker {plan.broker} (epoch {plan.epoch}) is gone, but after {ELECTION_SECONDS:.0f} s "
        "no other broker is controller. The request is unchanged. Read in the brokers' logs why none is "
        "elected, then clear this task. It does not delete the znode again."
    )


def _result(client: KazooClient, plan: ElectionPlan) -> Result:
    for _ in looks(SETTLE_SECONDS, LOOK_SECONDS):
        view = _view(client, plan)
        if view.reassignments is None:
            return Result.CLEARED
        if EntryState.MOVING in entry_states(view).values():
            return Result.TAKEN_UP
    return Result.REMAINS


def _view(client: KazooClient, plan: ElectionPlan) -> ClusterView:
    view = read_cluster_view(client, {tp.topic for tp in plan.requested})
    check_approved_cluster(view, plan.cluster_id)
    return view
