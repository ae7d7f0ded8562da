"""What the policy and ZooKeeper allow of a batch: bytes, leaders, copies, replicas, names, and the size of znodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kafka_rebalance.errors import NothingToDoError, PolicyError, SettingsError
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_BYTES, JUTE_MAXBUFFER_PLACES
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import Finding, listed, some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import BrokerPool, Settings, brokers_for, matches

# What of an approved plan goes beyond the policy. Only its moves count, whoever planned or wrote them.


def check_within_policy(
    batches: Sequence[Batch],
    policy: Policy,
    *,
    sizes: Mapping[TopicPartition, int],
    cluster_bytes: int,
    held_replicas: Mapping[int, int],
    racks: Mapping[int, str | None],
    throttle_bytes_per_second: int,
    throttle_from_bytes_per_second: int | None = None,
    kafkas_own: KafkasOwn,
) -> None:
    """Raises PolicyError that names every limit which these batches break.

    `sizes` (bytes of one replica), `cluster_bytes` (of all), `held_replicas` (of each broker) and `racks` are the
    snapshot's. The sizes in the moves do not count.
    """
    moves = [move for batch in batches for move in batch.moves]
    problems = [
        *_too_many_bytes(moves, policy, sizes, cluster_bytes),
        *(problem for batch in batches for problem in _too_large(batch, policy, len(racks))),
        *_too_many_replicas(moves, policy, held_replicas),
        *_kept_out(moves, policy, racks, kafkas_own),
    ]
    problems += policy.throttle_problems(throttle_bytes_per_second, throttle_from_bytes_per_second)
    if problems:
        raise PolicyError(
            f"The approved plan goes beyond the policy: {'; '.join(problems)}. "
            "If no policy of this cluster has changed since, do not trust its files or the planner. Find out why, then "
            "start a new Dag run."
        )


def _too_many_bytes(
    moves: Sequence[Move], policy: Policy, sizes: Mapping[TopicPartition, int], cluster_bytes: int
) -> Iterator[str]:
    copied = [move for move in moves if move.added]
    unknown = [move.topic_partition for move in copied if move.topic_partition not in sizes]
    if unknown:
        yield f"the snapshot does not have {some(unknown)}"
        return
    total = sum(sizes[move.topic_partition] * len(move.added) for move in copied)
    limit = policy.bytes_limit(cluster_bytes)
    if total > limit:
        yield f"{total} bytes to copy are more than {limit} (max_bytes, max_bytes_share)"


def _too_many_replicas(moves: Sequence[Move], policy: Policy, replicas: Mapping[int, int]) -> Iterator[str]:
    for broker, end in beyond_limit(moves, replicas, policy.replicas_per_broker).items():
        most = policy.replicas_per_broker
        yield f"broker {broker} would hold {end} replicas, the policy allows {most} (replicas_per_broker)"


def _too_large(batch: Batch, policy: Policy, brokers: int) -> Iterator[str]:
    leads = sum(move.changes_leader for move in batch.moves)
    sent, received = Counter[int](), Counter[int]()
    for move in batch.moves:
        received.update(move.added)
        # A partition that alone needs more copies than allowed may have them, but then its sender has no others.
        sent[move.source] += min(len(move.added), policy.copies_limit)
    broker, copies = max([*received.items(), *sent.items()], key=lambda item: item[1], default=(0, 0))
    for name, amount, limit in (
        ("partitions_per_batch", len(batch.moves), policy.partitions_limit(brokers)),
        ("leader_changes_per_batch", leads, policy.leader_changes_per_batch),
        (f"copies_per_broker, on broker {broker}", copies, policy.copies_limit),
    ):
        if amount > limit:
            yield f"batch {batch.number} has {amount}, the policy allows {limit} ({name})"


def _kept_out(
    moves: Sequence[Move], policy: Policy, racks: Mapping[int, str | None], kafkas_own: KafkasOwn
) -> Iterator[str]:
    kept_out: dict[str, list[TopicPartition]] = {}
    for move in moves:
        topic = move.topic_partition.topic
        for name, is_held in (
            ("topics_out", matches(topic, policy.topics_out)),
            ("internal_topics", kafkas_own.holds_back(topic) and not policy.internal_topics),
            ("brokers_out", {*move.added, *move.removed} & set(policy.brokers_out)),
            ("broker_pools", policy.broker_pools and _outside_its_pool(move, policy.broker_pools)),
            ("pinned_topics", matches(topic, policy.pinned_topics) and set(move.before) != set(move.after)),
            ("rack_pinned_topics", matches(topic, policy.rack_pinned_topics) and _leaves_its_rack(move, racks)),
        ):
            if is_held:
                kept_out.setdefault(name, []).append(move.topic_partition)
    return (f"{name} keeps out {some(named)}" for name, named in kept_out.items())


def _outside_its_pool(move: Move, pools: Sequence[BrokerPool]) -> bool:
    return len(brokers_for(move.topic_partition.topic, pools, move.added)) < len(move.added)


def _leaves_its_rack(move: Move, racks: Mapping[int, str | None]) -> bool:
    """If the racks are known and the number of replicas stays the same: an added replica may be in any rack."""
    if len(move.before) != len(move.after):
        return False
    before, after = ([racks.get(broker) for broker in brokers] for brokers in (move.before, move.after))
    return None not in before and Counter(before) != Counter(after)


# How many replicas brokers hold after a plan, against `replicas_per_broker`.
#
# `planning.rules.replica_limits` has the same rule for the lists of a search.


def held_replicas(lists: Iterable[Iterable[int]]) -> Counter[int]:
    """{broker: its replicas}"""
    return Counter(broker for brokers in lists for broker in brokers)


def beyond_limit(moves: Iterable[Move], replicas: Mapping[int, int], limit: int) -> dict[int, int]:
    """{broker: its replicas in the end} of those that end with more than the limit, and with more than they hold."""
    added: Counter[int] = Counter()
    for move in moves:
        added.update(move.added)
        added.subtract(move.removed)
    ends = {broker: replicas.get(broker, 0) + more for broker, more in sorted(added.items()) if more > 0}
    return {broker: end for broker, end in ends.items() if end > limit}


def too_many_now(
    moves: Iterable[Move],
    lying: Mapping[TopicPartition, Collection[int]],
    brokers: Collection[int],
    limit: int | None,
) -> Iterable[Finding]:
    """Brokers that end beyond the limit with what the plan still brings, because topics have come since the snapshot.

    `lying` are the brokers of each replica today, of the `brokers` that told. A limit of None is that of a run whose
    plan had none.
    """
    if limit is None:
        return
    now, come, go = held_replicas(lying.values()), Counter[int](), Counter[int]()
    for move in moves:
        here = set(lying.get(move.topic_partition, ()))
        come.update(set(move.after) - here)
        go.update(here & set(move.removed))
    for broker in sorted(come.keys() & set(brokers)):
        end = now[broker] + come[broker] - go[broker]
        if end > max(limit, now[broker]):
            yield Finding(
                f"broker {broker}",
                f"{now[broker]:,} replicas lie there today. With what the approved plan still brings it would hold "
                f"{end:,}, and replicas_per_broker of the policy is {limit:,}",
                "Delete topics that nobody needs and clear this task. Or start a new Dag run, which plans with the "
                "replicas of today",
            )


# Whether ZooKeeper takes the request of each batch, and the topics' znodes as they are while it runs.


# Path, headers and the check of the controller epoch take their part of the request.
ZNODE_BYTES = JUTE_MAXBUFFER_BYTES - 1024
FEWER = "Start a new Dag run with fewer partitions_per_batch"


def too_large_znodes(batches: Iterable[Batch], view: ClusterView) -> Iterable[Finding]:
    """Requests, and topics' znodes during a batch, that are too large for ZooKeeper: it closes the connection, and the
    controller tries for ever. `view` has every partition of the topics.
    """
    lists: dict[str, dict[str, list[int]]] = {}
    for tp, partition in view.partitions.items():
        lists.setdefault(tp.topic, {})[str(tp.partition)] = list(partition.replicas)
    for batch in batches:
        partitions = [{**move.topic_partition._asdict(), "replicas": move.after} for move in batch.moves]
        request = _length({"version": 1, "partitions": partitions})
        if request > ZNODE_BYTES:
            yield Finding(f"batch {batch.number}", f"its request has {request:,} of {ZNODE_BYTES:,} bytes", FEWER)
        for topic in sorted({move.topic_partition.topic for move in batch.moves}):
            moving = [move for move in batch.moves if move.topic_partition.topic == topic]
            size = _length(_in_motion(lists.get(topic, {}), moving))
            if size > ZNODE_BYTES:
                yield Finding(
                    f"topic {topic}",
                    f"its znode grows to {size:,} of {ZNODE_BYTES:,} bytes in batch {batch.number}",
                    f"Start a new Dag run with the topic in topics_out. {JUTE_MAXBUFFER_PLACES}",
                )


def _in_motion(lists: Mapping[str, list[int]], moves: Iterable[Move]) -> dict[str, object]:
    """The topic's znode during these moves, in its longest form: version 3 with a topic id (2.8+)."""
    now, adding, removing = dict(lists), {}, {}
    for move in moves:
        key = str(move.topic_partition.partition)
        now[key] = [*move.after, *move.removed]
        adding[key], removing[key] = list(move.added), list(move.removed)
    return {
        "version": 3,
        "topic_id": "x" * 22,
        "partitions": now,
        "adding_replicas": adding,
        "removing_replicas": removing,
    }


