"""What goes wrong with the controller while a batch is followed, told from ZooKeeper. None of it is a write.

Each finding says what to do. `detect` is called at each look with what it returned at the last one. It also tells what
others do to the batch (`foreign_changes`). Copies that stand still are told from sizes, in `stalled_copies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.execution.follow.batch_finding import REQUEST, BatchFinding, FindingKind
from kafka_rebalance.execution.follow.foreign_changes import deleted_topics, foreign_requests, moved_leaders
from kafka_rebalance.execution.move_stage import is_half_way, is_over, is_taken_up
from kafka_rebalance.execution.stuck_request import ANOTHER_CONTROLLER
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition

UNHEARD_SECONDS = 30.0  # a controller takes a request up within a second (2.0.1 to 3.9.2); one that is busy, in some
ZOMBIE_SECONDS = 60.0  # an entry goes milliseconds after its move has ended
LEADERLESS_SECONDS = 60.0  # without a controller; an election takes seconds, plus the old one's session timeout
STORM_SECONDS = 60.0  # the time over which epochs are counted
STORM_EPOCHS = 3  # an ordinary failover adds one; a storm adds dozens a second


@dataclass(frozen=True, slots=True)
class Watch:
    """What one look leaves for the next: what it saw, since when each condition holds, and the epochs of late."""

    view: AnyView
    since: Mapping[tuple[FindingKind, object], float]
    epochs: tuple[tuple[float, int], ...] = ()  # (seconds, controller epoch), oldest first

    def holds_for(self, kind: FindingKind, subject: object, now: float) -> float:
        return now - self.since.get((kind, subject), now)


def detect(
    before: Watch | None, now: float, moves: Sequence[Move], view: AnyView, *, kafka_elects: bool | None = None
) -> tuple[Watch, tuple[BatchFinding, ...]]:
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
        *deleted_topics(moves, view),
        *_unheard(watch, now, moves, view),
        *_deleted_by_hand(before, moves, view),
        *_zombies(watch, now, moves, view),
        *foreign_requests(moves, view),
        *moved_leaders(before.view if before else None, moves, view, kafka_elects),
    ]
    return watch, tuple(found)


def _conditions(moves: Sequence[Move], view: AnyView) -> Iterable[tuple[FindingKind, object]]:
    """What has to hold for a while before it means something."""
    if view.controller is None:
        yield FindingKind.NO_CONTROLLER, None
    elif _listed(moves, view) and not any(is_taken_up(move, view) for move in moves):
        # A new controller reads the request anew: its time begins with it.
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
            "controller one after the other. Look for the exception in the controllers' logs; usually one znode "
            "holds what Kafka cannot read, and has to be repaired by hand. Nothing more is written.",
            stops=True,
        )


def _no_controller(watch: Watch, now: float) -> Iterable[BatchFinding]:
    seconds = watch.holds_for(FindingKind.NO_CONTROLLER, None, now)
    if seconds >= LEADERLESS_SECONDS:
        yield BatchFinding(
            FindingKind.NO_CONTROLLER,
            f"There is no controller for {seconds:.0f} s, so no move can begin or end. See the brokers' logs for why "
            "none is elected; the moves go on by themselves when one is.",
        )


def _unheard(watch: Watch, now: float, moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    controller = view.controller
    if controller is None:
        return
    seconds = watch.holds_for(FindingKind.UNHEARD_REQUEST, controller.epoch, now)
    if seconds >= UNHEARD_SECONDS:
        which = ANOTHER_CONTROLLER.format(which=f", {controller.broker}")
        asked = len(_listed(moves, view))
        yield BatchFinding(
            FindingKind.UNHEARD_REQUEST,
            f"The controller has ignored {REQUEST} for {seconds:.0f} s (0 of {asked} partitions started). From Kafka "
            "2.4 on, a controller stops watching this znode once somebody deletes or overwrites it by hand. A busy "
            f"controller says so in its log. Do not delete the znode. {which}.",
            stops=True,
        )


def _deleted_by_hand(before: Watch | None, moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    """The controller takes an entry away only after it has written the final list, and that is read after the entry."""
    if before is None:
        return
    then = {move.topic_partition for move in _listed(moves, before.view)} | _left_alone(before, moves)
    alone = {move.topic_partition for move in moves if is_half_way(move, view)} - set(view.reassignments or ())
    if named := sorted(then & alone):
        broker = "" if view.controller is None else f", {view.controller.broker},"
        yield BatchFinding(
            FindingKind.DEAF_CONTROLLER,
            f"Somebody took {some(named)} out of {REQUEST} in mid-move. That cancels nothing, the copies go on. But "
            f"until they have ended the controller{broker} hears of no other request, and one that is created before "
            "then may stay unheard until another controller is elected. Let them end before anything is requested.",
        )


def _left_alone(before: Watch, moves: Sequence[Move]) -> set[TopicPartition]:
    """What was in motion without an entry already at the last look."""
    asked = before.view.reassignments or {}
    return {m.topic_partition for m in moves if m.topic_partition not in asked and is_half_way(m, before.view)}


def _zombies(watch: Watch, now: float, moves: Sequence[Move], view: AnyView) -> Iterable[BatchFinding]:
    dead = [
        move.topic_partition
        for move in moves
        if watch.holds_for(FindingKind.ZOMBIE_ENTRY, move.topic_partition, now) >= ZOMBIE_SECONDS
    ]
    if not dead:
        return
    which = ANOTHER_CONTROLLER.format(which="" if view.controller is None else f", {view.controller.broker}")
    yield BatchFinding(
        FindingKind.ZOMBIE_ENTRY,
        f"{REQUEST} still lists {some(sorted(dead))}, with nothing left to do for {ZOMBIE_SECONDS:.0f} s and more: the "
        f"controller has lost sight of the entry, and no further batch can be requested. {which}.",
        stops=all(is_over(move, view) for move in moves),
    )
