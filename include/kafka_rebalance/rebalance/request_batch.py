"""Requests the approved moves: batch after batch, or without a request znode beside those in flight.

Each time it reads where the run stands, from ZooKeeper and from the notes of its requests.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

from kafka_rebalance import clock
from kafka_rebalance.admin.wire import keep_wire
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.progress import BatchNote
from kafka_rebalance.errors import (
    ArtifactError,
    AuthenticationError,
    ExecutionError,
    FormatVersionError,
    FrozenError,
    LockHeldError,
    LockLostError,
    ReadError,
    RebalanceError,
    RefusedError,
    SettingsError,
    StoppedError,
    WriteError,
)
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves import cancel_plan
from kafka_rebalance.moves.cancel_plan import CancelWay, Fate
from kafka_rebalance.moves.eta import predicted_seconds
from kafka_rebalance.moves.move_stage import Stage, stage_in
from kafka_rebalance.moves.rolling_requests import Beside
from kafka_rebalance.moves.run_position import Position, check_position, position
from kafka_rebalance.moves.stuck_request import another_controller, request_of_what_is_gone
from kafka_rebalance.rebalance import batch_notes
from kafka_rebalance.rebalance.batch_file import Followed, followed, followed_beside, write_followed
from kafka_rebalance.rebalance.elect_leaders import elect_preferred, led_by_first, may_elect, most_at_once
from kafka_rebalance.rebalance.follow import BatchFollower, ThrottleWatch, follow_for
from kafka_rebalance.rebalance.progress_notes import movement_of, read_progress
from kafka_rebalance.rebalance.stalled_copies import begun_in
from kafka_rebalance.run.approved_plan import ApprovedPlan, read_approved, read_left_out
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.checks_before_write import (
    READ_AGAIN_SECONDS,
    BrokerReports,
    check_before_write,
    check_clock_for_window,
    pause_now,
)
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.passed_over_tasks import check_rest_will_run
from kafka_rebalance.run.run_lock import lock_owner
from kafka_rebalance.run.running_rebalance import asked_for, gone_through
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.throttle.adapt_rates import RateWatch, incident_pause
from kafka_rebalance.throttle.adaptive_rate import Chosen
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.lease_files import rate_in_force
from kafka_rebalance.throttle.suspend_throttle import set_for_batch, suspend
from kafka_rebalance.throttle.throttle_in_force import check_throttle_in_force, gone_topics
from kafka_rebalance.throttle.wait_for_window import longest_seconds, wait_for_window

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Follow:
    plan: ApprovedPlan
    batch: Batch
    in_place: frozenset[TopicPartition] | None = None  # without a request znode: what has ended, of all batches
    beside: Beside | None = None  # with it the follower looks for room for more

    @property
    def followed(self) -> Followed:
        if self.in_place is None:
            return followed(self.plan.candidate, self.batch.number)
        return followed_beside(self.plan.candidate, self.batch, self.in_place, self.beside)

    def to_arguments(self) -> dict[str, Any]:
        return {
            "connection_id": self.plan.connection_id,
            "run_folder": str(self.plan.folder),
            "candidate": self.plan.candidate.name,
            "batch": self.batch.number,
        }


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds."""

    quickest: float  # between looks, while a batch is young or near its end
    slowest: float  # between looks, in the middle of a long copy
    stall: float  # without any movement, until the batch is given up
    stay: float  # that a worker itself follows a batch


def reassign(
    inputs: StepInputs, decision: Mapping[str, Any], seen: BatchSeen | None, pace: Pace
) -> Follow | Wait | None:
    """What comes next: a batch to follow, or something to wait for; None: all batches are in place.

    If a batch should end within `pace.stay`, the worker itself follows it: the way to the triggerer and back takes
    Airflow several seconds, in which nothing moves. `seen`: as in `Visit.advance`.
    """
    plan = read_approved(inputs, decision)
    connection = inputs.deployment.read_connection(plan.connection_id)
    with keep_wire(connection.kafka), open_cluster(connection) as cluster:
        visit = Visit(inputs, cluster, connection, plan)
        step = visit.advance(seen)
        reread = partial(inputs.deployment.read_connection, plan.connection_id)
        while isinstance(step, Follow) and (seen := _stay(visit, step, pace, reread)) is not None:
            step = visit.advance(seen)
    if isinstance(step, Follow):
        write_followed(step.plan.folder, step.plan.candidate.digest, step.followed, is_in_plan=step.in_place is None)
    elif step is None:
        log.info("All %d batches are in place", len(plan.candidate.batches))
        check_rest_will_run(inputs, "All batches are in place.", ("release_throttle",))
    else:
        log.info("The next batch waits: %s", step.words)
    return step


