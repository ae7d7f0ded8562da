"""Elects the preferred leaders of the approved partitions when all batches are in place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import StoppedError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.lock_owner import Fence
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.run_lock import lock_owner
from kafka_rebalance.run.stop_and_cancel_requests import read_control

log = logging.getLogger(__name__)


def elect_leaders(inputs: StepInputs, decision: Mapping[str, Any]) -> list[str]:
    """Returns the approved partitions that their preferred leader does not lead yet."""
    plan = read_approved(inputs, decision)
    with open_cluster(inputs.deployment.read_connection(plan.connection_id)) as cluster:
        return [str(tp) for tp in elect(inputs, cluster, plan)]


def elect(inputs: StepInputs, cluster: OpenCluster, plan: ApprovedPlan) -> tuple[TopicPartition, ...]:
    """Elects the leaders of the whole plan unless another run holds the cluster; returns what is left."""
    owner = lock_owner(inputs.deployment, plan.candidate.digest, inputs.run)
    allowed = may_elect(inputs.deployment, plan, lambda: cluster.lock.read_own_fence(owner))
    return elect_preferred(cluster, plan.candidate.moves, most=most_at_once(plan), allowed=allowed)


# Preferred leader election for partitions of the plan whose leader is not the first replica.


WAIT_SECONDS = 60.0  # the znode of a healthy election is gone in less than a second (seen on 2.0.1 to 3.9.2)


def may_elect(deployment: Deployment, plan: ApprovedPlan, fence: Callable[[], Fence]) -> Callable[[], Fence]:
    """A check before each election of the plan's leaders, which gives the fence to request it under.

    It raises FrozenError while the cluster is frozen, what `fence` raises if the run does not hold the cluster, and
    StoppedError if people have stopped the run or its window is over. The fence is read first: whoever stops the run or
    takes the cluster after that stops the election.
    """

    def ask() -> Fence:
        deployment.check_not_frozen(plan.connection_id)
        held = fence()
        by = read_control(plan.folder).stop_after_batch
        if by is not None:
            raise StoppedError(f"No further leader was elected, as {by} asked.")
        closed = plan.window.closed_for(0.0, clock.utc_now())
        if closed is not None:
            raise StoppedError(f"No further leader was elected: {closed}.")
        return held

    return ask


def elect_preferred(
    cluster: OpenCluster,
    moves: Sequence[Move],
    *,
    most: int,
    allowed: Callable[[], Fence],
    pause: Callable[[float], None] = time.sleep,
) -> tuple[TopicPartition, ...]:
    """Elects preferred leaders that do not lead; returns the partitions whose leader still differs.

    It requests only partitions at rest whose preferred replica is live and in sync: before 2.4 an election never falls
    back to another replica, and an entry that cannot be elected can block the znode. It requests at most `most` at
    once, and calls `allowed` (see `may_elect`) before each request.
    """
    partitions = [move.topic_partition for move in moves]
    view = cluster.read_batch_view(partitions)
    differing = [move for move in moves if not led_by_first(view, move)]
    electable = [move for move in differing if _is_electable(view, move)]
    for first in range(0, len(electable), most):
        some = electable[first : first + most]
        fence = allowed()
        log.info("electing the preferred leader of %d partitions", len(some))
        cluster.elect_leaders([move.topic_partition for move in some], view, fence=fence)
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            view = cluster.read_batch_view(partitions)
            if view.elections is None and all(led_by_first(view, move) for move in some):
                break
            pause(0.2)
    left = tuple(move.topic_partition for move in differing if not led_by_first(view, move))
    for tp in left:
        log.warning("%s: the preferred leader does not lead yet", tp)
    return left


def most_at_once(plan: ApprovedPlan) -> int:
    return plan.settings.leader_changes_per_batch


def led_by_first(view: AnyView, move: Move) -> bool:
    partition = view.partitions.get(move.topic_partition)
    return partition is not None and partition.leader == move.after[0]


def _is_electable(view: AnyView, move: Move) -> bool:
    partition = view.partitions.get(move.topic_partition)
    return (
        partition is not None
        and partition.replicas == move.after
        and not (partition.adding or partition.removing)
        and move.topic_partition not in (view.reassignments or {})
        and move.topic_partition.topic not in view.deletions
        and move.after[0] in view.brokers
        and move.after[0] in partition.isr
    )
