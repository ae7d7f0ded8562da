"""Whether a move leaves enough replicas in sync, and lets only those lead that may."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView, ConfigsByBroker
from kafka_rebalance.model.finding import Finding, listed, some
from kafka_rebalance.model.partition import MayNotLead, TopicPartition, may_not_lead
from kafka_rebalance.run.checks.drift import PartitionThen

# Whether the partitions that move keep min.insync.replicas, now and with their approved lists.


MIN_INSYNC_REPLICAS = "min.insync.replicas"


def under_min_isr(
    moves: Iterable[Move],
    view: ClusterView,
    min_insync: Mapping[TopicPartition, int],
    leaving: Collection[int] = frozenset(),
) -> Iterable[Finding]:
    """Partitions to be moved that take no acks=all now: after one more failure, data is lost or unavailable.

    If a partition lacks only replicas on brokers that are to be emptied, its move mends that: it does not count.
    """
    lacking = {
        move.topic_partition: missing
        for move in moves
        if (partition := view.partitions.get(move.topic_partition)) is not None
        and len(partition.isr) < min_insync.get(move.topic_partition, 1)
        and (missing := set(partition.replicas) - set(partition.isr) - set(leaving))
    }
    if lacking:
        names = [f"{tp} lacks {sorted(missing)}" for tp, missing in sorted(lacking.items())]
        yield Finding(
            f"{len(lacking)} partition{'s' if len(lacking) > 1 else ''} below min.insync.replicas",
            some(names),
            "Bring those replicas back in sync (see the brokers' logs), then clear this task",
        )


def cut_below_min_isr(moves: Iterable[Move], min_insync: Mapping[TopicPartition, int]) -> Iterable[Finding]:
    """Lists that get shorter than min.insync.replicas: the partition would refuse acks=all with all brokers up."""
    names = [
        f"{move.topic_partition} goes from {len(move.before)} to {len(move.after)}, and min.insync.replicas is {least}"
        for move in sorted(moves, key=lambda move: move.topic_partition)
        if (least := min_insync.get(move.topic_partition, 0)) > len(move.after) < len(move.before)
    ]
    if names:
        yield Finding(
            f"{len(names)} partition{'s' if len(names) > 1 else ''} with fewer replicas than min.insync.replicas",
            some(names),
            "The brokers would refuse producers with acks=all. Lower min.insync.replicas of the topic, then clear this "
            "task, or start a new Dag run with a higher replication factor",
        )


def min_insync_now(
    moves: Iterable[Move],
    view: ClusterView,
    topic_configs: Mapping[str, Mapping[str, str]],
    configs: ConfigsByBroker,
    recorded: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """`min.insync.replicas` of each partition that moves: its topic's own value; else the highest value of its leader
    and of the brokers that are to hold it; else what is `recorded`.
    """
    least = {}
    for move in moves:
        tp = move.topic_partition
        partition = view.partitions.get(tp)
        brokers = {*move.after, partition.leader} if partition else set(move.after)
        set_there = [configs.get(broker, {}).get(MIN_INSYNC_REPLICAS, (None, ""))[0] for broker in brokers]
        own = topic_configs.get(tp.topic, {}).get(MIN_INSYNC_REPLICAS)
        known = [int(text) for text in (set_there if own is None else [own]) if text is not None and text.isdecimal()]
        if known or tp in recorded:
            least[tp] = max(known, default=recorded.get(tp, 0))
    return least


# Whether the run may elect the first replica of each list that it writes (`model.replica_list`).


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
