"""Whether the throttle of running copies is still in force, or somebody has lifted or changed it.

`kafka-reassign-partitions --verify` lifts every throttle of the topics and brokers that it is given, also those that it
did not set. A follower only reports this, because it writes nothing to the cluster. The run refuses the next batch
until the throttle is held again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.throttles import CORDON, EVERY_REPLICA, LIST_KEYS
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.batch_lists import only_for
from kafka_rebalance.throttle.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.throttle.wanted import Configs, each_entry, each_value

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
            missing = ",".join(one for one in list_entries(value, key) if one not in entries)
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
