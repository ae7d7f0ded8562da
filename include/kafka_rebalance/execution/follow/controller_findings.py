"""What goes wrong while a batch is followed, told from ZooKeeper, and of log dirs by the brokers. None is a write.

Each anomaly says what to do. `detect` is called at each look with what it returned at the last one. Copies that stand
still are told from sizes, in `execution.movement`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kafka_rebalance.execution.follow.move_progress import PartitionProgress, Phase, Sizes
from kafka_rebalance.execution.move_stage import Stage, stage_in
from kafka_rebalance.execution.stuck_request import ANOTHER_CONTROLLER
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import Controller
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import PartitionView, TopicPartition

UNHEARD_SECONDS = 30.0  # a controller takes a request up within a second (2.0.1 to 3.9.2); one that is busy, in some
ZOMBIE_SECONDS = 60.0  # an entry goes milliseconds after its move has ended
LEADERLESS_SECONDS = 60.0  # without a controller; an election takes seconds, plus the old one's session timeout
STORM_SECONDS = 60.0  # the time over which epochs are counted
STORM_EPOCHS = 3  # an ordinary failover adds one; a storm adds dozens a second

REQUEST = "/admin/reassign_partitions"

_ELECTED_BY = {  # by whether Kafka elects preferred leaders by itself
    True: "They are not the first of their lists, so Kafka did not elect them by itself: find the tool that did, and "
    "stop it.",
    False: "auto.leader.rebalance.enable is false on every broker, so Kafka did not elect them by itself: find the "
    "tool that did, and stop it.",
    None: "Kafka did it by itself (auto.leader.rebalance.enable), or another tool did: stop that tool.",
}


class Kind(StrEnum):
    UNHEARD_REQUEST = "unheard_request"
    DEAF_CONTROLLER = "deaf_controller"
    ELECTION_STORM = "election_storm"
    NO_CONTROLLER = "no_controller"
    ZOMBIE_ENTRY = "zombie_entry"
    FOREIGN_REASSIGNMENT = "foreign_reassignment"
    LEADERS_MOVED = "leaders_moved"
    TOPIC_DELETION = "topic_deletion"
    THROTTLE_LIFTED = "throttle_lifted"
    LOG_DIR_FAILED = "log_dir_failed"


class View(Protocol):
    """The part of a view of the cluster that is looked at; `brokers` are the registered ones."""

    @property
    def brokers(self) -> Collection[int]: ...
    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionView]: ...
    @property
    def reassignments(self) -> Mapping[TopicPartition, tuple[int, ...]] | None: ...
    @property
    def elections(self) -> frozenset[TopicPartition] | None: ...
    @property
    def controller(self) -> Controller | None: ...
    @property
    def deletions(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What is wrong with what, and what to do. `stops`: watching on helps nobody, a person has to act."""

    kind: Kind
    text: str
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Watch:
    """What one look leaves for the next: what it saw, since when each condition holds, and the epochs of late."""

    view: View
    since: Mapping[tuple[Kind, object], float]
    epochs: tuple[tuple[float, int], ...] = ()  # (seconds, controller epoch), oldest first

    def holds_for(self, kind: Kind, subject: object, now: float) -> float:
        return now - self.since.get((kind, subject), now)


def detect(
    before: Watch | None, now: float, moves: Sequence[Move], view: View, *, kafka_elects: bool | None = None
) -> tuple[Watch, tuple[Anomaly, ...]]:
    """What is wrong at this look of a batch that was requested. `now`: seconds of a clock that does not go back.

    `kafka_elects`: whether a broker elects preferred leaders by itself (`automatic_elections`); None: nobody knows.
    """
    conditions = set(_conditions(moves, view))
    earlier = before.since if before else {}
    epochs = before.epochs if before else ()
    if view.controller is not None:
        epochs = (*(one for one in epochs if now - one[0] <= STORM_SECONDS), (now, view.controller.epoch))
    watch = Watch(view, {condition: earlier.get(condition, now) for condition in conditions}, epochs)
    found = [
        *_storm(epochs),
        *_no_controller(watch, now),
        *_deletions(moves, view),
        *_unheard(watch, now, moves, view),
        *_deleted_by_hand(before, moves, view),
        *_zombies(watch, now, moves, view),
        *_foreign(moves, view),
        *_leaders(before, moves, view, kafka_elects),
    ]
    return watch, tuple(found)


