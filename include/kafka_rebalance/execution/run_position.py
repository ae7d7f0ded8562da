"""Where a run stands: by what its notes say it asked for and what ZooKeeper shows of it, never by one of them alone.

What ZooKeeper shows of a move that the run never asked for is somebody else's doing, also where it is the approved one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.execution.move_stage import Stage, headed_elsewhere, headed_for, stage_in
from kafka_rebalance.execution.stuck_request import request_of_what_is_gone
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Position:
    """What has been done, what runs and what comes next.

    `done`: batches that are in place, whoever brought them there. `in_flight`: the batch of ours that the controller
    works on; follow it, write nothing. `next`: the batch to request now, without the moves that are already done; None
    while one is in flight and when all is done. `refused`: partitions of a batch of ours of which others have moved,
    still at their old replicas with nothing in motion: the controller dropped them. `foreign`: what somebody else is
    doing; write nothing while it is not empty. `begun`: batches that this run has asked for, and of which the cluster
    shows a trace.
    """

    done: tuple[int, ...]
    in_flight: Batch | None
    next: Batch | None
    refused: tuple[TopicPartition, ...] = ()
    foreign: tuple[str, ...] = ()
    begun: frozenset[int] = frozenset()

    @property
    def finished(self) -> bool:
        return self.in_flight is None and self.next is None and not self.foreign


def position(
    batches: Sequence[Batch], view: ClusterView, asked: Collection[int], elected: Collection[int] = ()
) -> Position:
    """The position in these batches, in the order of their numbers. `asked`: those that the run's notes say it asked
    for, or was about to ask for.

    A batch is done when every one of its partitions has its approved list with nothing in motion; whether all of them
    are still in sync is for progress and verification to say. It is in flight when the run asked for it and one of its
    moves runs. A batch of elections is done when its preferred leaders lead, or when it is among `elected`: the run has
    been through it, and who could not be elected is not asked again.
    """
    batches = sorted(batches, key=lambda batch: batch.number)
    stages = {move.topic_partition: stage_in(move, view) for batch in batches for move in batch.moves}
    ours = {move.topic_partition: move for batch in batches if batch.number in asked for move in batch.moves}
    foreign = _foreign(ours, {move.topic_partition: move for b in batches for move in b.moves}, view)
    done: list[int] = []
    running: list[Batch] = []
    begun: set[int] = set()
    following: Batch | None = None
    refused: tuple[TopicPartition, ...] = ()
    for batch in batches:
        of = [stages[move.topic_partition] for move in batch.moves]
        left = tuple(move for move in batch.moves if stages[move.topic_partition] is not Stage.DONE)
        is_ours = batch.number in asked
        if is_ours and any(stage.has_left_a_trace for stage in of):
            begun.add(batch.number)
        if not left or (batch.elects and batch.number in elected):
            done.append(batch.number)
        elif is_ours and any(stage.is_in_flight or stage is Stage.UNLISTED for stage in of):
            running.append(batch)
        elif following is None:
            following = dataclasses.replace(batch, moves=left)
            refused = _dropped(batch, stages) if batch.number in begun else ()
    if len(running) > 1:
        foreign.append(
            f"batches {', '.join(str(batch.number) for batch in running)} are in motion at once, which this run never "
            "asks for"
        )
    if running:
        following, refused = None, _dropped(running[0], stages)
    return Position(tuple(done), running[0] if running else None, following, refused, tuple(foreign), frozenset(begun))


def check_position(where: Position, view: ClusterView) -> None:
    """Raises ExecutionError if somebody else is moving partitions: nothing is written beside another reassignment."""
    if where.foreign and (stays := request_of_what_is_gone(view)) is not None:
        raise ExecutionError(f"{stays}. Nothing was written. Clear this task when the request is gone.")
    if where.foreign:
        shown = "; ".join(where.foreign[:10])
        more = f"; and {len(where.foreign) - 10} more" if len(where.foreign) > 10 else ""
        raise ExecutionError(
            f"Another reassignment is under way: {shown}{more}. Nothing was written. Let it end or cancel it with the "
            "tool that started it, then clear this task: it goes on where it stands if the approved partitions "
            "are unchanged."
        )


def _dropped(batch: Batch, stages: Mapping[TopicPartition, Stage]) -> tuple[TopicPartition, ...]:
    """Partitions of a batch that nobody works on and that have not moved."""
    named = [move.topic_partition for move in batch.moves]
    return tuple(tp for tp in named if not stages[tp].has_left_a_trace)


def _foreign(
    ours: Mapping[TopicPartition, Move], approved: Mapping[TopicPartition, Move], view: ClusterView
) -> list[str]:
    """What is in motion that this run did not ask for."""
    asked = view.reassignments or {}
    found = []
    if view.reassignments is not None and not view.reassignments:
        found.append("/admin/reassign_partitions is there and empty, so the controller takes up no further request")
    marked = (tp for tp, partition in view.partitions.items() if partition.in_motion and tp not in asked)
    for tp in (*sorted(asked), *sorted(marked)):
        partition, move = view.partitions.get(tp), approved.get(tp)
        towards = asked.get(tp, ()) if partition is None else headed_for(partition, asked.get(tp))
        if move is not None and partition is not None:
            towards = headed_elsewhere(move, partition, asked.get(tp)) or towards
        to = f"{tp} to {list(towards or ())}"
        if move is None:
            found.append(f"{to}, which this run was not approved to move")
        elif towards != move.after:
            found.append(f"{to}, approved is {list(move.after)}")
        elif tp not in ours:
            found.append(f"{to}, as approved, but this run has not asked for it")
    return found
