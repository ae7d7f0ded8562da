"""Whether ZooKeeper takes the request of each batch, and the topics' znodes as they are while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_BYTES, JUTE_MAXBUFFER_PLACES
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import Finding

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
        asked = [{**move.topic_partition._asdict(), "replicas": move.after} for move in batch.moves]
        request = _length({"version": 1, "partitions": asked})
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
