"""following.json: the batch under way, so that the triggerer, which follows many, need not read whole plans.

It is a copy of approved moves, bound to their digest. Without it (an earlier version's task) the plan is read. Nothing
is written to the cluster from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError, ExecutionError, StorageError
from kafka_rebalance.execution.eta import busiest_bytes
from kafka_rebalance.execution.follow.broker_traffic import Flow, planned
from kafka_rebalance.model.candidate import Batch, Candidate, Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Followed:
    """One batch of a plan, and the batches before and after it: partitions, bytes to copy, these bytes by broker."""

    batch: Batch
    batches: int
    earlier: int
    later: int
    bytes_earlier: int
    bytes_later: int
    flow_earlier: Flow
    flow_later: Flow
    busiest_later: tuple[int, ...]  # of each later batch: bytes of the broker that copies most

    @property
    def busiest(self) -> int:
        """The same of this batch."""
        return busiest_bytes(self.batch.moves)


def followed(candidate: Candidate, number: int) -> Followed:
    """This batch of the candidate. Raises ExecutionError if there is none."""
    batch = next((one for one in candidate.batches if one.number == number), None)
    if batch is None:
        raise ExecutionError(f"Candidate {candidate.name} has no batch {number}. Nothing was written.")
    earlier = [move for move in candidate.moves if move.batch < number]
    later = [move for move in candidate.moves if move.batch > number]
    return Followed(
        batch,
        len(candidate.batches),
        len(earlier),
        len(later),
        sum(move.bytes_to_copy for move in earlier),
        sum(move.bytes_to_copy for move in later),
        planned(earlier),
        planned(later),
        tuple(busiest_bytes(other.moves) for other in candidate.batches if other.number > number),
    )


def write_followed(folder: RunFolder, candidate: Candidate, number: int) -> None:
    """For the triggerer, before it gets the batch. If the write fails, the triggerer reads the plan."""
    one = followed(candidate, number)
    content = {
        "batch": number,
        "moves": [
            [*move.topic_partition, move.before, move.after, move.size_bytes, move.reason, move.leader]
            for move in one.batch.moves
        ],
        "batches": one.batches,
        "earlier": [one.earlier, one.bytes_earlier, _to_pairs(one.flow_earlier)],
        "later": [one.later, one.bytes_later, _to_pairs(one.flow_later), one.busiest_later],
    }
    with suppress(StorageError):
        json_files.write_json(folder, json_files.FOLLOWING, content, source_digest=candidate.digest)


def read_followed(folder: RunFolder, name: str, number: int) -> Followed:
    """This batch of the approved candidate of this name. Raises ArtifactError if the plan cannot be read either."""
    try:
        return _read(folder, name, number)
    except (ArtifactError, ValueError, TypeError, KeyError, AttributeError):
        # Imported here: modules of 50 MB that the triggerer needs only to read a plan.
        from kafka_rebalance.steps.run.left_out_moves import read_remaining

        return followed(read_remaining(folder, name), number)


def read_kafka_elects(folder: RunFolder) -> bool | None:
    """Whether Kafka elected preferred leaders by itself at the time of the snapshot; None: unknown."""
    try:
        return bool(json_files.read_json(folder, json_files.SNAPSHOT)["automatic_elections"]["brokers"])
    except (ArtifactError, KeyError, TypeError):  # an earlier version's; only a sentence depends on it
        return None


def _read(folder: RunFolder, name: str, number: int) -> Followed:
    document = json_files.read_json(folder, json_files.FOLLOWING)
    decision = json_files.read_json(folder, json_files.DECISION)
    wanted = (decision["choice"], decision["digest"], number)
    if (name, document["source_digest"], document["batch"]) != wanted:
        raise ValueError("of another batch")
    moves = tuple(
        Move(TopicPartition(topic, partition), tuple(before), tuple(after), size, number, reason, *leader)
        for topic, partition, before, after, size, reason, *leader in document["moves"]  # an earlier version: no leader
    )
    earlier, bytes_earlier, flow_earlier = document["earlier"]
    later, bytes_later, flow_later, busiest_later = document["later"]
    return Followed(
        Batch(number, moves, document["source_digest"]),
        document["batches"], earlier, later, bytes_earlier, bytes_later,
        _of_pairs(flow_earlier), _of_pairs(flow_later), tuple(busiest_later),
    )  # fmt: skip


def _to_pairs(flow: Flow) -> dict[str, list[list[int]]]:
    return {"received": [list(pair) for pair in flow.received.items()], "sent": [list(p) for p in flow.sent.items()]}


def _of_pairs(written: Mapping[str, Any]) -> Flow:
    return Flow(Counter(dict(written["received"])), Counter(dict(written["sent"])))