def failed_log_dirs(
    offline: Mapping[int, Sequence[str]], each: Sequence[PartitionProgress], sizes: Sizes
) -> Anomaly | None:
    """Log dirs that have failed on brokers which live and still receive copies of the batch; None: there are
    none. `sizes`: what the brokers tell. A copy that its broker no longer tells lay in the log dir that failed.
    """
    said = []
    for broker, paths in sorted(offline.items()):
        copies = [one.move.topic_partition for one in each if broker in one.missing and one.phase is Phase.COPYING]
        lost = [tp for tp in copies if broker not in sizes.get(tp, {})]
        if not copies:
            continue
        what = (
            f"{len(lost)} copies of the batch do not go on there ({some(sorted(lost))})"
            if lost
            else (f"the {len(copies)} copies of the batch to this broker lie in its other log dirs and go on")
        )
        said.append(f"Broker {broker} has lost the log dir {', '.join(paths)}: {what}.")
        if lost:
            said.append(
                f"Repair or replace that disk, then restart broker {broker}: these copies begin again by themselves. "
                "The throttle stays meanwhile. To give them up instead, use cancel_now of kafka_rebalance_cancel."
            )
    return Anomaly(Kind.LOG_DIR_FAILED, " ".join(said)) if said else None


def _conditions(moves: Sequence[Move], view: View) -> Iterable[tuple[Kind, object]]:
    """What has to hold for a while before it means something."""
    if view.controller is None:
        yield Kind.NO_CONTROLLER, None
    elif _listed(moves, view) and not any(_taken_up(move, view) for move in moves):
        # A new controller reads the request anew: its time begins with it.
        yield Kind.UNHEARD_REQUEST, view.controller.epoch
    yield from ((Kind.ZOMBIE_ENTRY, move.topic_partition) for move in _listed(moves, view) if _over(move, view))


def _listed(moves: Iterable[Move], view: View) -> list[Move]:
    """Those that the request names with the approved replicas."""
    asked = view.reassignments or {}
    return [move for move in moves if asked.get(move.topic_partition) == move.after]


def _taken_up(move: Move, view: View) -> bool:
    """Whether the controller has done anything for this move."""
    return stage_in(move, view) not in (Stage.UNTOUCHED, Stage.REQUESTED, Stage.GONE)


def _over(move: Move, view: View) -> bool:
    """Whether nothing is left to do: in place, or gone."""
    stage = stage_in(move, view)
    if stage is Stage.GONE:
        return True
    in_place = stage in (Stage.ENDING, Stage.DONE)
    return in_place and set(view.partitions[move.topic_partition].isr) == set(move.after)


def _in_motion(move: Move, view: View) -> bool:
    """Whether the topic's znode shows the move half-way: by its marks (2.4+), or by the union of both lists (2.0)."""
    return stage_in(move, view) in (Stage.RUNNING, Stage.UNLISTED)


def _storm(epochs: Sequence[tuple[float, int]]) -> Iterable[Anomaly]:
    if len(epochs) > 1 and (grown := epochs[-1][1] - epochs[0][1]) > STORM_EPOCHS:
        yield Anomaly(
            Kind.ELECTION_STORM,
            f"The controller epoch grew by {grown} within {epochs[-1][0] - epochs[0][0]:.0f} s: brokers resign as "
            "controller one after the other. Look for the exception in the controllers' logs; usually one znode "
            "holds what Kafka cannot read, and has to be repaired by hand. Nothing more is written.",
            stops=True,
        )


def _no_controller(watch: Watch, now: float) -> Iterable[Anomaly]:
    seconds = watch.holds_for(Kind.NO_CONTROLLER, None, now)
    if seconds >= LEADERLESS_SECONDS:
        yield Anomaly(
            Kind.NO_CONTROLLER,
            f"There is no controller for {seconds:.0f} s, so no move can begin or end. See the brokers' logs for why "
            "none is elected; the moves go on by themselves when one is.",
        )


def _deletions(moves: Sequence[Move], view: View) -> Iterable[Anomaly]:
    for topic in sorted(view.deletions & {move.topic_partition.topic for move in moves}):
        open_moves = sorted(
            move.topic_partition for move in moves if move.topic_partition.topic == topic and not _over(move, view)
        )
        if open_moves:
            yield Anomaly(
                Kind.TOPIC_DELETION,
                f"Topic {topic} is queued for deletion in mid-move ({some(open_moves)}): Kafka may destroy it "
                "half-way and block every later reassignment. If it may go, let the deletion end, then start a new "
                f"Dag run for the rest. If it must stay, take /admin/delete_topics/{topic} away at once and restart "
                "the controller, which forgets a deletion that has not begun; then see whether its partitions still "
                "have leaders.",
                stops=True,
            )


