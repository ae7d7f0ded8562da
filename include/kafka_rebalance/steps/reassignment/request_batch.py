"""Requests the approved batches, one after the other.

Each time it reads where the run stands, from ZooKeeper and from the notes of its requests.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import ExecutionError, FormatVersionError, RefusedError, StoppedError
from kafka_rebalance.execution.check.batch_wait import Wait
from kafka_rebalance.execution.eta import predicted_seconds
from kafka_rebalance.execution.follow.stalled_copies import begun_in
from kafka_rebalance.execution.move_stage import Stage, stage_in
from kafka_rebalance.execution.run_position import Position, check_position, position
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.steps.inputs import StepInputs
from kafka_rebalance.steps.reassignment import batch_notes
from kafka_rebalance.steps.reassignment.batch_file import write_followed
from kafka_rebalance.steps.reassignment.batch_seen import BatchSeen, BatchState
from kafka_rebalance.steps.reassignment.elect_preferred import elect_preferred, led_by_first, may_elect, most_at_once
from kafka_rebalance.steps.reassignment.follow_batch import BatchFollower, follow_for
from kafka_rebalance.steps.reassignment.progress_notes import read_movement
from kafka_rebalance.steps.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.steps.run.asked_batches import asked_for, gone_through
from kafka_rebalance.steps.run.checks_before_write import check_before_write, check_clock_for_window, pause_now
from kafka_rebalance.steps.run.left_out_moves import read_left_out
from kafka_rebalance.steps.run.run_lock import lock_owner
from kafka_rebalance.steps.run.stop_requests import read_control
from kafka_rebalance.steps.throttle.cluster_lease import ClusterLease
from kafka_rebalance.steps.throttle.lease_files import rate_in_force
from kafka_rebalance.steps.throttle.suspend_throttle import set_for_batch
from kafka_rebalance.steps.throttle.throttle_in_force import check_throttle_in_force

log = logging.getLogger(__name__)

# A leader removes a lagging replica from the ISR after replica.lag.time.max.ms, 10 s or 30 s. So the states of
# partitions that nobody moves are never newer than that.
STATES_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Follow:
    plan: ApprovedPlan
    batch: Batch

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
    with open_cluster(connection) as cluster:
        visit = Visit(inputs, cluster, connection, plan)
        step = visit.advance(seen)
        while isinstance(step, Follow) and (seen := _stay(connection, step, pace)) is not None:
            step = visit.advance(seen)
    if isinstance(step, Follow):
        write_followed(step.plan.folder, step.plan.candidate, step.batch.number)
    elif step is None:
        log.info("All %d batches are in place", len(plan.candidate.batches))
    else:
        log.info("The next batch waits: %s", step.words)
    return step


def _stay(connection: ClusterConnection, step: Follow, pace: Pace) -> BatchSeen | None:
    """What the worker saw of the batch; None: a trigger is to follow it."""
    plan, number = step.plan, step.batch.number
    if predicted_seconds(step.batch.moves, rate_in_force(plan.folder)) > pace.stay:
        return None
    follower = BatchFollower(connection, plan.folder, plan.candidate, number, pace.stall)
    return follow_for(follower, pace.stay, pace.quickest, pace.slowest, log)


class Visit:
    """What stays from batch to batch: the approved plan, the cluster, and the last states of the partitions."""

    def __init__(
        self, inputs: StepInputs, cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan
    ) -> None:
        self.cluster, self.connection, self.plan = cluster, connection, plan
        self.deployment, self.run = inputs.deployment, inputs.run
        self.kept = ClusterLease(inputs.deployment, cluster, plan.snapshot["cluster_id"])
        self._all_states: tuple[float, ClusterView] | None = None  # time of the read, and what it gave
        self._last = 0  # batch that was requested or found in flight

    def advance(self, seen: BatchSeen | None = None) -> Follow | Wait | None:
        """The next step; this requests the next batch. `seen`: what the last follower saw, maybe long ago.

        It reads ZooKeeper first, so two calls, even of two workers at once, never request a batch twice. Raises
        ExecutionError if the batch in flight is stuck, RefusedError if the controller dropped it, StoppedError if
        people or their time limit allow no further batch.
        """
        plan = replace(self.plan, left_out=read_left_out(self.plan.folder, self.plan.approved))
        self._take_back_late(plan)
        view, where = self._look(plan)
        if seen is not None:
            _heed(plan, view, where, seen)
        check_position(where, view)
        if where.in_flight is not None:
            with suppress(FormatVersionError):  # the batch is followed to its end; the next request raises
                batch_notes.note_done(plan, where.done)
            log.info("Batch %d is under way; following it", where.in_flight.number)
            self._last = where.in_flight.number
            return Follow(plan, where.in_flight)
        self._last = 0
        batch_notes.note_done(plan, where.done)
        self._elect(plan, view, where)
        return None if where.next is None else self._request(plan, view, where, where.next)

    def _take_back_late(self, plan: ApprovedPlan) -> None:
        asked = asked_for(plan.folder, self.cluster)
        own = {
            move.topic_partition: move.after
            for batch in plan.candidate.batches
            if batch.number in asked
            for move in batch.moves
        }
        owner = lock_owner(self.deployment, plan.candidate.digest, self.run)
        self.cluster.take_back_late_requests(owner, own)

    def _look(self, plan: ApprovedPlan) -> tuple[ClusterView, Position]:
        """The cluster now, and where the run stands.

        Lists, requests, brokers, and the states of the last and the next batch are always read. The other states are
        read again after `STATES_SECONDS`, or if a broker has come or gone.
        """
        batches, now = plan.candidate.batches, time.monotonic()
        if self._last and self._all_states is not None and now - self._all_states[0] < STATES_SECONDS:
            fresh = {tp for b in batches if 0 <= b.number - self._last <= 1 for tp in _partitions(b)}
            seen = self._all_states[1].partitions
            known = {tp: one.state for tp, one in seen.items() if tp not in fresh}
            view = self.cluster.read_view(plan.topics, known=known)
            where = _position(plan, view, self.cluster)
            if view.brokers == self._all_states[1].brokers and _partitions(where.in_flight or where.next) <= fresh:
                self._all_states = self._all_states[0], view
                return view, where
        view = self.cluster.read_view(plan.topics)
        self._all_states = now, view
        return view, _position(plan, view, self.cluster)

    def _elect(self, plan: ApprovedPlan, view: ClusterView, where: Position) -> None:
        """Elects preferred leaders of what this run has moved, before it moves anything else."""
        ours = where.begun & set(where.done)
        moves = [move for move in plan.candidate.moves if move.batch in ours and not move.is_election]
        done = [move for move in moves if not led_by_first(view, move)]
        if done:
            self._elect_these(plan, where, done)

    def _elect_these(self, plan: ApprovedPlan, where: Position, moves: Sequence[Move]) -> tuple[TopicPartition, ...]:
        owner = lock_owner(self.deployment, plan.candidate.digest, self.run)
        allowed = may_elect(self.deployment, plan, lambda: self.cluster.lock.raise_held(owner))
        try:
            return elect_preferred(self.cluster, moves, most=most_at_once(plan), allowed=allowed)
        except StoppedError as stopped:
            raise _stopped(plan, where, str(stopped)) from stopped

    def _request(self, plan: ApprovedPlan, view: ClusterView, where: Position, batch: Batch) -> Follow | Wait | None:
        cluster = self.cluster
        _check_not_stopped(plan, where, batch)
        if not batch.elects:  # an election changes no list, so it cannot look refused
            _check_not_refused(plan, batch, view)
        now = datetime.now(UTC)
        wait = _wait(plan, view, where, now)
        if wait is not None:
            return wait
        closed = plan.window.closed_for(predicted_seconds(batch.moves, rate_in_force(plan.folder)), now)
        if closed is not None:
            raise _stopped(plan, where, f"Batch {batch.number} was not requested: {closed}.")
        plan = check_before_write(self.deployment, cluster, self.connection, plan, view, where, requesting=batch.number)
        where = _position(plan, view, cluster)
        batch_notes.note_done(plan, where.done)
        if where.next is None:
            return None  # all other moves were left out
        if where.next.number != batch.number:  # this batch was left out, and the next one is not checked yet
            return self._request(plan, view, where, where.next)
        batch = where.next
        # First the fence, then what people ask, then the throttle. Whoever cancels or puts the throttle back after this
        # stops the request. Whoever has begun before is stopped by the fence.
        owner = lock_owner(self.deployment, plan.candidate.digest, self.run)
        fence = set_for_batch(self.kept, plan, owner, _partitions(batch))
        check_clock_for_window(cluster, plan)
        _check_not_stopped(plan, where, batch)
        check_throttle_in_force(self.kept, plan, _partitions(batch))
        if batch.elects:
            batch_notes.note_going_on(plan)
            batch_notes.note_requesting(plan, batch, fence)
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
        batch_notes.note_going_on(plan)
        batch_notes.note_requesting(plan, batch, fence)
        cluster.request_moves(batch, plan.candidate.digest, view.brokers, view=view, fence=fence)
        batch_notes.note_batch(plan, batch, BatchState.REQUESTED)
        self._last = batch.number
        return Follow(plan, batch)


def _position(plan: ApprovedPlan, view: ClusterView, cluster: OpenCluster) -> Position:
    return position(plan.candidate.batches, view, asked_for(plan.folder, cluster), gone_through(plan.folder))


def _partitions(batch: Batch | None) -> set[TopicPartition]:
    return {move.topic_partition for move in batch.moves} if batch is not None else set()


def _heed(plan: ApprovedPlan, view: ClusterView, where: Position, seen: BatchSeen) -> None:
    """Raises what was seen, if ZooKeeper still shows it. What was seen of an earlier batch no longer counts."""
    at, state, message = where.in_flight or where.next, seen.state, seen.message
    if state in (BatchState.READY, BatchState.DONE, BatchState.UNREADABLE):
        return  # ZooKeeper has just been read, and tells what is done
    # A follower reports a stall while the batch runs, and everything else when nothing of it runs any more.
    if at is None or at.number != seen.batch or (where.in_flight is None) == (state == BatchState.STALLED):
        log.warning("Batch %s was seen as %s, which it is no longer; going on from ZooKeeper", seen.batch, state)
        return
    if state == BatchState.REFUSED:
        _note_refused(plan, at, view, message)
        raise RefusedError(message)
    if state == BatchState.TAKEN_BACK:
        batch_notes.note_batch(plan, at, BatchState.TAKEN_BACK, why=message)
        raise RefusedError(f"{message} {_NOT_AGAIN}")
    if state == BatchState.CANCELLED:
        batch_notes.note_batch(plan, at, BatchState.CANCELLED)
        raise _stopped(plan, where, message)
    batch_notes.note_batch(plan, at, state)
    raise ExecutionError(message)


_NOT_AGAIN = "It is not requested again under this approval. Settle it with the person who cancelled it."


def _note_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView, why: str) -> None:
    epoch = view.controller.epoch if view.controller else None
    batch_notes.note_batch(plan, batch, BatchState.REFUSED, why=why, controller_epoch=epoch)


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


def _check_not_refused(plan: ApprovedPlan, batch: Batch, view: ClusterView) -> None:
    """Raises RefusedError if the controller dropped this batch, unless there is a new controller since.

    The same controller would drop the same request again; a new one reads everything again.
    """
    note = batch_notes.read_batch_note(plan, batch.number)
    _check_not_taken_back(plan, batch, view, note)
    # Moves of partitions that are gone or were moved since were not dropped: `check_before_write` decides on them.
    found = ((move, view.partitions.get(move.topic_partition)) for move in batch.moves)
    dropped = [move for move, partition in found if partition is not None and partition.replicas == move.before]
    state, why, epoch = note.get("state"), str(note.get("why")), view.controller.epoch if view.controller else None
    if not dropped or state not in (BatchState.REQUESTED, BatchState.REFUSED):
        return
    if state == BatchState.REQUESTED:
        # Requested without a trace: nobody followed it when it was dropped.
        named = ", ".join(str(move.topic_partition) for move in dropped[:10])
        why = (
            f"{len(dropped)} partitions of batch {batch.number} left /admin/reassign_partitions with their "
            f"replicas unchanged: the controller refused them ({named}). Its log says why (KafkaController)."
        )
        _note_refused(plan, batch, view, why)
    elif epoch not in (None, note.get("controller_epoch")):
        log.info("Batch %d was refused by an earlier controller; asking the one of epoch %d", batch.number, epoch)
        return
    raise RefusedError(
        f"{why} It was not requested again: the same controller would drop it again. Start a new Dag run to plan from "
        "the current cluster, or clear this task after the election of another controller."
    )


def _check_not_taken_back(plan: ApprovedPlan, batch: Batch, view: ClusterView, note: Mapping[str, Any]) -> None:
    """Raises RefusedError if somebody else cancelled this batch in mid-copy: that person wanted it to stop.

    The follower has noted that. If nobody followed the batch, the moves seen under way before tell it.
    """
    stages = {move.topic_partition: stage_in(move, view) for move in batch.moves}
    state, why = note.get("state"), str(note.get("why"))
    if state == BatchState.REQUESTED:
        begun = begun_in(read_movement(plan.folder, batch.number))
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
    raise RefusedError(f"{why} {_NOT_AGAIN}")


def _wait(plan: ApprovedPlan, view: ClusterView, where: Position, now: datetime) -> Wait | None:
    window = plan.window
    not_before = window.waits_until(now)
    if not_before is not None:
        return Wait(plan.connection_id, str(plan.folder), not_before=not_before, until=window.finish_by)
    if window.closed_for(0.0, now) is not None:
        return None
    pause = pause_now(plan, view, where)
    return Wait(plan.connection_id, str(plan.folder), pause, until=window.finish_by) if pause else None
