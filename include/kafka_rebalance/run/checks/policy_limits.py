"""What of an approved plan goes beyond the policy. Only its moves count, whoever planned or wrote them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kafka_rebalance.errors import PolicyError
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import BrokerPool, brokers_for, matches
from kafka_rebalance.run.checks.replica_counts import beyond_limit


def check_within_policy(
    batches: Sequence[Batch],
    policy: Policy,
    *,
    sizes: Mapping[TopicPartition, int],
    cluster_bytes: int,
    held_replicas: Mapping[int, int],
    racks: Mapping[int, str | None],
    throttle_bytes_per_second: int,
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
    throttle = policy.throttle_problem(throttle_bytes_per_second)
    if throttle is not None:
        problems.append(throttle)
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


def _too_many_replicas(moves: Sequence[Move], policy: Policy, held: Mapping[int, int]) -> Iterator[str]:
    for broker, end in beyond_limit(moves, held, policy.replicas_per_broker).items():
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
    for name, found, limit in (
        ("partitions_per_batch", len(batch.moves), policy.partitions_limit(brokers)),
        ("leader_changes_per_batch", leads, policy.leader_changes_per_batch),
        (f"copies_per_broker, on broker {broker}", copies, policy.copies_limit),
    ):
        if found > limit:
            yield f"batch {batch.number} has {found}, the policy allows {limit} ({name})"


def _kept_out(
    moves: Sequence[Move], policy: Policy, racks: Mapping[int, str | None], kafkas_own: KafkasOwn
) -> Iterator[str]:
    held: dict[str, list[TopicPartition]] = {}
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
                held.setdefault(name, []).append(move.topic_partition)
    return (f"{name} keeps out {some(named)}" for name, named in held.items())


def _outside_its_pool(move: Move, pools: Sequence[BrokerPool]) -> bool:
    return len(brokers_for(move.topic_partition.topic, pools, move.added)) < len(move.added)


def _leaves_its_rack(move: Move, racks: Mapping[int, str | None]) -> bool:
    """If the racks are known and the number of replicas stays the same: an added replica may be in any rack."""
    if len(move.before) != len(move.after):
        return False
    before, after = ([racks.get(broker) for broker in held] for held in (move.before, move.after))
    return None not in before and Counter(before) != Counter(after)
