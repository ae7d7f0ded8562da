"""Brokers that hold replicas and are not registered, partitions without a leader, and the cluster without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any

from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.what_waits import waiting_for


@dataclass(frozen=True, slots=True)
class Away:
    brokers: tuple[int, ...] = ()
    leaderless: tuple[TopicPartition, ...] = ()  # because these brokers, or log dirs, are down
    deletions: tuple[str, ...] = ()  # topics that are being deleted: the deletion waits for these brokers
    waits: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)  # what waits for which of these

    @property
    def is_empty(self) -> bool:
        return not (self.brokers or self.leaderless or self.deletions)

    def only_wait_for(self, gone: Collection[int]) -> bool:
        """Whether everything without a leader, and every deletion, waits for these brokers alone."""
        topics = {tp.topic for tp in self.waits}
        stuck = [tp for tp in self.leaderless if tp not in self.waits] + [t for t in self.deletions if t not in topics]
        return not stuck and all(set(brokers).issubset(gone) for brokers in self.waits.values())


def without_away(view: ClusterView) -> tuple[ClusterView, Away]:
    """(the cluster as if the brokers that are away held nothing, who is away).

    Partitions without a live leader are left out, since nobody reports their sizes, and topics that are being deleted.
    If nothing would be left, the view stays.
    """
    away = tuple(sorted({b for one in view.partitions.values() for b in one.replicas} - set(view.brokers)))
    kept = {tp: one for tp, one in view.partitions.items() if tp.topic not in view.deletions}
    leaderless = tuple(sorted(tp for tp, one in kept.items() if one.leader not in view.brokers))
    rest = {
        tp: dataclasses.replace(one, replicas=tuple(broker for broker in one.replicas if broker in view.brokers))
        for tp, one in kept.items()
        if one.leader in view.brokers
    }
    left_out = Away(away, leaderless, tuple(sorted(view.deletions)), waiting_for(view, away))
    if left_out.is_empty or not rest:
        return view, Away()
    return dataclasses.replace(view, partitions=rest), left_out


def away_since(broker: int, checks: Iterable[Mapping[str, Any]], now: datetime) -> datetime:
    """The first of the latest checks in a row that found the broker away. It may be away for longer.

    `checks`: rows of the ledger's table `balance`, newest first. A row without brokers ends the count.
    """
    found_away = takewhile(lambda check: broker in (check["brokers_away"] or ()), checks)
    return min((check["observed_at"] for check in found_away), default=now)
