"""Where a run stands: which batches are done, what is in flight, and what may be requested beside it."""

from __future__ import annotations

import dataclasses
import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import TypeAlias

from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.eta import received_and_sent
from kafka_rebalance.moves.move_stage import Stage, headed_elsewhere, headed_for, stage_in
from kafka_rebalance.moves.stuck_request import request_of_what_is_gone

# Whose moves are in the way, as far as the cluster tells: a run announces its requests beside the lock.


# {partition: the run that has asked for its move, with its Airflow}; others are absent. Asked only if something moves.
WhoMoves: TypeAlias = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, str]]


def nobody_known(_: Collection[TopicPartition]) -> Mapping[TopicPartition, str]:
    return {}


def how_it_ends(moving: Collection[TopicPartition], who_moves: WhoMoves) -> str:
    """What to do about these moves of others."""
    known = who_moves(moving)
    if not known:
        return "Wait for its end, or cancel it with the tool that started it"
    runs = some(sorted(set(known.values())))
    rest = [tp for tp in moving if tp not in known]
    others = f". {some(sorted(rest))}: cancel that with the tool that started it" if rest else ""
    return f"It is of run {runs}: wait for its end, or cancel it there with kafka_rebalance_cancel{others}"


# Where a run stands, by its notes of what it asked for together with what ZooKeeper shows, never by one alone.
#
# If ZooKeeper shows a move that the run never asked for, somebody else did it, even if it is the approved move.


@dataclass(frozen=True, slots=True)
class Position:
    done: tuple[int, ...]  # batches that are in place, whoever brought them there
    # What the controller works on for us; follow it. With a request znode that is a batch. Without one it is everything
    # that was asked for and is not in place, under the number of the first batch that has moves in flight.
    in_flight: Batch | None
    # To request now, without moves that are done; None when all is done, and while nothing fits beside what is in
    # flight. With a request znode nothing ever does.
    next: Batch | None
    # Of a batch of ours that has begun: still at their old replicas, nothing in motion. The controller dropped them.
    refused: tuple[TopicPartition, ...] = ()
    foreign: tuple[str, ...] = ()  # what somebody else is doing; write nothing while it is not empty
    begun: frozenset[int] = frozenset()  # batches that this run has asked for and of which the cluster shows a trace
    beside: Beside | None = None  # without a request znode: what the follower watches of the moves after `next`
    in_place: frozenset[TopicPartition] = frozenset()  # and what is in place, also of batches that are not done
    asked: tuple[Move, ...] = ()  # and what was asked for and is not in place, whether it is in flight or not

    @property
    def finished(self) -> bool:
        return self.in_flight is None and self.next is None and not self.foreign


def position(
    batches: Sequence[Batch],
    view: ClusterView,
    asked: Collection[TopicPartition],
    elected: Collection[int] = (),
    *,
    limits: Limits,
) -> Position:
    """The position in these batches, in the order of their numbers.

    `asked`: partitions for whose move the run has asked, or was about to ask, by its notes. A batch is done when each
    of its partitions has its approved list and nothing is in motion; progress and verification say whether all are
    still in sync. A batch is in flight when the run asked for it and one of its moves runs. A batch of elections is
    done when its preferred leaders lead, or when it is among `elected`: the run elects each batch once. `limits` are
    of what may be in flight at once without a request znode.
    """
    batches = sorted(batches, key=lambda batch: batch.number)
    stages = {move.topic_partition: stage_in(move, view) for batch in batches for move in batch.moves}
    foreign = _foreign(asked, {move.topic_partition: move for batch in batches for move in batch.moves}, view)
    done: list[int] = []
    running: list[Batch] = []
    begun: set[int] = set()
    following: Batch | None = None
    refused: tuple[TopicPartition, ...] = ()
    for batch in batches:
        ours = [move for move in batch.moves if move.topic_partition in asked]
        left = tuple(move for move in batch.moves if stages[move.topic_partition] is not Stage.DONE)
        if any(stages[move.topic_partition].has_left_a_trace for move in ours):
            begun.add(batch.number)
        if not left or (batch.elects and batch.number in elected):
            done.append(batch.number)
        elif any(_runs(stages[move.topic_partition]) for move in ours):
            running.append(batch)
        elif following is None:
            following = dataclasses.replace(batch, moves=left)
            refused = _dropped(ours, stages) if batch.number in begun else ()
    found = Position(tuple(done), None, following, refused, tuple(foreign), frozenset(begun))
    if not view.traits.has_request_znode:
        return _rolling(found, batches, stages, asked, limits)
    if len(running) > 1:
        numbers = ", ".join(str(batch.number) for batch in running)
        foreign.append(f"batches {numbers} are in motion at once, which this run never asks for")
    if running:
        following, refused = None, _dropped(running[0].moves, stages)
    in_flight = running[0] if running else None
    return dataclasses.replace(found, in_flight=in_flight, next=following, refused=refused, foreign=tuple(foreign))


