"""following.json: the batch under way, so that the triggerer, which follows many, need not read whole plans.

It is a copy of approved moves, bound to their digest. Without it (an earlier version's task) the plan is read. Nothing
is written to the cluster from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

from kafka_rebalance.documents.json_files import FOLLOWING, JsonFile, omitted
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
    batch = next((batch for batch in candidate.batches if batch.number == number), None)
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


@dataclass(frozen=True, slots=True)
class FlowPairs:
    """Bytes by broker, each a pair."""

    received: tuple[tuple[int, int], ...]
    sent: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, flow: Flow) -> FlowPairs:
        return cls(tuple(flow.received.items()), tuple(flow.sent.items()))

    @property
    def flow(self) -> Flow:
        return Flow(Counter(dict(self.received)), Counter(dict(self.sent)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """following.json. Moves are rows (`_row`), because a batch may have thousands.

    `flying`, `freeing` and `busiest`: an earlier version does not tell what was in flight, so nothing is added before
    all of it has ended.
    """

    batch: int
    moves: tuple[tuple[Any, ...], ...]
    batches: int
    earlier: tuple[int, int, FlowPairs]  # partitions, bytes
    later: tuple[int, int, FlowPairs, tuple[int, ...]]  # besides, the bytes of the busiest broker in each batch
    source_digest: str = omitted("")
    limits: Limits | None = omitted()  # of what may be requested meanwhile; None: nothing
    waiting: tuple[tuple[Any, ...], ...] | None = omitted()
    flying: tuple[TopicPartition, ...] | None = omitted()
    freeing: tuple[TopicPartition, ...] | None = omitted()
    busiest: tuple[tuple[int, str], ...] | None = omitted()
    is_whole: bool | None = omitted()


FOLLOWING_FILE = JsonFile(FOLLOWING, Following)


def write_followed(folder: RunFolder, digest: str, followed: Followed, *, is_in_plan: bool) -> None:
    """For the triggerer, before it gets the batch. If the write of a batch of the plan fails, it reads the plan."""
    number, beside = followed.batch.number, followed.beside
    content = Following(
        batch=number,
        moves=tuple(_row(move, number) for move in followed.batch.moves),
        batches=followed.batches,
        earlier=(followed.earlier, followed.bytes_earlier, FlowPairs.of(followed.flow_earlier)),
        later=(followed.later, followed.bytes_later, FlowPairs.of(followed.flow_later), followed.busiest_later),
        is_whole=None if is_in_plan else followed.is_whole,
    )
    if beside is not None:
        content = replace(
            content,
            limits=beside.limits,
            waiting=tuple(_row(move, number) for move in beside.ready),
            flying=tuple(sorted(beside.flying)),
            freeing=tuple(sorted(beside.freeing)),
            busiest=tuple(sorted(beside.busiest)),
        )
    with suppress(StorageError) if is_in_plan else nullcontext():
        FOLLOWING_FILE.write(folder, content, source_digest=digest)


def _row(move: Move, number: int) -> tuple[Any, ...]:
    """Its batch only if it is another one."""
    row = (*move.topic_partition, move.before, move.after, move.size_bytes, move.reason, move.leader)
    return row if move.batch == number else (*row, move.batch)


def read_followed(folder: RunFolder, name: str, number: int) -> Followed:
    """This batch of the approved candidate of this name. Raises ArtifactError if the plan cannot be read either."""
    try:
        return _read(folder, name, number)
    except (ArtifactError, ValueError, TypeError):
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
    noted, decision = FOLLOWING_FILE.read(folder), DECISION_FILE.read(folder)
    if (name, noted.source_digest, noted.batch) != (decision.choice, decision.digest, number):
        raise ValueError("of another batch")
    earlier, bytes_earlier, flow_earlier = noted.earlier
    later, bytes_later, flow_later, busiest_later = noted.later
    return Followed(
        Batch(number, _moves(noted.moves, number), noted.source_digest),
        noted.batches, earlier, later, bytes_earlier, bytes_later, flow_earlier.flow, flow_later.flow, busiest_later,
        None if noted.limits is None else _beside(noted, noted.limits),
        noted.limits is None if noted.is_whole is None else noted.is_whole,
    )  # fmt: skip


def _beside(noted: Following, limits: Limits) -> Beside:
    flying, freeing = frozenset(noted.flying or ()), frozenset(noted.freeing or ())
    return Beside(limits, _moves(noted.waiting or (), noted.batch), flying, freeing, frozenset(noted.busiest or ()))


def _moves(rows: Sequence[Sequence[Any]], number: int) -> tuple[Move, ...]:
    """From rows of `_row`; an earlier version's have no leader."""
    moves = []
    for topic, partition, before, after, size, reason, *more in rows:
        leader, batch = more[0] if more else -1, more[1] if len(more) > 1 else number
        moves.append(Move(TopicPartition(topic, partition), tuple(before), tuple(after), size, batch, reason, leader))
    return tuple(moves)
