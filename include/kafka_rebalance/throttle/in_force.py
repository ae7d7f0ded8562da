"""Whether the throttle of a lease is set now, and what to write so that it is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from kafka_rebalance.errors import KafkaRuleError, ThrottleError
from kafka_rebalance.kafka.throttles import CORDON, EVERY_REPLICA, LIST_KEYS, format_throttled_replicas
from kafka_rebalance.throttle.throttle_lease import RateChange, ThrottleLease, list_entries
from kafka_rebalance.throttle.wanted import Changes, Configs, each_value


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


def rate_changes(lease: ThrottleLease, current: Configs) -> Changes:
    """What to write so that the lease's rate is in force wherever one of its rates still is, and nowhere else."""
    changes: Changes = {}
    for entity, key, value in each_value(lease.wanted):
        now = current.get(entity, {}).get(key)
        if key not in (*LIST_KEYS, CORDON) and now != value and now in lease.own_rates:
            changes.setdefault(entity, {})[key] = value
    return changes


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

    More entries in a list than ours are no difference. A cordon that somebody has taken away is none either: no
    copy needs it, it keeps new topics from brokers that are emptied.
    """
    found = []
    for entity, key, value in each_value(set_changes(lease, current)):
        if key == CORDON:
            continue
        now = current.get(entity, {}).get(key)
        shown = "is not set" if now is None else f"is {now!r}"
        found.append(f"{entity}: {key} {shown}, it must be {value!r}")
    return tuple(found)


def set_now(wanted: Configs, current: Configs) -> tuple[tuple[str, str, str], ...]:
    """(entity, key, value) of what of `wanted` is set now: a rate, or entries of a list."""
    found = []
    for entity, key, value in each_value(wanted):
        now = current.get(entity, {}).get(key)
        if key in LIST_KEYS:
            with suppress(KafkaRuleError):  # somebody wrote it by hand, in another form than ours
                there = set(list_entries(now, key))
                ours = [entry for entry in list_entries(value, key) if entry in there]
                if ours:
                    found.append((entity, key, format_throttled_replicas(ours)))
        elif now == value:
            found.append((entity, key, value))
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
