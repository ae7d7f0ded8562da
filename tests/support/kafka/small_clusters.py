"""Small clusters written out by hand: brokers, partitions, moves and the view that ZooKeeper would give."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import BrokerRegistration, ClusterView, Controller
from kafka_rebalance.model.partition import PartitionState, PartitionView, TopicPartition

CLUSTER_ID = "bXktY2x1c3Rlci1pZC0wMQ"
DIGEST = "9f3a1c2e" * 8


def tp(name: str) -> TopicPartition:
    """`orders-0` -> TopicPartition("orders", 0)."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def move(name: str, before: Sequence[int], after: Sequence[int], *, size: int = 100, batch: int = 1) -> Move:
    return Move(tp(name), tuple(before), tuple(after), size, batch)


def batches(*moves: Move) -> tuple[Batch, ...]:
    numbers = sorted({one.batch for one in moves})
    return tuple(Batch(n, tuple(one for one in moves if one.batch == n), DIGEST) for n in numbers)


def partition(
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    *,
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
    version: int = 1,
    czxid: int = 10,
    topic_id: str | None = None,
    marks: bool | None = None,
) -> PartitionView:
    """All of the replicas in sync and the first leading, unless said otherwise; leader -1: nobody leads.

    `marks`: its topic's znode is of 2.4 or later; None: where what is in motion, or an id, shows it.
    """
    in_sync = tuple(replicas if isr is None else isr)
    if leader is None:
        leader = in_sync[0] if in_sync else -1
    marks = bool(adding or removing or topic_id) if marks is None else marks
    state = PartitionState(leader, 0, in_sync)
    return PartitionView(tuple(replicas), tuple(adding), tuple(removing), version, czxid, topic_id, state, marks)


def view(
    partitions: Mapping[str, PartitionView],
    *,
    brokers: Collection[int] = (1, 2, 3, 4),
    reassigning: Mapping[str, Sequence[int]] | None = None,
    **others: Any,
) -> ClusterView:
    """A healthy cluster with these partitions; broker N registered with czxid 100 + N, broker 1 the controller."""
    given: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "controller": Controller(1, 1),
        "brokers": {broker: BrokerRegistration(broker, (), czxid=100 + broker) for broker in brokers},
        "partitions": {tp(name): value for name, value in partitions.items()},
        "reassignments": None if reassigning is None else {tp(name): tuple(r) for name, r in reassigning.items()},
        "elections": None,
        "deletions": frozenset(),
    }
    return ClusterView(**(given | others))
