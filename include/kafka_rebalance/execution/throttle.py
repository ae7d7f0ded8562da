"""The throttle of one run: what is set, what was there before, and what may be put back when.

A lease is written down (throttle.json) before the first config is changed. It holds what was there before, recorded
once, and what the run wants; from the two follows which entries and rates are the run's own, and only those are ever
taken back.

Choices. Lists are merged: what somebody else lists stays, and `*` stays `*`. A rate that somebody else set is replaced
by the approved one for as long as the run lasts, lower or higher: a broker has one rate for everything it throttles,
and the approved one is what the predicted end rests on; it is put back afterwards. Rates are set only where a listed
replica sends (leader) or receives (follower), lists only for the partitions that gain a broker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafka_rebalance.errors import ArtifactError, KafkaRuleError, ThrottleError
from kafka_rebalance.kafka.throttles import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    format_throttled_replicas,
    parse_throttled_replicas,
    split_entry,
    throttled_replicas,
)
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.proposal import Move

Configs = Mapping[str, Mapping[str, str]]  # "topics/T" or "brokers/N" -> config key -> value; absent: no config there
_ENTITY = re.compile(r"topics/[^/]+|brokers/[0-9]+")
Changes = dict[str, dict[str, str | None]]  # the same, None: the key is removed


def topic_entity(topic: str) -> str:
    return f"topics/{topic}"


def broker_entity(broker: int) -> str:
    return f"brokers/{broker}"


@dataclass(frozen=True, slots=True)
class ThrottleLease:
    """Who throttles, with what, and what was there before.

    `wanted`: entity -> key -> value, a list's entries comma-separated. `prior` has the same entities and keys; None
    means that the key was not there.
    """

    run: str
    candidate_digest: str
    bytes_per_second: int
    wanted: Mapping[str, Mapping[str, str]]
    prior: Mapping[str, Mapping[str, str | None]]

    @property
    def entities(self) -> tuple[str, ...]:
        """What to read from ZooKeeper for `set_changes`, `confirm` and `release`."""
        return tuple(self.wanted)

    def own_entries(self, entity: str, key: str) -> tuple[str, ...]:
        """The entries of a list that this run adds; those that `*` or somebody else had there already are not ours."""
        before = _entries(self.prior[entity][key], key)
        if before == (EVERY_REPLICA,):
            return ()
        return tuple(entry for entry in _entries(self.wanted[entity][key], key) if entry not in before)

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values for throttle.json."""
        return {
            "run": self.run,
            "candidate_digest": self.candidate_digest,
            "bytes_per_second": self.bytes_per_second,
            "wanted": {entity: dict(values) for entity, values in self.wanted.items()},
            "prior": {entity: dict(values) for entity, values in self.prior.items()},
        }

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """The lease out of parsed JSON. Raises ArtifactError naming what is wrong."""
        problem = next(_lease_problems(document), None)
        if problem is not None:
            raise ArtifactError(
                f"The throttle lease cannot be used: {problem}. No throttle was changed. What this run set stays until "
                "somebody removes it: compare the throttle configs of brokers and topics with the run's log."
            )
        return cls(
            run=document["run"],
            candidate_digest=document["candidate_digest"],
            bytes_per_second=document["bytes_per_second"],
            wanted={entity: dict(values) for entity, values in document["wanted"].items()},
            prior={entity: dict(values) for entity, values in document["prior"].items()},
        )


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
    existing: ThrottleLease | None = None,
) -> ThrottleLease:
    """The lease to write down before any config is changed.

    `existing`, the lease that an earlier try of this run left, is returned as it is: reading `current` again would
    record our own throttle as what was there before. Raises ThrottleError if it is another run's, another candidate's
    or another rate's.
    """
    wanted = desired_throttle(moves, bytes_per_second)
    if existing is None:
        return ThrottleLease(run, candidate_digest, bytes_per_second, wanted, record_prior(wanted, current))
    if (existing.run, existing.candidate_digest) != (run, candidate_digest):
        raise ThrottleError(
            f"Run {existing.run} (candidate {existing.candidate_digest[:8]}) holds a throttle on this cluster. Nothing "
            "was written. Let that run release it, or the janitor if the run is gone, then clear this task."
        )
    if {entity: dict(values) for entity, values in existing.wanted.items()} != wanted:
        raise ThrottleError(
            f"Run {run} already holds a throttle of {existing.bytes_per_second} bytes/s for other replicas or at "
            f"another rate than the {bytes_per_second} bytes/s asked for now. Nothing was written. Release it, "
            f"then clear this task."
        )
    return existing


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
    copying_brokers: Collection[int] = (),
) -> Release:
    """What to put back now. Safe to repeat: what is already back needs no change.

    The entries of partitions in `still_in_motion` stay, and so do the rates of every broker in such an entry or in
    `copying_brokers`. A value that is no longer the one we set is somebody else's and is left alone; of a list only our
    own entries are taken out.
    """
    changes: Changes = {}
    kept: list[str] = []
    foreign: list[str] = []
    busy = set(copying_brokers) | _brokers_in_motion(lease, still_in_motion)
    for entity, values in lease.wanted.items():
        for key, value in values.items():
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
                if now not in {value, prior}:
                    foreign.append(f"{where} is {'gone' if now is None else now}, changed by somebody else")
                    continue
                if now != prior and int(entity.partition("/")[2]) in busy:
                    kept.append(f"{where} stays {value}")
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
    entries = _entries(now, key)
    if entries == (EVERY_REPLICA,):
        return now, ()
    topic = entity.partition("/")[2]
    own = set(lease.own_entries(entity, key)) & set(entries)
    stays = tuple(entry for entry in entries if entry in own and _partition(topic, entry) in still_in_motion)
    left = tuple(entry for entry in entries if entry not in own or entry in stays)
    prior = lease.prior[entity][key]
    if left == entries:
        return now, stays
    if set(left) == set(_entries(prior, key)):
        return prior, stays  # to the letter, blanks and order as they were
    return format_throttled_replicas(left) or None, stays


