"""What cancelling a running rebalance would do to each of its partitions, and what it costs. Decisions only.

From 2.4 on each partition is cancelled through Kafka's API (KIP-455), in one step of the controller. Below 2.4 there
is no such request: the reassignment znode is replaced by one that asks for the original lists, and the controller is
made to stand down, since it watches that znode's creation alone and keeps what it was asked for in memory. Its
successor finds the original replicas in sync and drops the others (seen on 2.0.1). Where they are not all in sync it
would wait for them for ever, with the new copies still growing: so that is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self

from kafka_rebalance.errors import ApprovalError, ArtifactError
from kafka_rebalance.execution.move_stage import Stage, headed_elsewhere, stage_in, stage_of
from kafka_rebalance.execution.run_position import Position
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import PartitionView, ReplicaBytes, TopicPartition

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
    """How a reassignment is cancelled."""

    API = "api"  # AlterPartitionReassignments, 2.4+
    ZNODE = "znode"  # below 2.4


class Fate(StrEnum):
    """What cancelling does to one move."""

    BACK = "back"  # in flight: it goes back to its original list
    ENDING = "ending"  # the whole target is in sync, so it ends by itself in a moment; waited for
    BLOCKED = "blocked"  # in flight, and must not be taken back as things are
    RETURNING = "returning"  # on its way back already
    DONE = "done"  # has ended: it stays where it was approved to be
    QUEUED = "queued"  # not begun: it stays where it is
    CHANGED = "changed"  # somebody else has changed it, or it is gone: it is left alone


@dataclass(frozen=True, slots=True)
class CancelStep:
    """One move, what becomes of it, and the bytes of half-built copies that are thrown away."""

    move: Move
    fate: Fate
    bytes_thrown_away: int = 0
    note: str = ""  # why it is blocked, or what it cannot restore


@dataclass(frozen=True, slots=True)
class CancelPlan:
    """The cancelling of one run, as it is shown and approved.

    It holds every move that had not ended, since a batch may begin while the request waits: only those that are in
    flight when it is carried out are touched, and none goes anywhere but to its original list.
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
        """The sentence that somebody has to repeat word for word; None where no consent is needed."""
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
        """Out of parsed JSON. Raises ArtifactError."""
        try:
            moves = tuple(
                Move(TopicPartition(topic, partition), tuple(before), tuple(after), size, batch)
                for topic, partition, before, after, size, batch in document["moves"]
            )
            run, cluster_id, digest = (str(document[name]) for name in ("run", "cluster_id", "candidate_digest"))
            return cls(run, cluster_id, digest, CancelWay(document["way"]), moves)
        except (KeyError, TypeError, ValueError) as bad:
            raise ArtifactError(
                f"The cancel plan cannot be read ({type(bad).__name__}: {bad}). Nothing was written to the cluster. "
                "Start a new run of kafka_rebalance_cancel."
            ) from bad


class NeedsConsent(Protocol):
    """A plan with a sentence that has to be repeated, or None."""

    @property
    def consent(self) -> str | None: ...


def check_consent(plan: NeedsConsent, given: str | None) -> None:
    """Raises ApprovalError unless `given` is the sentence that this plan asks for, word for word."""
    if plan.consent is not None and (given or "").strip() != plan.consent:
        raise ApprovalError(
            f"i_consent_to is {given!r}; to go on it must be, word for word: {plan.consent}. Nothing was written. "
            "Start a new run of kafka_rebalance_cancel."
        )


def plan_cancel(
    moves: Sequence[Move],
    view: ClusterView,
    way: CancelWay,
    sizes: ReplicaBytes | None = None,
    *,
    asked: Collection[int] | None = None,
) -> tuple[CancelStep, ...]:
    """What becomes of each move, in their order; `sizes` as brokers report them, for what is thrown away.

    `asked`: the batches that the run's notes say it asked for; what runs of others is somebody else's, and left alone.
    None: all.
    """
    steps = (_step(move, view, way, sizes) for move in moves)
    return tuple(step if asked is None or step.move.batch in asked else _left_alone(step) for step in steps)


def _left_alone(step: CancelStep) -> CancelStep:
    if step.fate not in (Fate.BACK, Fate.ENDING):
        return step
    why = "is being moved as approved by somebody else: this run has not asked for it. It is left alone"
    return CancelStep(step.move, Fate.CHANGED, note=why)