def _rolling(
    found: Position,
    batches: Sequence[Batch],
    stages: Mapping[TopicPartition, Stage],
    asked: Collection[TopicPartition],
    limits: Limits,
) -> Position:
    """The same where moves are requested beside those in flight. Elections wait until nothing is in flight."""
    unfinished = [batch for batch in batches if batch.number not in found.done]
    ours = [m for batch in unfinished if not batch.elects for m in batch.moves if m.topic_partition in asked]
    refused = _dropped([move for move in ours if move.batch in found.begun], stages)
    flying = [move for move in ours if _runs(stages[move.topic_partition])]
    all_moves = [move for batch in batches for move in batch.moves]
    ended = [move for move in all_moves if stages[move.topic_partition] is Stage.DONE]
    found = dataclasses.replace(
        found,
        refused=refused,
        in_place=frozenset(move.topic_partition for move in ended),
        asked=tuple(move for move in ours if stages[move.topic_partition] is not Stage.DONE),
    )
    if not flying and (not unfinished or unfinished[0].elects):
        return found
    to_come = {
        move.topic_partition
        for batch in takewhile(lambda batch: not batch.elects, unfinished)
        for move in batch.moves
        if stages[move.topic_partition] is not Stage.DONE
    }
    if flying:
        to_come = {tp for tp in to_come - set(asked) if stages[tp] is Stage.UNTOUCHED}
    waiting = [move for move in in_order(all_moves) if move.topic_partition in to_come]
    rest = RestOfPlan(waiting, flying, limits, ended)
    fits = rest.fitting()
    # Once something was refused, what is in flight comes to its end first.
    if flying and (refused or not rest.is_due(fits, rest.busiest_ends())):
        fits = ()
    rest.started(fits)
    digest = batches[0].candidate_digest
    return dataclasses.replace(
        found,
        in_flight=Batch(min(move.batch for move in flying), found.asked, digest) if flying else None,
        next=Batch(min(move.batch for move in fits), fits, digest) if fits else None,
        beside=rest.beside(),
    )


def check_position(where: Position, view: ClusterView, who_moves: WhoMoves = nobody_known) -> None:
    """Raises ExecutionError if somebody else is moving partitions: a run writes nothing beside another reassignment.

    `who_moves` names other runs.
    """
    if where.foreign and (stays := request_of_what_is_gone(view)) is not None:
        raise ExecutionError(f"{stays}. Clear this task when the request is gone.")
    if where.foreign:
        shown = "; ".join(where.foreign[:10])
        more = f"; and {len(where.foreign) - 10} more" if len(where.foreign) > 10 else ""
        raise ExecutionError(
            f"Another reassignment is under way: {shown}{more}. "
            f"{how_it_ends(view.moving, who_moves)}. Then clear this task: it goes on where it stands if the approved "
            "partitions are unchanged."
        )


def _runs(stage: Stage) -> bool:
    return stage.is_in_flight or stage is Stage.UNLISTED


