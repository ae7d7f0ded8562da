"""How far each move is, from ZooKeeper and the sizes that brokers report, and what that makes of a batch.

Read `/admin/reassign_partitions` first and the topics after it. The controller writes the final list before it removes
the entry. So a list that is read after the entry has gone is final, and one that is read before may be an interim one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_rebalance.model.amounts_in_words import bytes_in_words, duration_in_words
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.partition import PartitionView, ReplicaBytes, TopicPartition
from kafka_rebalance.moves.move_stage import Stage, stage_in


class Phase(StrEnum):
    """Where one move is. A move goes through them in this order."""

    QUEUED = "queued"  # not requested yet
    REGISTERED = "registered"  # in the znode; the controller has not changed the partition's list yet
    COPYING = "copying"  # a broker of the target is not in the ISR
    IN_ISR = "in_isr"  # the whole target is in the ISR, the old replicas are still there
    TRIMMING = "trimming"  # old replicas are leaving, or the last write is outstanding
    DONE = "done"
    REFUSED = "refused"  # requested, and the controller will not do it, or the partition is no longer what it was
    TAKEN_BACK = "taken_back"  # requested and begun, and back at its original replicas: it was cancelled

    @property
    def in_words(self) -> str:
        return "in the ISR" if self is Phase.IN_ISR else self.replace("_", " ")


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One move now. `bytes_total` is what its new replicas will hold together."""

    move: Move
    phase: Phase
    bytes_copied: int
    bytes_total: int
    dead_targets: tuple[int, ...] = ()  # brokers of the target that are not registered: Kafka waits for them for ever
    anomaly: str | None = None  # what is not as it should be, and what to do
    leader: int = -1  # where copies come from; -1: nobody leads
    missing: tuple[int, ...] = ()  # brokers of the target that are not in the ISR


@dataclass(frozen=True, slots=True)
class MovesProgress:
    """Many moves now. `dead_targets`: target broker that is not registered -> partitions that wait for it."""

    partitions_done: int
    partitions_total: int
    bytes_copied: int
    bytes_total: int
    phases: Mapping[Phase, int]
    dead_targets: Mapping[int, int]
    anomalies: Mapping[str, str]  # what is wrong in short -> in full, and what to do
    refused: tuple[TopicPartition, ...]
    taken_back: tuple[TopicPartition, ...] = ()

    @property
    def finished(self) -> bool:
        return self.partitions_done == self.partitions_total


def is_complete(move: Move, view: AnyView) -> bool:
    """Whether the move has ended as approved. Source of the criteria: KafkaController.onPartitionReassignment.

    It is not enough that the entry has left the znode: the controller also drops a move that it refuses, with only a
    log line.
    """
    partition = view.partitions.get(move.topic_partition)
    return (
        partition is not None
        and stage_in(move, view) is Stage.DONE
        and set(partition.isr) == set(move.after)
        and partition.leader in move.after
        and partition.leader in view.brokers
    )


def partition_progress(
    move: Move, view: AnyView, sizes: ReplicaBytes | None = None, *, requested: bool = True, begun: bool = False
) -> PartitionProgress:
    """The move's phase, its bytes and what is wrong with it.

    `requested`: the znode with this move has been created, now or earlier. Before that, an untouched partition is
    queued; after that, it is refused. `begun`: the move has been seen under way since then. If the partition is
    untouched again, it was cancelled, not dropped. In 2.0 a moving partition shows only the union of both lists in any
    order. From 2.4 on, the topic znode names what is added and removed (KIP-455). Both work.
    """
    partition = view.partitions.get(move.topic_partition)
    copied, total = _bytes(move, partition, (sizes or {}).get(move.topic_partition, {}))
    dead = tuple(broker for broker in move.after if broker not in view.brokers)
    if partition is None:
        gone = (
            f"{move.topic_partition} no longer exists: somebody deleted its topic. Start a new Dag run to plan from "
            "the current cluster."
        )
        return PartitionProgress(move, Phase.REFUSED, 0, total, dead, gone)
    if is_complete(move, view):
        return PartitionProgress(move, Phase.DONE, total, total)
    phase, anomaly = _phase(move, view, partition, requested, begun)
    missing = tuple(broker for broker in move.after if broker not in partition.isr)
    waits_for = dead if phase is not Phase.QUEUED else ()
    return PartitionProgress(move, phase, copied, total, waits_for, anomaly, partition.leader, missing)


