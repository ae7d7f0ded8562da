"""One look at a batch under way: what it shows, and what it leaves for the next look. Reads and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafka_rebalance.documents.progress import BatchCount, FullestSeen, NamedPartition, Progress, SlowBroker
from kafka_rebalance.model.cluster_view import BatchView
from kafka_rebalance.model.partition import ReplicaBytes, TopicPartition
from kafka_rebalance.moves.move_progress import MovesProgress, PartitionProgress, Phase, add_up, partition_progress
from kafka_rebalance.moves.slow_brokers import Paces, after_look, in_words, paces_of, slow_brokers
from kafka_rebalance.rebalance import broker_traffic, controller_findings, stalled_copies
from kafka_rebalance.rebalance.batch_file import Followed
from kafka_rebalance.rebalance.broker_traffic import FlowSample, Rate, Sample, TrafficSeen, rate_and_eta
from kafka_rebalance.rebalance.controller_findings import FindingKind
from kafka_rebalance.rebalance.progress_notes import (
    ANOMALIES_SHOWN,
    Subject,
    Told,
    moment,
    movement_of,
    told_after,
    wrong,
)
from kafka_rebalance.rebalance.stalled_copies import Movement
from kafka_rebalance.run.stop_and_cancel_requests import Control

SAMPLES_KEPT = 120  # the rate is that of their last minute
STANDING_SECONDS = 300.0  # a finding: copies between two brokers that stand for so long while others move
# Without a request znode, brokers tell the end of a move later than the controller does: milliseconds, seconds if busy.
DOUBT_SECONDS = 5.0
# After a stall an operator may have repaired something. A new follower waits so long for it, not the whole stall time.
GRACE_SHARE, GRACE_SECONDS = 0.1, 120.0
STABLE_LOOKS = 3  # a batch is over when this many looks in a row have found every criterion of the end
SLOW_NAMED = 5
BROKERS_SHOWN = 30  # those with most left to copy
UNKNOWN_RATE = Rate(None, None)


@dataclass(frozen=True, slots=True)
class Task:
    """What is followed, and how long it may take."""

    followed: Followed
    stall_seconds: float
    planned_seconds: float  # what the batch takes at the throttle
    kafka_elects: bool | None  # whether Kafka elects preferred leaders by itself; None: unknown
    throttle: float | None = None  # bytes a second of each broker; None: none


@dataclass(frozen=True, slots=True)
class Sizes:
    """What brokers told of the batch's replicas. One that is away tells nothing: sizes only measure progress."""

    read_at: float | None = None
    replicas: ReplicaBytes = field(default_factory=dict)
    silent: frozenset[int] = frozenset()
    offline: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # log dirs that have failed, by broker
    fullest: FullestSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one look has read. `now`: seconds of the wall clock."""

    now: float
    view: BatchView
    each: Sequence[PartitionProgress]  # by the view and the sizes
    sizes: Sizes
    measured_bytes: int | None  # of the new replicas at the end of the batch; None before, or unknown
    control: Control
    throttle: dict[FindingKind, str]  # what is wrong with it
    earlier: Progress | None  # what was noted before; None: nothing, or the state has it


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What one look leaves for the next."""

    movement: Movement | None = None  # None: nobody has looked yet
    first_look: float = 0.0
    samples: tuple[Sample, ...] = ()
    rate: Rate = UNKNOWN_RATE
    flows: Sequence[FlowSample] = ()
    paces: Paces = field(default_factory=dict)  # of copies, of earlier batches too
    fullest: FullestSeen | None = None  # the highest share of a broker's disks that was in use
    told: Told | None = None  # None: what was told before has to be read
    watch: controller_findings.Watch | None = None
    complete_looks: int = 0  # in a row
    lost_since: float | None = None  # when what was requested was first seen neither moving nor in place

    def begun(self, earlier: Progress | None, batch: int) -> Collection[TopicPartition]:
        """What was seen under way, by this follower or by earlier ones."""
        return self.movement.begun if self.movement else stalled_copies.begun_in(movement_of(earlier, batch))