def _stay(visit: Visit, step: Follow, pace: Pace, reread: Callable[[], ClusterConnection]) -> BatchSeen | None:
    """What the worker saw of the batch; None: a trigger is to follow it."""
    plan, number = step.plan, step.batch.number
    is_long = predicted_seconds(step.batch.moves, rate_in_force(plan.folder)) > pace.stay
    if is_long and not (pace.stay and visit.rate_watch.is_lively):
        return None
    follower = BatchFollower(visit.connection, plan.folder, step.followed, number, pace.stall)
    follower.share(visit.cluster, visit.throttle_watch, visit.rate_watch)
    return follow_for(follower, pace.stay, pace.quickest, pace.slowest, log, reread)


class Visit:
    """What stays from batch to batch: the approved plan, the cluster, and the last states of the partitions."""

    def __init__(
        self, inputs: StepInputs, cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan
    ) -> None:
        self.cluster, self.connection, self.plan = cluster, connection, plan
        self.deployment, self.run = inputs.deployment, inputs.run
        self.kept = ClusterLease(inputs.deployment, cluster, plan.snapshot.cluster_id)
        self._reports = BrokerReports()
        self.throttle_watch = ThrottleWatch(plan.folder)
        self.rate_watch = RateWatch(plan.folder, plan.given_up)
        # When all partitions were read, and the view since then, with those read again of which some move.
        self._read: tuple[float, ClusterView] | None = None
        self._near = frozenset[TopicPartition]()  # in flight or next, when the run last looked or requested

    def advance(self, seen: BatchSeen | None = None) -> Follow | Wait | None:
        """The next step; this requests the next batch. `seen`: what the last follower saw, maybe long ago.

        It reads ZooKeeper first, so two calls, even of two workers at once, never request a batch twice. Raises
        ExecutionError if the batch in flight is stuck, RefusedError if the controller dropped it, StoppedError if
        people or their time limit allow no further batch.
        """
        plan = replace(self.plan, left_out=read_left_out(self.plan.folder, self.plan.approved))
        self._take_back_late(plan)
        view, where = self._look(plan)
        if (said := _take_back_cancelled(self.cluster, plan, view, where)) is not None:
            raise _stopped(plan, where, said)
        if seen is not None:
            _heed(plan, view, where, seen)
        owner = lock_owner(self.deployment, plan.candidate.digest, self.run)
        check_position(where, view, partial(self.cluster.read_movers, besides=owner))
        self._adapt_rates(plan, where, owner, at_once=seen is not None and seen.state == BatchState.RATES)
        if where.in_flight is not None:
            with suppress(FormatVersionError):  # the batch is followed to its end; the next request raises
                batch_notes.note_done(plan, where.done)
            if not view.traits.has_request_znode:
                return self._beside(plan, view, where, where.in_flight)
            log.info("Batch %d is under way; following it", where.in_flight.number)
            return Follow(plan, where.in_flight)
        batch_notes.note_done(plan, where.done)
        self._elect(plan, view, where)
        return None if where.next is None else self._request(plan, view, where, where.next)

    def _beside(self, plan: ApprovedPlan, view: ClusterView, where: Position, in_flight: Batch) -> Follow:
        """Follows what is in flight, once it has requested what fits beside it.

        If that may not be requested now, everything in flight comes to its end first. Then the run waits, or fails.
        """
        if where.next is None:
            return Follow(plan, in_flight, where.in_place, where.beside)
        try:
            self._elect(plan, view, where)
            step = self._request(plan, view, where, where.next)
        except (LockHeldError, LockLostError):
            raise
        except RebalanceError as why:
            log.warning("No further move is requested before those in flight have ended: %s", why)
            step = None
        if isinstance(step, Follow):
            return step
        return Follow(plan, in_flight, where.in_place)

    def _adapt_rates(self, plan: ApprovedPlan, where: Position, owner: LockOwner, *, at_once: bool) -> None:
        """Of a run whose approval has a range of rates. Before the first request too: the cluster is quiet then."""
        if plan.decision.throttle_from_bytes_per_second is None:
            return
        moves = where.in_flight.moves if where.in_flight is not None else ()
        adapt = partial(self.rate_watch.adapt, self.kept, self.connection, owner, clock.now_seconds(), moves)
        try:
            adapt(at_once=at_once, may_rise=not self._is_frozen(plan))
        except (AuthenticationError, LockHeldError, LockLostError):
            raise
        except (ArtifactError, ReadError, WriteError) as failed:
            log.warning("The rates stay as they are until the next look: %s", failed)

    def _is_frozen(self, plan: ApprovedPlan) -> bool:
        """Also if nobody can tell."""
        try:
            self.deployment.check_not_frozen(plan.connection_id)
        except (FrozenError, SettingsError, ReadError):
            return True
        return False

    def _take_back_late(self, plan: ApprovedPlan) -> None:
        asked = asked_for(plan.folder, plan.candidate.moves, self.cluster)
        own = {move.topic_partition: move.after for move in plan.candidate.moves if move.topic_partition in asked}
        owner = lock_owner(self.deployment, plan.candidate.digest, self.run)
        self.cluster.take_back_late_requests(owner, own)

    def _look(self, plan: ApprovedPlan) -> tuple[ClusterView, Position]:
        """The cluster now, and where the run stands.

        Requests, brokers, and partitions that are in flight or next are always read. What nobody moves is read again
        after `READ_AGAIN_SECONDS`, or if a broker has come or gone.
        """
        now = time.monotonic()
        if self._near and self._read is not None and now - self._read[0] < READ_AGAIN_SECONDS:
            earlier = self._read[1]
            view = self.cluster.read_view_again(plan.topics, earlier, self._near)
            where = _position(plan, view, self.cluster)
            wanted = _partitions(where.in_flight, where.next).union(move.topic_partition for move in where.asked)
            if view.brokers == earlier.brokers and wanted <= self._near:
                self._read = self._read[0], view
                self._near = self._near_to(plan, where)
                return view, where
        view = self.cluster.read_view(plan.topics)
        where = _position(plan, view, self.cluster)
        self._read, self._near = (now, view), self._near_to(plan, where)
        return view, where

    def _near_to(self, plan: ApprovedPlan, where: Position) -> frozenset[TopicPartition]:
        """What may be in flight or next at the following look."""
        near = _partitions(where.in_flight, where.next)
        if where.beside is not None:
            return frozenset((*near, *(move.topic_partition for move in where.beside.ready)))
        last = max((batch.number for batch in (where.in_flight, where.next) if batch is not None), default=0)
        following = (batch for batch in plan.candidate.batches if batch.number == last + 1)
        return frozenset(near | _partitions(*following))

    def _elect(self, plan: ApprovedPlan, view: ClusterView, where: Position) -> None:
        """Elects preferred leaders of what this run has moved, before it moves anything else.

        A run that pauses has done so, and writes nothing before its window opens.
        """
        if plan.window.waits_until(clock.utc_now()) is not None and batch_notes.is_paused(plan):
            return
        ours = where.begun & set(where.done)
        moves = [move for move in plan.candidate.moves if move.batch in ours and not move.is_election]
        done = [move for move in moves if not led_by_first(view, move)]
        if done:
            self._elect_these(plan, where, done)
            self._near |= {move.topic_partition for move in done}  # they have other leaders by now

    def _elect_these(self, plan: ApprovedPlan, where: Position, moves: Sequence[Move]) -> tuple[TopicPartition, ...]:
        owner = lock_owner(self.deployment, plan.candidate.digest, self.run)
        allowed = may_elect(self.deployment, plan, lambda: self.cluster.lock.raise_held(owner))
        try:
            return elect_preferred(self.cluster, moves, most=most_at_once(plan), allowed=allowed)
        except StoppedError as stopped:
            raise _stopped(plan, where, str(stopped)) from stopped

    def _pause(self, plan: ApprovedPlan, where: Position, batch: Batch, at_once: Sequence[Move]) -> Wait | None:
        """What to wait for if these moves would not end in this window; None: they may begin.

        While the run waits it keeps the lock, and its throttle is put back once nothing of it is in flight.
        """
        try:
            wait = wait_for_window(self.deployment, plan, at_once, is_paused=batch_notes.is_paused(plan))
        except StoppedError as never:
            raise _stopped(plan, where, f"Batch {batch.number} was not requested: {never}.") from never
        if wait is None or where.in_flight is not None:
            return wait
        if where.begun:
            batch_notes.note_pause(plan, wait.not_before)
        lease = self.kept.read_open_in(plan.folder)
        if lease is not None and lease.handed_over_at is None and not suspend(self.kept, lease):
            log.warning("Part of the throttle is still set. The janitor puts it back")
        return wait

    def _request(self, plan: ApprovedPlan, view: ClusterView, where: Position, batch: Batch) -> Follow | Wait | None:
        cluster = self.cluster
        _check_not_stopped(plan, where, batch)
        if not batch.elects:  # an election changes no list, so it cannot look refused
            _check_not_refused(plan, batch, view)
        at_once = (*(where.in_flight.moves if where.in_flight is not None else ()), *batch.moves)
        now = clock.utc_now()
        wait = self._pause(plan, where, batch, at_once) or _wait(plan, view, where, now, self.rate_watch.last)
        if wait is not None:
            return wait
        closed = plan.window.closed_for(longest_seconds(plan, at_once), now)
        if closed is not None:
            raise _stopped(plan, where, f"Batch {batch.number} was not requested: {closed}.")
        approved = plan
        plan = check_before_write(
            self.deployment, cluster, self.connection, plan, view, where, requesting=batch, reports=self._reports
        )
        if plan is not approved:  # some was left out
            where = _position(plan, view, cluster)
            batch_notes.note_done(plan, where.done)
        if where.next is None:
            return None  # all other moves were left out
        if not set(where.next.moves) <= set(batch.moves):  # some was left out, and what takes its place is not checked
            return self._request(plan, view, where, where.next)
        batch = where.next
        # First the fence, then what people ask, then the throttle. Whoever cancels or puts the throttle back after this
        # stops the request. Whoever has begun before is stopped by the fence.
        owner = lock_owner(self.deployment, plan.candidate.digest, self.run)
        fence = set_for_batch(self.kept, plan.folder, owner, _partitions(batch), gone_topics(plan))
        check_clock_for_window(cluster, plan.window)
        _check_not_stopped(plan, where, batch)
        check_throttle_in_force(self.kept, plan, _partitions(batch))
        self.throttle_watch.found_in_force(clock.now_seconds())
        if batch.elects:
            batch_notes.note_going_on(plan)
            batch_notes.note_requesting(plan, batch.moves, fence)
            left = self._elect_these(plan, where, batch.moves)
            batch_notes.note_batch(plan, batch, BatchState.DONE, not_elected=[str(tp) for tp in left])
            return self.advance()
        log.info(
            "Batch %d of %d: requesting %d partitions, %d bytes to copy",
            batch.number,
            len(plan.candidate.batches),
            len(batch.moves),
            sum(move.bytes_to_copy for move in batch.moves),
        )
        self._near |= _partitions(batch)
        batch_notes.note_going_on(plan)
        batch_notes.note_requesting(plan, batch.moves, fence)
        refused = cluster.request_moves(batch, plan.candidate.digest, view.brokers, view=view, fence=fence)
        batch_notes.note_requested(plan, batch.moves, refused)
        if len(refused) == len(batch.moves) and where.in_flight is None:  # else what Kafka has taken is followed first
            _raise_refused(plan, batch, view)
        if view.traits.has_request_znode:
            return Follow(plan, batch)
        if where.in_flight is not None:
            number = min(where.in_flight.number, batch.number)
            batch = replace(batch, number=number, moves=(*where.in_flight.moves, *batch.moves))
        return Follow(plan, batch, where.in_place, where.beside)


