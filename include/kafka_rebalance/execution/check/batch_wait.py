"""Why a run has to wait before its next write, and how to tell that it need not any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView, ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition

WATCHED = 100  # partitions a pause waits for by name; whatever else there is shows when it is over


@dataclass(frozen=True, slots=True)
class Pause:
    """What to wait for: brokers to be registered, and partitions to have so many replicas in sync."""

    brokers: tuple[int, ...] = ()
    in_sync: tuple[tuple[TopicPartition, int], ...] = ()
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.brokers or self.in_sync)


@dataclass(frozen=True, slots=True)
class Wait:
    """What a run waits for: the cluster to be well (`pause`), a time, or both; no longer than `until`."""

    connection_id: str
    run_folder: str
    pause: Pause = Pause()
    not_before: datetime | None = None
    until: datetime | None = None

    @property
    def words(self) -> str:
        """Why, for the log."""
        if self.not_before is not None:
            return f"Nothing is written before {self.not_before.isoformat()}"
        return " ".join(self.pause.reasons)

    def to_arguments(self) -> dict[str, Any]:
        """As a trigger's arguments: plain values."""
        in_sync = [[tp.topic, tp.partition, count] for tp, count in self.pause.in_sync]
        return {
            "connection_id": self.connection_id,
            "run_folder": self.run_folder,
            "pause": {"brokers": list(self.pause.brokers), "in_sync": in_sync},
            "not_before": None if self.not_before is None else self.not_before.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }

    @classmethod
    def from_arguments(
        cls,
        connection_id: str,
        run_folder: str,
        pause: Mapping[str, Any],
        not_before: str | None,
        until: str | None,
    ) -> Wait:
        """The other way round; what is missing is not waited for here, and `reassign` looks itself before it writes."""
        in_sync = tuple(
            (TopicPartition(topic, partition), count) for topic, partition, count in pause.get("in_sync", ())
        )
        times = [None if text is None else datetime.fromisoformat(text) for text in (not_before, until)]
        return cls(connection_id, run_folder, Pause(tuple(pause.get("brokers", ())), in_sync), *times)


def pause_before(
    batch: Sequence[Move],
    moves: Sequence[Move],
    view: ClusterView,
    *,
    min_in_sync: Mapping[TopicPartition, int],
    registered_again: Collection[int] = frozenset(),
    may_be_down: Collection[int] = frozenset(),
) -> Pause:
    """What must be well again before `batch` is requested; `moves` are all of the plan, done or still to do.

    A broker that is away, unless it is being emptied; a partition that was moved and is not back in sync; one of the
    batch that has fewer in sync than producers with acks=all need (min.insync.replicas): more copying beside that puts
    what is left of it at risk. And a broker that is itself still catching up, where the batch copies to it, or where it
    has `registered_again` since the snapshot and is to hold any partition still to come: that it has its data shows
    only when it is in sync.
    """
    now = [(move, partition) for move in moves if (partition := view.partitions.get(move.topic_partition)) is not None]
    coming = {broker for move, partition in now if partition.replicas == move.before for broker in move.after}
    away = tuple(sorted((_holders(moves, view) | coming) - set(may_be_down) - set(view.brokers)))
    behind = {
        move.topic_partition: len(move.after)
        for move, partition in now
        if partition.replicas == move.after and not set(move.after) <= set(partition.isr)
    }
    for move in batch:
        partition = view.partitions.get(move.topic_partition)
        wanted = min(min_in_sync.get(move.topic_partition, 1), len(move.before))
        if partition is None or partition.replicas not in (move.before, move.after):
            continue  # nothing is waited for: the check before the write stops
        if len(partition.isr) < wanted and not set(partition.replicas) - set(partition.isr) <= set(may_be_down):
            behind.setdefault(move.topic_partition, wanted)
    receiving = {broker for move in batch for broker in move.added}
    in_doubt = (receiving | (coming & set(registered_again))) & set(view.brokers)
    for tp, partition in view.partitions.items():
        lagging = (set(partition.replicas) & in_doubt) - set(partition.isr)
        if lagging and tp not in behind and not partition.in_motion:
            behind[tp] = len(partition.isr) + len(lagging)
    in_sync = tuple(sorted(behind.items()))
    return Pause(away, in_sync[:WATCHED], _reasons(away, in_sync, view))


def _holders(moves: Sequence[Move], view: ClusterView) -> set[int]:
    """Brokers of the plan's topics, which have to be there before anything of these is written.

    Not those of a partition that has neither of its lists: nothing is waited for, the check before the write stops.
    """
    lists = {move.topic_partition: (move.before, move.after) for move in moves}
    topics = {tp.topic for tp in lists}
    return {
        broker
        for tp, partition in view.partitions.items()
        if tp.topic in topics and partition.replicas in lists.get(tp, (partition.replicas,))
        for broker in partition.replicas
    }


def still_missing(pause: Pause, view: AnyView) -> Pause:
    """What of it is not well yet; nothing of a partition that is gone: the check before the write says so."""
    away = tuple(broker for broker in pause.brokers if broker not in view.brokers)
    in_sync = tuple(
        (tp, wanted)
        for tp, wanted in pause.in_sync
        if (partition := view.partitions.get(tp)) is not None
        and len(partition.isr) < min(wanted, len(partition.replicas))
    )
    return Pause(away, in_sync, _reasons(away, in_sync, view))


def _reasons(away: Sequence[int], in_sync: Sequence[tuple[TopicPartition, int]], view: AnyView) -> tuple[str, ...]:
    found = []
    if len(away) == 1:
        found.append(f"Broker {away[0]} is not registered. Start it: the next batch is requested when it is back.")
    elif away:
        found.append(
            f"{len(away)} brokers are not registered ({some(away)}). Start them: the next batch is requested when they "
            "are back."
        )
    if in_sync:
        partitions = [view.partitions[tp] for tp, _ in in_sync]
        behind = sorted({b for one in partitions for b in set(one.replicas) - set(one.isr) if b in view.brokers})
        found.append(
            f"{len(in_sync)} partition{'s have' if len(in_sync) > 1 else ' has'} too few replicas in sync: "
            f"{some([f'{tp} (to have {wanted})' for tp, wanted in in_sync])}. "
            + (f"Behind is broker {some(behind)}, whose log says why if that lasts. " if behind else "")
            + "The next batch is requested when they have caught up."
        )
    return tuple(found)
