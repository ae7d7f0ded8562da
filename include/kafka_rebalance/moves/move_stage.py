"""Where one approved move stands. Only this module decides that, from the partition, the request and the version.

It cannot say who asked for the move: a stage says what the cluster shows, and the run's own notes say what the run
asked for (`run_position`). For a cluster without a request znode `requested` is None.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.partition import PartitionView


class Stage(StrEnum):
    """Where a move stands. A move goes through the first six in this order; the others are off this way."""

    UNTOUCHED = "untouched"  # the original list, and nobody asks for another
    REQUESTED = "requested"  # asked for, and the controller has not begun
    RUNNING = "running"  # on its way to the approved list
    UNLISTED = "unlisted"  # half-way, and no request names it; the controller may go on from memory (below 2.4)
    ENDING = "ending"  # the approved list is written, and the request still names it
    # The approved list, and nobody asks for another; for an election, the approved leader. The ISR does not count here.
    DONE = "done"
    RETURNING = "returning"  # on its way back to the original list
    TAKEN_BACK = "taken_back"  # the original replicas, in the order in which cancelling through the API leaves them
    SENT_ELSEWHERE = "sent_elsewhere"  # on its way to a list that is neither the approved nor the original one
    CHANGED = "changed"  # at rest with a list that is no step of this move
    GONE = "gone"  # the partition does not exist

    @property
    def is_in_flight(self) -> bool:
        """Whether the controller works on this very move, or is asked to. For UNLISTED that is not known."""
        return self in (Stage.REQUESTED, Stage.RUNNING, Stage.ENDING)

    @property
    def has_left_a_trace(self) -> bool:
        """Whether the cluster shows that this very move was asked for: it is under way, half-way or in place."""
        return self.is_in_flight or self in (Stage.UNLISTED, Stage.DONE)


def marks_moves(partition: PartitionView) -> bool:
    """Whether the partition's znode shows what is added and removed, so that a list without marks is final (2.4+, and
    KRaft). Below 2.4 an interim list looks like any other.

    The controller that wrote the znode last has decided its form.
    """
    return partition.marks_moves or partition.in_motion


def stage_in(move: Move, view: AnyView) -> Stage:
    tp = move.topic_partition
    partition = view.partitions.get(tp)
    if partition is None:
        return Stage.GONE
    return stage_of(move, partition, (view.reassignments or {}).get(tp), is_marked=marks_moves(partition))


def stage_of(move: Move, partition: PartitionView, requested: tuple[int, ...] | None, *, is_marked: bool) -> Stage:
    """Where the move stands. `requested`: the list that the request asks for this partition, None where it names none.

    `is_marked`: see `marks_moves`. Read the request before the topics: the controller writes the final list before it
    takes the entry away.
    """
    if headed_elsewhere(move, partition, requested) is not None:
        return Stage.SENT_ELSEWHERE
    if headed_for(partition, requested) not in (None, move.after):
        return Stage.RETURNING
    if partition.in_motion:
        return Stage.RUNNING if partition.target == move.after else Stage.REQUESTED
    union = {*move.before, *move.after}
    is_interim = may_be_between(union, partition, is_marked) and set(partition.replicas) == union
    if requested is not None:
        return _requested(move, partition, is_interim)
    return _at_rest(move, partition, is_interim)


def _requested(move: Move, partition: PartitionView, is_interim: bool) -> Stage:
    """Asked for, and without marks."""
    now, isr = partition.replicas, set(partition.isr)
    if now == move.after:
        return Stage.ENDING
    if now == move.before:
        # A move that only removes or reorders replicas keeps its list until the last step (2.0), and its ISR shrinks.
        return Stage.RUNNING if set(move.after) <= isr < set(move.before) else Stage.REQUESTED
    return Stage.RUNNING if is_interim else Stage.REQUESTED


def _at_rest(move: Move, partition: PartitionView, is_interim: bool) -> Stage:
    """Neither asked for nor marked."""
    now = partition.replicas
    if now == move.after:
        return Stage.UNTOUCHED if move.is_election and partition.leader != move.after[0] else Stage.DONE
    if now == move.before:
        return Stage.UNTOUCHED
    if now == cancelled_order(move):
        return Stage.TAKEN_BACK
    # Where nothing is added, the interim list has the brokers of the original one: it tells nothing.
    return Stage.UNLISTED if move.added and is_interim else Stage.CHANGED


def may_be_between(union: Collection[int], partition: PartitionView, is_marked: bool) -> bool:
    """Whether a list without marks may be the interim one of a move over these brokers: never where marks are set.

    The controller takes an old replica out of the list only when every copy has been in sync. The interim list has the
    brokers of both lists in any order: from five on, Scala's set puts them in the order of their hashes.
    """
    return not is_marked and set(union) <= set(partition.replicas)


def headed_elsewhere(move: Move, partition: PartitionView, requested: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The list, neither approved nor original, to which somebody else sends the partition; None if nobody does."""
    towards = [
        toward for toward in (requested, partition.target if partition.in_motion else None) if toward is not None
    ]
    home = {move.before, move.after, cancelled_order(move)} if towards else ()
    return next((toward for toward in towards if toward not in home), None)


def headed_for(partition: PartitionView, requested: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The list to which the partition is on its way; None where it is at rest."""
    if requested is not None:
        return requested
    return partition.target if partition.in_motion else None


def cancelled_order(move: Move) -> tuple[int, ...]:
    """The list that cancelling through the API leaves: the interim list, target first, less what was added
    (ReplicaAssignment.originReplicas). So [1, 2] on its way to [3, 2] comes back as [2, 1].
    """
    return tuple(broker for broker in (*move.after, *move.removed) if broker in move.before)


def is_taken_up(move: Move, view: AnyView) -> bool:
    """Whether the controller has done anything for this move."""
    return stage_in(move, view) not in (Stage.UNTOUCHED, Stage.REQUESTED, Stage.GONE)


def is_over(move: Move, view: AnyView) -> bool:
    """Whether nothing is left to do: in place, or gone."""
    partition = view.partitions.get(move.topic_partition)
    if partition is None:
        return True
    return stage_in(move, view) in (Stage.ENDING, Stage.DONE) and set(partition.isr) == set(move.after)


def is_half_way(move: Move, view: AnyView) -> bool:
    """Whether the topic's znode shows the move half-way: by its marks (2.4+), or by the union of both lists (2.0)."""
    return stage_in(move, view) in (Stage.RUNNING, Stage.UNLISTED)