def _position(plan: ApprovedPlan, view: ClusterView, cluster: OpenCluster) -> Position:
    asked = asked_for(plan.folder, plan.candidate.moves, cluster)
    return position(plan.candidate.batches, view, asked, gone_through(plan.folder), limits=plan.limits)


def _partitions(*batches: Batch | None) -> set[TopicPartition]:
    return {move.topic_partition for batch in batches if batch is not None for move in batch.moves}


def _heed(plan: ApprovedPlan, view: ClusterView, where: Position, seen: BatchSeen) -> None:
    """Raises what was seen, if ZooKeeper still shows it. What was seen of an earlier batch no longer counts."""
    at, state, message = where.in_flight or where.next, seen.state, seen.message
    if state in (BatchState.READY, BatchState.DONE, BatchState.ROOM, BatchState.RATES, BatchState.UNREADABLE):
        return  # the cluster has just been read, and tells what is done
    # A follower reports a stall while the batch runs, and everything else when nothing of it runs any more.
    if not view.traits.has_request_znode:  # what was asked for at once is of several batches
        at = Batch(seen.batch or 0, where.asked, plan.candidate.digest) if where.asked else None
    if at is None or at.number != seen.batch or (where.in_flight is None) == (state == BatchState.STALLED):
        log.warning("Batch %s was seen as %s, which it is no longer; going on from the cluster", seen.batch, state)
        return
    parts = _parts_of(at)
    if state == BatchState.REFUSED:
        if (said := batch_notes.refusal_words(plan, parts)) and said not in message:
            message = f"{message} Kafka's own words: {said}."
        for part in parts:
            _note_refused(plan, part, view, message)
        stays = request_of_what_is_gone(view) is not None
        remedy = f" If the request stays, nothing else can be moved. {another_controller(view.controller)}."
        raise RefusedError(message + remedy * stays)
    for part in parts:
        batch_notes.note_batch(plan, part, state, **({"why": message} if state == BatchState.TAKEN_BACK else {}))
    if state == BatchState.TAKEN_BACK:
        raise RefusedError(f"{message} {NOT_AGAIN}")
    if state == BatchState.CANCELLED:
        raise _stopped(plan, where, message)
    raise ExecutionError(message)


