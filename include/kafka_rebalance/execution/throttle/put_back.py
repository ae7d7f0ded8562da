"""The throttle of one run: what is set, what was there before, and what may be put back when.

A lease (`execution.lease`) is written down before the first config is changed. It holds what was there before,
recorded once, and of a rate again when the run takes its throttle again, and what the run wants; from the two follows
which entries and rates are the run's own, and only those are ever taken back.

Choices. Lists are merged: what somebody else lists stays, and `*` stays `*`. A rate that somebody else set is replaced
by the approved one for as long as the run lasts, lower or higher: a broker has one rate for everything it throttles,
and the approved one is what the predicted end rests on; it is put back afterwards. Rates are set only where a listed
replica sends (leader) or receives (follower), lists only for the partitions that gain a broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from kafka_rebalance.documents.cluster.throttle_lease import RateChange, ThrottleLease, list_entries
from kafka_rebalance.errors import KafkaRuleError, LockHeldError, ThrottleError
from kafka_rebalance.kafka.throttles import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    format_throttled_replicas,
    split_entry,
    throttled_replicas,
)
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.same_airflow import is_same_run

Configs = Mapping[str, Mapping[str, str]]  # "topics/T" or "brokers/N" -> config key -> value; absent: no config there
Changes = dict[str, dict[str, str | None]]  # the same, None: the key is removed


def topic_entity(topic: str) -> str:
    return f"topics/{topic}"


def broker_entity(broker: int) -> str:
    return f"brokers/{broker}"


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


def desired_throttle(moves: Iterable[Move], bytes_per_second: int) -> dict[str, dict[str, str]]:
    """entity -> key -> value that throttles exactly the copies of these moves; empty if none of them copies anything.

    Raises ThrottleError for a rate that is not a positive integer: 0 would stall the copies for ever.
    """
    if type(bytes_per_second) is not int or bytes_per_second < 1:
        raise ThrottleError(
            f"A throttle of {bytes_per_second!r} bytes/s lets nothing through. Nothing was written. "
            "Give a whole number of bytes per second above 0, within the policy."
        )
    copying = [move for move in moves if move.added]
    lists = throttled_replicas(
        {move.topic_partition: move.before for move in copying}, {move.topic_partition: move.after for move in copying}
    )
    wanted = {
        topic_entity(topic): {
            LEADER_REPLICAS: format_throttled_replicas(sides["leader"]),
            FOLLOWER_REPLICAS: format_throttled_replicas(sides["follower"]),
        }
        for topic, sides in lists.items()
    }
    senders = {broker for move in copying for broker in move.before}
    receivers = {broker for move in copying for broker in move.added}
    for broker in sorted(senders | receivers):
        rates = ((LEADER_RATE, senders), (FOLLOWER_RATE, receivers))
        wanted[broker_entity(broker)] = {key: str(bytes_per_second) for key, which in rates if broker in which}
    return wanted


def record_prior(wanted: Mapping[str, Mapping[str, str]], current: Configs) -> dict[str, dict[str, str | None]]:
    """What is there now under every key that is wanted: None where there is nothing."""
    return {entity: {key: current.get(entity, {}).get(key) for key in values} for entity, values in wanted.items()}


def take_lease(
    run: str,
    candidate_digest: str,
    moves: Iterable[Move],
    bytes_per_second: int,
    current: Configs,
    *,
    owner: str = "",
    existing: ThrottleLease | None = None,
) -> ThrottleLease:
    """The lease to write down before any config is changed.

    `existing` is the cluster's lease that nobody has given back yet, if there is one. That of an earlier try of this
    run keeps its rate, which may have been changed since, and what it recorded: reading all of `current` again would
    record our own throttle as what was there before. Only a rate that neither this lease has set nor was there before
    is somebody else's of now, as where a part of the throttle had been put back: that is what comes back after the
    moves. The lease may cover moves that were left out since. Raises LockHeldError if it is another run's,
    ThrottleError if it is of another candidate or was taken at another rate.
    """
    moves = tuple(moves)
    wanted = desired_throttle(moves, bytes_per_second)
    if existing is None:
        prior = record_prior(wanted, current)
        return ThrottleLease(run, candidate_digest, bytes_per_second, wanted, prior, owner=owner)
    if not is_same_run(existing.run, existing.owner, run, owner):
        raise LockHeldError(
            f"Run {existing.run} of {existing.owner or 'this Airflow'} holds a throttle on this cluster since "
            f"{existing.taken_at or 'an unknown time'} and has not given it back: what is set now is not what was "
            "there before. Nothing was written. Let that run release it, or the Dag kafka_throttle_janitor if the run "
            "is gone, then clear this task."
        )
    same = existing.candidate_digest == candidate_digest and existing.taken_at_rate == bytes_per_second
    if not same or not _covers(existing, desired_throttle(moves, existing.bytes_per_second)):
        raise ThrottleError(
            f"Run {run} already holds a throttle of {existing.bytes_per_second} bytes/s for candidate "
            f"{existing.candidate_digest[:8]}, for other replicas or at another rate than the {bytes_per_second} "
            f"bytes/s asked for now for {candidate_digest[:8]}. Nothing was written. Release it, then clear this task."
        )
    if existing.suspended_at is not None:
        return replace(recorded_anew(existing, current), suspended_at=None)
    return replace(existing, prior={entity: _prior_now(existing, entity, current) for entity in existing.prior})


def _prior_now(lease: ThrottleLease, entity: str, current: Configs) -> dict[str, str | None]:
    """What is to come back of an entity. Lists are as they were recorded: entries that are not ours stay anyway."""
    prior, now = lease.prior[entity], current.get(entity, {})
    return {
        key: before if key in LIST_KEYS or now.get(key) in lease.own_rates else now.get(key)
        for key, before in prior.items()
    }


def recorded_anew(lease: ThrottleLease, current: Configs) -> ThrottleLease:
    """The lease with what is there now as what was there before, but for what is left of its own throttle: of one that
    was suspended, whose entities anybody may have changed since.
    """
    back = release(lease, current).changes
    rested = {
        entity: {
            key: value
            for key, value in {**current.get(entity, {}), **back.get(entity, {})}.items()
            if value is not None
        }
        for entity in lease.wanted
    }
    return replace(lease, prior=record_prior(lease.wanted, rested))


def with_rate(lease: ThrottleLease, change: RateChange) -> ThrottleLease:
    """The lease with another rate from now on. What was there before, and what is approved, stays as it was."""
    wanted = {
        entity: {key: value if key in LIST_KEYS else str(change.bytes_per_second) for key, value in values.items()}
        for entity, values in lease.wanted.items()
    }
    return replace(
        lease,
        bytes_per_second=change.bytes_per_second,
        wanted=wanted,
        first_bytes_per_second=lease.taken_at_rate,
        rate_changes=(*lease.rate_changes, change),
    )


def rate_changes(lease: ThrottleLease, current: Configs) -> Changes:
    """What to write so that the lease's rate is in force wherever one of its rates still is, and nowhere else."""
    changes: Changes = {}
    for entity, values in lease.wanted.items():
        for key, value in values.items():
            now = current.get(entity, {}).get(key)
            if key not in LIST_KEYS and now != value and now in lease.own_rates:
                changes.setdefault(entity, {})[key] = value
    return changes