def _length(document: object) -> int:
    return len(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


# Whether the brokers and topics that the settings name exist in the cluster.


def check_names(settings: Settings, view: ClusterView) -> None:
    """Raises SettingsError for brokers and topic globs that match nothing: a typo must not give an empty plan.

    Raises NothingToDoError if there are no topics at all and the settings name none.
    """
    if not view.partitions and settings.topics_in == Settings().topics_in and settings.plan is None:
        raise NothingToDoError(f"Cluster {view.cluster_id} has no topics, so there is nothing to do.")
    holding = {broker for partition in view.partitions.values() for broker in partition.replicas}
    existing = set(view.brokers) | holding
    problems = [
        f"{name} names broker {listed(unknown)}, which does not exist"
        for name in ("drain", "replace", "brokers_out")
        if (unknown := sorted(set(getattr(settings, name)) - existing))
    ]
    pooled = {broker for pool in settings.broker_pools for broker in pool.brokers}
    if unknown := sorted(pooled - existing):
        problems.append(f"broker_pools of the policy names broker {listed(unknown)}, which does not exist")
    for name, receiving in (("replace", settings.replace.values()), ("brokers_in", settings.named_receivers)):
        if unregistered := sorted(set(receiving) - set(view.brokers)):
            problems.append(f"{name} puts replicas on broker {listed(unregistered)}, which is not registered")
    topics = {tp.topic for tp in view.partitions}
    if not any(settings.selects(topic) for topic in topics):
        problems.append(
            f"topics_in {list(settings.topics_in)} less topics_out {list(settings.topics_out)} matches none of "
            f"{len(topics)} topics"
        )
    factor = settings.replication_factor
    if factor is not None:
        stay = [rack for broker, rack in view.racks.items() if broker not in settings.leaving]
        racks = set(stay)
        if factor > len(stay):
            problems.append(f"replication_factor {factor} is larger than the {len(stay)} brokers that stay")
        elif None not in racks and factor > len(racks) and not settings.more_replicas_than_racks:
            problems.append(
                f"replication_factor {factor} is larger than the {len(racks)} racks (the policy's "
                "more_replicas_than_racks may allow it)"
            )
    if problems:
        raise SettingsError(
            f"The settings do not fit this cluster: {'; '.join(problems)}. Brokers are {listed(sorted(existing))}. "
            "Nothing was planned. Correct the params and start again."
        )
