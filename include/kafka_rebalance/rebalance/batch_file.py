"""following.json: the batch under way, so that the triggerer, which follows many, need not read whole plans.

It is a copy of approved moves, bound to their digest. Without it (an earlier version's task) the plan is read. Nothing
is written to the cluster from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.errors import ArtifactError, ExecutionError, StorageError
from kafka_rebalance.model.candidate import Batch, Candidate, Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.eta import busiest_bytes
from kafka_rebalance.moves.rolling_requests import Beside, Limits
from kafka_rebalance.rebalance.broker_traffic import Flow, planned
from kafka_rebalance.run.approval_rules import DECISION_FILE
from kafka_rebalance.run.run_folder import RunFolder


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
    beside: Beside | None = None  # without a request znode: what may be requested meanwhile; None: nothing
    is_whole: bool = True  # whether the batch is one of the plan: else nobody measures its bytes as those of that one

    @property
    def busiest(self) -> int:
        """The same of this batch."""
        return busiest_bytes(self.batch.moves)


def followed(candidate: Candidate, number: int) -> Followed:
    """This batch of the candidate. Raises ExecutionError if there is none."""
    batch = next((one for one in candidate.batches if one.number == number), None)
    if batch is None:
        raise ExecutionError(f"Candidate {candidate.name} has no batch {number}.")
    return _among(candidate, batch, [move for move in candidate.moves if move.batch > number])


def followed_beside(
    candidate: Candidate, batch: Batch, in_place: Collection[TopicPartition], watched: Beside | None
) -> Followed:
    """What is in flight. `in_place`: all that has ended. Without `watched` none may be added meanwhile."""
    here = {*in_place, *(move.topic_partition for move in batch.moves)}
    found = _among(candidate, batch, [move for move in candidate.moves if move.topic_partition not in here])
    whole = {move for move in candidate.moves if move.batch == batch.number}
    return replace(found, beside=watched, is_whole=whole == set(batch.moves))


def _among(candidate: Candidate, batch: Batch, later: Sequence[Move]) -> Followed:
    others = {move.topic_partition for move in (*batch.moves, *later)}
    earlier = [move for move in candidate.moves if move.topic_partition not in others]
    numbers = sorted({move.batch for move in later})
    return Followed(
        batch,
        len(candidate.batches),
        len(earlier),
        len(later),
        sum(move.bytes_to_copy for move in earlier),
        sum(move.bytes_to_copy for move in later),
        planned(earlier),
        planned(later),
        tuple(busiest_bytes([move for move in later if move.batch == number]) for number in numbers),
    )


def write_followed(folder: RunFolder, digest: str, one: Followed, *, is_in_plan: bool) -> None:
    """For the triggerer, before it gets the batch. If the write of a batch of the plan fails, it reads the plan."""
    content: dict[str, Any] = {
        "batch": one.batch.number,
        "moves": [_row(move, one.batch.number) for move in one.batch.moves],
        "batches": one.batches,
        "earlier": [one.earlier, one.bytes_earlier, _to_pairs(one.flow_earlier)],
        "later": [one.later, one.bytes_later, _to_pairs(one.flow_later), one.busiest_later],
    }
    if (more := one.beside) is not None:
        content["waiting"] = [_row(move, one.batch.number) for move in more.ready]
        content["limits"] = asdict(more.limits)
        content |= {"flying": sorted(more.flying), "freeing": sorted(more.freeing), "busiest": sorted(more.busiest)}
    if not is_in_plan:
        content["is_whole"] = one.is_whole
    with suppress(StorageError) if is_in_plan else nullcontext():
        json_files.write_json(folder, json_files.FOLLOWING, content, source_digest=digest)


def _row(move: Move, number: int) -> list[Any]:
    """Its batch only if it is another one."""
    row = [*move.topic_partition, move.before, move.after, move.size_bytes, move.reason, move.leader]
    return row if move.batch == number else [*row, move.batch]


def read_followed(folder: RunFolder, name: str, number: int) -> Followed:
    """This batch of the approved candidate of this name. Raises ArtifactError if the plan cannot be read either."""
    try:
        return _read(folder, name, number)
    except (ArtifactError, ValueError, TypeError, KeyError, AttributeError):
        # Imported here: modules of 50 MB that the triggerer needs only to read a plan.
        from kafka_rebalance.run.approved_plan import read_remaining

        return followed(read_remaining(folder, name), number)


def read_kafka_elects(folder: RunFolder) -> bool | None:
    """Whether Kafka elected preferred leaders by itself at the time of the snapshot; None: unknown."""
    try:
        elections = SNAPSHOT_FILE.read(folder).automatic_elections
    except ArtifactError:  # only a sentence depends on it
        return None
    return None if elections is None else bool(elections.brokers)


def _read(folder: RunFolder, name: str, number: int) -> Followed:
    document = json_files.read_json(folder, json_files.FOLLOWING)
    decision = DECISION_FILE.read(folder)
    wanted = (decision.choice, decision.digest, number)
    if (name, document["source_digest"], document["batch"]) != wanted:
        raise ValueError("of another batch")
    earlier, bytes_earlier, flow_earlier = document["earlier"]
    later, bytes_later, flow_later, busiest_later = document["later"]
    limits = document.get("limits")
    return Followed(
        Batch(number, _moves(document["moves"], number), document["source_digest"]),
        document["batches"], earlier, later, bytes_earlier, bytes_later,
        _of_pairs(flow_earlier), _of_pairs(flow_later), tuple(busiest_later),
        None if limits is None else _beside(document, Limits(**limits), number),
        document.get("is_whole", limits is None),
    )  # fmt: skip


def _beside(document: Mapping[str, Any], limits: Limits, number: int) -> Beside:
    """An earlier version's does not tell what was in flight, so nothing is added before all of it has ended."""
    flying, freeing = (
        frozenset(TopicPartition(topic, partition) for topic, partition in document.get(name, ()))
        for name in ("flying", "freeing")
    )
    busiest = frozenset((broker, way) for broker, way in document.get("busiest", ()))
    return Beside(limits, _moves(document["waiting"], number), flying, freeing, busiest)


def _moves(rows: Sequence[Sequence[Any]], number: int) -> tuple[Move, ...]:
    """From rows of `_row`; an earlier version's have no leader."""
    found = []
    for topic, partition, before, after, size, reason, *more in rows:
        leader, batch = more[0] if more else -1, more[1] if len(more) > 1 else number
        found.append(Move(TopicPartition(topic, partition), tuple(before), tuple(after), size, batch, reason, leader))
    return tuple(found)


def _to_pairs(flow: Flow) -> dict[str, list[list[int]]]:
    return {"received": [list(pair) for pair in flow.received.items()], "sent": [list(p) for p in flow.sent.items()]}


def _of_pairs(written: Mapping[str, Any]) -> Flow:
    return Flow(Counter(dict(written["received"])), Counter(dict(written["sent"])))