def _dropped(moves: Sequence[Move], stages: Mapping[TopicPartition, Stage]) -> tuple[TopicPartition, ...]:
    """Partitions that nobody works on and that have not moved."""
    return tuple(tp for move in moves if not stages[tp := move.topic_partition].has_left_a_trace)


def _foreign(ours: Collection[TopicPartition], approved: Mapping[TopicPartition, Move], view: ClusterView) -> list[str]:
    """What is in motion that this run did not ask for."""
    asked = view.reassignments or {}
    found = []
    if view.reassignments is not None and not view.reassignments:
        found.append("/admin/reassign_partitions is there and empty, so the controller takes up no further request")
    marked = (tp for tp, partition in view.partitions.items() if partition.in_motion and tp not in asked)
    for tp in (*sorted(asked), *sorted(marked)):
        partition, move = view.partitions.get(tp), approved.get(tp)
        towards = asked.get(tp, ()) if partition is None else headed_for(partition, asked.get(tp))
        if move is not None and partition is not None:
            towards = headed_elsewhere(move, partition, asked.get(tp)) or towards
        to = f"{tp} to {list(towards or ())}"
        if move is None:
            found.append(f"{to}, which this run was not approved to move")
        elif towards != move.after:
            found.append(f"{to}, approved is {list(move.after)}")
        elif tp not in ours:
            found.append(f"{to}, as approved, but this run has not asked for it")
    return found


# Which approved moves may be requested beside those in flight.
#
# A cluster with a request znode takes no request while another one is there, so its batches run one after the other.
# Without that znode moves are added as others end. They keep all that the approver has read: a batch's limits hold for
# whatever is in flight at once, and no disk gets fuller than the batches one by one would fill it (`disk_rises`).


# A broker with this share of the most that any broker has left to copy can end last as well. With 1.0 a single broker
# would be kept busy, and two alike would take turns.
NEARLY = 0.9

End = tuple[int, str]  # a broker, and whether it receives or sends


@dataclass(frozen=True, slots=True)
class Limits:
    """Of what is in flight at once; as for a batch in `Settings`."""

    copies_per_broker: int
    partitions: int
    leader_changes: int


def in_order(moves: Collection[Move]) -> list[Move]:
    """All moves of a plan in the order in which they are requested: by batch, and in a batch those first whose broker
    copies most in the whole plan.

    So the plan's order stays, and the busiest broker is busy from the beginning to the end.
    """
    received, sent = received_and_sent(moves)

    def busiest(move: Move) -> int:
        return max((sent[move.source], *(received[broker] for broker in move.added))) if move.added else 0

    return sorted(moves, key=lambda move: (move.batch, -busiest(move), -move.bytes_to_copy, move.topic_partition))