def _phase(
    move: Move, view: AnyView, partition: PartitionView, requested: bool, begun: bool
) -> tuple[Phase, str | None]:
    """Of a move that is not complete."""
    tp, now = move.topic_partition, partition.replicas
    target = (view.reassignments or {}).get(tp)
    stage = stage_in(move, view)
    if requested and (stage is Stage.TAKEN_BACK or (stage is Stage.UNTOUCHED and begun)):
        return Phase.TAKEN_BACK, (
            f"{tp}: somebody else cancelled its move. Its replicas are {list(now)} again, not the approved "
            f"{list(move.after)}, and nobody asks for these any more. The copies are thrown away. Find out who "
            "cancelled it and why (kafka-reassign-partitions --cancel, or another tool), then start a new Dag run."
        )
    if stage is Stage.UNTOUCHED and not requested:
        return Phase.QUEUED, None
    if stage is Stage.UNTOUCHED:
        return Phase.REFUSED, _not_taken_up(move, view)
    if stage in (Stage.CHANGED, Stage.TAKEN_BACK) or (partition.in_motion and partition.target != move.after):
        adding, removing = list(partition.adding), list(partition.removing)
        what = f", adding {adding} and removing {removing}" if partition.in_motion else ""
        return Phase.REFUSED, (
            f"{tp}: replicas are now {list(now)}{what}. That is no step from {list(move.before)} to the approved "
            f"{list(move.after)}, so somebody else changed it. Start a new Dag run."
        )
    anomaly = None
    if target is not None and target != move.after:
        anomaly = (
            f"{tp}: /admin/reassign_partitions asks for {list(target)}, the approved replicas are {list(move.after)}: "
            "somebody else is moving it. Let that end, then start a new Dag run."
        )
    if stage is Stage.REQUESTED or (now == move.before and stage is not Stage.RUNNING):
        return Phase.REGISTERED, anomaly
    isr = set(partition.isr)
    if not set(move.after) <= isr:
        phase = Phase.COPYING
    elif now != move.after and set(move.before) <= isr:
        phase = Phase.IN_ISR
    else:
        phase = Phase.TRIMMING
    if stage is Stage.UNLISTED:
        # Somebody deleted the znode (2.0): the move goes on in the controller's memory, but a controller that takes
        # over would take this union for the assignment.
        anomaly = (
            f"{tp}: replicas are {list(now)}, old and new together, but /admin/reassign_partitions no longer lists "
            "it. The move may still end by itself. If the list stays, reassign the partition to the approved list."
        )
    if anomaly is None and phase is Phase.COPYING and partition.leader not in view.brokers:
        anomaly = f"{tp} has no live leader, so nothing can be copied. {_who_may_lead(partition)}"
    return phase, anomaly


def _who_may_lead(partition: PartitionView) -> str:
    if partition.isr:
        return f"Start the brokers of its ISR {list(partition.isr)}."
    if partition.may_lead:
        return (
            f"Its ISR is empty. Start one of the brokers that may lead it without a loss: {list(partition.may_lead)}."
        )
    return f"Its ISR is empty, and nobody tells who may lead it. Start its brokers {list(partition.replicas)}."


def _not_taken_up(move: Move, view: AnyView) -> str:
    if not view.traits.has_request_znode:
        return (
            f"{move.topic_partition} has its replicas {list(move.before)} unchanged, and Kafka lists no move of it: it "
            "refused the request, or somebody cancelled it at once. Nothing was moved. Start a new Dag run for it."
        )
    return (
        f"{move.topic_partition} left /admin/reassign_partitions with its replicas unchanged at {list(move.before)}: "
        "the controller did not take it up. The controller's log says why (KafkaController). Nothing was moved. Start "
        "a new Dag run for it."
    )


def _bytes(move: Move, partition: PartitionView | None, by_broker: Mapping[int, int]) -> tuple[int, int]:
    """(copied, total) over the brokers that receive a copy.

    A copy has to reach the leader's size now; that grows with the topic, and shrinks with retention. A copy in the ISR
    is complete whatever its size is: replicas differ by what each has already deleted. Sizes are older than what
    ZooKeeper says. If a new replica leads meanwhile, its size may be from when it still grew.
    """
    leader = partition.leader if partition else -1
    isr = partition.isr if partition else ()
    old = [by_broker[broker] for broker in ((leader,) if leader in move.before else move.before) if broker in by_broker]
    new = [by_broker[broker] for broker in isr if broker in by_broker]
    replica_bytes = max(old or new, default=move.size_bytes)
    copied = sum(
        replica_bytes if broker in isr else min(by_broker.get(broker, 0), replica_bytes) for broker in move.added
    )
    return copied, replica_bytes * len(move.added)


def add_up(each: Sequence[PartitionProgress]) -> MovesProgress:
    waiting = Counter(broker for partition in each for broker in partition.dead_targets)
    anomalies = {
        f"broker {broker} is not registered": f"Broker {broker} is not registered, and {count} "
        f"partition{'s' if count > 1 else ''} cannot end without it. Start it: the move goes on by itself."
        for broker, count in sorted(waiting.items())
    }
    anomalies |= {
        f"{partition.move.topic_partition} ({partition.phase.in_words}) is not as it should be": partition.anomaly
        for partition in each
        if partition.anomaly is not None
    }
    phases = Counter(partition.phase for partition in each)
    return MovesProgress(
        partitions_done=phases[Phase.DONE],
        partitions_total=len(each),
        bytes_copied=sum(partition.bytes_copied for partition in each),
        bytes_total=sum(partition.bytes_total for partition in each),
        phases={phase: phases[phase] for phase in Phase if phases[phase]},
        dead_targets=dict(sorted(waiting.items())),
        anomalies=anomalies,
        refused=tuple(partition.move.topic_partition for partition in each if partition.phase is Phase.REFUSED),
        taken_back=tuple(partition.move.topic_partition for partition in each if partition.phase is Phase.TAKEN_BACK),
    )


def progress_line(progress: MovesProgress, bytes_per_second: float | None, eta_seconds: float | None) -> str:
    """`3/12 partitions, 114 MiB of 381 MiB, 9.54 MiB/s, about 28 s left`: one line for the log."""
    parts = [f"{progress.partitions_done}/{progress.partitions_total} partitions"]
    if progress.bytes_total:
        parts.append(f"{bytes_in_words(progress.bytes_copied)} of {bytes_in_words(progress.bytes_total)}")
        if bytes_per_second is not None and progress.bytes_copied < progress.bytes_total:
            parts.append(f"{bytes_in_words(bytes_per_second)}/s")
        if eta_seconds:
            about = "about " if eta_seconds >= 1 else ""
            parts.append(f"{about}{duration_in_words(eta_seconds)} left")
    if progress.dead_targets:
        parts.append(f"waiting for broker {', '.join(map(str, progress.dead_targets))}")
    if progress.refused:
        parts.append(f"{len(progress.refused)} refused")
    if progress.taken_back:
        parts.append(f"{len(progress.taken_back)} taken back")
    return ", ".join(parts)
