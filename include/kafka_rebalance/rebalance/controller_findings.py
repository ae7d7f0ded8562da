"""What goes wrong with the controller, and what others do, while a batch is followed, as ZooKeeper shows it.

Each look calls `detect` with what the last look returned. Sizes show copies that stand still: see `stalled_copies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.finding import some
from kafka_rebalance.moves.move_stage import is_half_way, is_over, is_taken_up
from kafka_rebalance.moves.stuck_request import another_controller

UNHEARD_SECONDS = 30.0  # a controller takes a request up within a second (2.0.1 to 3.9.2); a busy one, within some
ZOMBIE_SECONDS = 60.0  # the controller removes an entry milliseconds after its move has ended
LEADERLESS_SECONDS = 60.0  # without a controller; an election takes seconds, plus the old one's session timeout
STORM_SECONDS = 60.0  # the time over which epochs are counted
STORM_EPOCHS = 3  # an ordinary failover adds one; a storm adds dozens a second
_ELECTED_BY = {  # by whether Kafka elects preferred leaders by itself
    True: "They are not the first of their lists, so Kafka did not elect them by itself. Find the tool that did, and "
    "stop it.",
    False: "auto.leader.rebalance.enable is false on every broker, so Kafka did not elect them by itself. Find the "
    "tool that did, and stop it.",
    None: "Either Kafka did that by itself (auto.leader.rebalance.enable), or another tool did: then stop that tool.",
}


@dataclass(frozen=True, slots=True)
class Watch:
    """What one look leaves for the next."""

    view: AnyView
    since: Mapping[tuple[FindingKind, object], float]  # when each condition began
    epochs: tuple[tuple[float, int], ...] = ()  # (seconds, controller epoch) of the last minute, oldest first

    def holds_for(self, kind: FindingKind, subject: object, now: float) -> float:
        return now - self.since.get((kind, subject), now)


def detect(
    before: Watch | None, now: float, moves: Sequence[Move], view: AnyView, *, kafka_elects: bool | None = None
) -> tuple[Watch, tuple[BatchFinding, ...]]:
    """What is wrong at this look with a batch that was requested. `now`: seconds of a clock that does not go back.

    `kafka_elects`: whether a broker elects preferred leaders by itself (`automatic_elections`); None: not known.
    """
    conditions = set(_conditions(moves, view))
    earlier = before.since if before else {}
    epochs = before.epochs if before else ()
    if view.controller is not None:
        epochs = (*(epoch for epoch in epochs if now - epoch[0] <= STORM_SECONDS), (now, view.controller.epoch))
    watch = Watch(view, {condition: earlier.get(condition, now) for condition in conditions}, epochs)
    found = [
        *_storm(epochs),
        *_no_controller(watch, now),
        *_deleted_topics(moves, view),
        *_unheard(watch, now, moves, view),
        *_deleted_by_hand(before, moves, view),
        *_zombies(watch, now, moves, view),
        *_foreign_requests(moves, view),
        *_moved_leaders(before.view if before else None, moves, view, kafka_elects),
    ]
    return watch, tuple(found)


def _conditions(moves: Sequence[Move], view: AnyView) -> Iterable[tuple[FindingKind, object]]:
    """What has to last for a while before it is a finding."""
    if view.controller is None:
        yield FindingKind.NO_CONTROLLER, None
    elif _listed(moves, view) and not any(is_taken_up(move, view) for move in moves):
        # A new controller reads the request anew, so the time begins again with it.
        yield FindingKind.UNHEARD_REQUEST, view.controller.epoch
    yield from (
        (FindingKind.ZOMBIE_ENTRY, move.topic_partition) for move in _listed(moves, view) if is_over(move, view)
    )


def _listed(moves: Iterable[Move], view: AnyView) -> list[Move]:
    """Those that the request names with the approved replicas."""
    asked = view.reassignments or {}
    return [move for move in moves if asked.get(move.topic_partition) == move.after]


def _storm(epochs: Sequence[tuple[float, int]]) -> Iterable[BatchFinding]:
    if len(epochs) > 1 and (grown := epochs[-1][1] - epochs[0][1]) > STORM_EPOCHS:
        yield BatchFinding(
            FindingKind.ELECTION_STORM,
            f"The controller epoch grew by {grown} within {epochs[-1][0] - epochs[0][0]:.0f} s: brokers resign as "
            "controller one after the other. Look for the exception in the controllers' logs. Usually Kafka cannot "
            "read one znode, which has to be repaired by hand. The run writes nothing more.",
            stops=True,
        )


def _no_controller(watch: Watch, now: float) -> Iterable[BatchFinding]:
    seconds = watch.holds_for(FindingKind.NO_CONTROLLER, None, now)
    if seconds >= LEADERLESS_SECONDS:
        yield BatchFinding(
            FindingKind.NO_CONTROLLER,
            f"There has been no controller for {seconds:.0f} s, so no move can begin or end. See the brokers' logs "
            "for why they elect none. The moves go on by themselves when there is one.",
        )


def _unheard(watch: Watch, now: float, moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    controller = view.controller
    if controller is None:
        return
    seconds = watch.holds_for(FindingKind.UNHEARD_REQUEST, controller.epoch, now)
    if seconds >= UNHEARD_SECONDS:
        yield BatchFinding(
            FindingKind.UNHEARD_REQUEST,
            f"The controller has ignored {REQUEST} for {seconds:.0f} s (0 of {len(_listed(moves, view))} partitions "
            "started). From Kafka 2.4 on, a controller stops watching this znode once somebody deletes or overwrites "
            "it by hand. A busy controller says so in its log. Do not delete the znode. "
            f"{another_controller(controller)}.",
            stops=True,
        )


def _deleted_by_hand(before: Watch | None, moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    """The controller takes an entry away only after it has written the final list, and that is read after the entry."""
    if before is None or not view.traits.has_request_znode:
        return
    then = {move.topic_partition for move in (*_listed(moves, before.view), *_alone(moves, before.view))}
    if named := sorted(then & {move.topic_partition for move in _alone(moves, view)}):
        broker = "" if view.controller is None else f", broker {view.controller.broker},"
        yield BatchFinding(
            FindingKind.DEAF_CONTROLLER,
            f"Somebody took {some(named)} out of {REQUEST} in mid-move. That cancels nothing: the copies go on. Until "
            f"they have ended, the controller{broker} does not notice any other request. It may ignore a request that "
            "is created before then until another controller is elected. Let the copies end before anybody requests "
            "anything.",
        )


def _alone(moves: Sequence[Move], view: AnyView) -> list[Move]:
    """Those in motion that no request names."""
    return [
        move for move in moves if move.topic_partition not in (view.reassignments or ()) and is_half_way(move, view)
    ]


def _zombies(watch: Watch, now: float, moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    dead = [
        move.topic_partition
        for move in moves
        if watch.holds_for(FindingKind.ZOMBIE_ENTRY, move.topic_partition, now) >= ZOMBIE_SECONDS
    ]
    if dead:
        yield BatchFinding(
            FindingKind.ZOMBIE_ENTRY,
            f"{REQUEST} has listed {some(sorted(dead))} for {ZOMBIE_SECONDS:.0f} s and more with nothing left to do. "
            "The controller has lost sight of the entry, so the run cannot request a further batch. "
            f"{another_controller(view.controller)}.",
            stops=all(is_over(move, view) for move in moves),
        )


def _deleted_topics(moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    for topic in sorted(view.deletions & {move.topic_partition.topic for move in moves}):
        open_moves = sorted(
            move.topic_partition for move in moves if move.topic_partition.topic == topic and not is_over(move, view)
        )
        if open_moves:
            yield BatchFinding(
                FindingKind.TOPIC_DELETION,
                f"Topic {topic} is queued for deletion in mid-move ({some(open_moves)}). Kafka may destroy it "
                "half-way and block every later reassignment. If the topic may go, let the deletion end, then start a "
                f"new Dag run for the rest. If it must stay, delete /admin/delete_topics/{topic} at once and restart "
                "the controller: it forgets a deletion that has not begun. Then check whether the partitions of the "
                "topic still have leaders.",
                stops=True,
            )


def _foreign_requests(moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    ours = {move.topic_partition: move.after for move in moves}
    foreign = sorted(tp for tp, asked in (view.reassignments or {}).items() if ours.get(tp) != asked)
    if foreign:
        yield BatchFinding(
            FindingKind.FOREIGN_REASSIGNMENT,
            f"{REQUEST} asks for {some(foreign)}, which this batch does not: somebody else wrote into it. Find out "
            "who, and stop that tool. Its moves begin with the next controller at the latest. Until then the run "
            "requests no further batch.",
        )


def _moved_leaders(
    before: AnyView | None, moves: Sequence[Move], view: AnyView, kafka_elects: bool | None
) -> Iterable[BatchFinding]:
    """Leaders that changed although the old one is alive, in sync and stays: the controller itself had no reason.

    Where Kafka elects preferred leaders by itself, a change to the first of the list is no finding.
    """
    if before is None:
        return
    elected = (before.elections or frozenset()) | (view.elections or frozenset())
    moved = []
    for move in moves:
        tp = move.topic_partition
        then, partition = before.partitions.get(tp), view.partitions.get(tp)
        if then is None or partition is None or tp in elected or then.leader in (-1, partition.leader):
            continue
        if kafka_elects and partition.leader in (then.replicas[0], partition.replicas[0]):
            continue
        stays = then.leader in move.after and then.leader in partition.isr
        if stays and then.leader in before.brokers and then.leader in view.brokers:
            moved.append(f"{tp} from {then.leader} to {partition.leader}")
    if moved:
        yield BatchFinding(
            FindingKind.LEADERS_MOVED,
            f"Leaders changed although the old ones are alive and in sync ({some(moved)}). {_ELECTED_BY[kafka_elects]} "
            "The run goes on, and elects the approved leaders when the batch has ended.",
        )


# What can be wrong with a batch that a follower looks at.


REQUEST = "/admin/reassign_partitions"


class FindingKind(StrEnum):
    """The value is the short form, as the history of the run has it."""

    UNHEARD_REQUEST = "the controller ignores the request"
    DEAF_CONTROLLER = "partitions taken out of the request in mid-move"
    ELECTION_STORM = "brokers resign as controller one after the other"
    NO_CONTROLLER = "there is no controller"
    ZOMBIE_ENTRY = "the request lists moves that have ended"
    FOREIGN_REASSIGNMENT = "the request asks for partitions of somebody else"
    LEADERS_MOVED = "leaders changed without need"
    TOPIC_DELETION = "a topic that moves is queued for deletion"
    THROTTLE_LIFTED = "the throttle is not known to be in force"
    LOG_DIR_FAILED = "a log dir has failed"
    SLOW_BROKERS = "brokers copy slowly"


@dataclass(frozen=True, slots=True)
class BatchFinding:
    """What is wrong, and what to do. `stops`: a person has to act before the batch goes on."""

    kind: FindingKind
    text: str
    stops: bool = False