def _brokers_in_motion(lease: ThrottleLease, still_in_motion: Collection[TopicPartition]) -> set[int]:
    """The brokers that send or receive for a partition that still moves, as the wanted lists name them."""
    return {
        split_entry(entry)[1]
        for entity, values in lease.wanted.items()
        for key, value in values.items()
        if key in LIST_KEYS
        for entry in _entries(value, key)
        if _partition(entity.partition("/")[2], entry) in still_in_motion
    }


def _partition(topic: str, entry: str) -> TopicPartition:
    return TopicPartition(topic, split_entry(entry)[0])


def _entries(value: str | None, key: str) -> tuple[str, ...]:
    return () if value is None else parse_throttled_replicas(value, key)


def _merged(now: str | None, wanted: str, key: str) -> str | None:
    """The list with our entries behind those that are there; unchanged text where nothing is missing."""
    entries = _entries(now, key)
    missing = tuple(entry for entry in _entries(wanted, key) if entry not in entries)
    if entries == (EVERY_REPLICA,) or not missing:
        return now
    return format_throttled_replicas((*entries, *missing))


def _lease_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a lease, in the order in which it can be looked at; nothing if it can be used."""
    for name in ("run", "candidate_digest"):
        if not isinstance(document.get(name), str) or not document[name]:
            yield f"{name} is {document.get(name)!r}, it must be text"
    rate = document.get("bytes_per_second")
    if type(rate) is not int or rate < 1:
        yield f"bytes_per_second is {rate!r}, it must be a positive integer"
    for part in ("wanted", "prior"):
        entities = document.get(part)
        if not isinstance(entities, Mapping) or not all(isinstance(values, Mapping) for values in entities.values()):
            yield f"{part} is not an object of objects"
            return
        for entity, values in entities.items():
            if not _ENTITY.fullmatch(entity):
                yield f"{part} names {entity!r}, which is neither topics/T nor brokers/N"
            keys = LIST_KEYS if entity.startswith("topics/") else RATE_KEYS
            for key, value in values.items():
                fits = _is_ours(key, value) if part == "wanted" else value is None or isinstance(value, str)
                if key not in keys or not fits:
                    yield f"{part} of {entity} has {key} = {value!r}"
    wanted, prior = document["wanted"], document["prior"]
    if {entity: set(values) for entity, values in wanted.items()} != {e: set(values) for e, values in prior.items()}:
        yield "wanted and prior do not name the same keys"


def _is_ours(key: str, value: object) -> bool:
    """Whether this program sets such a value: a positive rate, or a list of single replicas."""
    if not isinstance(value, str):
        return False
    if key not in LIST_KEYS:
        return value.isdecimal()
    try:
        return parse_throttled_replicas(value, key) not in {(), (EVERY_REPLICA,)}
    except KafkaRuleError:
        return False
