"""Which member of a consumer group reads which partition: the clients' RangeAssignor and RoundRobinAssignor.

Both sort members by member id, a text of the form `client.id-UUID`, as Java sorts texts: "C10" comes before "C2".
Members with a `group.instance.id` (2.3+) come first, by that id. Racks (3.5+) play no part here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from kafka_rebalance.kafka.given_json import utf16_order

Assigned = dict[str, list[tuple[str, int]]]  # member -> (topic, partition)


def range_assignment(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> Assigned:
    """Each topic by itself: consecutive partitions in equal parts; the first members get the rest.

    `subscriptions` is {member id: topics}, `partitions` {topic: number of partitions}. Topics that are not in it have
    no metadata and are skipped. Members that get nothing have an empty list. A member's topics come in the order of
    their names; Kafka leaves this order to a hash map. Source: RangeAssignor.assign.
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
    """All partitions of all topics in turn; a member is passed over for a topic that it does not subscribe to.

    The turn goes on from one topic to the next. Arguments and result as in `range_assignment`.
    Source: RoundRobinAssignor.assign.
    """
    assigned: Assigned = {member: [] for member in subscriptions}
    members = sorted(subscriptions, key=utf16_order)
    turn = cycle(members)
    for topic in _topics(subscriptions, partitions):
        for partition in range(partitions[topic]):
            member = next(member for member in turn if topic in subscriptions[member])
            assigned[member].append((topic, partition))
    return assigned


def _topics(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> list[str]:
    """The topics that have subscribers and metadata, as Java sorts them."""
    subscribed = {topic for topics in subscriptions.values() for topic in topics}
    return sorted((topic for topic in subscribed if partitions.get(topic, 0) > 0), key=utf16_order)
