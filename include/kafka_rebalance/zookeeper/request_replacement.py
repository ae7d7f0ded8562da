"""Deletes `/admin/reassign_partitions` and `/controller` to cancel below 2.4; no other code deletes the request.

Both deletions and the request for the original lists are one ZooKeeper transaction. It succeeds only if everything is
as it was read: the request, the controller's epoch, and each partition's list and in-sync replicas. So the request is
never gone while the controller is still there, and no other request can come in between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kazoo.client import KazooClient

from kafka_rebalance.errors import WriteError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition, replica_list_problem
from kafka_rebalance.moves.cancel_plan import CancelPlan, CancelWay, Fate, check_consent, has_fate, plan_cancel
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import Znode, read_znodes, sync
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.writer import acl_like, commit, repeat
from kafka_rebalance.zookeeper.znodes import decode_reassignment, encode_reassignment


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
        found = _read(client, plan.moves)
        view = read_cluster_view(client, topics)
        _check_cluster(plan, view)
        steps = plan_cancel(plan.moves, view, CancelWay.ZNODE, asked=asked)
        back = tuple(step.move for step in has_fate(steps, Fate.BACK))
        for step in has_fate(steps, Fate.BLOCKED):
            raise _refused(f"{step.move.topic_partition} {step.note}")
        if not back:
            return ()
        # A request for only some of the partitions would leave the others on their interim lists for good.
        for step in has_fate(steps, Fate.ENDING, Fate.RETURNING):
            raise _refused(f"{step.move.topic_partition} {step.note or 'is going back already'}")
        data = encode_reassignment({move.topic_partition: move.before for move in back})
        for move in back:
            problem = replica_list_problem(move.before, view.brokers)
            if problem:
                raise _refused(f"{move.topic_partition}: {problem} (original replicas {list(move.before)})")
        _check_request(found[znodes.REASSIGN_PARTITIONS], back)
        _replace(client, found, back, data)
        return back

    return repeat(znodes.REASSIGN_PARTITIONS, attempt)


def _read(client: KazooClient, moves: Sequence[Move]) -> dict[str, Znode | None]:
    sync(client)
    partitions = [move.topic_partition for move in moves]
    topics = dict.fromkeys(znodes.topic_path(tp.topic) for tp in partitions)
    wanted = [znodes.REASSIGN_PARTITIONS, znodes.CONTROLLER, znodes.CONTROLLER_EPOCH]
    return read_znodes(client, [*wanted, *topics, *map(znodes.state_path, partitions)])


def _check_cluster(plan: CancelPlan, view: ClusterView) -> None:
    if view.cluster_id != plan.cluster_id:
        raise _refused(f"this is cluster {view.cluster_id}, but the plan is for cluster {plan.cluster_id}")
    marked = [tp for tp, partition in view.partitions.items() if partition.in_motion]
    if marked:
        raise _refused(f"{min(marked)} shows that the controller runs Kafka 2.4 or later")


def _check_request(znode: Znode | None, back: Sequence[Move]) -> None:
    if znode is None:  # somebody deleted it: the controller goes on from its memory, but its successor cannot
        return
    ours = {move.topic_partition: move.after for move in back}
    for topic_partition, replicas in sorted(decode_reassignment(znode[0]).items()):
        if ours.get(topic_partition) != replicas:
            raise _refused(f"it also asks for {topic_partition} on {list(replicas)}, which is no move of this run")


def _replace(client: KazooClient, found: dict[str, Znode | None], back: Sequence[Move], data: bytes) -> None:
    controller, epoch = found[znodes.CONTROLLER], found[znodes.CONTROLLER_EPOCH]
    if controller is None or epoch is None:
        raise _refused(f"there is no controller ({znodes.CONTROLLER} is absent), so one is being elected")
    request = found[znodes.REASSIGN_PARTITIONS]
    transaction = client.transaction()
    # Each election sets the epoch. So its version shows that the controller is still the same.
    transaction.check(znodes.CONTROLLER_EPOCH, epoch[1].version)
    topics = dict.fromkeys(znodes.topic_path(move.topic_partition.topic) for move in back)
    for path in (*topics, *(znodes.state_path(move.topic_partition) for move in back)):
        znode = found[path]
        if znode is None:
            raise _refused(f"{path} does not exist")
        transaction.check(path, znode[1].version)
    acl = acl_like(client, znodes.DELETE_TOPICS)
    if request is not None:
        transaction.delete(znodes.REASSIGN_PARTITIONS, request[1].version)
    transaction.create(znodes.REASSIGN_PARTITIONS, data, acl)
    transaction.delete(znodes.CONTROLLER, controller[1].version)
    commit(client, znodes.REASSIGN_PARTITIONS, transaction)


def _refused(why: str) -> WriteError:
    return WriteError(
        f"{znodes.REASSIGN_PARTITIONS} was not replaced: {why}. Start a new run of "
        "kafka_rebalance_cancel when that has changed."
    )
