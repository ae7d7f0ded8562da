"""What of a run's throttle is set for one batch: the rates of the whole run, and the list entries of this batch.

The lists of earlier batches would slow each replica of their partitions that catches up. Those of later batches hold
nothing back yet. So before each batch the run sets the entries of this batch and takes out its others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kafka_rebalance.kafka.throttles import LIST_KEYS, format_throttled_replicas
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.in_force import set_changes
from kafka_rebalance.throttle.put_back import release
from kafka_rebalance.throttle.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.throttle.wanted import Changes, Configs, each_entry, each_value


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