def _check_not_stopped(plan: ApprovedPlan, where: Position, batch: Batch) -> None:
    control = read_control(plan.folder)
    if control.cancelled is not None and batch_notes.read_batch_note(plan, batch.number):
        batch_notes.note_batch(plan, batch, BatchState.CANCELLED)
    if control.stop_after_batch is not None:
        raise _stopped(plan, where, f"No further batch was requested, as {control.stop_after_batch} asked.")


def _stopped(plan: ApprovedPlan, where: Position, why: str) -> StoppedError:
    batch_notes.note_stop(plan, why)
    done = sum(len(b.moves) for b in plan.candidate.batches if b.number in where.done)
    left = len(plan.candidate.moves) - done
    return StoppedError(
        f"{why} {len(where.done)} of {len(plan.candidate.batches)} batches ({done} partitions) are in place, {left} "
        "partitions are not; verification.json names them. The throttle is put back. To go on under the same "
        "approval, remove what stopped the run (if people asked, control.json and cancelled.json in the run's "
        "folder), then clear hold_throttle with what follows it."
    )


def _wait(plan: ApprovedPlan, view: ClusterView, where: Position, now: datetime, rates: Chosen | None) -> Wait | None:
    window = plan.window
    not_before = window.waits_until(now)
    if not_before is not None:
        return Wait(plan.connection_id, str(plan.folder), not_before=not_before, until=window.finish_by)
    if window.closed_for(0.0, now) is not None:
        return None
    pause = pause_now(plan, view, where) or incident_pause(rates)
    return Wait(plan.connection_id, str(plan.folder), pause, until=window.closes_at(now)) if pause else None


