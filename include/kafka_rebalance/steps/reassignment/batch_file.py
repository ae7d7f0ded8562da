"""following.json: the batch under way, so that the triggerer, which follows many, reads no plan with all its moves.

A copy of what was approved, and bound to its digest. Where there is none of this batch (the task that deferred is of an
earlier version) the plan is read. Nothing is ever written to the cluster from it.
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
from kafka_rebalance.execution.follow.broker_traffic import Flow
from kafka_rebalance.model.candidate import Batch, Candidate, Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.reassignment.progress_notes import Around, around
from kafka_rebalance.steps.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Followed:
    """One batch of a plan, and what comes before and after it."""

    batch: Batch
    around: Around


def followed(candidate: Candidate, number: int) -> Followed:
    """That batch of the candidate, of which nothing else is kept. Raises ExecutionError where it has none."""
    for batch in candidate.batches:
        if batch.number == number:
            return Followed(batch, around(candidate, batch))
    raise ExecutionError(f"Candidate {candidate.name} has no batch {number}. Nothing was written.")


def write_followed(folder: RunFolder, candidate: Candidate, number: int) -> None:
    """For the triggerer, before it is handed the batch. Where this cannot be written, it reads the plan."""
    one = followed(candidate, number)
    before = one.around
    content = {
        "batch": number,
        "moves": [
            [*move.topic_partition, move.before, move.after, move.size_bytes, move.reason, move.leader]
            for move in one.batch.moves
        ],
        "batches": before.batches,
        "earlier": [before.earlier, before.bytes_earlier, _to_pairs(before.flow_earlier)],
        "later": [before.later, before.bytes_later, _to_pairs(before.flow_later), before.busiest_later],
    }
    with suppress(StorageError):
        json_files.write_json(folder, json_files.FOLLOWING, content, source_digest=candidate.digest)


def read_followed(folder: RunFolder, name: str, number: int) -> Followed:
    """That batch of the approved candidate of this name. Raises ArtifactError where the plan cannot be read either."""
    try:
        return _read(folder, name, number)
    except (ArtifactError, ValueError, TypeError, KeyError, AttributeError):
        # Here, since reading the plan's tables takes the triggerer 50 MB of modules, and the plan some more.
        from kafka_rebalance.steps.run.left_out_moves import read_remaining

        return followed(read_remaining(folder, name), number)


def read_kafka_elects(folder: RunFolder) -> bool | None:
    """Whether Kafka elected preferred leaders by itself when the snapshot was taken; None where it does not say."""
    try:
        return bool(json_files.read_json(folder, json_files.SNAPSHOT)["automatic_elections"]["brokers"])
    except (ArtifactError, KeyError, TypeError):  # of an earlier version; what follows from it is a sentence alone
        return None


def _read(folder: RunFolder, name: str, number: int) -> Followed:
    document = json_files.read_json(folder, json_files.FOLLOWING)
    decision = json_files.read_json(folder, json_files.DECISION)
    wanted = (decision["choice"], decision["digest"], number)
    if (name, document["source_digest"], document["batch"]) != wanted:
        raise ValueError("of another batch")
    moves = tuple(
        Move(TopicPartition(topic, partition), tuple(before), tuple(after), size, number, reason, *leader)
        for topic, partition, before, after, size, reason, *leader in document["moves"]  # none by an earlier version
    )
    earlier, bytes_earlier, flow_earlier = document["earlier"]
    later, bytes_later, flow_later, busiest_later = document["later"]
    return Followed(
        Batch(number, moves, document["source_digest"]),
        Around(
            number, document["batches"], earlier, later, bytes_earlier, bytes_later,
            _of_pairs(flow_earlier), _of_pairs(flow_later), busiest_bytes(moves), tuple(busiest_later),
        ),
    )  # fmt: skip


def _to_pairs(flow: Flow) -> dict[str, list[list[int]]]:
    return {"received": [list(pair) for pair in flow.received.items()], "sent": [list(p) for p in flow.sent.items()]}


def _of_pairs(written: Mapping[str, Any]) -> Flow:
    return Flow(Counter(dict(written["received"])), Counter(dict(written["sent"])))
