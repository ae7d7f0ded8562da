"""Whether the throttles are as they were before the run, and none is left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.throttles import CORDON, LIST_KEYS, THROTTLE_KEYS
from kafka_rebalance.run.check_result import Check, CheckName
from kafka_rebalance.throttle.throttle_lease import list_entries


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
        Check(CheckName.THROTTLE, f"{entity} {key}", expectation, f"{value!r}, {finding}", False, about=(entity, key))
        for entity, key, value in standing
    )


def check_left(now: Mapping[str, Mapping[str, str]], judged: Iterable[Check]) -> tuple[Check, ...]:
    """A warning `throttle_left` for each throttle key that is still set: it slows every later catch-up.

    A key for which a check of `judged` has failed gets none. An empty list holds nothing back.
    """
    told = {check.about for check in judged if not check.passed}
    expectation = "no throttle once nothing moves"
    finding = "is set, and not by this run. If nobody needs it, remove it with kafka-configs"
    return tuple(
        Check(CheckName.THROTTLE_LEFT, f"{entity} {key}", expectation, f"{values[key]!r} {finding}", True, "warning")
        for entity, values in sorted(now.items())
        for key in THROTTLE_KEYS
        if values.get(key) and (entity, key) not in told
    )


def _throttle(
    entity: str, key: str, before: str | None, ours: str | None, now: str | None, own_rates: Collection[str]
) -> Check:
    expectation = "not set, as before" if before is None else f"{before!r}, as before"
    finding = "not set" if now is None else repr(now)
    check = partial(Check, CheckName.THROTTLE, f"{entity} {key}", expectation)
    failed = partial(check, passed=False, about=(entity, key))
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
