"""What of a lease's throttle may be put back when, so that what was there before the run is there again.

A lease (`documents.cluster.throttle_lease`) holds what was there before and what the run wants. From the two follows
which entries and rates are the run's own, and only those are ever taken back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.execution.throttle.wanted import Changes, Configs
from kafka_rebalance.kafka.throttles import (
    EVERY_REPLICA,
    LIST_KEYS,
    format_throttled_replicas,
    split_entry,
)
from kafka_rebalance.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Release:
    """What to write now, what must stay, and what somebody else changed meanwhile and is left alone."""

    changes: Changes
    kept: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing of ours is left once `changes` are written."""
        return not self.kept


def release(
    lease: ThrottleLease,
    current: Configs,
    still_in_motion: Collection[TopicPartition] = (),
) -> Release:
    """What to put back now. Safe to repeat: what is already back needs no change.

    The entries of partitions in `still_in_motion` stay, and so do the rates of every broker in such an entry. A value
    that is no longer the one we set is somebody else's and is left alone; of a list only our own entries are taken out.
    """
    changes: Changes = {}
    kept: list[str] = []
    foreign: list[str] = []
    busy = _brokers_in_motion(lease, still_in_motion)
    for entity, values in lease.wanted.items():
        for key in values:
            prior, now = lease.prior[entity][key], current.get(entity, {}).get(key)
            where = f"{entity}: {key}"
            if key in LIST_KEYS:
                try:
                    back, stays = _list_back(lease, entity, key, now, still_in_motion)
                except KafkaRuleError as unreadable:  # written by hand: what in it is ours cannot be told
                    foreign.append(f"{where} is left alone: {unreadable}")
                    continue
                if stays:
                    kept.append(f"{where} keeps {format_throttled_replicas(stays)}")
                if now == EVERY_REPLICA != prior:
                    foreign.append(f"{where} is now '*', set by somebody else")
            else:
                back = prior
                if now not in {*lease.own_rates, prior}:
                    foreign.append(f"{where} is {'gone' if now is None else now}, changed by somebody else")
                    continue
                if now != prior and int(entity.partition("/")[2]) in busy:
                    kept.append(f"{where} stays {now}")
                    continue
            if back != now:
                changes.setdefault(entity, {})[key] = back
    return Release(changes, tuple(kept), tuple(foreign))


def _list_back(
    lease: ThrottleLease, entity: str, key: str, now: str | None, still_in_motion: Collection[TopicPartition]
) -> tuple[str | None, tuple[str, ...]]:
    """(the list's value after the release, those of our entries that stay)."""
    if now is None:
        return None, ()
    entries = list_entries(now, key)
    if entries == (EVERY_REPLICA,):
        return now, ()
    topic = entity.partition("/")[2]
    own = set(lease.own_entries(entity, key)) & set(entries)
    stays = tuple(entry for entry in entries if entry in own and _partition(topic, entry) in still_in_motion)
    left = tuple(entry for entry in entries if entry not in own or entry in stays)
    prior = lease.prior[entity][key]
    if left == entries:
        return now, stays
    if set(left) == set(list_entries(prior, key)):
        return prior, stays  # to the letter, blanks and order as they were
    return format_throttled_replicas(left) or None, stays


def _brokers_in_motion(lease: ThrottleLease, still_in_motion: Collection[TopicPartition]) -> set[int]:
    """The brokers that send or receive for a partition that still moves, as the wanted lists name them."""
    return {
        split_entry(entry)[1]
        for entity, values in lease.wanted.items()
        for key, value in values.items()
        if key in LIST_KEYS
        for entry in list_entries(value, key)
        if _partition(entity.partition("/")[2], entry) in still_in_motion
    }


def _partition(topic: str, entry: str) -> TopicPartition:
    return TopicPartition(topic, split_entry(entry)[0])
