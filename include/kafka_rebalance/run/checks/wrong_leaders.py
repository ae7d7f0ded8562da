"""Whether the run may elect the first replica of each list that it writes (`model.replica_list`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import Finding, listed, some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.replica_list import MayNotLead, may_not_lead
from kafka_rebalance.run.checks.drift import PartitionThen


def check_leaders_may_lead(
    moves: Iterable[Move], partitions: Mapping[TopicPartition, PartitionThen], closed: Collection[int]
) -> None:
    """Raises SettingsError if a move elects a broker of `brokers_out`, by the lists and leaders of the snapshot."""
    wrong = [
        move
        for move in moves
        if (then := partitions.get(move.topic_partition)) is not None
        and may_not_lead(then.replicas, move.after, _leader(then), None, closed) is MayNotLead.CLOSED
    ]
    if wrong:
        raise SettingsError(
            f"The approved plan makes broker {listed(sorted({move.after[0] for move in wrong}))} leader of "
            f"{some([move.topic_partition for move in wrong])}, but brokers_out lets it become leader of nothing. "
            "Do not trust the plan's files or the planner: find out why, then "
            "start a new Dag run."
        )


def _leader(then: PartitionThen) -> int:
    """The leader in the snapshot; the first replica if nobody is known to lead."""
    return then.leader if then.leader is not None and then.leader in then.replicas else then.replicas[0]


def out_of_isr_now(moves: Iterable[Move], view: ClusterView) -> Iterable[Finding]:
    """First replicas that are out of the ISR now: the batch would wait for them, and Kafka would elect another one."""
    wrong = {
        move.topic_partition: move.after[0]
        for move in moves
        if (now := view.partitions.get(move.topic_partition)) is not None
        and now.replicas == move.before
        and may_not_lead(move.before, move.after, now.leader, now.isr, ()) is MayNotLead.OUT_OF_ISR
    }
    if wrong:
        yield Finding(
            f"{len(wrong)} partition{'s' if len(wrong) > 1 else ''} whose next leader is out of the ISR",
            some([f"{tp} (broker {broker})" for tp, broker in sorted(wrong.items())]),
            "Bring those replicas back in sync (see the brokers' logs), then clear this task",
        )