class RestOfPlan:
    """The moves of a plan that wait and that are in flight, and which of them may be requested now.

    It is told what has started and ended. So a look costs what has changed since the last one, not the whole plan.
    """

    def __init__(
        self,
        waiting: Collection[Move],
        in_flight: Collection[Move],
        limits: Limits,
        ended: Collection[Move] | None = None,
    ) -> None:
        """`waiting`: every move that is still to be requested, `in_order`. `in_flight`: what was requested and has not
        ended. `ended`: all other moves of the plan; without them disks are not looked at.
        """
        self._limits = limits
        self._waiting = {move.topic_partition: move for move in waiting}
        self._in_flight = {move.topic_partition: move for move in in_flight}
        self._disks = None if ended is None else DiskRises(ended, in_flight, waiting)
        self._left = _bytes_by_end((*in_flight, *waiting))
        self._places = {move.topic_partition: _places(move, limits) for move in (*in_flight, *waiting)}
        self._order = {partition: at for at, partition in enumerate(self._waiting)}
        self._of_end: defaultdict[End, dict[TopicPartition, Move]] = defaultdict(dict)  # that copies its bytes
        self._without_bytes: dict[TopicPartition, Move] = {}
        for partition, move in self._waiting.items():
            for queue in self._queues(move):
                queue[partition] = move
        self._used: Counter[End] = Counter()  # copies that it sends or receives
        self._leader_changes = 0
        for move in in_flight:
            self._occupy(move)

    @property
    def waiting(self) -> Collection[Move]:
        return self._waiting.values()

    @property
    def in_flight(self) -> Collection[Move]:
        return self._in_flight.values()

    def started(self, moves: Collection[Move]) -> None:
        """These moves were requested."""
        for move in moves:
            self._occupy(move)
            if self._disks is not None:
                self._disks.start(move)
            for queue in self._queues(move):
                del queue[move.topic_partition]
            self._in_flight[move.topic_partition] = self._waiting.pop(move.topic_partition)

    def ended(self, moves: Collection[Move]) -> None:
        """These moves were in flight and are in place."""
        for move in moves:
            self._occupy(move, -1)
            if self._disks is not None:
                self._disks.end(move)
            del self._in_flight[move.topic_partition]
        self._left.subtract(_bytes_by_end(moves))

    def fitting(self) -> tuple[Move, ...]:
        """The moves that may be requested now, of those that wait, in their order.

        The next one is a move of the broker that has most left to copy for each copy that it has in flight. So the
        broker on which the plan's end depends is never idle, even where places are few. Of its moves, it is the one
        whose other brokers have fewest copies in flight, because these share their rate; of several the first in the
        order.
        """
        places, chosen = self._limits.partitions - len(self._in_flight), dict[TopicPartition, Move]()

        def take_one(moves: Iterable[Move], end: End | None = None) -> bool:
            """Whether one fits."""
            found, fewest = None, inf
            for move in moves:
                ends = self._places[move.topic_partition]
                copies = max([self._used[other] for other in ends if other != end]) if end else 0
                if copies < fewest and move.topic_partition not in chosen and self._fits(move):
                    found, fewest = move, copies
                    if not copies:
                        break
            if found is not None:
                chosen[found.topic_partition] = found
                self._occupy(found)
                if self._disks is not None:
                    self._disks.start(found)
            return found is not None

        most_first = [(-self._left_for_each_copy(end), end) for end, queue in self._of_end.items() if queue]
        heapq.heapify(most_first)
        while most_first and len(chosen) < places:
            seen, end = heapq.heappop(most_first)
            now = -self._left_for_each_copy(end)
            if seen == now:  # else it has got copies from the other end of moves
                # An end of which nothing fits is done with: whatever is taken leaves less room.
                if self._used[end] >= self._limits.copies_per_broker or not take_one(self._of_end[end].values(), end):
                    continue
                now = -self._left_for_each_copy(end)
            heapq.heappush(most_first, (now, end))
        without_bytes = iter(self._without_bytes.values())
        while len(chosen) < places and take_one(without_bytes):
            pass
        for move in chosen.values():  # nobody has requested them yet
            self._occupy(move, -1)
            if self._disks is not None:
                self._disks.take_back(move)
        return tuple(sorted(chosen.values(), key=lambda move: self._order[move.topic_partition]))

    def is_due(self, fits: Sequence[Move], busiest: Collection[End]) -> bool:
        """Whether a request is due: some moves fit, and half of the places that they need are free.

        To ask for each move as soon as it fits would take about a request a move, and a broker with half of its places
        taken is busy all the same. But the plan ends no earlier than the broker that has most left to copy: for a move
        of such a broker one free place is enough. `busiest`: see `busiest_ends`.
        """
        limits = self._limits
        if any(end in busiest for move in fits for end in self._places[move.topic_partition]):
            return True
        if 2 * len(self._in_flight) > limits.partitions:
            return False
        leaders_are_free = 2 * self._leader_changes <= limits.leader_changes
        return any(
            all(2 * self._used[end] <= limits.copies_per_broker for end in self._places[move.topic_partition])
            for move in fits
            if leaders_are_free or not move.changes_leader
        )

    def busiest_ends(self) -> frozenset[End]:
        """The ends that have about as much to copy as any; none: there are no bytes."""
        most = max(self._left.values(), default=0)
        return frozenset(end for end, size in self._left.items() if size >= NEARLY * most) if most else frozenset()

    def beside(self) -> Beside:
        """What a follower watches of what waits."""
        busiest = self.busiest_ends()
        ready: list[Move] = []
        full: set[int] = set()
        for move in sorted(self.waiting, key=lambda one: busiest.isdisjoint(self._places[one.topic_partition])):
            if len(ready) == self._limits.partitions:
                break
            blocking = self._blocking(move)
            full.update(blocking)
            if not blocking:
                ready.append(move)
        freeing = (move for move in self.in_flight if move.size_bytes and not full.isdisjoint(move.removed))
        return Beside(
            self._limits,
            tuple(ready),
            frozenset(self._in_flight),
            frozenset(move.topic_partition for move in freeing),
            busiest,
        )

    def _queues(self, move: Move) -> list[dict[TopicPartition, Move]]:
        """In which it waits."""
        ends = self._places[move.topic_partition]
        return [self._of_end[end] for end in ends] if move.size_bytes and ends else [self._without_bytes]

    def _fits(self, move: Move) -> bool:
        used, most = self._used, self._limits.copies_per_broker
        for end, count in self._places[move.topic_partition].items():  # `all` takes twice as long
            if used[end] + count > most:
                return False
        if move.changes_leader and self._leader_changes >= self._limits.leader_changes:
            return False
        return not self._blocking(move)

    def _blocking(self, move: Move) -> tuple[int, ...]:
        return () if self._disks is None else self._disks.blocking(move)

    def _occupy(self, move: Move, sign: int = 1) -> None:
        """The move takes its places; with -1 it gives them back."""
        for end, count in self._places[move.topic_partition].items():
            self._used[end] += sign * count
        self._leader_changes += sign * move.changes_leader

    def _left_for_each_copy(self, end: End) -> float:
        return self._left[end] / (self._used[end] + 1)


