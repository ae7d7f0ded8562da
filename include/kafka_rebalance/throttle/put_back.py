"""What was there before a throttle: how it is recorded, which of it is still in use, and how it comes back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_rebalance.documents.throttle_lease import LeftBehind, ThrottleLease, list_entries
from kafka_rebalance.errors import KafkaRuleError, LockHeldError, ThrottleError
from kafka_rebalance.kafka.throttles import (
    CORDON,
    EVERY_LOG_DIR,
    EVERY_REPLICA,
    FOLLOWER_REPLICAS,
    LIST_KEYS,
    LOG_DIR_RATE,
    format_throttled_replicas,
)
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView, ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import is_same_run
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.moves.move_stage import marks_moves, may_be_between
from kafka_rebalance.throttle.in_force import Changes, Configs, desired_throttle, each_entry, each_value, set_changes

# What was set before a run throttled. It is recorded once, and again only where the run sets its throttle again.


def _record_prior(wanted: Configs, current: Configs) -> dict[str, dict[str, str | None]]:
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
    away: Collection[str] = (),
    cordoned: Collection[int] = (),
    ladder: tuple[int, ...] = (),
) -> ThrottleLease:
    """The lease for exactly these moves between brokers. See `desired_throttle` and `take_lease_for`."""
    moves = tuple(moves)
    return take_lease_for(
        lambda rate: desired_throttle(moves, rate, cordoned),
        run,
        candidate_digest,
        bytes_per_second,
        current,
        owner=owner,
        existing=existing,
        away=away,
        ladder=ladder,
    )


def take_lease_for(
    wanted_at: Callable[[int], Configs],
    run: str,
    candidate_digest: str,
    bytes_per_second: int,
    current: Configs,
    *,
    owner: str,
    existing: ThrottleLease | None,
    away: Collection[str] = (),
    ladder: tuple[int, ...] = (),
) -> ThrottleLease:
    """The lease to write down before any config is changed. `wanted_at` is the throttle at a rate.

    `ladder`: the rates of a range, of which `bytes_per_second` is the highest. Brokers begin with the lowest.

    `existing` is the cluster's lease that nobody has given back yet, if there is one. If an earlier try of this run
    took it, it keeps its rate, which may have been changed since, and what it recorded: reading all of `current` again
    would record our own throttle as what was there before. One rate is recorded anew: one that this lease has not set
    and that was not there before. Somebody else has set it, for instance after a part of the throttle was put back. It
    comes back after the moves. The lease may cover moves that were left out since. Brokers that are `away` get no rate:
    nobody can set it. One that is back by the next try is added then. Raises LockHeldError if the lease is
    another run's, ThrottleError if it is of another candidate or was taken at another rate.
    """
    if existing is None:
        wanted = _here(wanted_at(ladder[0] if ladder else bytes_per_second), away)
        prior = _record_prior(wanted, current)
        return ThrottleLease(run, candidate_digest, bytes_per_second, wanted, prior, owner=owner, ladder=ladder)
    if not is_same_run(existing.run, existing.owner, run, owner):
        raise LockHeldError(
            f"Run {existing.run} of {existing.owner or 'this Airflow'} has held a throttle on this cluster since "
            f"{existing.taken_at or 'an unknown time'} and has not given it back. So the values that are set now are "
            "not those from before. Let that run release its throttle. If the run is gone, let "
            "the Dag kafka_throttle_janitor release it. Then clear this task."
        )
    same = existing.candidate_digest == candidate_digest and existing.taken_at_rate == bytes_per_second
    wanted = _here(wanted_at(existing.lowest_rate), away)
    existing = _with_returned(existing, wanted, current)
    if not same or not _covers(existing, wanted):
        raise ThrottleError(
            f"Run {run} already holds a throttle of {existing.rate_in_words} for candidate "
            f"{existing.candidate_digest[:8]}. Now candidate {candidate_digest[:8]} asks for {bytes_per_second} "
            "bytes/s: the rate or the replicas differ. Release that throttle, then clear this "
            "task."
        )
    here = existing.without(away)
    if existing.suspended_at is not None:
        anew = dict(recorded_anew(here, current).prior)
    else:
        anew = {entity: _prior_now(existing, entity, current) for entity in here.prior}
    return replace(existing, prior={**existing.prior, **anew}, suspended_at=None)


def _here(wanted: Configs, away: Collection[str]) -> dict[str, Mapping[str, str]]:
    return {entity: values for entity, values in wanted.items() if entity not in away}


def _with_returned(lease: ThrottleLease, wanted: Configs, current: Configs) -> ThrottleLease:
    """The lease with the brokers that were away when it was taken."""
    returned = {
        entity: wanted[entity] for entity in wanted if entity.startswith("brokers/") and entity not in lease.wanted
    }
    return replace(
        lease, wanted={**lease.wanted, **returned}, prior={**lease.prior, **_record_prior(returned, current)}
    )


def _prior_now(lease: ThrottleLease, entity: str, current: Configs) -> dict[str, str | None]:
    """What comes back of an entity. Lists are as they were recorded: entries that are not ours stay anyway."""
    prior, now = lease.prior[entity], current.get(entity, {})
    return {
        key: before if key in LIST_KEYS or lease.may_have_set(key, now.get(key)) else now.get(key)
        for key, before in prior.items()
    }


def recorded_anew(lease: ThrottleLease, current: Configs) -> ThrottleLease:
    """The lease with what is there now, less the rest of its own throttle, as what was there before.

    For a lease that was suspended: anybody may have changed its entities since.
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
    return replace(lease, prior=_record_prior(lease.wanted, rested))


