"""Why a run has to wait before its next write, and until when."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView, ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition, may_not_lead

WATCHED = 100  # partitions for which a pause waits; the check after it finds any others


@dataclass(frozen=True, slots=True)
class Pause:
    brokers: tuple[int, ...] = ()  # to be registered
    in_sync: tuple[tuple[TopicPartition, int], ...] = ()  # to have so many replicas in sync
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.brokers or self.in_sync)


@dataclass(frozen=True, slots=True)
class Wait:
    """What a run waits for: the cluster to be well (`pause`), a time, or both. It waits until `until` at most."""

    connection_id: str
    run_folder: str
    pause: Pause = Pause()
    not_before: datetime | None = None
    until: datetime | None = None

    @property
    def words(self) -> str:
        if self.not_before is not None:
            return f"The run writes nothing before {self.not_before:%Y-%m-%d %H:%M %Z}"
        return " ".join(self.pause.reasons)

    def to_arguments(self) -> dict[str, Any]:
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
        cls, connection_id: str, run_folder: str, pause: Mapping[str, Any], not_before: str | None, until: str | None
    ) -> Wait:
        """The other way round. Nothing waits for what is missing: `reassign` checks again before it writes."""
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

    - A broker that is away, unless it is being emptied.
    - A partition that was moved and is not yet in sync.
    - A partition of the batch with fewer replicas in sync than producers with acks=all need (min.insync.replicas): more
      copying would put the rest of them at risk.
    - The next leader of a partition of the batch, if it is out of the ISR: the batch would wait for it.
    - A broker that still catches up, if the batch copies to it. Also one that has `registered_again` since the snapshot
      and is to hold any partition still to come: only when it is in sync does it have its data for certain.
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
            continue  # no wait helps: the check before the write stops the run
        if len(partition.isr) < wanted and not set(partition.replicas) - set(partition.isr) <= set(may_be_down):
            behind.setdefault(move.topic_partition, wanted)
        elif may_not_lead(move.before, move.after, partition.leader, partition.isr, ()) is not None:
            alive = set(partition.replicas) & set(view.brokers)
            behind.setdefault(move.topic_partition, len(set(partition.isr) | alive))
    receiving = {broker for move in batch for broker in move.added}
    in_doubt = (receiving | (coming & set(registered_again))) & set(view.brokers)
    for tp, partition in view.partitions.items():
        lagging = (set(partition.replicas) & in_doubt) - set(partition.isr)
        if lagging and tp not in behind and not partition.in_motion:
            behind[tp] = len(partition.isr) + len(lagging)
    in_sync = tuple(sorted(behind.items()))
    return Pause(away, in_sync[:WATCHED], _reasons(away, in_sync, view))


def _holders(moves: Sequence[Move], view: ClusterView) -> set[int]:
    """Brokers of the plan's topics, which have to be registered before a run writes anything about these topics.

    A partition that has neither of its lists does not count: the check before the write stops the run.
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
    """What of it is not well yet. A partition that is gone does not count: the check before the write reports it."""
    away = tuple(broker for broker in pause.brokers if broker not in view.brokers)
    in_sync = tuple(
        (tp, wanted)
        for tp, wanted in pause.in_sync
        if (partition := view.partitions.get(tp)) is not None
        and len(partition.isr) < min(wanted, len(partition.replicas))
    )
    return Pause(away, in_sync, _reasons(away, in_sync, view))


def _reasons(away: Sequence[int], in_sync: Sequence[tuple[TopicPartition, int]], view: AnyView) -> tuple[str, ...]:
    reasons = []
    if len(away) == 1:
        reasons.append(
            f"Broker {away[0]} is not registered. Start it. The run requests the next batch when it is back."
        )
    elif away:
        reasons.append(
            f"{len(away)} brokers are not registered ({some(away)}). Start them. The run requests the next batch when "
            "they are back."
        )
    if in_sync:
        partitions = [view.partitions[tp] for tp, _ in in_sync]
        behind = sorted(
            {b for partition in partitions for b in set(partition.replicas) - set(partition.isr) if b in view.brokers}
        )
        reasons.append(
            f"{len(in_sync)} partition{'s have' if len(in_sync) > 1 else ' has'} too few replicas in sync: "
            f"{some([f'{tp} (needs {wanted})' for tp, wanted in in_sync])}. "
            + (f"Broker {some(behind)} is behind: if that lasts, its log says why. " if behind else "")
            + "The run requests the next batch when they have caught up."
        )
    return tuple(reasons)
