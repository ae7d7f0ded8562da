"""What of a lease's throttle may be put back when, so that what was there before the run is there again.

A lease (`documents.cluster.throttle_lease`) holds what was there before and what the run wants. These two tell which
entries and rates are the run's own. Only those are ever taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.throttles import (
    CORDON,
    EVERY_LOG_DIR,
    EVERY_REPLICA,
    LIST_KEYS,
    LOG_DIR_RATE,
    format_throttled_replicas,
)
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.throttle_lease import LeftBehind, ThrottleLease, list_entries
from kafka_rebalance.throttle.wanted import Changes, Configs, each_entry, each_value


@dataclass(frozen=True, slots=True)
class Release:
    """What to write now, what must stay, and what somebody else has changed meanwhile: that is left alone."""

    changes: Changes
    kept: tuple[str, ...]
    foreign: tuple[str, ...]
    left: frozenset[str] = frozenset()  # brokers that are away: what is set there is left

    @property
    def complete(self) -> bool:
        """Whether nothing of ours is left once `changes` are written."""
        return not self.kept


def release(
    lease: ThrottleLease,
    current: Configs,
    still_in_motion: Collection[TopicPartition] = (),
    copying_within: Collection[int] = (),
) -> Release:
    """What to put back now. Safe to repeat: what is already back needs no change.

    The entries of partitions in `still_in_motion` stay, and so do the rates of every broker in such an entry. The rate
    for copies between log dirs stays on the brokers in `copying_within`, whoever asked for these copies. A cordon stays
    for no copy, because Kafka asks for it only when it takes a request. A value that is no longer ours is somebody
    else's and is left alone. Of a list only our own entries are taken out.
    """
    changes: Changes = {}
    kept: list[str] = []
    foreign: list[str] = []
    moving = {entry for entry in each_entry(lease.wanted) if entry.topic_partition in still_in_motion}
    busy = {f"brokers/{entry.broker}" for entry in moving}
    busy_within = {f"brokers/{broker}" for broker in copying_within}
    needed = {(entry.entity, entry.key, entry.text) for entry in moving}
    for entity, key, _ in each_value(lease.wanted):
        prior, now = lease.prior[entity][key], current.get(entity, {}).get(key)
        where = f"{entity}: {key}"
        if key in LIST_KEYS:
            try:
                back, stays = _list_back(lease, entity, key, now, needed)
            except KafkaRuleError as unreadable:  # somebody wrote it by hand: which entries are ours cannot be told
                foreign.append(f"{where} is left alone: {unreadable}")
                continue
            if stays:
                kept.append(f"{where} keeps {format_throttled_replicas(stays)}")
            if now == EVERY_REPLICA != prior:
                foreign.append(f"{where} is now '*', set by somebody else")
        else:
            back = prior
            if now != prior and not lease.may_have_set(key, now):
                foreign.append(f"{where} is {'gone' if now is None else now}, changed by somebody else")
                continue
            if key != CORDON and now != prior and entity in (busy_within if key == LOG_DIR_RATE else busy):
                kept.append(f"{where} stays {now}")
                continue
        if back != now:
            changes.setdefault(entity, {})[key] = back
    return Release(changes, tuple(kept), tuple(foreign))


def left_changes(left_behind: Sequence[LeftBehind], current: Configs) -> Changes:
    """What to write on the brokers in `current` so that what was left there, the earliest first, is put back.

    A value that none of these runs has set is left alone.
    """
    changes: Changes = {}
    for entity, values in current.items():
        for left in reversed(left_behind):
            for key, before in left.prior.get(entity, {}).items():
                now = changes.get(entity, {}).get(key, values.get(key))
                if now in ((EVERY_LOG_DIR,) if key == CORDON else map(str, left.rates)):
                    changes.setdefault(entity, {})[key] = before
    return changes


def _list_back(
    lease: ThrottleLease, entity: str, key: str, now: str | None, needed: Collection[tuple[str, str, str]]
) -> tuple[str | None, tuple[str, ...]]:
    """(the list's value after the release, those of our entries that stay because they are `needed`)."""
    entries = list_entries(now, key)
    if not entries or entries == (EVERY_REPLICA,):
        return now, ()
    own = set(lease.own_entries(entity, key))
    stays = tuple(entry for entry in entries if entry in own and (entity, key, entry) in needed)
    left = tuple(entry for entry in entries if entry not in own or entry in stays)
    prior = lease.prior[entity][key]
    if left == entries:
        return now, stays
    if set(left) == set(list_entries(prior, key)):
        return prior, stays  # to the letter, blanks and order as they were
    return format_throttled_replicas(left) or None, stays
