"""What other people and tools do to the partitions of a batch while it is followed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafka_rebalance.execution.follow.batch_finding import REQUEST, BatchFinding, FindingKind
from kafka_rebalance.execution.move_stage import is_over
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.finding import some

_ELECTED_BY = {  # by whether Kafka elects preferred leaders by itself
    True: "They are not the first of their lists, so Kafka did not elect them by itself. Find the tool that did, and "
    "stop it.",
    False: "auto.leader.rebalance.enable is false on every broker, so Kafka did not elect them by itself. Find the "
    "tool that did, and stop it.",
    None: "Either Kafka did that by itself (auto.leader.rebalance.enable), or another tool did: then stop that tool.",
}


def deleted_topics(moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    for topic in sorted(view.deletions & {move.topic_partition.topic for move in moves}):
        open_moves = sorted(
            move.topic_partition for move in moves if move.topic_partition.topic == topic and not is_over(move, view)
        )
        if open_moves:
            yield BatchFinding(
                FindingKind.TOPIC_DELETION,
                f"Topic {topic} is queued for deletion in mid-move ({some(open_moves)}). Kafka may destroy it "
                "half-way and block every later reassignment. If the topic may go, let the deletion end, then start a "
                f"new Dag run for the rest. If it must stay, delete /admin/delete_topics/{topic} at once and restart "
                "the controller: it forgets a deletion that has not begun. Then check whether the partitions of the "
                "topic still have leaders.",
                stops=True,
            )


def foreign_requests(moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    ours = {move.topic_partition: move.after for move in moves}
    foreign = sorted(tp for tp, asked in (view.reassignments or {}).items() if ours.get(tp) != asked)
    if foreign:
        yield BatchFinding(
            FindingKind.FOREIGN_REASSIGNMENT,
            f"{REQUEST} asks for {some(foreign)}, which this batch does not: somebody else wrote into it. Find out "
            "who, and stop that tool. Its moves begin with the next controller at the latest. Until then the run "
            "requests no further batch.",
        )


def moved_leaders(
    before: AnyView | None, moves: Sequence[Move], view: AnyView, kafka_elects: bool | None
) -> Iterable[BatchFinding]:
    """Leaders that changed although the old one is alive, in sync and stays: the controller itself had no reason.

    Where Kafka elects preferred leaders by itself, a change to the first of the list is no finding.
    """
    if before is None:
        return
    elected = (before.elections or frozenset()) | (view.elections or frozenset())
    moved = []
    for move in moves:
        tp = move.topic_partition
        then, partition = before.partitions.get(tp), view.partitions.get(tp)
        if then is None or partition is None or tp in elected or then.leader in (-1, partition.leader):
            continue
        if kafka_elects and partition.leader in (then.replicas[0], partition.replicas[0]):
            continue
        stays = then.leader in move.after and then.leader in partition.isr
        if stays and then.leader in before.brokers and then.leader in view.brokers:
            moved.append(f"{tp} from {then.leader} to {partition.leader}")
    if moved:
        yield BatchFinding(
            FindingKind.LEADERS_MOVED,
            f"Leaders changed although the old ones are alive and in sync ({some(moved)}). {_ELECTED_BY[kafka_elects]} "
            "The run goes on, and elects the approved leaders when the batch has ended.",
        )
