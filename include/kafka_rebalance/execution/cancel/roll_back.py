"""The way back from a rebalance that has moved something: which recorded lists can be asked for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.execution.move_stage import Stage, headed_for, stage_in
from kafka_rebalance.kafka.reassign_tool_files import format_reassignment
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import ReplicaBytes, TopicPartition


@dataclass(frozen=True, slots=True)
class RollBack:
    """Moves from today's lists to the recorded ones, and what has to stay where it is, with the reason."""

    moves: tuple[Move, ...]
    left_out: tuple[str, ...]
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
    recorded_czxid: Mapping[str, int | None],
    sizes: ReplicaBytes | None = None,
) -> RollBack:
    """The way back of these moves. `recorded_czxid` of each topic's znode tells one that was made again since.

    A partition that somebody has moved on since is left out: its recorded list is no longer the one before.
    """
    back: list[Move] = []
    left_out: list[str] = []
    unchanged = 0
    for move in sorted(moves, key=lambda move: move.topic_partition):
        problem = _problem(move, view, recorded_czxid.get(move.topic_partition.topic))
        if problem is not None:
            left_out.append(f"{move.topic_partition} {problem}")
            continue
        now = view.partitions[move.topic_partition]
        if now.replicas == move.before:
            unchanged += 1
            continue
        size = _size(move.topic_partition, now.leader, sizes, move.size_bytes)
        back.append(Move(move.topic_partition, now.replicas, move.before, size))
    return RollBack(tuple(back), tuple(left_out), unchanged)


def _problem(move: Move, view: ClusterView, recorded_czxid: int | None) -> str | None:
    """Why the recorded list cannot be asked for, or None."""
    now = view.partitions.get(move.topic_partition)
    if now is None:
        return "no longer exists"
    gone = [broker for broker in move.before if broker not in view.brokers]
    if recorded_czxid is not None and now.topic_czxid != recorded_czxid:
        problem = "is of a topic that was deleted and made again since"
    elif headed_for(now, (view.reassignments or {}).get(move.topic_partition)) is not None:
        problem = "is being reassigned"
    elif stage_in(move, view) not in (Stage.UNTOUCHED, Stage.DONE, Stage.TAKEN_BACK):
        problem = f"has replicas {list(now.replicas)}, which somebody else has given it since"
    elif gone and now.replicas != move.before:
        problem = f"was on broker {', '.join(map(str, gone))}, which is not registered: start it, and roll back again"
    else:
        return None
    return problem


def _size(topic_partition: TopicPartition, leader: int, sizes: ReplicaBytes | None, recorded: int) -> int:
    return (sizes or {}).get(topic_partition, {}).get(leader, recorded)
