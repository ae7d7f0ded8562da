"""Groups of consumers of every type, from their coordinators: those of a topic with their members, and all offsets.

This uses Kafka's own requests, because librdkafka does not give the subscriptions of members. Without them, nobody
could see which members have no partition now, but would get one from an expansion.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from kafka_rebalance.admin import listed_groups
from kafka_rebalance.admin.committed_offsets import Offsets, read_offsets
from kafka_rebalance.admin.described_groups import Described, describe, unread
from kafka_rebalance.admin.listed_groups import ListedGroup, list_groups
from kafka_rebalance.admin.wire import Wire, open_wire
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.consumer_groups import ConsumerGroup, TopicGroups
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one group."""

    listed: ListedGroup
    described: Described
    offsets: Offsets

    @property
    def may_change(self) -> bool:
        failed = self.offsets.failed
        return self.described.may_change or (failed is not None and failed.may_change)


def read_groups(kafka: KafkaConnection, topic: str, partitions: Collection[int]) -> TopicGroups:
    """The groups that subscribe to the topic, or have offsets of these partitions, by name.

    A member's topics are those of its subscription, or of its partitions if its subscription cannot be read. The result
    also has groups whose members are still joining after some seconds, without topics: they may read this one. What
    cannot be read is told singly, and takes nothing else with it. Raises ReadError if no group can be listed at all.
    """
    with open_wire(kafka) as wire:
        listing, known = list_groups(wire), dict[str, _Known]()
        open_groups = dict(listing.groups)
        give_up = time.monotonic() + listed_groups.SETTLE_SECONDS
        while True:
            known |= _look(wire, open_groups.values(), topic, partitions)
            again = {name for name, one in known.items() if one.may_change}
            if not again or time.monotonic() > give_up:
                break
            time.sleep(listed_groups.PAUSE_SECONDS)
            if any(not known[name].described.is_joining for name in again):
                listing = list_groups(wire)  # another broker may coordinate it now, or its type is another one
                gone = set() if listing.unread else known.keys() - listing.groups.keys()
                known = {name: one for name, one in known.items() if name not in gone}
                again |= listing.groups.keys() - known.keys()
            open_groups = {name: listing.groups[name] for name in sorted(again & listing.groups.keys())}
    told = [_told(one, topic) for _, one in sorted(known.items())]
    return TopicGroups(
        tuple(group for group, _ in told if group is not None),
        (*listing.unread, *(finding for _, findings in told for finding in findings)),
    )


def _look(wire: Wire, listed: Collection[ListedGroup], topic: str, partitions: Collection[int]) -> dict[str, _Known]:
    described = describe(wire, listed, topic)
    offsets = read_offsets(wire, [one for one in listed if not described[one.group].is_gone], (topic, partitions))
    return {one.group: _Known(one, described[one.group], offsets.get(one.group, Offsets())) for one in listed}


def _told(one: _Known, topic: str) -> tuple[ConsumerGroup | None, list[Finding]]:
    """(the group if it uses the topic, what is not known of it)"""
    if one.described.is_gone:
        return None, []
    failed = one.offsets.failed
    findings = [] if failed is None else [_of_offsets(unread(one.listed, failed))]
    group = one.described.group
    if group is None:
        return None, [unread(one.listed, one.described)]
    committed = tuple(sorted(partition for _, partition in one.offsets.by_partition))
    subscribed = {name for member in group.members for name in member.topics}
    if committed or topic in subscribed or (one.described.is_joining and not subscribed):
        return replace(group, committed=committed), findings
    return None, findings or ([unread(one.listed, one.described)] if one.described.unclear else [])


def _of_offsets(finding: Finding) -> Finding:
    return replace(finding, problem=f"of its offsets, {finding.problem}")


def read_committed_offsets(kafka: KafkaConnection, brokers: Collection[int]) -> dict[TopicPartition, dict[str, int]]:
    """{partition: {group: the offset that it has committed}} of all groups that these brokers coordinate.

    `brokers` are all that are registered: each tells only its own groups. A partition without a committed offset is
    absent. A share group commits none: its first record that is not done counts. Raises ReadError if any group cannot
    be read.
    """
    with open_wire(kafka) as wire:
        give_up = time.monotonic() + listed_groups.SETTLE_SECONDS
        while True:
            listing = list_groups(wire, brokers)
            offsets = read_offsets(wire, listing.groups.values())
            failed = {name: one.failed for name, one in offsets.items() if one.failed is not None}
            if not any(one.may_change for one in failed.values()) or time.monotonic() > give_up:
                break
            time.sleep(listed_groups.PAUSE_SECONDS)
    if listing.unread:
        raise ReadError(f"{listing.unread[0]}.")
    if failed:
        name, why = next(iter(failed.items()))
        more = f" It is one of {len(failed)} such groups." if len(failed) > 1 else ""
        raise ReadError(f"{_of_offsets(unread(listing.groups[name], why))}.{more}")
    found: dict[TopicPartition, dict[str, int]] = {}
    for name, one in sorted(offsets.items()):
        for topic_partition, offset in one.by_partition.items():
            found.setdefault(topic_partition, {})[name] = offset
    return found
