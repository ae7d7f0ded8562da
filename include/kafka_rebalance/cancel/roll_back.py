"""The way back from a rebalance that has moved partitions: which recorded lists a run can ask for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.kafka.reassignment_json import format_reassignment
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import ReplicaBytes, TopicIdentity
from kafka_rebalance.moves.move_stage import Stage, headed_for, stage_in


@dataclass(frozen=True, slots=True)
class RollBack:
    moves: tuple[Move, ...]  # from today's lists to the recorded ones
    left_out: tuple[str, ...]  # what has to stay where it is, and why
    unchanged: int  # partitions that have their recorded list

    @property
    def bytes_to_copy(self) -> int:
        return sum(move.bytes_to_copy for move in self.moves)

    @property
    def plan(self) -> str:
        """As Kafka's own tool takes it, partitions in order."""
        ordered = sorted(self.moves, key=lambda move: move.topic_partition)
        return format_reassignment({move.topic_partition: move.after for move in ordered})


def plan_roll_back(
    moves: Sequence[Move],
    view: ClusterView,
    recorded: Mapping[str, TopicIdentity],
    sizes: ReplicaBytes | None = None,
) -> RollBack:
    """The way back of these moves. `recorded` tells whether a topic was made again since.

    A partition that somebody else has moved since is left out: its recorded list is no longer the one before.
    """
    back: list[Move] = []
    left_out: list[str] = []
    unchanged = 0
    for move in sorted(moves, key=lambda move: move.topic_partition):
        problem = _problem(move, view, recorded.get(move.topic_partition.topic))
        if problem is not None:
            left_out.append(f"{move.topic_partition} {problem}")
            continue
        now = view.partitions[move.topic_partition]
        if now.replicas == move.before:
            unchanged += 1
            continue
        size = (sizes or {}).get(move.topic_partition, {}).get(now.leader, move.size_bytes)
        back.append(Move(move.topic_partition, now.replicas, move.before, size))
    return RollBack(tuple(back), tuple(left_out), unchanged)


def _problem(move: Move, view: ClusterView, recorded: TopicIdentity | None) -> str | None:
    """Why no request may ask for the recorded list, or None."""
    now = view.partitions.get(move.topic_partition)
    if now is None:
        return "no longer exists"
    gone = [broker for broker in move.before if broker not in view.brokers]
    if recorded is not None and recorded.is_other(now):
        return "is of a topic that was deleted and made again since"
    if headed_for(now, (view.reassignments or {}).get(move.topic_partition)) is not None:
        return "is being reassigned"
    if stage_in(move, view) not in (Stage.UNTOUCHED, Stage.DONE, Stage.TAKEN_BACK):
        return f"has replicas {list(now.replicas)}, which somebody else has given it since"
    if gone and now.replicas != move.before:
        return f"was on broker {', '.join(map(str, gone))}, which is not registered: start it, and roll back again"
    return None
