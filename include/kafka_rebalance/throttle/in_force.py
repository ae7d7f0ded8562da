"""The configs of a throttle: which are wanted, and which are in force."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar

from kafka_rebalance.documents.throttle_lease import RateChange, ThrottleLease, list_entries
from kafka_rebalance.errors import KafkaRuleError, ThrottleError
from kafka_rebalance.kafka.throttles import (
    CORDON,
    EVERY_LOG_DIR,
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    LOG_DIR_RATE,
    THROTTLE_KEYS,
    format_throttled_replicas,
    split_entry,
    throttled_replicas,
)
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.check_result import Check, CheckName

# What a run throttles: the lists and rates that exactly its moves need.
#
# Lists are merged: what somebody else lists stays, and `*` stays `*`. A broker has one rate for everything that it
# throttles. So the approved rate replaces a rate that somebody else has set, lower or higher, for as long as the run
# lasts: the predicted end rests on it. The other rate is put back afterwards. Rates are set only where a listed
# replica sends (leader) or receives (follower), lists only for the partitions that gain a broker.


Configs = Mapping[str, Mapping[str, str]]  # "topics/T" or "brokers/N" -> config key -> value; absent: no config there
Changes = dict[str, dict[str, str | None]]  # the same, None: the key is removed
Value = TypeVar("Value", str, str | None)


class ListEntry(NamedTuple):
    """One entry of a list of throttled replicas, as `0:101` of topic orders."""

    entity: str
    key: str
    text: str
    topic_partition: TopicPartition
    broker: int


def desired_throttle(
    moves: Iterable[Move], bytes_per_second: int, cordoned: Collection[int] = ()
) -> dict[str, dict[str, str]]:
    """entity -> key -> value that throttles exactly the copies of these moves; empty if none of them copies anything.

    `cordoned` are brokers that get no new replica meanwhile.

    Raises ThrottleError for a rate that is not a positive integer: 0 would stall the copies for ever.
    """
    _check_rate(bytes_per_second)
    copying = [move for move in moves if move.added]
    lists = throttled_replicas(
        {move.topic_partition: move.before for move in copying}, {move.topic_partition: move.after for move in copying}
    )
    wanted = {
        f"topics/{topic}": {
            LEADER_REPLICAS: format_throttled_replicas(sides["leader"]),
            FOLLOWER_REPLICAS: format_throttled_replicas(sides["follower"]),
        }
        for topic, sides in lists.items()
    }
    senders = {broker for move in copying for broker in move.before}
    receivers = {broker for move in copying for broker in move.added}
    for broker in sorted(senders | receivers):
        rates = ((LEADER_RATE, senders), (FOLLOWER_RATE, receivers))
        wanted[f"brokers/{broker}"] = {key: str(bytes_per_second) for key, which in rates if broker in which}
    for broker in sorted(cordoned):
        wanted.setdefault(f"brokers/{broker}", {})[CORDON] = EVERY_LOG_DIR
    return wanted


def desired_log_dir_rate(brokers: Iterable[int], bytes_per_second: int) -> dict[str, dict[str, str]]:
    """As `desired_throttle`, for copies between the log dirs of each of these brokers."""
    _check_rate(bytes_per_second)
    return {f"brokers/{broker}": {LOG_DIR_RATE: str(bytes_per_second)} for broker in sorted(brokers)}


def _check_rate(bytes_per_second: int) -> None:
    if type(bytes_per_second) is not int or bytes_per_second < 1:
        raise ThrottleError(
            f"A throttle of {bytes_per_second!r} bytes/s lets nothing through. "
            "Give a whole number of bytes per second above 0, within the policy."
        )


def each_value(configs: Mapping[str, Mapping[str, Value]]) -> Iterator[tuple[str, str, Value]]:
    """(entity, key, value) of all entities."""
    return ((entity, key, value) for entity, values in configs.items() for key, value in values.items())


def each_entry(wanted: Configs) -> Iterator[ListEntry]:
    """The entries of all lists that a lease wants; these are never `*`."""
    for entity, key, value in each_value(wanted):
        if key in LIST_KEYS:
            yield from _entries(entity, key, value)


@lru_cache(maxsize=1024)  # a run reads the lists of its lease several times for each batch
def _entries(entity: str, key: str, value: str) -> tuple[ListEntry, ...]:
    topic = entity.partition("/")[2]
    return tuple(
        ListEntry(entity, key, text, TopicPartition(topic, partition), broker)
        for text in list_entries(value, key)
        for partition, broker in (split_entry(text),)
    )


# Whether the throttle of a lease is set now, and what to write so that it is.


def with_rate(lease: ThrottleLease, change: RateChange) -> ThrottleLease:
    """The lease with another rate from now on. What was there before, and what is approved, stays as it was."""
    wanted = {
        entity: {
            key: value if key in (*LIST_KEYS, CORDON) else str(change.bytes_per_second) for key, value in values.items()
        }
        for entity, values in lease.wanted.items()
    }
    return replace(
        lease,
        bytes_per_second=change.bytes_per_second,
        wanted=wanted,
        first_bytes_per_second=lease.taken_at_rate,
        rate_changes=(*lease.rate_changes, change),
    )


def rate_changes(lease: ThrottleLease, current: Configs, rates: Mapping[int, int] | None = None) -> Changes:
    """What to write so that the lease's rate is in force wherever one of its rates still is, and nowhere else.

    `rates`: of single brokers, for a lease with a ladder; others keep theirs.
    """
    changes: Changes = {}
    for entity, key, value in _each_rate(lease):
        now = current.get(entity, {}).get(key)
        wanted = value if rates is None else str(rates.get(broker_of(entity), now))
        if now != wanted and now in lease.own_rates:
            changes.setdefault(entity, {})[key] = wanted
    return changes


def rates_now(lease: ThrottleLease, current: Configs) -> dict[int, int]:
    """The rate of each broker that has one of the lease's ladder. If its two rates differ, the lower one counts."""
    found: dict[int, int] = {}
    for entity, key, _ in _each_rate(lease):
        now = current.get(entity, {}).get(key) or ""
        if now.isdecimal() and int(now) in lease.ladder:
            found[broker_of(entity)] = min(int(now), found.get(broker_of(entity), int(now)))
    return found