def _covers(lease: ThrottleLease, wanted: Configs) -> bool:
    held = {(entity, key): value for entity, key, value in each_value(lease.wanted)}
    return all(
        set(list_entries(value, key)) <= set(list_entries(held.get((entity, key)), key))
        if key in LIST_KEYS
        else held.get((entity, key)) == value
        for entity, key, value in each_value(wanted)
    )


# What of a lease's throttle may be put back when, so that what was there before the run is there again.
#
# A lease (`documents.cluster.throttle_lease`) holds what was there before and what the run wants. These two tell which
# entries and rates are the run's own. Only those are ever taken back.


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


# Which partitions of a lease may still be copied, and which other replicas its throttle slows.


def copying_of(lease: ThrottleLease, view: AnyView) -> frozenset[TopicPartition]:
    """The lease's partitions on which a copy of ours may still run: nobody lifts their throttle.

    A partition counts while it is on its way to a list with a broker that the lease lets receive, whoever asked for
    that list: if others send it elsewhere in mid-copy, our copies that are also in their list go on. It also counts
    while such a broker is outside the ISR. The lease alone decides, since the plan of a run may be gone. A partition
    that the view does not have no longer exists.

    A broker that is not registered copies nothing. It still counts until its copy has ended: the copy would go on
    without a throttle when the broker returns, hours later, with nobody there. Once its copy has ended the broker does
    not count: it may be gone for good, and would keep its cluster from every other run. If it returns later, it
    catches up without a throttle, as any restarted broker does; with an empty disk it copies everything like that.
    `absent_receivers` says so to people.
    """
    found, moving = set(), view.moving
    for topic_partition, (sending, receiving) in _listed(lease).items():
        partition = view.partitions.get(topic_partition)
        if partition is None:
            continue
        ours = receiving & {*partition.replicas, *(view.reassignments or {}).get(topic_partition, ())}
        behind = ours - set(partition.isr)
        if topic_partition in moving:
            behind = ours
        elif _has_ended(partition, sending | receiving):
            behind &= frozenset(view.brokers)
        if behind:
            found.add(topic_partition)
    return frozenset(found)


