"""A candidate and its way back as files for Kafka's own tool, kafka-reassign-partitions."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_rebalance.kafka.reassign_tool_files import format_reassignment
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition


def plan_file(candidate: str) -> str:
    """The name of the file that requests the candidate."""
    return f"{candidate}.json"


def rollback_file(candidate: str) -> str:
    """The name of the file that requests the replica lists of now."""
    return f"{candidate}-rollback.json"


def reassignment_files(candidate: str, moves: Sequence[Move]) -> dict[str, bytes]:
    """{file name: content} for `--reassignment-json-file`, partitions in order.

    Moves that only elect a leader are left out. Empty if no list changes, because the tool refuses an empty plan.
    """
    ordered = sorted((move for move in moves if not move.is_election), key=lambda move: move.topic_partition)
    if not ordered:
        return {}
    return {
        plan_file(candidate): _text({move.topic_partition: move.after for move in ordered}),
        rollback_file(candidate): _text({move.topic_partition: move.before for move in ordered}),
    }


def _text(lists: dict[TopicPartition, tuple[int, ...]]) -> bytes:
    return f"{format_reassignment(lists)}\n".encode()
