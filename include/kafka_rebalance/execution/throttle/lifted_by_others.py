"""Whether the throttle of copies that run is still in force, or somebody has lifted or changed it.

`kafka-reassign-partitions --verify` lifts every throttle of the topics and brokers it is given, also one that it did
not set. Who follows only tells: a follower writes nothing to the cluster, and the next batch is refused until the
throttle is held again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.execution.throttle.wanted import Configs
from kafka_rebalance.kafka.throttles import EVERY_REPLICA, LIST_KEYS, split_entry
from kafka_rebalance.model.partition import TopicPartition

LOOK_SECONDS = 15.0  # so often a follower reads the configs of its batch
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Lifted:
    """A rate or entries of a list that ought to be set. `now`: the value that is there, None where there is none."""

    entity: str
    key: str
    wanted: str
    now: str | None


def lifted(wanted: Configs, own_rates: Collection[str], current: Configs) -> tuple[Lifted, ...]:
    """What of `wanted` is not in force. A rate may be any of `own_rates`: one that people change is set broker by
    broker. Of a list more entries than ours are no difference, and `*` covers all.
    """
    found = []
    for entity, values in wanted.items():
        for key, value in values.items():
            now = current.get(entity, {}).get(key)
            if key not in LIST_KEYS:
                in_force = now == value or now in own_rates
                missing = value
            else:
                entries = _entries(now, key)
                left = [one for one in list_entries(value, key) if one not in entries]
                in_force, missing = not left or entries == {EVERY_REPLICA}, ",".join(left)
            if not in_force:
                found.append(Lifted(entity, key, missing, now))
    return tuple(found)


def wanted_for(lease: ThrottleLease, copying: Collection[TopicPartition]) -> dict[str, dict[str, str]]:
    """What of a lease these partitions need: their entries, and the rates of the brokers in them."""
    found: dict[str, dict[str, str]] = {}
    brokers: set[int] = set()
    for entity, values in lease.wanted.items():
        topic = entity.partition("/")[2]
        for key, value in values.items():
            if key not in LIST_KEYS:
                continue
            needed = [e for e in list_entries(value, key) if TopicPartition(topic, split_entry(e)[0]) in copying]
            if needed:
                found.setdefault(entity, {})[key] = ",".join(needed)
                brokers.update(split_entry(entry)[1] for entry in needed)
    rates = {entity: dict(v) for entity, v in lease.wanted.items() if _broker(entity) in brokers}
    return {**found, **rates}


def lifted_text(found: Sequence[Lifted]) -> str:
    """What happened, to which object, and what to do."""
    shown = "; ".join(
        f"{one.entity}: {one.key} "
        + ("is not set" if one.now is None else f"is {_short(one.now)}")
        # A list that is there lacks entries: which, since most of it may be somebody else's.
        + f", it must {'have' if one.key in LIST_KEYS else 'be'} {_short(one.wanted)}"
        for one in found[:SHOWN]
    )
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (
        "Somebody has lifted or changed the throttle of copies that run now, as kafka-reassign-partitions --verify "
        f"does: {shown}{more}. Copies may take all of the brokers' network. Clear hold_throttle of the run with what "
        "follows it: it sets the throttle again. Nothing was written meanwhile, and no further batch is requested "
        "before. Find who did it: do not use --verify or --throttle of Kafka's tool while a run goes on."
    )


def _entries(value: str | None, key: str) -> set[str]:
    try:
        return set(list_entries(value, key))
    except KafkaRuleError:
        return set()  # written by hand: brokers do not heed it either


def _broker(entity: str) -> int | None:
    kind, _, name = entity.partition("/")
    return int(name) if kind == "brokers" else None


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else f"{value[:59]}…")