@dataclass(frozen=True, slots=True)
class Beside:
    """What a follower needs to know of the rest of the plan, in order to see that a request is due."""

    limits: Limits
    ready: tuple[Move, ...]  # which no disk holds up; the busiest brokers' first, and no more than there are places
    flying: frozenset[TopicPartition]  # in flight when the worker looked
    freeing: frozenset[TopicPartition]  # of them, those whose end makes room on disks that hold up other moves
    busiest: frozenset[End]

    def is_due(self, in_flight: Collection[Move]) -> bool:
        """Whether a request is due with these moves left in flight.

        Never before one has ended since the worker looked: until then the worker would find what it has found.
        """
        left = {move.topic_partition for move in in_flight}
        if self.flying <= left:
            return False
        if self.freeing and 2 * len(self.freeing & left) <= len(self.freeing):
            return True
        rest = RestOfPlan(self.ready, in_flight, self.limits)
        return rest.is_due(rest.fitting(), self.busiest)


def _bytes_by_end(moves: Collection[Move]) -> Counter[End]:
    received, sent = received_and_sent(moves)
    ways = (("receives", received), ("sends", sent))
    return Counter({(broker, way): size for way, by_broker in ways for broker, size in by_broker.items()})


def _places(move: Move, limits: Limits) -> Mapping[End, int]:
    """Copies that each broker sends or receives for it. A move alone may take more than all places."""
    added = move.added
    found = {(broker, "receives"): 1 for broker in added}
    return found | {(move.source, "sends"): min(len(added), limits.copies_per_broker)} if added else found


# How far the disks of brokers may rise while moves are requested beside others.
#
# The batches of a plan, one after the other, take the disks of each broker to a highest point, which the approver has
# read. Moves out of that order may not go beyond it.


_ByBatch = defaultdict[int, Counter[int]]  # {broker: {batch: bytes}}


