"""Where a run stands, from ZooKeeper alone: notes of an earlier try are not believed, so nothing is written twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.model.cluster import ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.proposal import Batch, Move


@dataclass(frozen=True, slots=True)
class Position:
    """What has been done, what runs and what comes next.

    `in_flight`: the batch that the controller works on; follow it, write nothing. `next`: the batch to request now,
    without the moves that are already done; None while one is in flight and when all is done. `refused`: partitions of
    a batch of which others have moved, still at their old replicas with nothing in motion: the controller dropped them.
    `foreign`: what somebody else is doing; write nothing while it is not empty.
    """

    done: tuple[int, ...]
    in_flight: Batch | None
    next: Batch | None
    refused: tuple[TopicPartition, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def touched(self) -> frozenset[int]:
        """Numbers of the batches of which something has been requested."""
        partly = {self.next.number} if self.next is not None and self.refused else set()
        running = {self.in_flight.number} if self.in_flight is not None else set()
        return frozenset(self.done) | running | partly

    @property
    def finished(self) -> bool:
        return self.in_flight is None and self.next is None and not self.foreign


def position(batches: Sequence[Batch], view: ClusterView) -> Position:
    """The position in these batches, in the order of their numbers.

    A batch is done when every one of its partitions has its approved list with nothing in motion; whether all of them
    are still in sync is for progress and verification to say. It is in flight when the reassignment znode, or what the
    topic znodes name as added and removed, or (2.0) the union of old and new replicas shows one of its moves running.
    """
    batches = sorted(batches, key=lambda batch: batch.number)
    moves = {move.topic_partition: move for batch in batches for move in batch.moves}
    foreign = _foreign(moves, view)
    done: list[int] = []
    running: list[Batch] = []
    following: Batch | None = None
    refused: tuple[TopicPartition, ...] = ()
    for batch in batches:
        if any(_is_moving(move, view) for move in batch.moves):
            running.append(batch)
            continue
        left = tuple(move for move in batch.moves if not _is_settled(move, view))
        if not left:
            done.append(batch.number)
        elif following is None:
            following = dataclasses.replace(batch, moves=left)
            refused = tuple(move.topic_partition for move in left) if len(left) < len(batch.moves) else ()
    if len(running) > 1:
        foreign.append(
            f"batches {', '.join(str(batch.number) for batch in running)} are in motion at once, which this run never "
            "asks for"
        )
    if running:
        following, refused = None, _dropped(running[0], view)
    return Position(tuple(done), running[0] if running else None, following, refused, tuple(foreign))


def check_position(where: Position) -> None:
    """Raises ExecutionError if somebody else is moving partitions: nothing is written beside another reassignment."""
    if where.foreign:
        shown = "; ".join(where.foreign[:10])
        more = f"; and {len(where.foreign) - 10} more" if len(where.foreign) > 10 else ""
        raise ExecutionError(
            f"Another reassignment is under way: {shown}{more}. Nothing was written. Let it end or cancel it with the "
            "tool that started it, then clear this task: it goes on where it stands if the approved partitions "
            "are unchanged."
        )


def _is_settled(move: Move, view: ClusterView) -> bool:
    partition = view.partitions.get(move.topic_partition)
    return partition is not None and partition.replicas == move.after and not _is_moving(move, view)


def _is_moving(move: Move, view: ClusterView) -> bool:
    """Whether this very move runs."""
    partition = view.partitions.get(move.topic_partition)
    if partition is None:
        return False
    asked = (view.reassignments or {}).get(move.topic_partition)
    if asked is not None:
        return asked == move.after
    target = tuple(broker for broker in partition.replicas if broker not in partition.removing)
    if partition.adding or partition.removing:
        return target == move.after
    union = set(move.before) | set(move.after)
    return partition.replicas not in (move.before, move.after) and set(partition.replicas) == union


def _dropped(batch: Batch, view: ClusterView) -> tuple[TopicPartition, ...]:
    """Partitions of a running batch that nobody works on and that have not moved."""
    return tuple(
        move.topic_partition for move in batch.moves if not _is_moving(move, view) and not _is_settled(move, view)
    )


def _foreign(moves: Mapping[TopicPartition, Move], view: ClusterView) -> list[str]:
    found = []
    if view.reassignments is not None and not view.reassignments:
        found.append("/admin/reassign_partitions is there and empty, so the controller takes up no further request")
    for tp, asked in sorted((view.reassignments or {}).items()):
        move = moves.get(tp)
        if move is None:
            found.append(f"{tp} to {list(asked)}, which this run was not approved to move")
        elif asked != move.after:
            found.append(f"{tp} to {list(asked)}, approved is {list(move.after)}")
    for tp, partition in sorted(view.partitions.items()):
        if not (partition.adding or partition.removing) or tp in (view.reassignments or {}):
            continue
        target = tuple(broker for broker in partition.replicas if broker not in partition.removing)
        if tp not in moves:
            found.append(f"{tp} to {list(target)}, which this run was not approved to move")
        elif target != moves[tp].after:
            found.append(f"{tp} to {list(target)}, approved is {list(moves[tp].after)}")
    return found
