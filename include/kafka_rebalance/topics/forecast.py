"""What more partitions do to keys, to consumers and to disks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import lcm

from kafka_rebalance.documents.json_files import FORECAST, JsonFile, omitted
from kafka_rebalance.documents.key_sample import KeySample, SampleFigures
from kafka_rebalance.errors import InputError
from kafka_rebalance.kafka.assignors import range_assignment, round_robin_assignment
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.consumer_groups import CLASSIC, CONSUMER, ConsumerGroup, GroupMember
from kafka_rebalance.model.finding import Finding

# What more partitions do to a topic's keys: how many change partition, and how evenly rows lie before and after.
#
# The share of keys is exact and needs no data. Rows need a sample (`documents.requests.key_sample`), because keys are
# not equally frequent.


# A person would call a partition skewed if it has half as much again as the mean. Below, hashes are just uneven.
SKEW_LIMIT = 1.5
# With fewer rows per partition, chance alone makes such a difference.
MIN_ROWS_PER_PARTITION = 10
# Rows from before an earlier expansion lie elsewhere too. Beyond this share, producers do not use murmur2.
FOREIGN_SHARE_LIMIT = 0.01
MAX_TIMES = 4
MAX_COUNTS = 24
BETTER_COUNTS = 3
_ALIKE = 0.05  # skews that differ by less count as equal, and moved keys decide


class Verdict(StrEnum):
    """What a sample says about the topic after the expansion."""

    EVEN = "even"
    KEYS = "keys"  # a few keys have so many rows that no count spreads them
    PLACEMENT = "placement"  # many keys happen to fall unevenly, and another count may help
    NO_KEYS = "no_keys"
    OTHER_PARTITIONER = "other_partitioner"
    TOO_FEW_ROWS = "too_few_rows"


@dataclass(frozen=True, slots=True)
class CountForecast:
    """One number of partitions. Shares are of 1, and `skew` is the fullest partition's rows over the mean."""

    partitions: int
    moved_keys: float
    moved_rows: float
    skew: float


@dataclass(frozen=True, slots=True)
class KeyForecast:
    """An expansion from `before` to `after` partitions.

    `moved_keys` is the exact share of possible keys. All other figures need the sample and are None or empty without
    one; `not_sampled` then says why. `skew_found` is of the rows where they are, `skew_before` of where murmur2 puts
    them. `better` are counts with less skew than `after`, or with about the same and fewer moved keys.
    """

    topic: str
    before: int
    after: int
    moved_keys: float
    moved_keys_exact: str  # the same as a fraction
    text: str
    not_sampled: str | None = None
    sample: SampleFigures | None = None
    verdict: Verdict | None = None
    skew_found: float | None = None
    skew_before: float | None = None
    chosen: CountForecast | None = None
    better: tuple[CountForecast, ...] = ()


def moved_key_share(before: int, after: int) -> Fraction:
    """The exact share of keys that change partition: 1 - n / lcm(n, m) from n to m partitions.

    A key stays if its hash has the same remainder with n and m, as n of lcm(n, m) consecutive hashes have. Source:
    DefaultPartitioner. Hashes have 31 bits, so the last cycle is incomplete: an error of less than lcm / 2**31.
    """
    if not 1 <= before <= after:
        raise InputError(
            f"A topic of {before} partitions cannot be expanded to {after}. Nothing was computed. "
            "Kafka only adds partitions, so name a number that is not smaller."
        )
    return 1 - Fraction(before, lcm(before, after))


