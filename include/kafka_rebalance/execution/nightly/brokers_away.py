"""Brokers that hold replicas and are not registered, and partitions that nobody leads: what is left without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Away:
    """The brokers, the partitions that nobody leads, be it that these brokers or their log dirs are down, and the
    topics that are being deleted, which waits for these brokers.
    """

    brokers: tuple[int, ...] = ()
    leaderless: tuple[TopicPartition, ...] = ()
    deletions: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.brokers or self.leaderless or self.deletions)


def without_away(view: ClusterView) -> tuple[ClusterView, Away]:
    """(the cluster as if brokers that are away held nothing, who is away). Partitions without a live leader are left
    out: nobody tells their sizes; so are topics that are being deleted. Where nothing would be left, the view stays.
    """
    away = tuple(sorted({b for one in view.partitions.values() for b in one.replicas} - set(view.brokers)))
    kept = {tp: one for tp, one in view.partitions.items() if tp.topic not in view.deletions}
    leaderless = tuple(sorted(tp for tp, one in kept.items() if one.leader not in view.brokers))
    rest = {
        tp: dataclasses.replace(one, replicas=tuple(broker for broker in one.replicas if broker in view.brokers))
        for tp, one in kept.items()
        if one.leader in view.brokers
    }
    left_out = Away(away, leaderless, tuple(sorted(view.deletions)))
    if left_out.is_empty or not rest:
        return view, Away()
    return dataclasses.replace(view, partitions=rest), left_out


def away_since(broker: int, checks: Iterable[Mapping[str, Any]], now: datetime) -> datetime:
    """Since when at the latest the broker is away: the first of the checks, one after the other up to now, that found
    it so. `checks` are rows of the ledger's table `balance`, newest first; one that does not tell ends the row.
    """
    since = now
    for check in checks:
        if broker not in (check["brokers_away"] or ()):
            break
        since = check["observed_at"]
    return since
