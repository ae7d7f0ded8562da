"""Deletes `/controller`, so that another controller reads a request that the present one ignores.

Nothing else is written. The deletion happens only if cluster, request and controller are still those that were shown.
"""

from __future__ import annotations

from kazoo.client import KazooClient

from kafka_rebalance.errors import WriteError
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.cancel_plan import check_consent
from kafka_rebalance.moves.stuck_request import ElectionPlan, EntryState, entry_states
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import Znode, read_znodes, sync
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.writer import add_checks, commit, repeat
from kafka_rebalance.zookeeper.znodes import decode_controller, decode_controller_epoch, decode_reassignment


def plan_election(client: KazooClient) -> tuple[ElectionPlan, ClusterView] | None:
    """The plan to elect another controller for the present request, and the cluster; None if nothing is requested.

    Raises WriteError if there is no controller, or if it is a KRaft controller.
    """
    holder = ZooKeeperLock(client).read()
    sync(client)
    found = read_znodes(client, _ELECTION)  # before the view: a later change shows in the request's version
    request = found[znodes.REASSIGN_PARTITIONS]
    if request is None:
        return None
    controller, broker, epoch = _controller(found)
    view = _view_of(client, request)
    plan = ElectionPlan(
        view.cluster_id,
        broker,
        epoch,
        controller[1].czxid,
        request[1].czxid,
        _requested(view),
        "" if holder is None else holder.name,
    )
    return plan, view


def delete_controller(client: KazooClient, plan: ElectionPlan, consent: str) -> bool:
    """Deletes `/controller`, so that the brokers elect another one; False if the plan's controller is gone already.

    Raises ApprovalError without the plan's consent. Raises WriteError, and deletes nothing, if cluster, request or the
    state of a requested partition differ from the plan, if a partition is moving, or if another run holds the cluster.
    """
    check_consent(plan.consent, consent)

    def attempt() -> bool:
        # Read first: if somebody takes the cluster after this, the fence has risen and nothing is deleted.
        fence = ZooKeeperLock(client).read_fence()
        holder = ZooKeeperLock(client).read()
        found = read_znodes(client, _ELECTION)
        now = found[znodes.CONTROLLER]
        if now is None or now[1].czxid != plan.controller_czxid:
            return False
        controller, broker, epoch = _controller(found)
        if (broker, epoch) != (plan.broker, plan.epoch):
            return False
        if holder is not None and holder.name != plan.holder:
            raise _not_elected(f"the cluster is now held by run {holder.name}")
        request, epoch_znode = found[znodes.REASSIGN_PARTITIONS], found[znodes.CONTROLLER_EPOCH]
        assert epoch_znode is not None  # otherwise `_controller` has raised
        if request is None or request[1].czxid != plan.request_czxid:
            raise _not_elected(f"{znodes.REASSIGN_PARTITIONS} is gone, or is not the one that was shown")
        _check_as_shown(plan, _view_of(client, request))
        transaction = client.transaction()
        add_checks(transaction, fence.versions)
        transaction.check(znodes.CONTROLLER_EPOCH, epoch_znode[1].version)
        transaction.check(znodes.REASSIGN_PARTITIONS, request[1].version)
        transaction.delete(znodes.CONTROLLER, controller[1].version)
        commit(client, znodes.CONTROLLER, transaction)
        return True

    return repeat(znodes.CONTROLLER, attempt)


_ELECTION = (znodes.REASSIGN_PARTITIONS, znodes.CONTROLLER, znodes.CONTROLLER_EPOCH)


def _view_of(client: KazooClient, request: Znode) -> ClusterView:
    return read_cluster_view(client, {tp.topic for tp in decode_reassignment(request[0])})


def _requested(view: ClusterView) -> dict[TopicPartition, tuple[tuple[int, ...], EntryState]]:
    states = entry_states(view)
    return {tp: (replicas, states[tp]) for tp, replicas in (view.reassignments or {}).items()}


def _controller(found: dict[str, Znode | None]) -> tuple[Znode, int, int]:
    """(znode, broker, epoch)"""
    controller, epoch = found[znodes.CONTROLLER], found[znodes.CONTROLLER_EPOCH]
    if controller is None or epoch is None:
        raise _not_elected("there is no controller now, so the brokers are electing one")
    decoded = decode_controller(controller[0], decode_controller_epoch(epoch[0]))
    if decoded.kraft_epoch >= 0:
        raise _not_elected(f"a KRaft controller owns the cluster (epoch {decoded.kraft_epoch})")
    return controller, decoded.broker, decoded.epoch


def _check_as_shown(plan: ElectionPlan, view: ClusterView) -> None:
    if view.cluster_id != plan.cluster_id:
        raise _not_elected(f"this is cluster {view.cluster_id}, but the approval is for cluster {plan.cluster_id}")
    now = _requested(view)
    if now != dict(plan.requested):
        changed = sorted(tp for tp in now.keys() | plan.requested.keys() if now.get(tp) != plan.requested.get(tp))
        raise _not_elected(f"{changed[0]} is no longer as it was shown")
    if moving := sorted(tp for tp, (_, state) in now.items() if state is EntryState.MOVING):
        raise _not_elected(f"{moving[0]} is moving")


def _not_elected(why: str) -> WriteError:
    return WriteError(
        f"No other controller was elected: {why}. {znodes.CONTROLLER} was not deleted. Start a new run of "
        "kafka_rebalance_cancel when that has changed."
    )
