"""Which member of a consumer group reads which partition: RangeAssignor and RoundRobinAssignor of the clients.

Both sort members by member id, a text of the form `client.id-UUID`, as Java sorts texts: "C10" comes before "C2".
Members with a `group.instance.id` (2.3+) come first and by that id; racks (3.5+) are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_rebalance.kafka.java_text import utf16_order

Assigned = dict[str, list[tuple[str, int]]]  # member -> (topic, partition)


def range_assignment(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> Assigned:
    """Each topic by itself: consecutive partitions in equal parts, the first members get what is left over.

    `subscriptions` are {member id: topics}, `partitions` {topic: number of partitions}; topics that are not there have
    no metadata and are skipped. Members that get nothing have an empty list. A member's topics come in the order of
    their names, where Kafka leaves it to a hash map. Source: RangeAssignor.assign.
    """
    assigned: Assigned = {member: [] for member in subscriptions}
    members = sorted(subscriptions, key=utf16_order)
    for topic in _topics(subscriptions, partitions):
        subscribed = [member for member in members if topic in subscriptions[member]]
        quotient, remainder = divmod(partitions[topic], len(subscribed))
        for index, member in enumerate(subscribed):
            start = quotient * index + min(index, remainder)
            length = quotient + (index < remainder)
            assigned[member] += [(topic, partition) for partition in range(start, start + length)]
    return assigned


def round_robin_assignment(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> Assigned:
    """All partitions of all topics in turn, members passed over for topics that they do not subscribe.

    The turn goes on from one topic to the next. Arguments and result as of `range_assignment`.
    Source: RoundRobinAssignor.assign.
    """
    assigned: Assigned = {member: [] for member in subscriptions}
    members = sorted(subscriptions, key=utf16_order)
    turn = 0
    for topic in _topics(subscriptions, partitions):
        for partition in range(partitions[topic]):
            while topic not in subscriptions[members[turn]]:
                turn = (turn + 1) % len(members)
            assigned[members[turn]].append((topic, partition))
            turn = (turn + 1) % len(members)
    return assigned


def _topics(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> list[str]:
    """The topics that somebody subscribes and that have metadata, as Java sorts them."""
    subscribed = {topic for topics in subscriptions.values() for topic in topics}
    return sorted((topic for topic in subscribed if partitions.get(topic, 0) > 0), key=utf16_order)
