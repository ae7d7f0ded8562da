"""What cancelling a running rebalance would do to each of its partitions, and what it costs.

From 2.4 on, each partition is cancelled through Kafka's API (KIP-455), in one step of the controller. Below 2.4 there
is no such request: the run replaces the reassignment znode by one that asks for the original lists. Then it makes the
controller resign, because a controller watches only the creation of that znode and keeps its moves in memory. The next
controller finds the original replicas in sync and drops the others (seen on 2.0.1). If they are not all in sync, it
would wait for them for ever while the new copies still grow: so that is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from kafka_rebalance.errors import ApprovalError, ArtifactError
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import PartitionView, ReplicaBytes, TopicPartition
from kafka_rebalance.moves.move_stage import Stage, headed_elsewhere, stage_in, stage_of
from kafka_rebalance.moves.run_position import Position

# What each way of ending a rebalance early leaves as it is. Shown before it is done.
STOP_CANNOT_RESTORE = (
    "Partitions that are in place stay there, and the batch under way is copied to its end.",
    "The balance that was approved is not reached; what is left out needs a new run.",
)
CANCEL_CANNOT_RESTORE = (
    "Partitions that have reached their approved replicas stay there: roll_back moves them back, as a plan of its own.",
    "Bytes of half-built copies are thrown away; a later run copies them again.",
    "Leaders that changed meanwhile are not elected back, and leader epochs only grow.",
)
ROLL_BACK_CANNOT_RESTORE = (
    "Only lists of replicas go back: records written since stay, and segments that retention or compaction has "
    "deleted since do not come back.",
    "Replicas that the rebalance removed are gone from disk, so they are copied again from the leaders of today.",
    "Followers that were out of sync or brokers that were registered at the time are not brought back by it.",
)


class CancelWay(StrEnum):
    API = "api"  # AlterPartitionReassignments, 2.4+
    ZNODE = "znode"  # below 2.4


class Fate(StrEnum):
    BACK = "back"  # in flight: it goes back to its original list
    ENDING = "ending"  # all approved replicas are in sync, so it ends by itself in a moment: the cancel waits for it
    BLOCKED = "blocked"  # in flight, and must not be taken back now
    RETURNING = "returning"  # on its way back already
    DONE = "done"  # has ended: it stays where it was approved to be
    QUEUED = "queued"  # not begun: it stays where it is
    CHANGED = "changed"  # somebody else has changed it, or it is gone: it is left alone


@dataclass(frozen=True, slots=True)
class CancelStep:
    move: Move
    fate: Fate
    bytes_thrown_away: int = 0  # of half-built copies
    note: str = ""  # why it is blocked, or what it cannot restore


@dataclass(frozen=True, slots=True)
class CancelPlan:
    """The cancelling of one run, as it is shown and approved.

    It holds every move that had not ended, since a batch may begin while the request waits. Carrying it out touches
    only moves that are in flight then, and sends each to its original list and nowhere else.
    """

    run: str
    cluster_id: str
    candidate_digest: str
    way: CancelWay
    moves: tuple[Move, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.to_mapping())

    @property
    def consent(self) -> str | None:
        """The sentence that a person has to repeat word for word; None where no consent is needed."""
        if self.way is CancelWay.API:
            return None
        return (
            f"delete /admin/reassign_partitions and /controller of cluster {self.cluster_id} to cancel "
            f"{self.digest[:8]}"
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values: what the digest is taken of."""
        return {
            "run": self.run,
            "cluster_id": self.cluster_id,
            "candidate_digest": self.candidate_digest,
            "way": str(self.way),
            "moves": [
                [*move.topic_partition, list(move.before), list(move.after), move.size_bytes, move.batch]
                for move in sorted(self.moves, key=lambda move: move.topic_partition)
            ],
        }

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """Raises ArtifactError."""
        try:
            moves = tuple(
                Move(TopicPartition(topic, partition), tuple(before), tuple(after), size, batch)
                for topic, partition, before, after, size, batch in document["moves"]
            )
            run, cluster_id, digest = (str(document[name]) for name in ("run", "cluster_id", "candidate_digest"))
            return cls(run, cluster_id, digest, CancelWay(document["way"]), moves)
        except (KeyError, TypeError, ValueError) as bad:
            raise ArtifactError(
                f"The cancel plan cannot be read ({type(bad).__name__}: {bad}). "
                "Start a new run of kafka_rebalance_cancel."
            ) from bad


def check_consent(consent: str | None, given: str | None) -> None:
    """Raises ApprovalError unless `given` is the plan's `consent`, word for word; None: the plan needs none."""
    if consent is not None and (given or "").strip() != consent:
        raise ApprovalError(
            f"i_consent_to is {given!r}; to go on it must be, word for word: {consent}. "
            "Start a new run of kafka_rebalance_cancel."
        )