def _each_rate(lease: ThrottleLease) -> Iterator[tuple[str, str, str]]:
    return (item for item in each_value(lease.wanted) if item[1] not in (*LIST_KEYS, CORDON))


def broker_of(entity: str) -> int:
    """Of `brokers/1`."""
    return int(entity.removeprefix("brokers/"))


def set_changes(lease: ThrottleLease, current: Configs) -> Changes:
    """What to write so that the throttle is in force: nothing where it already is."""
    changes: Changes = {}
    for entity, key, value in each_value(lease.wanted):
        now = current.get(entity, {}).get(key)
        merged = _merged_list(now, value, key) if key in LIST_KEYS else value
        if merged != now:
            changes.setdefault(entity, {})[key] = merged
    return changes


def confirm(lease: ThrottleLease, current: Configs) -> tuple[str, ...]:
    """What of the throttle is not in force, one text for each key; empty: all is in force.

    More entries in a list than ours are no difference, and no rate of the ladder of a run that adapts is one. A cordon
    that somebody has taken away is none either: no copy needs it, it keeps new topics from brokers that are emptied.
    """
    found = []
    for entity, key, value in each_value(set_changes(lease, current)):
        now = current.get(entity, {}).get(key)
        if key == CORDON or (lease.adapts and key not in LIST_KEYS and lease.may_have_set(key, now)):
            continue
        shown = "is not set" if now is None else f"is {now!r}"
        found.append(f"{entity}: {key} {shown}, it must be {value!r}")
    return tuple(found)


def set_now(wanted: Configs, current: Configs, ladder: Collection[int] = ()) -> tuple[tuple[str, str, str], ...]:
    """(entity, key, value) of what of `wanted` is set now: a rate, also another one of the ladder, or entries of a
    list.
    """
    found = []
    for entity, key, value in each_value(wanted):
        now = current.get(entity, {}).get(key)
        if key in LIST_KEYS:
            with suppress(KafkaRuleError):  # somebody wrote it by hand, in another form than ours
                there = set(list_entries(now, key))
                ours = [entry for entry in list_entries(value, key) if entry in there]
                if ours:
                    found.append((entity, key, format_throttled_replicas(ours)))
        elif now is not None and (now == value or (key != CORDON and now in map(str, ladder))):
            found.append((entity, key, now))
    return tuple(found)