# A run that a person has cancelled follows nothing any more: its worker takes back what is in flight.
#
# The cancel itself does the same. A worker may come after it, with a request that was on its way, or instead of one
# that died.


def _take_back_cancelled(cluster: OpenCluster, plan: ApprovedPlan, view: ClusterView, where: Position) -> str | None:
    """What became of the moves in flight of a cancelled run; None if nobody has cancelled it, or nothing is in flight.

    Below Kafka 2.4 no single move can be cancelled: there the cancel alone takes back, and None is returned. Raises
    WriteError if Kafka refuses to cancel a move.
    """
    by = read_control(plan.folder).cancelled
    if by is None or where.in_flight is None or not cluster.can_cancel():
        return None
    asked = asked_for(plan.folder, plan.candidate.moves, cluster)
    steps = cancel_plan.plan_cancel(plan.candidate.moves, view, CancelWay.API, asked=asked)
    flying = {step.move.topic_partition for step in cancel_plan.has_fate(steps, Fate.BACK)}
    back = cluster.cancel_moves(flying)
    for part in _parts_of(where.in_flight):
        batch_notes.note_batch(plan, part, BatchState.CANCELLED)
    said = f"{by} cancelled the run, and {len(back)} moves in flight were taken back."
    if stays := [f"{step.move.topic_partition} {step.note}" for step in cancel_plan.has_fate(steps, Fate.BLOCKED)]:
        said += f" {len(stays)} moves cannot be taken back: {some(stays)}."
    log.warning("%s", said)
    return said


# Moves that the controller dropped after the request, or that somebody else cancelled: none is asked for again.


NOT_AGAIN = "It is not requested again under this approval. Settle it with the person who cancelled it."


