"""Preferred leader election for moved partitions whose leader is not the first replica."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from kazoo.client import KazooClient

from kafka_rebalance.model.cluster import AnyView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.proposal import Move
from kafka_rebalance.zookeeper.reader import read_batch_view
from kafka_rebalance.zookeeper.writer import create_election

log = logging.getLogger(__name__)

WAIT_SECONDS = 60.0  # the znode of a healthy election is gone in less than a second (seen on 2.0.1 to 3.9.2)


def elect_preferred(
    client: KazooClient,
    moves: Sequence[Move],
    *,
    allowed: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[TopicPartition, ...]:
    """Elects where leader and preferred leader differ; returns the partitions whose leader still differs.

    Only partitions whose preferred replica is live and in sync, and which are not in motion, are requested: an
    election below 2.4 never falls back to another replica, and an entry that cannot be elected can block the znode.
    `allowed` is asked before the request, and raises where nothing may be written now.
    """
    partitions = [move.topic_partition for move in moves]
    view = read_batch_view(client, partitions)
    differing = [move for move in moves if not led_by_first(view, move)]
    electable = [move for move in differing if _is_electable(view, move)]
    if electable:
        allowed()
        log.info("electing the preferred leader of %d partitions", len(electable))
        create_election(client, [move.topic_partition for move in electable], view)
        deadline = clock() + WAIT_SECONDS
        while clock() < deadline:
            view = read_batch_view(client, partitions)
            if view.elections is None and all(led_by_first(view, move) for move in electable):
                break
            pause(0.2)
    left = tuple(move.topic_partition for move in differing if not led_by_first(view, move))
    for tp in left:
        log.warning("%s: leader is not the preferred one yet", tp)
    return left


def led_by_first(view: AnyView, move: Move) -> bool:
    """Whether the preferred leader leads."""
    partition = view.partitions.get(move.topic_partition)
    return partition is not None and partition.leader == move.after[0]


def _is_electable(view: AnyView, move: Move) -> bool:
    partition = view.partitions.get(move.topic_partition)
    return (
        partition is not None
        and partition.replicas == move.after
        and not partition.in_motion
        and move.topic_partition not in (view.reassignments or {})
        and move.topic_partition.topic not in view.deletions
        and move.after[0] in view.brokers
        and move.after[0] in partition.isr
    )
