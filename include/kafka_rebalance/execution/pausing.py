"""Why the next batch has to wait for the cluster, and how to tell that it need not any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.model.cluster import AnyView, ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.proposal import Move, brokers_touched

SHOWN = 10
WATCHED = 100  # partitions a pause waits for by name; whatever else there is shows when it is over


@dataclass(frozen=True, slots=True)
class Pause:
    """What to wait for: brokers to be registered, and partitions to have so many replicas in sync."""

    brokers: tuple[int, ...] = ()
    in_sync: tuple[tuple[TopicPartition, int], ...] = ()
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.brokers or self.in_sync)


def pause_before(
    batch: Sequence[Move],
    begun: Sequence[Move],
    view: ClusterView,
    *,
    min_in_sync: Mapping[TopicPartition, int],
    may_be_down: Collection[int] = frozenset(),
) -> Pause:
    """What must be well again before `batch` is requested, given the moves of batches `begun` before it.

    A broker of either that is away, unless it is being emptied; a partition that was moved and is not back in sync; one
    of the batch that has fewer in sync than producers with acks=all need (min.insync.replicas): more copying beside
    that puts what is left of it at risk. And a broker that receives copies while it is itself still catching up.
    """
    needed = (brokers_touched(batch) | {broker for move in begun for broker in move.after}) - set(may_be_down)
    away = tuple(sorted(needed - set(view.brokers)))
    receiving = {broker for move in batch for broker in move.added}
    behind: dict[TopicPartition, int] = {}
    for move in begun:
        partition = view.partitions.get(move.topic_partition)
        if partition is not None and partition.replicas == move.after and not set(move.after) <= set(partition.isr):
            behind[move.topic_partition] = len(move.after)
    for move in batch:
        partition = view.partitions.get(move.topic_partition)
        wanted = min(min_in_sync.get(move.topic_partition, 1), len(move.before))
        if partition is not None and len(partition.isr) < wanted:
            behind.setdefault(move.topic_partition, wanted)
    for tp, partition in view.partitions.items():
        lagging = (set(partition.replicas) & receiving & set(view.brokers)) - set(partition.isr)
        if lagging and tp not in behind and not (partition.adding or partition.removing):
            behind[tp] = len(partition.isr) + len(lagging)
    in_sync = tuple(sorted(behind.items()))
    return Pause(away, in_sync[:WATCHED], _reasons(away, in_sync))


def still_missing(pause: Pause, view: AnyView) -> Pause:
    """What of it is not well yet; nothing of a partition that is gone: the check before the write says so."""
    away = tuple(broker for broker in pause.brokers if broker not in view.brokers)
    in_sync = tuple(
        (tp, wanted)
        for tp, wanted in pause.in_sync
        if (partition := view.partitions.get(tp)) is not None
        and len(partition.isr) < min(wanted, len(partition.replicas))
    )
    return Pause(away, in_sync, _reasons(away, in_sync))


def _reasons(away: Sequence[int], in_sync: Sequence[tuple[TopicPartition, int]]) -> tuple[str, ...]:
    found = [
        f"Broker {broker} is not registered. Start it: the next batch is requested when it is back." for broker in away
    ]
    if in_sync:
        shown = ", ".join(f"{tp} (to have {wanted})" for tp, wanted in in_sync[:SHOWN])
        more = f" and {len(in_sync) - SHOWN} more" if len(in_sync) > SHOWN else ""
        found.append(
            f"{len(in_sync)} partition{'s have' if len(in_sync) > 1 else ' has'} too few replicas in sync: {shown}"
            f"{more}. The next batch is requested when they have caught up."
        )
    return tuple(found)
