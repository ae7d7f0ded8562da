"""`elect_controller`: another broker becomes controller, and reads a request anew that does not end.

It needs no run. Where one holds the cluster, that run goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError, ExecutionError, NothingToDoError
from kafka_rebalance.execution.stuck_request import ElectionPlan, EntryState, entry_states
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.steps.cancel.actions import CONSENT
from kafka_rebalance.steps.clock import looks
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.steps.run.approved_plan import check_may_begin, read_approved_request
from kafka_rebalance.steps.run.same_cluster import check_same_cluster, read_view_of
from kafka_rebalance.zookeeper import controller_deletion
from kafka_rebalance.zookeeper.client import open_client
from kafka_rebalance.zookeeper.settled_controller import check_controller_stable

log = logging.getLogger(__name__)

PAUSE_SECONDS = 5.0  # between two looks; a controller takes a request up within a second
ELECTION_SECONDS = 120.0  # for the next controller; an election takes seconds
SETTLE_SECONDS = 120.0  # for it to read the request; on clusters of many partitions it first loads them all
LOOK_SECONDS = 0.5


class Result(StrEnum):
    """What became of the request."""

    CLEARED = "cleared"  # it is gone
    TAKEN_UP = "taken up"  # the next controller moves what it asks for
    REMAINS = "remains"


def show_stuck_request(client: KazooClient, connection: ClusterConnection) -> dict[str, Any]:
    """What cancel.json says of the election.

    Raises NothingToDoError where nothing is requested; ClusterNotReadyError where the request needs no other
    controller, or none can be elected.
    """
    first = _planned(client)
    check_same_cluster(connection, first[1])
    check_controller_stable(client, lambda: time.sleep(PAUSE_SECONDS))
    plan, view = _planned(client)
    states = {tp: state for tp, (_, state) in plan.requested.items()}
    moving = {tp for tp, state in states.items() if state is EntryState.MOVING}
    # What moved, or was about to end, at the first look and is elsewhere now: the controller does not stand still.
    going_on = (EntryState.MOVING, EntryState.IN_SYNC)
    moving |= {tp for tp, (_, then) in first[0].requested.items() if then in going_on and states.get(tp) is not then}
    if moving:
        raise _no_use(f"the controller is at work on it ({some(sorted(moving))})", "Let it end.")
    if not states:
        raise _no_use("it names no partition, and no controller takes such a request away", "Find who wrote it.")
    if plan.digest != first[0].digest:
        raise ClusterNotReadyError(
            "Controller or request have changed between two looks, so something still goes on. Nothing was changed. "
            "Start a new run of kafka_rebalance_cancel if the request stays."
        )
    return {
        "cluster_id": plan.cluster_id,
        "run": plan.holder,
        "plan": plan.to_mapping(),
        "digest": plan.digest,
        "consent": plan.consent,
        "deletions": sorted(view.deletions),
    }


def _no_use(why: str, remedy: str) -> ClusterNotReadyError:
    return ClusterNotReadyError(
        f"/admin/reassign_partitions is no request that another controller clears: {why}. Nothing was changed. {remedy}"
    )


def _planned(client: KazooClient) -> tuple[ElectionPlan, ClusterView]:
    planned = controller_deletion.plan_election(client)
    if planned is None:
        why = "Nothing is requested in /admin/reassign_partitions: there is nothing to clear. Nothing was changed."
        log.warning("%s", why)
        raise NothingToDoError(why)
    return planned


def elect_controller(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Has another controller elected, after a last look; says who it is and what became of the request.

    A retry deletes nothing twice: where the controller is not the one that was shown, it only looks.
    """
    approved = read_approved_request(
        inputs,
        decision,
        json_files.CANCEL,
        lambda written: ElectionPlan.from_mapping(written["plan"]),
        lambda plan: f"The controller election of cluster {plan.cluster_id}",
    )
    plan, connection_id = approved.plan, approved.connection_id
    inputs.deployment.check_policy_unchanged(connection_id, approved.decision["policy_digest"])
    connection = inputs.deployment.read_connection(connection_id)
    with open_client(connection.zookeeper) as client:
        view = _view(client, plan)
        check_same_cluster(connection, view)
        if plan.is_of(view):  # else it was elected by an earlier try, or by others: nothing is written
            check_may_begin(inputs.deployment, approved)
            inputs.deployment.check_not_frozen(connection_id)
            check_controller_stable(client, lambda: time.sleep(PAUSE_SECONDS))
        deleted = controller_deletion.delete_controller(client, plan, approved.decision[CONSENT])
        if not deleted:
            log.warning("Broker %d is not controller of epoch %d any more: nothing deleted", plan.broker, plan.epoch)
        view = _next_controller(client, plan)
        assert view.controller is not None
        log.info("Controller is broker %d, epoch %d", view.controller.broker, view.controller.epoch)
        result = _result(client, plan)
    if result is Result.REMAINS:
        raise ExecutionError(
            f"Broker {view.controller.broker} is controller now (epoch {view.controller.epoch}), and after "
            f"{SETTLE_SECONDS:.0f} s /admin/reassign_partitions still lists {some(sorted(plan.requested))}. Look at "
            "that controller's log. Do not delete the znode. Clear this task to look again."
        )
    log.info("The request %s", "is gone" if result is Result.CLEARED else "was taken up: its partitions move now")
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
        f"/controller of broker {plan.broker} (epoch {plan.epoch}) is gone, and after {ELECTION_SECONDS:.0f} s "
        "no other broker is controller. The request is as it was. See the brokers' logs for why none is "
        "elected, then clear this task: it deletes nothing again."
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
    return read_view_of(client, {tp.topic for tp in plan.requested}, plan.cluster_id)
