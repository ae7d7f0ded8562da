"""Where a run stands: which batches are done, what is in flight, and what may be requested beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.move_stage import Stage, headed_elsewhere, headed_for, stage_in
from kafka_rebalance.moves.rolling_requests import Beside, Limits, RestOfPlan, in_order
from kafka_rebalance.moves.stuck_request import request_of_what_is_gone

# Whose moves are in the way, as far as the cluster tells: a run announces its requests beside the lock.


# {partition: the run that has asked for its move, with its Airflow}; others are absent. Asked only if something moves.
WhoMoves: TypeAlias = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, str]]


def nobody_known(_: Collection[TopicPartition]) -> Mapping[TopicPartition, str]:
    return {}


def how_it_ends(moving: Collection[TopicPartition], who_moves: WhoMoves) -> str:
    """What to do about these moves of others."""
    known = who_moves(moving)
    if not known:
        return "Wait for its end, or cancel it with the tool that started it"
    runs = some(sorted(set(known.values())))
    rest = [tp for tp in moving if tp not in known]
    others = f". {some(sorted(rest))}: cancel that with the tool that started it" if rest else ""
    return f"It is of run {runs}: wait for its end, or cancel it there with kafka_rebalance_cancel{others}"


# Where a run stands, by its notes of what it asked for together with what ZooKeeper shows, never by one alone.
#
# If ZooKeeper shows a move that the run never asked for, somebody else did it, even if it is the approved move.


@dataclass(frozen=True, slots=True)
class Position:
    done: tuple[int, ...]  # batches that are in place, whoever brought them there
    # What the controller works on for us; follow it. With a request znode that is a batch. Without one it is everything
    # that was asked for and is not in place, under the number of the first batch that has moves in flight.
    in_flight: Batch | None
    # To request now, without moves that are done; None when all is done, and while nothing fits beside what is in
    # flight. With a request znode nothing ever does.
    next: Batch | None
    # Of a batch of ours that has begun: still at their old replicas, nothing in motion. The controller dropped them.
    refused: tuple[TopicPartition, ...] = ()
    foreign: tuple[str, ...] = ()  # what somebody else is doing; write nothing while it is not empty
    begun: frozenset[int] = frozenset()  # batches that this run has asked for and of which the cluster shows a trace
    beside: Beside | None = None  # without a request znode: what the follower watches of the moves after `next`
    in_place: frozenset[TopicPartition] = frozenset()  # and what is in place, also of batches that are not done
    asked: tuple[Move, ...] = ()  # and what was asked for and is not in place, whether it is in flight or not

    @property
    def finished(self) -> bool:
        return self.in_flight is None and self.next is None and not self.foreign


def position(
    batches: Sequence[Batch],
    view: ClusterView,
    asked: Collection[TopicPartition],
    elected: Collection[int] = (),
    *,
    limits: Limits,
) -> Position:
    """The position in these batches, in the order of their numbers.

    `asked`: partitions for whose move the run has asked, or was about to ask, by its notes. A batch is done when each
    of its partitions has its approved list and nothing is in motion; progress and verification say whether all are
    still in sync. A batch is in flight when the run asked for it and one of its moves runs. A batch of elections is
    done when its preferred leaders lead, or when it is among `elected`: the run elects each batch once. `limits` are
    of what may be in flight at once without a request znode.
    """
    batches = sorted(batches, key=lambda batch: batch.number)
    stages = {move.topic_partition: stage_in(move, view) for batch in batches for move in batch.moves}
    foreign = _foreign(asked, {move.topic_partition: move for batch in batches for move in batch.moves}, view)
    done: list[int] = []
    running: list[Batch] = []
    begun: set[int] = set()
    following: Batch | None = None
    refused: tuple[TopicPartition, ...] = ()
    for batch in batches:
        ours = [move for move in batch.moves if move.topic_partition in asked]
        open_moves = tuple(move for move in batch.moves if stages[move.topic_partition] is not Stage.DONE)
        if any(stages[move.topic_partition].has_left_a_trace for move in ours):
            begun.add(batch.number)
        if not open_moves or (batch.elects and batch.number in elected):
            done.append(batch.number)
        elif any(_runs(stages[move.topic_partition]) for move in ours):
            running.append(batch)
        elif following is None:
            following = dataclasses.replace(batch, moves=open_moves)
            refused = _dropped(ours, stages) if batch.number in begun else ()
    here = Position(tuple(done), None, following, refused, tuple(foreign), frozenset(begun))
    if not view.traits.has_request_znode:
        return _rolling(here, batches, stages, asked, limits)
    if len(running) > 1:
        numbers = ", ".join(str(batch.number) for batch in running)
        foreign.append(f"batches {numbers} are in motion at once, which this run never asks for")
    if running:
        following, refused = None, _dropped(running[0].moves, stages)
    in_flight = running[0] if running else None
    return dataclasses.replace(here, in_flight=in_flight, next=following, refused=refused, foreign=tuple(foreign))


def _rolling(
    by_batches: Position,
    batches: Sequence[Batch],
    stages: Mapping[TopicPartition, Stage],
    asked: Collection[TopicPartition],
    limits: Limits,
) -> Position:
    """The same where moves are requested beside those in flight. Elections wait until nothing is in flight."""
    unfinished = [batch for batch in batches if batch.number not in by_batches.done]
    all_moves = [move for batch in batches for move in batch.moves]
    ours = [move for batch in unfinished if not batch.elects for move in batch.moves if move.topic_partition in asked]
    ended = [move for move in all_moves if stages[move.topic_partition] is Stage.DONE]
    flying = [move for move in ours if _runs(stages[move.topic_partition])]
    refused = _dropped([move for move in ours if move.batch in by_batches.begun], stages)
    here = dataclasses.replace(
        by_batches,
        refused=refused,
        in_place=frozenset(move.topic_partition for move in ended),
        asked=tuple(move for move in ours if stages[move.topic_partition] is not Stage.DONE),
    )
    if not flying and (not unfinished or unfinished[0].elects):
        return here
    waiting = _before_elections(unfinished, stages)
    if flying:
        waiting = {tp for tp in waiting - set(asked) if stages[tp] is Stage.UNTOUCHED}
    rest = RestOfPlan([move for move in in_order(all_moves) if move.topic_partition in waiting], flying, limits, ended)
    fits = rest.fitting()
    # Once something was refused, what is in flight comes to its end first.
    if flying and (refused or not rest.is_due(fits, rest.busiest_ends())):
        fits = ()
    rest.started(fits)
    digest = batches[0].candidate_digest
    return dataclasses.replace(
        here,
        in_flight=Batch(min(move.batch for move in flying), here.asked, digest) if flying else None,
        next=Batch(min(move.batch for move in fits), fits, digest) if fits else None,
        beside=rest.beside(),
    )


def _before_elections(unfinished: Sequence[Batch], stages: Mapping[TopicPartition, Stage]) -> set[TopicPartition]:
    """The partitions that are not in place, of the batches up to the first one that elects."""
    moving = takewhile(lambda batch: not batch.elects, unfinished)
    partitions = (move.topic_partition for batch in moving for move in batch.moves)
    return {tp for tp in partitions if stages[tp] is not Stage.DONE}


def check_position(where: Position, view: ClusterView, who_moves: WhoMoves = nobody_known) -> None:
    """Raises ExecutionError if somebody else is moving partitions: a run writes nothing beside another reassignment.

    `who_moves` names other runs.
    """
    if where.foreign and (stays := request_of_what_is_gone(view)) is not None:
        raise ExecutionError(f"{stays}. Clear this task when the request is gone.")
    if where.foreign:
        shown = "; ".join(where.foreign[:10])
        more = f"; and {len(where.foreign) - 10} more" if len(where.foreign) > 10 else ""
        raise ExecutionError(
            f"Another reassignment is under way: {shown}{more}. "
            f"{how_it_ends(view.moving, who_moves)}. Then clear this task: it goes on where it stands if the approved "
            "partitions are unchanged."
        )


def _runs(stage: Stage) -> bool:
    return stage.is_in_flight or stage is Stage.UNLISTED


def _dropped(moves: Sequence[Move], stages: Mapping[TopicPartition, Stage]) -> tuple[TopicPartition, ...]:
    """Partitions that nobody works on and that have not moved."""
    return tuple(tp for move in moves if not stages[tp := move.topic_partition].has_left_a_trace)


def _foreign(ours: Collection[TopicPartition], approved: Mapping[TopicPartition, Move], view: ClusterView) -> list[str]:
    """What is in motion that this run did not ask for."""
    targets = view.reassignments or {}
    foreign = []
    if view.reassignments is not None and not view.reassignments:
        foreign.append("/admin/reassign_partitions is there and empty, so the controller takes up no further request")
    marked = (tp for tp, partition in view.partitions.items() if partition.in_motion and tp not in targets)
    for tp in (*sorted(targets), *sorted(marked)):
        partition, move = view.partitions.get(tp), approved.get(tp)
        towards = targets.get(tp, ()) if partition is None else headed_for(partition, targets.get(tp))
        if move is not None and partition is not None:
            towards = headed_elsewhere(move, partition, targets.get(tp)) or towards
        to = f"{tp} to {list(towards or ())}"
        if move is None:
            foreign.append(f"{to}, which this run was not approved to move")
        elif towards != move.after:
            foreign.append(f"{to}, approved is {list(move.after)}")
        elif tp not in ours:
            foreign.append(f"{to}, as approved, but this run has not asked for it")
    return foreign