def _unheard(watch: Watch, now: float, moves: Sequence[Move], view: View) -> Iterable[Anomaly]:
    controller = view.controller
    if controller is None:
        return
    seconds = watch.holds_for(Kind.UNHEARD_REQUEST, controller.epoch, now)
    if seconds >= UNHEARD_SECONDS:
        which = ANOTHER_CONTROLLER.format(which=f", {controller.broker}")
        yield Anomaly(
            Kind.UNHEARD_REQUEST,
            f"{REQUEST} is there for {seconds:.0f} s and none of its {len(_listed(moves, view))} partitions is taken "
            "up. A controller of 2.4 or later is deaf to requests when somebody deleted or set that znode by hand "
            f"before; a busy one says so in its log. Do not delete the znode: that deafens it for good. {which}.",
            stops=True,
        )


def _deleted_by_hand(before: Watch | None, moves: Sequence[Move], view: View) -> Iterable[Anomaly]:
    """The controller takes an entry away only after it has written the final list, and that is read after the entry."""
    if before is None:
        return
    then = {move.topic_partition for move in _listed(moves, before.view)} | _left_alone(before, moves)
    alone = {move.topic_partition for move in moves if _in_motion(move, view)} - set(view.reassignments or ())
    if named := sorted(then & alone):
        broker = "" if view.controller is None else f", {view.controller.broker},"
        yield Anomaly(
            Kind.DEAF_CONTROLLER,
            f"Somebody took {some(named)} out of {REQUEST} in mid-move. That cancels nothing, the copies go on. But "
            f"until they have ended the controller{broker} hears of no other request, and one that is created before "
            "then may stay unheard until another controller is elected. Let them end before anything is requested.",
        )


def _left_alone(before: Watch, moves: Sequence[Move]) -> set[TopicPartition]:
    """What was in motion without an entry already at the last look."""
    asked = before.view.reassignments or {}
    return {m.topic_partition for m in moves if m.topic_partition not in asked and _in_motion(m, before.view)}


def _zombies(watch: Watch, now: float, moves: Sequence[Move], view: View) -> Iterable[Anomaly]:
    dead = [
        move.topic_partition
        for move in moves
        if watch.holds_for(Kind.ZOMBIE_ENTRY, move.topic_partition, now) >= ZOMBIE_SECONDS
    ]
    if not dead:
        return
    which = ANOTHER_CONTROLLER.format(which="" if view.controller is None else f", {view.controller.broker}")
    yield Anomaly(
        Kind.ZOMBIE_ENTRY,
        f"{REQUEST} still lists {some(sorted(dead))}, with nothing left to do for {ZOMBIE_SECONDS:.0f} s and more: the "
        f"controller has lost sight of the entry, and no further batch can be requested. {which}.",
        stops=all(_over(move, view) for move in moves),
    )


def _foreign(moves: Sequence[Move], view: View) -> Iterable[Anomaly]:
    ours = {move.topic_partition: move.after for move in moves}
    foreign = sorted(tp for tp, asked in (view.reassignments or {}).items() if ours.get(tp) != asked)
    if foreign:
        yield Anomaly(
            Kind.FOREIGN_REASSIGNMENT,
            f"{REQUEST} asks for {some(foreign)}, which this batch does not: somebody else wrote into it. Find who, "
            "and stop that tool; what it asks for begins at the latest with the next controller. No further batch is "
            "requested beside it.",
        )


def _leaders(before: Watch | None, moves: Sequence[Move], view: View, kafka_elects: bool | None) -> Iterable[Anomaly]:
    """Leaders that changed although the old one is alive, in sync and stays: no reason of the controller's own.

    Where Kafka elects by itself, a change to the first of the list is what it does, and nobody is accused of it.
    """
    if before is None:
        return
    elected = (before.view.elections or frozenset()) | (view.elections or frozenset())
    moved = []
    for move in moves:
        tp = move.topic_partition
        then, partition = before.view.partitions.get(tp), view.partitions.get(tp)
        if then is None or partition is None or tp in elected or then.leader in (-1, partition.leader):
            continue
        if kafka_elects and partition.leader in (then.replicas[0], partition.replicas[0]):
            continue
        stays = then.leader in move.after and then.leader in partition.isr
        if stays and then.leader in before.view.brokers and then.leader in view.brokers:
            moved.append(f"{tp} from {then.leader} to {partition.leader}")
    if moved:
        yield Anomaly(
            Kind.LEADERS_MOVED,
            f"Leaders changed although the old ones are alive and in sync ({some(moved)}). {_ELECTED_BY[kafka_elects]} "
            "The run goes on, and elects leaders as approved when the batch has ended.",
        )
