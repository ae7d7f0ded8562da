"""A run that a person has cancelled follows nothing any more: its worker takes back what is in flight.

The cancel itself does the same. A worker may come after it, with a request that was on its way, or instead of one that
died.
"""

from __future__ import annotations

import logging

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.moves import cancel_fates
from kafka_rebalance.moves.cancel_fates import CancelWay, Fate
from kafka_rebalance.moves.run_position import Position
from kafka_rebalance.rebalance import batch_notes
from kafka_rebalance.rebalance.refused_moves import parts_of
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.asked_batches import asked_for
from kafka_rebalance.run.batch_seen import BatchState
from kafka_rebalance.run.stop_requests import read_control

log = logging.getLogger(__name__)


def take_back_cancelled(cluster: OpenCluster, plan: ApprovedPlan, view: ClusterView, where: Position) -> str | None:
    """What became of the moves in flight of a cancelled run; None if nobody has cancelled it, or nothing is in flight.

    Below Kafka 2.4 no single move can be cancelled: there the cancel alone takes back, and None is returned. Raises
    WriteError if Kafka refuses to cancel a move.
    """
    by = read_control(plan.folder).cancelled
    if by is None or where.in_flight is None or not cluster.can_cancel():
        return None
    asked = asked_for(plan.folder, plan.candidate.moves, cluster)
    steps = cancel_fates.plan_cancel(plan.candidate.moves, view, CancelWay.API, asked=asked)
    flying = {step.move.topic_partition for step in cancel_fates.has_fate(steps, Fate.BACK)}
    back = cluster.cancel_moves(flying)
    for part in parts_of(where.in_flight):
        batch_notes.note_batch(plan, part, BatchState.CANCELLED)
    said = f"{by} cancelled the run, and {len(back)} moves in flight were taken back."
    if stays := [f"{step.move.topic_partition} {step.note}" for step in cancel_fates.has_fate(steps, Fate.BLOCKED)]:
        said += f" {len(stays)} moves cannot be taken back: {some(stays)}."
    log.warning("%s", said)
    return said