def _has_ended(partition: PartitionView, union: Collection[int]) -> bool:
    """Whether the copies to a partition that nobody asks to move have all been in sync.

    The controller takes an old replica out of the list only after that. While no replica is out, the list may be the
    interim one: below 2.4 a move goes on after somebody has deleted its request.
    """
    return not may_be_between(union, partition, marks_moves(partition))


def absent_receivers(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """What to say of each broker that lacks a copy of ours and is not registered."""
    copying = copying_of(lease, view)
    absent: dict[int, list[TopicPartition]] = {}
    for topic_partition, (_, receiving) in sorted(_listed(lease).items()):
        partition = view.partitions.get(topic_partition)
        asked = (view.reassignments or {}).get(topic_partition, ())
        for broker in receiving & {*partition.replicas, *asked} - set(partition.isr) if partition else ():
            if broker not in view.brokers:
                absent.setdefault(broker, []).append(topic_partition)
    found = []
    for broker, lacking in sorted(absent.items()):
        waiting = [topic_partition for topic_partition in lacking if topic_partition in copying]
        ended = [topic_partition for topic_partition in lacking if topic_partition not in copying]
        if waiting:
            found.append(
                f"Broker {broker} is not registered, and copies to it cannot end: {some(waiting)}. Start it. If it is "
                "gone for good, cancel the request with kafka_rebalance_cancel, and give the partitions that do not "
                "move a list without this broker with kafka-reassign-partitions."
            )
        if ended:
            found.append(
                f"Broker {broker} is not registered. The copies to it had ended ({some(ended)}), so no throttle is "
                "kept for it. When it returns, it copies what it has missed without a throttle. If its disk is empty "
                "then, throttle the broker with kafka-configs before you start it."
            )
    return tuple(found)


def slowed_catch_up(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """Replicas that catch up under our throttle and are none of our copies: their brokers were restarted.

    A follower outside the ISR fetches at the leader's throttled rate where the leader's replica is listed.
    """
    return tuple(
        f"{topic_partition}: replica {broker} is outside the ISR and catches up under this run's throttle of "
        f"{lease.rate_in_words}. Raise the rate if it takes too long."
        for topic_partition, (_, receiving) in sorted(_listed(lease).items())
        if (partition := view.partitions.get(topic_partition)) is not None
        for broker in partition.replicas
        if broker not in partition.isr and broker not in receiving and broker in view.brokers
    )


def _listed(lease: ThrottleLease) -> dict[TopicPartition, tuple[set[int], set[int]]]:
    """The brokers that send, and those that receive, a copy of each listed partition: old replicas and new ones."""
    found: dict[TopicPartition, tuple[set[int], set[int]]] = {}
    for entry in each_entry(lease.wanted):
        sides = found.setdefault(entry.topic_partition, (set(), set()))
        sides[entry.key == FOLLOWER_REPLICAS].add(entry.broker)
    return found


# What of a run's throttle is set for one batch: the rates of the whole run, and the list entries of this batch.
#
# The lists of earlier batches would slow each replica of their partitions that catches up. Those of later batches hold
# nothing back yet. So before each batch the run sets the entries of this batch and takes out its others.


def only_for(lease: ThrottleLease, partitions: Collection[TopicPartition]) -> ThrottleLease:
    """The lease with all its rates, and with the list entries of these partitions alone: what must be in force."""
    kept: dict[tuple[str, str], list[str]] = {}
    for entry in each_entry(lease.wanted):
        if entry.topic_partition in partitions:
            kept.setdefault((entry.entity, entry.key), []).append(entry.text)
    wanted: dict[str, dict[str, str]] = {}
    for entity, key, value in each_value(lease.wanted):
        left = format_throttled_replicas(kept.get((entity, key), ())) if key in LIST_KEYS else value
        if left:
            wanted.setdefault(entity, {})[key] = left
    return replace(lease, wanted=wanted)


def listed_over(lease: ThrottleLease, current: Configs, kept: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """The partitions that the lists hold now by entries of ours, less those of `kept`."""
    ours = {
        (entity, key): {*lease.own_entries(entity, key)} & {*list_entries(current.get(entity, {}).get(key), key)}
        for entity, key, _ in each_value(_over_changes(lease, current, kept))
    }
    return frozenset(
        entry.topic_partition
        for entry in each_entry(lease.wanted)
        if entry.topic_partition not in kept and entry.text in ours.get((entry.entity, entry.key), ())
    )


def batch_changes(lease: ThrottleLease, current: Configs, kept: Collection[TopicPartition]) -> Changes:
    """What to write so that the run's rates are in force, and its lists for `kept` alone."""
    changes = _over_changes(lease, current, kept)
    then = {
        entity: {key: value for key, value in {**values, **changes.get(entity, {})}.items() if value is not None}
        for entity, values in current.items()
    }
    for entity, values in set_changes(only_for(lease, kept), then).items():
        changes[entity] = {**changes.get(entity, {}), **values}
    return changes


def _over_changes(lease: ThrottleLease, current: Configs, kept: Collection[TopicPartition]) -> Changes:
    """What to write so that lists have no entry of ours but those of `kept`; rates stay."""
    changes: Changes = {}
    for entity, key, value in each_value(release(lease, current, kept).changes):
        if key in LIST_KEYS:
            changes.setdefault(entity, {})[key] = value
    return changes


# Whether the throttle of running copies is still in force, or somebody has lifted or changed it.
#
# `kafka-reassign-partitions --verify` lifts every throttle of the topics and brokers that it is given, also those that
# it did not set. A follower only reports this, because it writes nothing to the cluster. The run refuses the next
# batch until the throttle is held again.


LOOK_SECONDS = 15.0  # a follower reads the configs of its batch at this interval
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Lifted:
    """A rate, or entries of a list, that ought to be set. `now`: the value that is there, None where there is none."""

    entity: str
    key: str
    wanted: str
    now: str | None


def lifted(wanted: Configs, own_rates: Collection[str], current: Configs) -> tuple[Lifted, ...]:
    """What of `wanted` is not in force.

    Any of `own_rates` is in force: a changed rate is written broker by broker. More entries in a list than ours are no
    difference, and `*` covers all. Brokers do not heed a list that they cannot read.
    """
    found = []
    for entity, key, value in each_value(wanted):
        now = current.get(entity, {}).get(key)
        if key in LIST_KEYS:
            try:
                entries = list_entries(now, key)
            except KafkaRuleError:
                entries = ()
            missing = ",".join(entry for entry in list_entries(value, key) if entry not in entries)
            if missing and entries != (EVERY_REPLICA,):
                found.append(Lifted(entity, key, missing, now))
        elif key != CORDON and now != value and now not in own_rates:
            found.append(Lifted(entity, key, value, now))
    return tuple(found)


def wanted_for(lease: ThrottleLease, copying: Collection[TopicPartition]) -> Configs:
    """What of a lease these partitions need: their entries, and the rates of the brokers in them."""
    wanted = only_for(lease, copying).wanted
    brokers = {f"brokers/{entry.broker}" for entry in each_entry(wanted)}
    return {entity: values for entity, values in wanted.items() if entity in brokers or entity.startswith("topics/")}


def lifted_text(found: Sequence[Lifted]) -> str:
    shown = "; ".join(
        f"{one.entity}: {one.key} "
        + ("is not set" if one.now is None else f"is {_short(one.now)}")
        # A list that is there may be somebody else's for the most part, so only what it lacks is named.
        + f", it must {'have' if one.key in LIST_KEYS else 'be'} {_short(one.wanted)}"
        for one in found[:SHOWN]
    )
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (
        f"Somebody has lifted or changed the throttle of copies that run now: {shown}{more}. "
        "kafka-reassign-partitions --verify does that. Copies may take all of the brokers' network. The run "
        "requests no further batch. Clear hold_throttle of the run with what follows it: it sets "
        "the throttle again. Find out who did this. Do not use --verify or --throttle of Kafka's tool during a run."
    )


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else f"{value[:59]}…")