def _step(move: Move, view: ClusterView, way: CancelWay, sizes: ReplicaBytes | None) -> CancelStep:
    partition = view.partitions.get(move.topic_partition)
    if partition is None:
        return CancelStep(move, Fate.CHANGED, note="no longer exists")
    asked = (view.reassignments or {}).get(move.topic_partition)
    stage = stage_of(move, partition, asked, is_marked=way is CancelWay.API)
    if stage in _FATES:
        return CancelStep(move, _FATES[stage])
    if stage is Stage.SENT_ELSEWHERE:
        towards = headed_elsewhere(move, partition, asked) or ()
        return CancelStep(move, Fate.BLOCKED, note=f"is being moved to {list(towards)} by somebody else")
    if stage is Stage.CHANGED:
        return CancelStep(
            move, Fate.CHANGED, note=f"has replicas {list(partition.replicas)}, so somebody else changed it"
        )
    return _in_flight(move, partition, way, view, sizes)


_FATES = {
    Stage.UNTOUCHED: Fate.QUEUED,
    Stage.DONE: Fate.DONE,
    Stage.RETURNING: Fate.RETURNING,
    Stage.TAKEN_BACK: Fate.RETURNING,
}


def _in_flight(
    move: Move, partition: PartitionView, way: CancelWay, view: ClusterView, sizes: ReplicaBytes | None
) -> CancelStep:
    isr, live = set(partition.isr), set(view.brokers)
    safe = set(move.before) & isr & live
    thrown = sum(_copied(move, broker, partition, sizes) for broker in move.added)
    if set(move.after) <= isr and (way is CancelWay.ZNODE or not safe):
        return CancelStep(move, Fate.ENDING, 0, "its new replicas are all in sync: it ends by itself in a moment")
    if not safe:
        return CancelStep(
            move,
            Fate.BLOCKED,
            note=f"none of its original replicas {list(move.before)} is in sync and alive: going back would lose what "
            f"only {sorted(isr)} hold. Let it end, or start the brokers of its original list",
        )
    missing = sorted(set(move.before) - safe)
    if way is CancelWay.API:
        note = f"goes back to {len(safe)} of {len(move.before)} replicas in sync: {missing} not" if missing else ""
        return CancelStep(move, Fate.BACK, thrown, note)
    if missing:
        return CancelStep(
            move,
            Fate.BLOCKED,
            note=f"its original replicas {missing} are not in sync: below 2.4 the controller would wait for them for "
            "ever. Start those brokers, or let the move end",
        )
    return CancelStep(move, Fate.BACK, thrown)


def _copied(move: Move, broker: int, partition: PartitionView, sizes: ReplicaBytes | None) -> int:
    """What this new replica holds by now, at most the leader's size; in the ISR it is whole."""
    by_broker = (sizes or {}).get(move.topic_partition, {})
    whole = by_broker.get(partition.leader, move.size_bytes)
    return whole if broker in partition.isr else min(by_broker.get(broker, 0), whole)


def has_fate(steps: Sequence[CancelStep], *fates: Fate) -> tuple[CancelStep, ...]:
    return tuple(step for step in steps if step.fate in fates)


def out_of_order(moves: Sequence[Move], view: ClusterView) -> tuple[Move, ...]:
    """What brings moves that are back, but in the order that the API left, to their recorded lists. It copies nothing.

    Left out are lists with a broker that is not registered, which no request may name.
    """
    back = []
    for move in moves:
        if stage_in(move, view) is Stage.TAKEN_BACK and set(move.before) <= set(view.brokers):
            now = view.partitions[move.topic_partition].replicas
            back.append(Move(move.topic_partition, now, move.before, move.size_bytes))
    return tuple(back)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a run leaves undone if it stops after the batch under way (None: none is)."""

    running: int | None
    batches: tuple[int, ...]
    partitions: int
    bytes_to_copy: int


def remaining(batches: Sequence[Batch], where: Position) -> Remaining:
    """What would be left out by stopping now."""
    running = None if where.in_flight is None else where.in_flight.number
    left = [batch for batch in batches if batch.number not in where.done and batch.number != running]
    moves = [move for batch in left for move in batch.moves]
    copied = sum(move.bytes_to_copy for move in moves)
    return Remaining(running, tuple(batch.number for batch in left), len(moves), copied)
