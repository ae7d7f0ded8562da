"""Where one approved move stands: the only place that tells it, from the partition, the request and the version.

What it cannot tell is who asked for it: a stage says what the cluster shows, a run's own notes say what the run asked
for (`run_position`). A later way to a cluster that has no request znode gives `requested` as None.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.partition import PartitionView


class Stage(StrEnum):
    """Where a move stands. The first six are the way of a move, in this order; the others are off it."""

    UNTOUCHED = "untouched"  # the original list, and nobody asks for another
    REQUESTED = "requested"  # asked for, and the controller has not begun
    RUNNING = "running"  # on its way to the approved list
    UNLISTED = "unlisted"  # half-way, and no request names it; the controller may go on from memory (below 2.4)
    ENDING = "ending"  # the approved list is written, and the request still names it
    # The approved list, and nobody asks for another; of an election, the approved leader. Who is in sync is not asked.
    DONE = "done"
    RETURNING = "returning"  # on its way back to the original list
    TAKEN_BACK = "taken_back"  # the original replicas, in the order in which cancelling through the API leaves them
    SENT_ELSEWHERE = "sent_elsewhere"  # on its way to a list that is neither the approved nor the original one
    CHANGED = "changed"  # at rest with a list that is no step of this move
    GONE = "gone"  # the partition does not exist

    @property
    def is_in_flight(self) -> bool:
        """Whether the controller works on this very move, or is asked to. Of an UNLISTED one that is not known."""
        return self in (Stage.REQUESTED, Stage.RUNNING, Stage.ENDING)

    @property
    def has_left_a_trace(self) -> bool:
        """Whether the cluster shows that this very move was asked for: it is under way, half-way or in place."""
        return self.is_in_flight or self in (Stage.UNLISTED, Stage.DONE)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a cluster shows of a move. `marks_moves`: what is added and removed, so that a list without marks is final
    (2.4+, and KRaft). Below, a list in between looks as any other.
    """

    marks_moves: bool


def traits_of(partition: PartitionView) -> Traits:
    """By the form in which the controller that wrote it last has written its topic's znode."""
    return Traits(marks_moves=partition.marks_moves or partition.in_motion)


def stage_in(move: Move, view: AnyView) -> Stage:
    """Where the move stands in this view."""
    tp = move.topic_partition
    partition = view.partitions.get(tp)
    if partition is None:
        return Stage.GONE
    return stage_of(move, partition, (view.reassignments or {}).get(tp), traits_of(partition))


def stage_of(move: Move, partition: PartitionView | None, requested: tuple[int, ...] | None, traits: Traits) -> Stage:
    """Where the move stands. `requested`: the list that the request asks for this partition, None where it names none.

    Read the request before the topics: the controller writes the final list before it takes the entry away.
    """
    if partition is None:
        return Stage.GONE
    if headed_elsewhere(move, partition, requested) is not None:
        return Stage.SENT_ELSEWHERE
    if _is_sent_back(move, partition, requested):
        return Stage.RETURNING
    if partition.in_motion:
        return Stage.RUNNING if partition.target == move.after else Stage.REQUESTED
    if requested is not None:
        return _requested(move, partition, traits)
    return _at_rest(move, partition, traits)


def _requested(move: Move, partition: PartitionView, traits: Traits) -> Stage:
    """Asked for, and without marks."""
    now, isr = partition.replicas, set(partition.isr)
    if now == move.after:
        return Stage.ENDING
    if now == move.before:
        # What only loses replicas or changes their order keeps its list until the last step (2.0), while its ISR
        # shrinks.
        return Stage.RUNNING if set(move.after) <= isr < set(move.before) else Stage.REQUESTED
    between = may_be_between(_union(move), partition, traits) and set(now) == _union(move)
    return Stage.RUNNING if between else Stage.REQUESTED


def _at_rest(move: Move, partition: PartitionView, traits: Traits) -> Stage:
    """Neither asked for nor marked."""
    now, union = partition.replicas, _union(move)
    if move.is_election and now == move.after:
        return Stage.DONE if partition.leader == move.after[0] else Stage.UNTOUCHED
    if now == move.after:
        return Stage.DONE
    if now == move.before:
        return Stage.UNTOUCHED
    if now == cancelled_order(move):
        return Stage.TAKEN_BACK
    # Where nothing is added, the brokers of a list in between are those of the original one: it tells nothing.
    if union != set(move.before) and set(now) == union and may_be_between(union, partition, traits):
        return Stage.UNLISTED
    return Stage.CHANGED


def may_be_between(union: Collection[int], partition: PartitionView, traits: Traits) -> bool:
    """Whether a list without marks may be the one in between of a move over these brokers: never where marks are set.

    The controller takes an old replica out of the list only when every copy has been in sync. The list in between has
    the brokers of both lists in any order: from five on Scala's set puts them in the order of their hashes.
    """
    return not traits.marks_moves and set(union) <= set(partition.replicas)


def headed_elsewhere(move: Move, partition: PartitionView, requested: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The list, neither approved nor original, that somebody else sends the partition to; None where nobody does."""
    towards = (requested, partition.target if partition.in_motion else None)
    home = {move.before, move.after, cancelled_order(move)}
    return next((one for one in towards if one is not None and one not in home), None)


def headed_for(partition: PartitionView, requested: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The list that the partition is on its way to; None where it is at rest."""
    if requested is not None:
        return requested
    return partition.target if partition.in_motion else None


def cancelled_order(move: Move) -> tuple[int, ...]:
    """The list that cancelling through the API leaves: the interim list, target first, less what was added
    (ReplicaAssignment.originReplicas). So [1, 2] on its way to [3, 2] comes back as [2, 1].
    """
    return tuple(broker for broker in (*move.after, *move.removed) if broker in move.before)


def _is_sent_back(move: Move, partition: PartitionView, requested: tuple[int, ...] | None) -> bool:
    towards = headed_for(partition, requested)
    return towards is not None and towards != move.after


def _union(move: Move) -> set[int]:
    return {*move.before, *move.after}


def is_taken_up(move: Move, view: AnyView) -> bool:
    """Whether the controller has done anything for this move."""
    return stage_in(move, view) not in (Stage.UNTOUCHED, Stage.REQUESTED, Stage.GONE)


def is_over(move: Move, view: AnyView) -> bool:
    """Whether nothing is left to do: in place, or gone."""
    stage = stage_in(move, view)
    if stage is Stage.GONE:
        return True
    in_place = stage in (Stage.ENDING, Stage.DONE)
    return in_place and set(view.partitions[move.topic_partition].isr) == set(move.after)


def is_half_way(move: Move, view: AnyView) -> bool:
    """Whether the topic's znode shows the move half-way: by its marks (2.4+), or by the union of both lists (2.0)."""
    return stage_in(move, view) in (Stage.RUNNING, Stage.UNLISTED)
