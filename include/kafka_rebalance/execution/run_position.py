"""Where a run stands, by its notes of what it asked for together with what ZooKeeper shows, never by one alone.

If ZooKeeper shows a move that the run never asked for, somebody else did it, even if it is the approved move.
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
    done: tuple[int, ...]  # batches that are in place, whoever brought them there
    in_flight: Batch | None  # the batch of ours that the controller works on; follow it, write nothing
    next: Batch | None  # to request now, without moves that are done; None while one is in flight and when all is done
    # Of a batch of ours that has begun: still at their old replicas, nothing in motion. The controller dropped them.
    refused: tuple[TopicPartition, ...] = ()
    foreign: tuple[str, ...] = ()  # what somebody else is doing; write nothing while it is not empty
    begun: frozenset[int] = frozenset()  # batches that this run has asked for and of which the cluster shows a trace

    @property
    def finished(self) -> bool:
        return self.in_flight is None and self.next is None and not self.foreign


def position(
    batches: Sequence[Batch], view: ClusterView, asked: Collection[int], elected: Collection[int] = ()
) -> Position:
    """The position in these batches, in the order of their numbers.

    `asked`: the batches for which the run has asked, or was about to ask, by its notes. A batch is done when each of
    its partitions has its approved list and nothing is in motion; progress and verification say whether all are still
    in sync. A batch is in flight when the run asked for it and one of its moves runs. A batch of elections is done when
    its preferred leaders lead, or when it is among `elected`: the run elects each batch once.
    """
    batches = sorted(batches, key=lambda batch: batch.number)
    stages = {move.topic_partition: stage_in(move, view) for batch in batches for move in batch.moves}
    ours = {move.topic_partition for batch in batches if batch.number in asked for move in batch.moves}
    foreign = _foreign(ours, {move.topic_partition: move for batch in batches for move in batch.moves}, view)
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
        numbers = ", ".join(str(batch.number) for batch in running)
        foreign.append(f"batches {numbers} are in motion at once, which this run never asks for")
    if running:
        following, refused = None, _dropped(running[0], stages)
    return Position(tuple(done), running[0] if running else None, following, refused, tuple(foreign), frozenset(begun))


def check_position(where: Position, view: ClusterView) -> None:
    """Raises ExecutionError if somebody else is moving partitions: a run writes nothing beside another reassignment."""
    if where.foreign and (stays := request_of_what_is_gone(view)) is not None:
        raise ExecutionError(f"{stays}. Nothing was written. Clear this task when the request is gone.")
    if where.foreign:
        shown = "; ".join(where.foreign[:10])
        more = f"; and {len(where.foreign) - 10} more" if len(where.foreign) > 10 else ""
        raise ExecutionError(
            f"Another reassignment is under way: {shown}{more}. Nothing was written. Let it end, or cancel it with the "
            "tool that started it. Then clear this task: it goes on where it stands if the approved partitions "
            "are unchanged."
        )


def _dropped(batch: Batch, stages: Mapping[TopicPartition, Stage]) -> tuple[TopicPartition, ...]:
    """Partitions of a batch that nobody works on and that have not moved."""
    return tuple(tp for move in batch.moves if not stages[tp := move.topic_partition].has_left_a_trace)


def _foreign(ours: Collection[TopicPartition], approved: Mapping[TopicPartition, Move], view: ClusterView) -> list[str]:
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
