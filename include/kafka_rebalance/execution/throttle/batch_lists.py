"""What of a run's throttle is set for one batch: its entries of the lists, and the rates of the whole run.

The lists of batches that are over would slow each replica that catches up in their partitions, and those of batches to
come hold nothing back yet. So before each batch its own entries are set, and those of others are taken out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.execution.throttle.in_force import set_changes
from kafka_rebalance.execution.throttle.put_back import release
from kafka_rebalance.execution.throttle.wanted import Changes, Configs
from kafka_rebalance.kafka.throttles import LIST_KEYS, format_throttled_replicas, split_entry
from kafka_rebalance.model.partition import TopicPartition


def only_for(lease: ThrottleLease, partitions: Collection[TopicPartition]) -> ThrottleLease:
    """The lease with all its rates, and of its lists the entries of these partitions alone: what must be in force."""
    wanted: dict[str, dict[str, str]] = {}
    for entity, values in lease.wanted.items():
        topic = entity.partition("/")[2]
        for key, value in values.items():
            left = value
            if key in LIST_KEYS:
                entries = (
                    e for e in list_entries(value, key) if TopicPartition(topic, split_entry(e)[0]) in partitions
                )
                left = format_throttled_replicas(tuple(entries))
            if left:
                wanted.setdefault(entity, {})[key] = left
    return replace(lease, wanted=wanted)


def over_changes(lease: ThrottleLease, current: Configs, kept: Collection[TopicPartition]) -> Changes:
    """What to write so that lists have no entry of ours but those of `kept`; rates stay."""
    changes = release(lease, current, kept).changes.items()
    lists = {entity: {key: value for key, value in values.items() if key in LIST_KEYS} for entity, values in changes}
    return {entity: values for entity, values in lists.items() if values}


def listed_over(lease: ThrottleLease, current: Configs, kept: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """The partitions of our entries that are in the lists now and not of `kept`."""
    return frozenset(
        tp
        for entity, values in over_changes(lease, current, kept).items()
        for key in values
        for entry in {*lease.own_entries(entity, key)} & {*list_entries(current.get(entity, {}).get(key), key)}
        if (tp := TopicPartition(entity.partition("/")[2], split_entry(entry)[0])) not in kept
    )


def batch_changes(lease: ThrottleLease, current: Configs, kept: Collection[TopicPartition]) -> Changes:
    """What to write so that the run's rates are in force, and its lists for `kept` alone."""
    changes = over_changes(lease, current, kept)
    then = {
        entity: {key: value for key, value in {**values, **changes.get(entity, {})}.items() if value is not None}
        for entity, values in current.items()
    }
    for entity, values in set_changes(only_for(lease, kept), then).items():
        changes[entity] = {**changes.get(entity, {}), **values}
    return changes