def check_in_force(lease: ThrottleLease, current: Configs) -> None:
    """Raises ThrottleError unless the whole throttle is in force."""
    differences = confirm(lease, current)
    if differences:
        more = f"; and {len(differences) - 10} more" if len(differences) > 10 else ""
        raise ThrottleError(
            f"The throttle of run {lease.run} is not in force: {'; '.join(differences[:10])}{more}. No further move "
            "was requested. If somebody changed the throttle on purpose, cancel the run. Otherwise clear the task that "
            "sets the throttle."
        )


def _merged_list(now: str | None, wanted: str, key: str) -> str | None:
    """The list with our entries behind those that are there; unchanged text where nothing is missing."""
    entries = list_entries(now, key)
    missing = tuple(entry for entry in list_entries(wanted, key) if entry not in entries)
    if entries == (EVERY_REPLICA,) or not missing:
        return now
    return format_throttled_replicas((*entries, *missing))


# Whether the throttles are as they were before the run, and none is left.


def check_throttles(
    prior: Mapping[str, Mapping[str, str | None]],
    ours: Mapping[str, Mapping[str, str]],
    now: Mapping[str, Mapping[str, str]],
    own_rates: Collection[str] = (),
) -> tuple[Check, ...]:
    """`throttle` for each key of each entity that the run throttled: equal to what was recorded before it.

    `prior` and `ours` are the lease's (`prior`, `wanted`), `now` is entity -> key -> value. If a value is neither,
    somebody else has changed it during the run: it passes with a warning, unless entries or a rate of ours are still in
    it. `own_rates`: every rate that the run has set, the earlier ones too.
    """
    return tuple(
        _throttle(entity, key, before, ours.get(entity, {}).get(key), now.get(entity, {}).get(key), own_rates)
        for entity, values in prior.items()
        for key, before in values.items()
    )


def check_unrecorded(standing: Iterable[tuple[str, str, str]]) -> tuple[Check, ...]:
    """A failed `throttle` for each (entity, key, value) that the run sets and that is still set without a lease."""
    expectation, finding = "nothing that this run sets", "as this run sets it, and no lease tells what was there before"
    return tuple(
        Check(CheckName.THROTTLE, f"{entity} {key}", expectation, f"{value!r}, {finding}", False)
        for entity, key, value in standing
    )


def check_left(now: Mapping[str, Mapping[str, str]], judged: Iterable[Check]) -> tuple[Check, ...]:
    """A warning `throttle_left` for each throttle key that is still set: it slows every later catch-up.

    A key for which a check of `judged` has failed gets none. An empty list holds nothing back.
    """
    told = {check.subject for check in judged if not check.passed}
    expectation = "no throttle once nothing moves"
    finding = "is set, and not by this run. If nobody needs it, remove it with kafka-configs"
    return tuple(
        Check(CheckName.THROTTLE_LEFT, f"{entity} {key}", expectation, f"{values[key]!r} {finding}", True, "warning")
        for entity, values in sorted(now.items())
        for key in THROTTLE_KEYS
        if values.get(key) and f"{entity} {key}" not in told
    )


def _throttle(
    entity: str, key: str, before: str | None, ours: str | None, now: str | None, own_rates: Collection[str]
) -> Check:
    expectation = "not set, as before" if before is None else f"{before!r}, as before"
    finding = "not set" if now is None else repr(now)
    check = partial(Check, CheckName.THROTTLE, f"{entity} {key}", expectation)
    failed = partial(check, passed=False)
    if now == before:
        return check(finding, True)
    if key in LIST_KEYS:
        try:
            left = set(list_entries(now, key)) & (set(list_entries(ours, key)) - set(list_entries(before, key)))
        except KafkaRuleError as unreadable:
            return failed(str(unreadable))
        if left:
            return failed(f"{finding}: {len(left)} of this run's entries are left")
    elif key == CORDON and now == ours:
        return failed(f"{finding}, still the cordon of this run")
    elif now is not None and (now == ours or now in own_rates):
        return failed(f"{finding}, still {'the rate' if now == ours else 'an earlier rate'} of this run")
    return check(f"{finding}, changed by somebody else", True, "warning")