def plan_cancel(
    moves: Sequence[Move],
    view: ClusterView,
    way: CancelWay,
    sizes: ReplicaBytes | None = None,
    *,
    asked: Collection[TopicPartition] | None = None,
) -> tuple[CancelStep, ...]:
    """What becomes of each move, in their order. `sizes`: as brokers report them, for the bytes that are thrown away.

    `asked`: partitions for whose move the run has asked, by its notes; None: all. Somebody else runs the other moves,
    so these are left alone.
    """
    steps = []
    for move in moves:
        step = _step(move, view, way, sizes)
        if asked is not None and move.topic_partition not in asked and step.fate in (Fate.BACK, Fate.ENDING):
            why = "is being moved as approved by somebody else: this run has not asked for it. It is left alone"
            step = CancelStep(move, Fate.CHANGED, note=why)
        steps.append(step)
    return tuple(steps)


def _step(move: Move, view: ClusterView, way: CancelWay, sizes: ReplicaBytes | None) -> CancelStep:
    partition = view.partitions.get(move.topic_partition)
    if partition is None:
        return CancelStep(move, Fate.CHANGED, note="no longer exists")
    target = (view.reassignments or {}).get(move.topic_partition)
    stage = stage_of(move, partition, target, is_marked=way is CancelWay.API)
    if stage in _FATES:
        return CancelStep(move, _FATES[stage])
    if stage is Stage.SENT_ELSEWHERE:
        towards = headed_elsewhere(move, partition, target) or ()
        return CancelStep(move, Fate.BLOCKED, note=f"is being moved to {list(towards)} by somebody else")
    if stage is Stage.CHANGED:
        note = f"has replicas {list(partition.replicas)}, so somebody else changed it"
        return CancelStep(move, Fate.CHANGED, note=note)
    return _in_flight(move, partition, way, view, (sizes or {}).get(move.topic_partition, {}))


_FATES = {
    Stage.UNTOUCHED: Fate.QUEUED,
    Stage.DONE: Fate.DONE,
    Stage.RETURNING: Fate.RETURNING,
    Stage.TAKEN_BACK: Fate.RETURNING,
}


def _in_flight(
    move: Move, partition: PartitionView, way: CancelWay, view: ClusterView, by_broker: Mapping[int, int]
) -> CancelStep:
    isr = set(partition.isr)
    safe = set(move.before) & isr & set(view.brokers)
    if set(move.after) <= isr and (way is CancelWay.ZNODE or not safe):
        return CancelStep(move, Fate.ENDING, 0, "its new replicas are all in sync: it ends by itself in a moment")
    if not safe:
        note = (
            f"none of its original replicas {list(move.before)} is in sync and alive: going back would lose what "
            f"only {sorted(isr)} hold. Let it end, or start the brokers of its original list"
        )
        return CancelStep(move, Fate.BLOCKED, note=note)
    missing, note = sorted(set(move.before) - safe), ""
    if missing and way is CancelWay.ZNODE:
        note = (
            f"its original replicas {missing} are not in sync: below 2.4 the controller would wait for them for "
            "ever. Start those brokers, or let the move end"
        )
        return CancelStep(move, Fate.BLOCKED, note=note)
    if missing:
        note = f"goes back to {len(safe)} of {len(move.before)} replicas in sync: {missing} not"
    whole = by_broker.get(partition.leader, move.size_bytes)  # a new replica in the ISR is whole, whatever its size
    thrown = (whole if broker in isr else min(by_broker.get(broker, 0), whole) for broker in move.added)
    return CancelStep(move, Fate.BACK, sum(thrown), note)


def has_fate(steps: Sequence[CancelStep], *fates: Fate) -> tuple[CancelStep, ...]:
    return tuple(step for step in steps if step.fate in fates)


def out_of_order(moves: Sequence[Move], view: ClusterView) -> tuple[Move, ...]:
    """Moves that bring cancelled partitions from the order that the API left to their recorded lists, without a copy.

    Lists with a broker that is not registered are left out: no request may name it.
    """
    back = []
    for move in moves:
        if stage_in(move, view) is Stage.TAKEN_BACK and set(move.before) <= set(view.brokers):
            now = view.partitions[move.topic_partition].replicas
            back.append(Move(move.topic_partition, now, move.before, move.size_bytes))
    return tuple(back)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a run leaves undone if it stops after the batch under way; `running` None: there is none."""

    running: int | None
    batches: tuple[int, ...]
    partitions: int
    bytes: int


def remaining(batches: Sequence[Batch], where: Position) -> Remaining:
    running = set(where.in_place)
    if where.in_flight is not None:
        running |= {move.topic_partition for move in where.in_flight.moves}
    unfinished = [batch for batch in batches if batch.number not in where.done]
    moves = [move for batch in unfinished for move in batch.moves if move.topic_partition not in running]
    return Remaining(
        None if where.in_flight is None else where.in_flight.number,
        tuple(sorted({move.batch for move in moves})),
        len(moves),
        sum(move.bytes_to_copy for move in moves),
    )