def _note_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView, why: str) -> None:
    epoch = view.controller.epoch if view.controller else None
    batch_notes.note_batch(plan, batch, BatchState.REFUSED, why=why, controller_epoch=epoch)


def _raise_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView) -> NoReturn:
    """Raises RefusedError with Kafka's own words: it has taken none of these moves."""
    parts = _parts_of(batch)
    why = (
        f"Kafka refused all {len(batch.moves)} partitions that were requested of batch {batch.number}. "
        f"{batch_notes.refusal_words(plan, parts)}. They stay as they are."
    )
    for part in parts:
        _note_refused(plan, part, view, why)
    raise RefusedError(f"{why} Start a new Dag run, which plans from the current cluster.")


def _check_not_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView) -> None:
    """Raises RefusedError if the controller dropped moves of `batch`, or if somebody else cancelled them."""
    for part in _parts_of(batch):
        _check_part(plan, part, view)


def _check_part(plan: ApprovedPlan, batch: Batch, view: ClusterView) -> None:
    """Raises RefusedError if the controller dropped this batch, unless there is a new controller since.

    The same controller would drop the same request again; a new one reads everything again.
    """
    note = batch_notes.read_batch_note(plan, batch.number)
    if note is None:
        return
    if note.asked is not None:
        batch = replace(batch, moves=tuple(m for m in batch.moves if str(m.topic_partition) in note.asked))
    _check_not_taken_back(plan, batch, view, note)
    # Moves of partitions that are gone or were moved since were not dropped: `check_before_write` decides on them.
    found = ((move, view.partitions.get(move.topic_partition)) for move in batch.moves)
    dropped = [move for move, partition in found if partition is not None and partition.replicas == move.before]
    state, why, epoch = note.state, note.why, view.controller.epoch if view.controller else None
    if not dropped or state not in (BatchState.REQUESTED, BatchState.REFUSED):
        return
    if state == BatchState.REQUESTED:
        # Requested without a trace: nobody followed it when it was dropped.
        named = ", ".join(str(move.topic_partition) for move in dropped[:10])
        why = (
            f"{len(dropped)} partitions of batch {batch.number} left /admin/reassign_partitions with their "
            f"replicas unchanged: the controller refused them ({named}). Its log says why (KafkaController)."
        )
        if said := batch_notes.refusal_words(plan, [batch]):
            why = f"Kafka refused {len(dropped)} partitions of batch {batch.number}. {said}."
        _note_refused(plan, batch, view, why)
    elif epoch not in (None, note.controller_epoch):
        log.info("Batch %d was refused by an earlier controller; asking the one of epoch %d", batch.number, epoch)
        return
    raise RefusedError(
        f"{why} It was not requested again: the same controller would drop it again. Start a new Dag run to plan from "
        "the current cluster, or clear this task after the election of another controller."
    )


def _check_not_taken_back(plan: ApprovedPlan, batch: Batch, view: ClusterView, note: BatchNote) -> None:
    """Raises RefusedError if somebody else cancelled this batch in mid-copy: that person wanted it to stop.

    The follower has noted that. If nobody followed the batch, the moves seen under way before tell it.
    """
    stages = {move.topic_partition: stage_in(move, view) for move in batch.moves}
    state, why = note.state, note.why
    if state == BatchState.REQUESTED:
        begun = begun_in(movement_of(read_progress(plan.folder), batch.number))
        back = [tp for tp, one in stages.items() if one is Stage.TAKEN_BACK or (one is Stage.UNTOUCHED and tp in begun)]
        if not back:
            return
        why = (
            f"Somebody else cancelled batch {batch.number} while it was under way: {len(back)} of its partitions have "
            f"their original replicas again ({some(back)}). What was copied is thrown away. Find out who cancelled it "
            "and why, then start a new Dag run."
        )
        batch_notes.note_batch(plan, batch, BatchState.TAKEN_BACK, why=why)
    elif state != BatchState.TAKEN_BACK or not {Stage.UNTOUCHED, Stage.TAKEN_BACK} & set(stages.values()):
        return
    raise RefusedError(f"{why} {NOT_AGAIN}")


def _parts_of(batch: Batch) -> list[Batch]:
    """What is requested at once, by the batches of the plan."""
    numbers = sorted({move.batch for move in batch.moves})
    return [replace(batch, number=n, moves=tuple(m for m in batch.moves if m.batch == n)) for n in numbers]