def set_changes(lease: ThrottleLease, current: Configs) -> Changes:
    """What to write so that the throttle is in force: nothing where it already is."""
    changes: Changes = {}
    for entity, values in lease.wanted.items():
        for key, value in values.items():
            now = current.get(entity, {}).get(key)
            merged = _merged(now, value, key) if key in LIST_KEYS else value
            if merged != now:
                changes.setdefault(entity, {})[key] = merged
    return changes


def confirm(lease: ThrottleLease, current: Configs) -> tuple[str, ...]:
    """What of the throttle is not in force, one text a key; read back before each batch. Empty: all of it is.

    More entries in a list than ours are no difference.
    """
    found = []
    for entity, values in set_changes(lease, current).items():
        for key, value in values.items():
            now = current.get(entity, {}).get(key)
            shown = "is not set" if now is None else f"is {now!r}"
            found.append(f"{entity}: {key} {shown}, it must be {value!r}")
    return tuple(found)


def standing(wanted: Configs, current: Configs) -> tuple[tuple[str, str, str], ...]:
    """(entity, key, value) of what of `wanted` is set now: a rate, or entries of a list."""
    found = []
    for entity, values in wanted.items():
        for key, value in values.items():
            now = current.get(entity, {}).get(key)
            if key in LIST_KEYS:
                with suppress(KafkaRuleError):  # written by hand, in another form than ours
                    set_now = set(list_entries(now, key))
                    ours = [entry for entry in list_entries(value, key) if entry in set_now]
                    if ours:
                        found.append((entity, key, format_throttled_replicas(ours)))
            elif now == value:
                found.append((entity, key, value))
    return tuple(found)


def check_in_force(lease: ThrottleLease, current: Configs) -> None:
    """Raises ThrottleError unless the whole throttle is in force."""
    differences = confirm(lease, current)
    if differences:
        raise ThrottleError(
            f"The throttle of run {lease.run} is not in force: {'; '.join(differences[:10])}"
            f"{f'; and {len(differences) - 10} more' if len(differences) > 10 else ''}. No further move was requested. "
            "If somebody changed it on purpose, cancel the run; otherwise clear the task that sets the throttle."
        )


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


def _merged(now: str | None, wanted: str, key: str) -> str | None:
    """The list with our entries behind those that are there; unchanged text where nothing is missing."""
    entries = list_entries(now, key)
    missing = tuple(entry for entry in list_entries(wanted, key) if entry not in entries)
    if entries == (EVERY_REPLICA,) or not missing:
        return now
    return format_throttled_replicas((*entries, *missing))


def _covers(lease: ThrottleLease, wanted: Configs) -> bool:
    """Whether the lease throttles all of this."""
    for entity, values in wanted.items():
        for key, value in values.items():
            held = lease.wanted.get(entity, {}).get(key)
            if key not in LIST_KEYS and held != value:
                return False
            if key in LIST_KEYS and not set(list_entries(value, key)) <= set(list_entries(held, key)):
                return False
    return True
