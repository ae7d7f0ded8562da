"""Kafka's replica assignment for new topics and for added partitions, with and without racks.

Source: kafka.admin.AdminUtils.assignReplicasToBrokers, kafka.zk.AdminZkClient.getBrokerMetadatas and addPartitions
of 2.0 (the same up to 3.9); rack awareness is KIP-36.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count, zip_longest
from typing import Literal

from kafka_rebalance.errors import InputError, KafkaRuleError
from kafka_rebalance.kafka.given_json import utf16_order

RackMode = Literal["enforced", "disabled", "safe"]


def assign_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    *,
    racks: Mapping[int, str | None] | None = None,
    start_index: int | None = None,
    replica_shift: int | None = None,
    start_partition_id: int = 0,
    rng: random.Random | None = None,
) -> dict[int, tuple[int, ...]]:
    """{partition: broker ids, preferred leader first} for `partitions` partitions from `start_partition_id` on.

    Leaders go round the brokers in the given order, or with racks round `rack_alternated`. Followers keep a distance
    from their leader. It grows by one at each partition id that is a multiple of the number of brokers. With racks,
    each rack gets one replica before a rack gets a second one.

    If the position of the first leader (`start_index`) and that distance (`replica_shift`) are not given, they are
    drawn from `rng`, the start first. `start_index` alone sets both, as Kafka's fixedStartIndex does, and may exceed
    the number of brokers. Negative numbers mean a random start, and partition ids from 0, as in Kafka.

    Racks of other brokers do not count. Raises KafkaRuleError, in Kafka's order, for the number of partitions, the
    replication factor, a replication factor above the brokers, and if only some brokers have a rack.
    """
    if partitions <= 0:
        raise KafkaRuleError("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise KafkaRuleError("Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise KafkaRuleError(
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
            "Nothing was written. Start brokers, or ask for fewer replicas.",
        )
    known = {broker: rack for broker in brokers if (rack := (racks or {}).get(broker)) is not None}
    if known and len(known) < len(brokers):
        raise KafkaRuleError(
            "Not all brokers have rack information for replica rack aware assignment.", _without_racks(brokers, known)
        )
    draw = rng or random.Random()
    if start_index is None or start_index < 0:
        start_index = draw.randrange(len(brokers))
    elif replica_shift is None:
        replica_shift = start_index
    if replica_shift is None or replica_shift < 0:
        replica_shift = draw.randrange(len(brokers))

    arranged = rack_alternated(known) if known else tuple(brokers)
    # Without racks, no broker is skipped, as if all brokers were in one rack.
    rack_of = known or dict.fromkeys(brokers, "")
    first_id = max(0, start_partition_id)
    assignment = {}
    for partition in range(first_id, first_id + partitions):
        if partition > 0 and partition % len(arranged) == 0:
            replica_shift += 1
        leader_index = (partition + start_index) % len(arranged)
        assignment[partition] = _replicas(arranged, rack_of, replication_factor, leader_index, replica_shift)
    return assignment


def rack_alternated(racks: Mapping[int, str]) -> tuple[int, ...]:
    """All brokers, one of each rack in turn: racks sorted as strings, their brokers by id.

    {0: "a", 1: "a", 2: "a", 3: "b", 4: "c"} gives 0, 3, 4, 1, 2. Source: AdminUtils.getRackAlternatedBrokerList.
    """
    by_rack: dict[str, list[int]] = {rack: [] for rack in sorted(racks.values(), key=utf16_order)}
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    return tuple(broker for broker in chain.from_iterable(zip_longest(*by_rack.values())) if broker is not None)


def add_partitions(
    topic: str,
    existing: Mapping[int, Sequence[int]],
    total: int,
    brokers: Collection[int],
    *,
    racks: Mapping[int, str | None] | None = None,
) -> dict[int, tuple[int, ...]]:
    """Only the new partitions of a topic that grows to `total`: {partition: broker ids}. Nothing is random.

    Replication factor and start come from partition 0. The start is the place of its first replica, or of the next
    higher id, among the live `brokers` sorted by id. With racks, Kafka uses this number as a place in the
    rack-alternated list, where another broker has it. New ids start at the *number* of existing partitions. Raises
    KafkaRuleError as `check_increase` and `assign_replicas` do.
    """
    check_increase(topic, existing, total)
    live = sorted(brokers)
    leader = existing[0][0] if existing[0] else -1
    start_index = next((place for place, broker in enumerate(live) if broker >= leader), 0)
    return assign_replicas(
        live,
        total - len(existing),
        len(existing[0]),
        racks=racks,
        start_index=start_index,
        start_partition_id=len(existing),
    )


def check_increase(topic: str, existing: Mapping[int, Sequence[int]], total: int) -> None:
    """Raises KafkaRuleError if partition 0 is missing, or if `total` is not more than what exists."""
    if 0 not in existing:
        raise KafkaRuleError(
            f"Unexpected existing replica assignment for topic '{topic}', partition id 0 is missing. "
            f"Assignment: {scala_map(existing)}",
            "Nothing was written. Repair the topic first.",
        )
    if total <= len(existing):
        raise KafkaRuleError(
            "The number of partitions for a topic can only be increased. "
            f"Topic {topic} currently has {len(existing)} partitions, {total} would not be an increase."
        )


def brokers_with_racks(racks: Mapping[int, str | None], mode: RackMode) -> dict[int, str] | None:
    """{broker: rack} for the assignment, by broker id; None: assign without racks.

    `racks` has all live brokers, with None for a broker without a rack. Racks count if every broker has one. If only
    some have one, "enforced" (kafka-topics' default) raises KafkaRuleError, and "safe" ignores racks. "disabled" always
    ignores racks.
    """
    if mode not in ("enforced", "disabled", "safe"):
        raise InputError(f"Rack mode {mode!r} is none of enforced, disabled and safe. Nothing was written.")
    known = {broker: rack for broker, rack in sorted(racks.items()) if rack is not None}
    if known and len(known) < len(racks) and mode == "enforced":
        raise KafkaRuleError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
            _without_racks(sorted(racks), known),
        )
    return known if known and len(known) == len(racks) and mode != "disabled" else None


def scala_map(assignment: Mapping[int, Sequence[int]]) -> str:
    """An assignment in the form of Kafka's messages: `Map(0 -> List(1, 2))`."""
    lists = (
        f"{partition} -> List({', '.join(map(str, replicas))})" for partition, replicas in sorted(assignment.items())
    )
    return f"Map({', '.join(lists)})"


def _replicas(
    arranged: Sequence[int], rack_of: Mapping[int, str], replication_factor: int, leader_index: int, shift: int
) -> tuple[int, ...]:
    """The leader, then the followers. A broker on a used rack is passed over while another rack is unused."""
    racks = len(set(rack_of.values()))
    replicas = [arranged[leader_index]]
    used = {rack_of[replicas[0]]}
    steps = count(shift * racks)  # goes on from one follower to the next
    while len(replicas) < replication_factor:
        place = leader_index + 1 + next(steps) % (len(arranged) - 1)
        broker = arranged[place % len(arranged)]
        if broker not in replicas and (rack_of[broker] not in used or len(used) == racks):
            replicas.append(broker)
            used.add(rack_of[broker])
    return tuple(replicas)


def _without_racks(brokers: Collection[int], known: Collection[int]) -> str:
    without = ", ".join(str(broker) for broker in brokers if broker not in known)
    return f"Nothing was written. Set broker.rack on broker {without}, or assign without racks."
