"""Deletes `/controller`, so that the next controller reads the request anew; no other code deletes the request.

For another controller nothing else is written: a request that the present one ignores stays as it is. To cancel below
2.4, the request is replaced by one for the original lists. Either is one ZooKeeper transaction, which succeeds only if
everything is as it was read or shown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kazoo.client import KazooClient

from kafka_rebalance.errors import WriteError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition, replica_list_problem
from kafka_rebalance.moves.cancel_plan import CancelPlan, CancelWay, Fate, check_consent, has_fate, plan_cancel
from kafka_rebalance.moves.stuck_request import ElectionPlan, EntryState, entry_states
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import Znode, read_znodes, sync
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.writer import acl_like, add_checks, commit, repeat
from kafka_rebalance.zookeeper.znodes import (
    decode_controller,
    decode_controller_epoch,
    decode_reassignment,
    encode_reassignment,
)

_REQUEST_AND_CONTROLLER = (znodes.REASSIGN_PARTITIONS, znodes.CONTROLLER, znodes.CONTROLLER_EPOCH)


def plan_election(client: KazooClient) -> tuple[ElectionPlan, ClusterView] | None:
    """The plan to elect another controller for the present request, and the cluster; None if nothing is requested.

    Raises WriteError if there is no controller, or if it is a KRaft controller.
    """
    holder = ZooKeeperLock(client).read()
    sync(client)
    contents = read_znodes(
        client, _REQUEST_AND_CONTROLLER
    )  # before the view: a later change shows in the request's version
    request = contents[znodes.REASSIGN_PARTITIONS]
    if request is None:
        return None
    controller, broker, epoch = _controller(contents)
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
        contents = read_znodes(client, _REQUEST_AND_CONTROLLER)
        now = contents[znodes.CONTROLLER]
        if now is None or now[1].czxid != plan.controller_czxid:
            return False
        controller, broker, epoch = _controller(contents)
        if (broker, epoch) != (plan.broker, plan.epoch):
            return False
        if holder is not None and holder.name != plan.holder:
            raise _not_elected(f"the cluster is now held by run {holder.name}")
        request, epoch_znode = contents[znodes.REASSIGN_PARTITIONS], contents[znodes.CONTROLLER_EPOCH]
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


def _view_of(client: KazooClient, request: Znode) -> ClusterView:
    return read_cluster_view(client, {tp.topic for tp in decode_reassignment(request[0])})


def _requested(view: ClusterView) -> dict[TopicPartition, tuple[tuple[int, ...], EntryState]]:
    states = entry_states(view)
    return {tp: (replicas, states[tp]) for tp, replicas in (view.reassignments or {}).items()}


def _controller(contents: dict[str, Znode | None]) -> tuple[Znode, int, int]:
    """(znode, broker, epoch)"""
    controller, epoch = contents[znodes.CONTROLLER], contents[znodes.CONTROLLER_EPOCH]
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


# To cancel below 2.4, both deletions and the request for the original lists are one transaction. It succeeds only if
# the request, the controller's epoch, and each partition's list and in-sync replicas are as they were read. So the
# request is never gone while the controller is still there, and no other request can come in between.


def ask_for_original_lists(
    client: KazooClient, plan: CancelPlan, consent: str, asked: Collection[TopicPartition] | None = None
) -> tuple[Move, ...]:
    """Takes back the plan's moves in flight, and returns them. `asked`: see `plan_cancel`.

    Deletes `/admin/reassign_partitions`, creates it with the original lists, and deletes `/controller`. Raises
    ApprovalError without the plan's consent. Raises WriteError, and writes nothing, if the plan is for 2.4 or later, if
    the request names anything that is not the plan's, or if a partition cannot go back from its present state.
    """
    if plan.way is not CancelWay.ZNODE:
        raise WriteError(
            f"{znodes.REASSIGN_PARTITIONS} was not replaced: that cancels only below Kafka 2.4. From 2.4 on, Kafka's "
            "API cancels."
        )
    check_consent(plan.consent, consent)
    topics = {move.topic_partition.topic for move in plan.moves}

    def attempt() -> tuple[Move, ...]:
        # Read before the view: if a znode changes between the two reads, its version differs and nothing is written.
        contents = _read_all(client, plan.moves)
        view = read_cluster_view(client, topics)
        _check_cluster(plan, view)
        steps = plan_cancel(plan.moves, view, CancelWay.ZNODE, asked=asked)
        back = tuple(step.move for step in has_fate(steps, Fate.BACK))
        for step in has_fate(steps, Fate.BLOCKED):
            raise _not_replaced(f"{step.move.topic_partition} {step.note}")
        if not back:
            return ()
        # A request for only some of the partitions would leave the others on their interim lists for good.
        for step in has_fate(steps, Fate.ENDING, Fate.RETURNING):
            raise _not_replaced(f"{step.move.topic_partition} {step.note or 'is going back already'}")
        data = encode_reassignment({move.topic_partition: move.before for move in back})
        for move in back:
            problem = replica_list_problem(move.before, view.brokers)
            if problem:
                raise _not_replaced(f"{move.topic_partition}: {problem} (original replicas {list(move.before)})")
        _check_request(contents[znodes.REASSIGN_PARTITIONS], back)
        _replace(client, contents, back, data)
        return back

    return repeat(znodes.REASSIGN_PARTITIONS, attempt)


def _read_all(client: KazooClient, moves: Sequence[Move]) -> dict[str, Znode | None]:
    sync(client)
    partitions = [move.topic_partition for move in moves]
    topics = dict.fromkeys(znodes.topic_path(tp.topic) for tp in partitions)
    return read_znodes(client, [*_REQUEST_AND_CONTROLLER, *topics, *map(znodes.state_path, partitions)])


def _check_cluster(plan: CancelPlan, view: ClusterView) -> None:
    if view.cluster_id != plan.cluster_id:
        raise _not_replaced(f"this is cluster {view.cluster_id}, but the plan is for cluster {plan.cluster_id}")
    marked = [tp for tp, partition in view.partitions.items() if partition.in_motion]
    if marked:
        raise _not_replaced(f"{min(marked)} shows that the controller runs Kafka 2.4 or later")


def _check_request(znode: Znode | None, back: Sequence[Move]) -> None:
    if znode is None:  # somebody deleted it: the controller goes on from its memory, but its successor cannot
        return
    ours = {move.topic_partition: move.after for move in back}
    for topic_partition, replicas in sorted(decode_reassignment(znode[0]).items()):
        if ours.get(topic_partition) != replicas:
            raise _not_replaced(f"it also asks for {topic_partition} on {list(replicas)}, which is no move of this run")


def _replace(client: KazooClient, contents: dict[str, Znode | None], back: Sequence[Move], data: bytes) -> None:
    controller, epoch = contents[znodes.CONTROLLER], contents[znodes.CONTROLLER_EPOCH]
    if controller is None or epoch is None:
        raise _not_replaced(f"there is no controller ({znodes.CONTROLLER} is absent), so one is being elected")
    request = contents[znodes.REASSIGN_PARTITIONS]
    transaction = client.transaction()
    # Each election sets the epoch. So its version shows that the controller is still the same.
    transaction.check(znodes.CONTROLLER_EPOCH, epoch[1].version)
    topics = dict.fromkeys(znodes.topic_path(move.topic_partition.topic) for move in back)
    for path in (*topics, *(znodes.state_path(move.topic_partition) for move in back)):
        znode = contents[path]
        if znode is None:
            raise _not_replaced(f"{path} does not exist")
        transaction.check(path, znode[1].version)
    acl = acl_like(client, znodes.DELETE_TOPICS)
    if request is not None:
        transaction.delete(znodes.REASSIGN_PARTITIONS, request[1].version)
    transaction.create(znodes.REASSIGN_PARTITIONS, data, acl)
    transaction.delete(znodes.CONTROLLER, controller[1].version)
    commit(client, znodes.REASSIGN_PARTITIONS, transaction)


def _not_replaced(why: str) -> WriteError:
    return WriteError(
        f"{znodes.REASSIGN_PARTITIONS} was not replaced: {why}. Start a new run of "
        "kafka_rebalance_cancel when that has changed."
    )