@dataclass(frozen=True, slots=True)
class Look:
    """What one look shows. `state`: "moving", "settling", or how the batch ended."""

    state: str
    message: str
    progress: MovesProgress
    odd: Mapping[Subject, str]  # what is wrong besides
    has_room: bool  # whether more is to be requested beside the batch
    noted: Progress


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a look shows, before the batch is judged by it. `odd`: as in `Look`, as far as it is known."""

    task: Task
    reading: Reading
    progress: MovesProgress
    movement: Movement
    odd: Mapping[Subject, str]


def progress_of_each(
    followed: Followed, view: BatchView, sizes: ReplicaBytes, begun: Collection[TopicPartition], control: Control
) -> list[PartitionProgress]:
    """How far each move is. After a cancel, a move that was taken back is not a finding."""
    each = [partition_progress(move, view, sizes, begun=move.topic_partition in begun) for move in followed.batch.moves]
    if control.cancelled is None:
        return each
    return [replace(move, anomaly=None) if move.phase is Phase.TAKEN_BACK else move for move in each]


def observe(task: Task, before: State, reading: Reading) -> tuple[State, Look]:
    """What a look shows, by what it has read and what earlier looks left."""
    now, each, sizes = reading.now, reading.each, reading.sizes
    number = task.followed.batch.number
    progress = add_up(each)
    movement = stalled_copies.observe(before.movement, now, each, sizes.replicas)
    if before.movement is None:
        before = replace(before, first_look=now)
        movement = stalled_copies.recall(movement, movement_of(reading.earlier, number))
    samples = (*before.samples, Sample(now, progress.bytes_copied))[-SAMPLES_KEPT:]
    state = replace(before, movement=movement, samples=samples, rate=rate_and_eta(samples, progress.bytes_total))

    state = replace(state, paces=_paces(task, before, movement, reading))
    odd: dict[Subject, str] = dict(_late(task, movement, reading).items())
    if slow := slow_brokers(state.paces):
        odd[FindingKind.SLOW_BROKERS] = _slow_in_words(slow)
    if (failed := stalled_copies.failed_log_dirs(sizes.offline, each, sizes.replicas)) is not None:
        odd[failed.kind] = failed.text
    shown = _Shown(task, reading, progress, movement, odd)
    state, verdict, message = _verdict(shown, state)
    if reading.control.cancelled is None:  # a cancel takes entries out of the request itself
        watch, findings = controller_findings.detect(
            state.watch, now, task.followed.batch.moves, reading.view, kafka_elects=task.kafka_elects
        )
        state = replace(state, watch=watch)
        of_controller = {finding.kind: finding.text for finding in findings}
        shown = replace(shown, odd=odd | of_controller | reading.throttle)
        if verdict == "moving" and (reasons := [finding.text for finding in findings if finding.stops]):
            verdict, message = "stalled", f"Batch {number} needs a person: {' '.join(reasons)}"

    told = state.told or Told.of(reading.earlier)
    traffic = broker_traffic.seen(each, sizes.replicas)
    state = replace(
        state,
        told=told_after(told, now, wrong(progress, shown.odd)),
        fullest=_fuller(state.fullest, sizes.fullest, reading.earlier.fullest_disk if reading.earlier else None),
        flows=broker_traffic.recent_samples(state.flows, now, traffic.copied),
    )
    has_room = verdict == "moving" and _has_room(task.followed, progress, reading)
    noted = _noted(shown, state, traffic, verdict)
    return state, Look(verdict, message, progress, shown.odd, has_room, noted)


def _paces(task: Task, before: State, movement: Movement, reading: Reading) -> Paces:
    """The paces with this look. The first look of a follower goes on from what an earlier one noted."""
    earlier = reading.earlier
    paces = before.paces or (paces_of(earlier.paces) if earlier is not None else {})
    seconds = movement.at - before.movement.at if before.movement is not None else 0.0
    copied = stalled_copies.grown(before.movement, movement, reading.sizes.replicas)
    return after_look(paces, copied, seconds, task.throttle)


def _slow_in_words(slow: Sequence[SlowBroker]) -> str:
    named = "; ".join(map(in_words, slow[:SLOW_NAMED]))
    more = len(slow) - SLOW_NAMED
    return f"{named}{f'; and {more} more' if more > 0 else ''}. Look at their disks and networks. The copies go on."


def _late(task: Task, movement: Movement, reading: Reading) -> Mapping[TopicPartition | stalled_copies.Pair, str]:
    return stalled_copies.anomalies(
        movement,
        reading.each,
        planned_seconds=task.planned_seconds,
        standing_seconds=min(STANDING_SECONDS, task.stall_seconds),
        has_request_znode=reading.view.traits.has_request_znode,
    )


def _fuller(*disks: FullestSeen | None) -> FullestSeen | None:
    return max((disk for disk in disks if disk is not None), key=lambda disk: disk.fraction, default=None)


def _has_room(followed: Followed, progress: MovesProgress, reading: Reading) -> bool:
    """If anything is wrong with what is in flight, that comes to its end first."""
    if followed.beside is None or progress.refused or progress.taken_back:
        return False
    if reading.control.cancelled is not None or reading.control.stop_after_batch is not None:
        return False
    return followed.beside.is_due([partition.move for partition in reading.each if partition.phase is not Phase.DONE])


# How the batch stands.


def _verdict(shown: _Shown, state: State) -> tuple[State, str, str]:
    """The state with what the verdict leaves, the verdict, and its message."""
    task, reading, progress, movement = shown.task, shown.reading, shown.progress, shown.movement
    batch = task.followed.batch
    if progress.finished:
        state = replace(state, complete_looks=state.complete_looks + 1)
        copies = any(move.added for move in batch.moves)
        return state, "settling" if copies and state.complete_looks < STABLE_LOOKS else "done", ""
    # A refused move is shown at once. The batch is given up when no other move of it is under way.
    under_way = any(phase in stalled_copies.OPEN for phase in progress.phases)
    looks_lost = bool(progress.refused or progress.taken_back) and not under_way
    lost_since = (state.lost_since or movement.at) if looks_lost else None
    state = replace(state, complete_looks=0, lost_since=lost_since)
    doubt = 0.0 if reading.view.traits.has_request_znode else DOUBT_SECONDS
    if lost_since is not None and movement.at - lost_since >= doubt:
        return state, *_lost(batch.number, progress, reading.control)
    limit = task.stall_seconds
    if any(pair.target in reading.sizes.silent for pair in movement.pairs):
        # Nobody tells the bytes of these copies, so only the plan says how long they may take.
        limit += stalled_copies.OVERDUE_FACTOR * task.planned_seconds
    grace = min(task.stall_seconds * GRACE_SHARE, GRACE_SECONDS)
    if movement.idle_seconds < limit or movement.at - state.first_look < grace:
        return state, "moving", ""
    causes = "; ".join([*progress.anomalies.values(), *shown.odd.values()][:10]).removesuffix(".")
    return (
        state,
        "stalled",
        (
            f"Batch {batch.number} made no progress for {movement.idle_seconds:.0f} s: "
            f"{causes or 'no cause was seen'}. Its copies stay requested and throttled. Remove the cause: the "
            "copies then go on by themselves. Then clear this task."
        ),
    )


def _lost(number: int, progress: MovesProgress, control: Control) -> tuple[str, str]:
    """The verdict on a batch of which nothing is under way, though not all of it is in place, and its message."""
    done = f"{progress.partitions_done} of its {progress.partitions_total} partitions are in place"
    if control.cancelled is not None:  # moves that are back at their old lists are not refused
        return "cancelled", f"Batch {number} was cancelled by {control.cancelled}: {done}, the others were taken back."
    more = f"; and {len(progress.anomalies) - 10} more" if len(progress.anomalies) > 10 else ""
    named = f"{'; '.join([*progress.anomalies.values()][:10])}{more}"
    if progress.taken_back:
        return "taken_back", (
            f"Somebody else cancelled batch {number} while it was under way: {done}, "
            f"{len(progress.taken_back)} were taken back: {named}"
        )
    return "refused", (
        f"{len(progress.refused)} of {progress.partitions_total} partitions of batch {number} will "
        f"not reach the approved replicas: {named}"
    )


# What the run's page, the janitor and the next follower get to know.


def _noted(shown: _Shown, state: State, traffic: TrafficSeen, verdict: str) -> Progress:
    """The whole plan counts in planned bytes, so its total never changes: earlier batches as done, later ones as
    queued. This batch counts in today's bytes.
    """
    followed, reading, progress = shown.task.followed, shown.reading, shown.progress
    movement, odd = shown.movement, shown.odd
    copied = traffic.done.received.total() + followed.bytes_earlier
    total = traffic.total.received.total() + followed.bytes_earlier + followed.bytes_later
    phases = Counter({str(phase): count for phase, count in progress.phases.items()})
    phases.update({str(Phase.DONE): followed.earlier, str(Phase.QUEUED): followed.later})
    speed = state.rate.bytes_per_second
    named = stalled_copies.named(movement, reading.each, odd)
    anomalies = [*progress.anomalies.values(), *odd.values()]
    more = len(anomalies) - ANOMALIES_SHOWN
    brokers = broker_traffic.by_broker(
        followed.flow_earlier, followed.flow_later, traffic.done, traffic.total, state.flows
    )
    stop, told = reading.control.stop_after_batch, state.told or Told()
    return Progress(
        updated_at=moment(movement.at),
        state=verdict,
        batch=followed.batch.number,
        batches=followed.batches,
        partitions_done=progress.partitions_done + followed.earlier,
        partitions_total=progress.partitions_total + followed.earlier + followed.later,
        bytes_copied=copied,
        bytes_total=total,
        bytes_per_second=speed,
        eta_seconds=(total - copied) / speed if speed else None,
        this_batch=BatchCount(
            partitions_done=progress.partitions_done,
            partitions_total=progress.partitions_total,
            bytes_copied=progress.bytes_copied,
            bytes_total=progress.bytes_total,
            measured_bytes=reading.measured_bytes,
        ),
        busiest_bytes=followed.busiest,
        later_busiest_bytes=followed.busiest_later,
        brokers=tuple(brokers[:BROKERS_SHOWN]),
        brokers_total=len(brokers),
        fullest_disk=state.fullest,
        phases={phase: count for phase, count in phases.items() if count},
        anomalies=(*anomalies[:ANOMALIES_SHOWN], *([f"and {more} more"] if more > 0 else [])),
        partitions=tuple(_named(partition, movement, odd) for partition in named),
        stop_after_batch=str(stop) if stop else None,
        slow_brokers=slow_brokers(state.paces),
        paces=tuple(pace for _, pace in sorted(state.paces.items())),
        movement=stalled_copies.to_note(movement, [partition.move.topic_partition for partition in named]),
        open=told.open,
        events=told.events,
    )


def _named(partition: PartitionProgress, movement: Movement, odd: Mapping[Subject, str]) -> NamedPartition:
    tp = partition.move.topic_partition
    return NamedPartition(
        partition=str(tp),
        phase=str(partition.phase),
        seconds=round(movement.seconds_in_phase(tp), 1),
        bytes_copied=partition.bytes_copied,
        bytes_total=partition.bytes_total,
        next=stalled_copies.NEXT[partition.phase],
        late_behind=partition.leader if tp in odd else None,
    )