def counts_to_try(before: int, after: int) -> tuple[int, ...]:
    """The counts to place a sample with: `before`, `after`, multiples of `before`, others up to 4 times it."""
    named = {before, after, *(before * times for times in range(2, MAX_TIMES + 1))}
    others = [count for count in range(before + 1, MAX_TIMES * before) if count not in named]
    places = MAX_COUNTS - len(named)
    return tuple(sorted(named | set(others[:: max(1, -(-len(others) // places))])))


def forecast_keys(
    topic: str,
    before: int,
    after: int,
    sample: KeySample | None = None,
    *,
    not_sampled: str = "no sample was asked for",
) -> KeyForecast:
    """The forecast. Without a sample, `not_sampled` says why there is none. Raises InputError."""
    share = moved_key_share(before, after)
    moved = float(share), str(share)
    if sample is None:
        return KeyForecast(topic, before, after, *moved, f"Keys were not sampled: {not_sampled}.", not_sampled)
    if (sample.topic, sample.partitions) != (topic, before) or not {before, after} <= sample.murmur2_rows.keys():
        raise InputError(
            f"The sample is of {sample.topic} from {sample.partitions} to {sorted(sample.murmur2_rows)} partitions, "
            f"but the forecast is of {topic} from {before} to {after}. Nothing was computed. Sample the topic again."
        )
    if not sample.rows:
        text = "The sampled range of the topic holds no rows."
        return KeyForecast(topic, before, after, *moved, text, sample=sample.figures, verdict=Verdict.TOO_FEW_ROWS)
    counts = {count: _count(sample, count) for count in sample.murmur2_rows}
    verdict, text = _judge(sample, after, counts[after])
    return KeyForecast(
        topic,
        before,
        after,
        *moved,
        text,
        None,
        sample.figures,
        verdict,
        _skew(sample.found_rows, 0),
        counts[before].skew,
        counts[after],
        _better(counts, before, after) if verdict in (Verdict.EVEN, Verdict.PLACEMENT) else (),
    )


def _count(sample: KeySample, count: int) -> CountForecast:
    rows, spread = sample.murmur2_rows[count], sample.rows_without_key
    moved_keys, moved_rows = float(moved_key_share(sample.partitions, count)), sample.moved_rows.get(count, 0)
    return CountForecast(count, moved_keys, moved_rows / sample.rows, _skew(rows, spread))


def _skew(keyed: Sequence[int], spread: int) -> float:
    """The fullest partition over the mean. Rows without a key, `spread`, go to all partitions in turn."""
    total = sum(keyed) + spread
    return (max(keyed) + spread / len(keyed)) * len(keyed) / total if total else 1.0


def _better(counts: Mapping[int, CountForecast], before: int, after: int) -> tuple[CountForecast, ...]:
    chosen = counts[after]
    others = [
        count
        for count in counts.values()
        if count.partitions not in (before, after)
        and (
            count.skew < chosen.skew * (1 - _ALIKE)
            or (count.skew <= chosen.skew * (1 + _ALIKE) and count.moved_keys < chosen.moved_keys)
        )
    ]
    best = sorted(others, key=lambda count: (round(count.skew / _ALIKE / 2), count.moved_keys, count.partitions))
    return tuple(best[:BETTER_COUNTS])


def _judge(sample: KeySample, after: int, chosen: CountForecast) -> tuple[Verdict, str]:
    keyed = sample.rows - sample.rows_without_key
    if not keyed:
        return (
            Verdict.NO_KEYS,
            "No sampled row has a key. Producers spread such rows over all partitions by themselves.",
        )
    if sample.foreign_rows > keyed * FOREIGN_SHARE_LIMIT:
        return Verdict.OTHER_PARTITIONER, (
            f"{_percent(sample.foreign_rows / keyed)} of the sampled rows with a key are not where murmur2 puts them. "
            "Either producers use another partitioner, or somebody expanded the topic within the sampled time. "
            "The forecast of rows does not apply."
        )
    if sample.rows < MIN_ROWS_PER_PARTITION * after:
        return Verdict.TOO_FEW_ROWS, (
            f"{sample.rows:,} sampled rows are too few to tell the skew of {after} partitions. "
            f"The forecast needs at least {MIN_ROWS_PER_PARTITION * after:,}."
        )
    if chosen.skew <= SKEW_LIMIT:
        return Verdict.EVEN, f"With {after} partitions, the fullest gets {chosen.skew:.2f} times the mean."
    heavy = [key.rows for key in sample.heaviest if key.rows * after > SKEW_LIMIT * sample.rows]
    if heavy:
        more = "at least " if len(heavy) == len(sample.heaviest) < sample.distinct_keys else ""
        return Verdict.KEYS, (
            f"{more}{len(heavy)} {'key' if len(heavy) == 1 else 'keys'} = {_percent(sum(heavy) / sample.rows)} of the "
            "sampled rows: no number of partitions and no rebalance fixes this."
        )
    return Verdict.PLACEMENT, (
        f"With {after} partitions, the fullest gets {chosen.skew:.2f} times the mean, and no key is to blame: "
        f"{sample.distinct_keys:,} distinct keys happen to fall unevenly. Another number of partitions may spread them."
    )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.095 else f"{share * 100:.1f} %"


# What more partitions do to a topic's consumer groups: who would read what under Kafka's two assignors.


_ASSIGNORS = {"range": range_assignment, "roundrobin": round_robin_assignment}


@dataclass(frozen=True, slots=True)
class MemberForecast:
    """One member's partitions: their ids in the topic, and their number over all its topics."""

    member_id: str
    client_id: str
    host: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    all_before: int
    all_after: int


@dataclass(frozen=True, slots=True)
class AssignorForecast:
    """A group under one assignor. Imbalance is the most partitions of a member, of all topics, over the mean."""

    assignor: str
    in_use: bool
    imbalance_before: float
    imbalance_after: float
    idle_before: int
    idle_after: int
    members: tuple[MemberForecast, ...]


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """A group that reads the topic. `imbalance_now` is of its real assignment, over all its topics.

    While members join, or if there are none, it is unknown what they read. Then `imbalance_now` is None, and
    `assignors` is empty. `assignors` is empty too for a share group, whose members share each partition, and for a
    streams group, whose members share tasks.

    `no_longer_matching` are its other topics with as many partitions as the topic before, but not after. A join of both
    by key, or state by partition number, relies on the same number.
    """

    group: str
    state: str
    assignor: str
    members: int
    committed: tuple[int, ...]
    imbalance_now: float | None
    assignors: tuple[AssignorForecast, ...]
    no_longer_matching: tuple[str, ...]
    type: str = CLASSIC


@dataclass(frozen=True, slots=True)
class TopicForecast:
    """What an expansion does. `groups` is None if they cannot be read, and `groups_unread` says why."""

    keys: KeyForecast
    groups: tuple[GroupForecast, ...] | None
    groups_unread: str | None
    groups_not_read: tuple[Finding, ...] = omitted(())


FORECAST_FILE = JsonFile(FORECAST, TopicForecast)


def forecast_groups(
    topic: str, after: int, groups: Sequence[ConsumerGroup], partitions: Mapping[str, int]
) -> tuple[GroupForecast, ...]:
    """Each group before and after the topic has `after` partitions, in the given order.

    `partitions` are today's numbers of partitions, of the topic and of all others that members subscribe to. Topics
    that are missing there are skipped, as the assignors do.
    """
    return tuple(_forecast(topic, after, group, partitions) for group in groups)


def _forecast(topic: str, after: int, group: ConsumerGroup, partitions: Mapping[str, int]) -> GroupForecast:
    subscribed = sorted({name for member in group.members for name in member.topics} - {topic})
    before = partitions[topic]
    known = any(member.topics for member in group.members)
    divides = known and group.type in (CLASSIC, CONSUMER)
    return GroupForecast(
        group=group.group,
        state=group.state,
        assignor=group.assignor,
        members=len(group.members),
        committed=group.committed,
        imbalance_now=_imbalance([member.assigned for member in group.members]) if divides else None,
        assignors=tuple(_under(name, topic, after, group, partitions) for name in _ASSIGNORS if divides),
        no_longer_matching=tuple(name for name in subscribed if partitions.get(name) == before != after),
        type=group.type,
    )


def _under(
    assignor: str, topic: str, after: int, group: ConsumerGroup, partitions: Mapping[str, int]
) -> AssignorForecast:
    assign = _ASSIGNORS[assignor]
    members = {_sorted_as(member): member for member in group.members}
    subscriptions = {key: member.topics for key, member in members.items()}
    now, then = assign(subscriptions, partitions), assign(subscriptions, {**partitions, topic: after})
    return AssignorForecast(
        assignor=assignor,
        in_use=group.assignor == assignor,
        imbalance_before=_imbalance(now.values()),
        imbalance_after=_imbalance(then.values()),
        idle_before=sum(not assigned for assigned in now.values()),
        idle_after=sum(not assigned for assigned in then.values()),
        members=tuple(
            MemberForecast(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.host,
                before=tuple(partition for name, partition in now[key] if name == topic),
                after=tuple(partition for name, partition in then[key] if name == topic),
                all_before=len(now[key]),
                all_after=len(then[key]),
            )
            for key, member in sorted(members.items())
        ),
    )


def _sorted_as(member: GroupMember) -> str:
    """A key that sorts like AbstractPartitionAssignor.MemberInfo: static members first, by instance id."""
    return f"0{member.instance_id}" if member.instance_id is not None else f"1{member.member_id}"


def _imbalance(assigned: Collection[Collection[object]]) -> float:
    counts = list(map(len, assigned))
    return max(counts) * len(counts) / sum(counts) if any(counts) else 1.0


# The bytes that new partitions will hold on each broker: rate times retention, if both are known.


@dataclass(frozen=True, slots=True)
class BrokerCost:
    """What one broker gets. Bytes are None if the topic grows without bound, or if its rate is unknown."""

    broker: int
    replicas: int
    leaders: int
    bytes: int | None
    disk_capacity_bytes: int | None
    disk_used_bytes: int | None
    disk_fraction_after: float | None  # the share of its disk in use afterwards; None: a figure is missing


def expected_replica_bytes(
    bytes_in_per_second: float | None,
    partitions: int,
    *,
    retention_ms: int,
    retention_bytes: int,
    cleanup_policy: Collection[str],
) -> int | None:
    """Bytes that one replica of one partition will hold, if the topic's rate spreads evenly over its partitions.

    None if nothing bounds them, as in a topic that is only compacted, or if the rate is unknown. `retention_bytes` is
    of one partition; -1 is unlimited in both. The segment that Kafka writes to comes on top.
    """
    if "delete" not in cleanup_policy or partitions < 1:
        return None
    bounds = [retention_bytes] if retention_bytes >= 0 else []
    if bytes_in_per_second is not None and retention_ms >= 0:
        bounds.append(int(bytes_in_per_second / partitions * retention_ms / 1000))
    return min(bounds, default=None)


def broker_costs(
    partitions: Mapping[int, Sequence[int]],
    replica_bytes: int | None,
    disks: Mapping[int, tuple[int | None, int | None]],
) -> tuple[BrokerCost, ...]:
    """One entry for each broker that gets a replica, by id. `disks` is {broker: (capacity, used)} in bytes."""
    replicas = Counter(broker for held in partitions.values() for broker in held)
    leaders = Counter(held[0] for held in partitions.values())
    costs = []
    for broker, count in sorted(replicas.items()):
        size = None if replica_bytes is None else replica_bytes * count
        capacity, used = disks.get(broker, (None, None))
        after = None if size is None or capacity is None or used is None else (used + size) / capacity
        costs.append(BrokerCost(broker, count, leaders[broker], size, capacity, used, after))
    return tuple(costs)


def disk_problems(costs: Sequence[BrokerCost], headroom: float) -> tuple[str, ...]:
    """Brokers whose disk would be fuller than the headroom allows, in words."""
    return tuple(
        f"the disk of broker {cost.broker} would be {share_in_words(full)} full with {cost.bytes:,} bytes of this "
        f"topic, but {share_in_words(headroom)} must stay free"
        for cost in costs
        if (full := cost.disk_fraction_after) is not None and full > 1 - headroom and cost.bytes
    )