class DiskRises:
    """Of the moves in a plan that have ended, are in flight and wait. All are bytes above what the snapshot found.

    At any time the rest of the plan, batch by batch, stays below each broker's highest point: a move is allowed only if
    that still holds after it. So nothing that is in flight fills a disk further, and the plan never stops half-way.
    """

    def __init__(self, ended: Collection[Move], in_flight: Collection[Move], waiting: Collection[Move]) -> None:
        self._arrivals, self._removals = _bytes(waiting)  # that are still to be requested, and to end
        self._level: Counter[int] = Counter()
        self._rooms: dict[int, tuple[Sequence[int], Sequence[int]]] = {}  # see `_room`; of brokers since they changed
        flying_arrivals, flying_removals = _bytes(in_flight)
        ended_arrivals, ended_removals = _bytes(ended)
        brokers = {broker for by_broker in (ended_arrivals, flying_arrivals, self._arrivals) for broker in by_broker}
        self._highest = {}
        for broker in brokers:
            arrivals = ended_arrivals[broker] + flying_arrivals[broker] + self._arrivals[broker]
            removals = ended_removals[broker] + flying_removals[broker] + self._removals[broker]
            self._highest[broker] = _highest(arrivals, removals)
            here = ended_arrivals[broker].total() + flying_arrivals[broker].total()
            self._level[broker] = here - ended_removals[broker].total()
            self._removals[broker] += flying_removals[broker]

    def blocking(self, move: Move) -> tuple[int, ...]:
        """The brokers whose disks this move would take too far now; none: it is allowed."""
        if not move.size_bytes:
            return ()
        return tuple(broker for broker in move.added if move.size_bytes > self._room(broker, move.batch))

    def start(self, move: Move) -> None:
        """The move is in flight from now on."""
        self._arrive(move, move.size_bytes)

    def take_back(self, move: Move) -> None:
        """It waits again, as if it had never started."""
        self._arrive(move, -move.size_bytes)

    def end(self, move: Move) -> None:
        """The move was in flight, and its old replicas are gone."""
        for broker in move.removed:
            self._level[broker] -= move.size_bytes
            self._removals[broker][move.batch] -= move.size_bytes
            self._rooms.pop(broker, None)

    def _arrive(self, move: Move, size_bytes: int) -> None:
        for broker in move.added:
            self._level[broker] += size_bytes
            self._arrivals[broker][move.batch] -= size_bytes
            self._rooms.pop(broker, None)

    def _room(self, broker: int, batch: int) -> float:
        """Bytes that may come to the broker now with a move of this batch."""
        if broker not in self._rooms:
            self._rooms[broker] = self._rooms_now(broker)
        batches, rooms = self._rooms[broker]
        earlier = bisect_left(batches, batch)
        # Behind the last of the earlier removals, the level is what the plan itself would have.
        return rooms[earlier - 1] if earlier else inf

    def _rooms_now(self, broker: int) -> tuple[Sequence[int], Sequence[int]]:
        """(batches with removals to come; bytes that may come ahead of each of them, with a move of a later batch)."""
        arrivals, removals = self._arrivals[broker], self._removals[broker]
        batches = sorted(batch for batch, size in removals.items() if size)
        level = top = self._level[broker]
        rooms = []
        for batch in sorted(arrivals.keys() | batches) if batches else ():
            level += arrivals[batch]
            top = max(top, level)
            if removals[batch]:
                rooms.append(self._highest[broker] - top)
                level -= removals[batch]
        return batches, rooms


def _bytes(moves: Collection[Move]) -> tuple[_ByBatch, _ByBatch]:
    """(bytes that come to each broker, bytes that leave it), by batch."""
    arrivals: _ByBatch = defaultdict(Counter)
    removals: _ByBatch = defaultdict(Counter)
    for move in moves:
        for broker in move.added if move.size_bytes else ():
            arrivals[broker][move.batch] += move.size_bytes
        for broker in move.removed if move.size_bytes else ():
            removals[broker][move.batch] += move.size_bytes
    return arrivals, removals


def _highest(arrivals: Counter[int], removals: Counter[int]) -> int:
    """The most above the snapshot, if the batches run one after the other."""
    level = highest = 0
    for batch in sorted(arrivals.keys() | removals.keys()):
        level += arrivals[batch]
        highest = max(highest, level)
        level -= removals[batch]
    return highest
