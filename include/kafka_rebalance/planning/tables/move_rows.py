"""A move as a row of the table `moves`, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition

MOVES_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("before", pa.list_(pa.int32())),
        ("after", pa.list_(pa.int32())),
        ("bytes", pa.int64()),
        ("size_bytes", pa.int64()),
        ("batch", pa.int32()),
        ("reason", pa.string()),
        ("leader", pa.int32()),  # who leads before; null where it is not known
    ]
)
LATER_MOVES = MOVES_SCHEMA.names[-1:]  # columns that plans of an older version lack


def move_of(row: Mapping[str, Any]) -> Move:
    """The move of a row of the table `moves`."""
    return Move(
        TopicPartition(row["topic"], row["partition"]),
        tuple(row["before"]),
        tuple(row["after"]),
        row["size_bytes"],
        row["batch"],
        row["reason"],
        -1 if row.get("leader") is None else row["leader"],
    )


def move_row(candidate: str, move: Move) -> dict[str, Any]:
    """The row of the table `moves` for a candidate's move."""
    return {
        "candidate": candidate,
        "topic": move.topic_partition.topic,
        "partition": move.topic_partition.partition,
        "before": list(move.before),
        "after": list(move.after),
        "bytes": move.bytes_to_copy,
        "size_bytes": move.size_bytes,
        "batch": move.batch,
        "reason": move.reason,
        "leader": move.leader if move.leader >= 0 else None,
    }
