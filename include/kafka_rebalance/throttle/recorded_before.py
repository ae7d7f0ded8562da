"""What was set before a run throttled. It is recorded once, and again only where the run sets its throttle again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from kafka_rebalance.errors import LockHeldError, ThrottleError
from kafka_rebalance.kafka.throttles import LIST_KEYS
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.lock_owner import is_same_run
from kafka_rebalance.throttle.put_back import release
from kafka_rebalance.throttle.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.throttle.wanted import Configs, desired_throttle, each_value


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
) -> ThrottleLease:
    """The lease to write down before any config is changed. `wanted_at` is the throttle at a rate.

    `existing` is the cluster's lease that nobody has given back yet, if there is one. If an earlier try of this run
    took it, it keeps its rate, which may have been changed since, and what it recorded: reading all of `current` again
    would record our own throttle as what was there before. One rate is recorded anew: one that this lease has not set
    and that was not there before. Somebody else has set it, for instance after a part of the throttle was put back. It
    comes back after the moves. The lease may cover moves that were left out since. Brokers that are `away` get no rate:
    nobody can set it. One that is back by the next try is added then. Raises LockHeldError if the lease is
    another run's, ThrottleError if it is of another candidate or was taken at another rate.
    """
    wanted = _here(wanted_at(bytes_per_second), away)
    if existing is None:
        prior = _record_prior(wanted, current)
        return ThrottleLease(run, candidate_digest, bytes_per_second, wanted, prior, owner=owner)
    if not is_same_run(existing.run, existing.owner, run, owner):
        raise LockHeldError(
            f"Run {existing.run} of {existing.owner or 'this Airflow'} has held a throttle on this cluster since "
            f"{existing.taken_at or 'an unknown time'} and has not given it back. So the values that are set now are "
            "not those from before. Let that run release its throttle. If the run is gone, let "
            "the Dag kafka_throttle_janitor release it. Then clear this task."
        )
    same = existing.candidate_digest == candidate_digest and existing.taken_at_rate == bytes_per_second
    wanted = _here(wanted_at(existing.bytes_per_second), away)
    existing = _with_returned(existing, wanted, current)
    if not same or not _covers(existing, wanted):
        raise ThrottleError(
            f"Run {run} already holds a throttle of {existing.bytes_per_second} bytes/s for candidate "
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
