"""Follows one batch: writes its progress to the run's folder, and tells how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from logging import Logger

from kafka_rebalance.admin import log_dirs
from kafka_rebalance.clock import SteadyClock
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import (
    ArtifactError,
    CorruptZnodeError,
    ReadError,
)
from kafka_rebalance.model.candidate import brokers_touched
from kafka_rebalance.model.cluster_view import AnyView, BatchView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import ReplicaBytes, TopicPartition
from kafka_rebalance.moves.eta import predicted_seconds
from kafka_rebalance.moves.move_progress import (
    MovesProgress,
    PartitionProgress,
    Phase,
    add_up,
    partition_progress,
    progress_line,
)
from kafka_rebalance.rebalance import broker_traffic, controller_findings, progress_notes, stalled_copies
from kafka_rebalance.rebalance.batch_file import (
    Followed,
    read_followed,
    read_kafka_elects,
)
from kafka_rebalance.rebalance.broker_traffic import Rate, Sample, rate_and_eta
from kafka_rebalance.rebalance.controller_findings import FindingKind
from kafka_rebalance.rebalance.progress_notes import Happenings, events_after
from kafka_rebalance.rebalance.stalled_copies import Movement, failed_log_dirs
from kafka_rebalance.run.checks.batch_wait import Wait, still_missing
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.stop_and_cancel_requests import Control, read_control
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState, Watcher, look_with_new_connection
from kafka_rebalance.throttle.entity_configs import read_away, read_configs
from kafka_rebalance.throttle.in_force import desired_throttle
from kafka_rebalance.throttle.lease_files import rate_in_force, read_copy
from kafka_rebalance.throttle.put_back import LOOK_SECONDS, lifted, lifted_text

SAMPLES_KEPT = 120  # the rate is that of their last minute
SIZES_SECONDS = 2.0  # a broker answers with all its replicas, so it is asked less often than ZooKeeper
STANDING_SECONDS = 300.0  # a finding: copies between two brokers that stand for so long while others move
# Without a request znode, brokers tell the end of a move later than the controller does: milliseconds, seconds if busy.
DOUBT_SECONDS = 5.0
# After a stall an operator may have repaired something. A new follower waits so long for it, not the whole stall time.
GRACE_SHARE, GRACE_SECONDS = 0.1, 120.0


class BatchFollower(Watcher):
    def __init__(
        self,
        connection: ClusterConnection,
        folder: RunFolder,
        candidate: Followed | str,
        batch: int,
        stall_seconds: float,
    ) -> None:
        """`candidate`: what is followed, or the candidate's name in the folder."""
        super().__init__(connection)
        self.folder = folder
        one = read_followed(self.folder, candidate, batch) if isinstance(candidate, str) else candidate
        self.batch, self._followed = one.batch, one
        self._kafka_elects = read_kafka_elects(self.folder)
        self.stall_seconds = stall_seconds
        self.planned_seconds = predicted_seconds(self.batch.moves, rate_in_force(self.folder))
        self._samples: list[Sample] = []
        self._flows: list[broker_traffic.FlowSample] = []
        self._fullest: tuple[int, float] | None = None  # the broker and the share of its disks at the highest
        self._happenings: Happenings | None = None  # of earlier followers, once they are read
        self._sizes: tuple[float, ReplicaBytes, frozenset[int]] | None = None
        self._offline: Mapping[int, tuple[str, ...]] = {}  # log directories that have failed, by broker
        self._measured: tuple[int | None] | None = None  # bytes of new replicas at the end, once asked for
        self._movement: Movement | None = None
        self._watch: controller_findings.Watch | None = None
        self._first_look: float | None = None
        self._unreadable_since: float | None = None
        self._unreadable_for: float | None = None
        self._complete_looks = 0
        self._lost_since: float | None = None  # when what was requested was first seen neither moving nor in place
        self._doubt_seconds = 0.0  # for so long that is not believed
        self._requested = False
        self._rate = Rate(None, None)
        self._control = Control()
        self._throttle = ThrottleWatch(self.folder)
        self._said: set[str] = set()
        self._last_line = ""

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        self._read_control(say)
        self._read_rate()
        view = self._cluster().read_batch_view([move.topic_partition for move in self.batch.moves])
        self._unreadable_since = self._unreadable_for = None
        self._requested = view.is_requested
        self._doubt_seconds = 0.0 if view.traits.has_request_znode else DOUBT_SECONDS
        note = progress_notes.read_movement(self.folder, self.batch.number) if self._movement is None else {}
        begun = self._movement.begun if self._movement else stalled_copies.begun_in(note)
        each = self._each(view, {}, begun)
        if any(one.phase is Phase.COPYING for one in each):
            self._read_sizes(now, view.brokers)
        elif self._sizes is not None and self._measured is None and all(one.phase is Phase.DONE for one in each):
            self._measured = self._measure(now, view.brokers)
        known, silent = self._sizes[1:] if self._sizes else ({}, frozenset[int]())
        each = self._each(view, known, begun)
        seen = stalled_copies.observe(self._movement, now, each, known)
        if self._movement is None:
            self._first_look = now
            seen = stalled_copies.recall(seen, note)
        self._movement = seen
        late = stalled_copies.anomalies(
            seen,
            each,
            planned_seconds=self.planned_seconds,
            standing_seconds=min(STANDING_SECONDS, self.stall_seconds),
            has_request_znode=view.traits.has_request_znode,
        )
        odd: dict[progress_notes.Subject, str] = dict(late.items())
        failed = failed_log_dirs(self._offline, each, known)
        if failed is not None:
            odd[failed.kind] = failed.text
        progress = add_up(each)
        self._samples = [*self._samples, Sample(now, progress.bytes_copied)][-SAMPLES_KEPT:]
        self._rate = rate_and_eta(self._samples, progress.bytes_total)
        state, message = self._verdict(progress, seen, silent, odd)
        if self._control.cancelled is None:  # a cancel takes entries out of the request itself
            self._watch, wrong = controller_findings.detect(
                self._watch, now, self.batch.moves, view, kafka_elects=self._kafka_elects
            )
            odd |= {one.kind: one.text for one in wrong}
            odd.update(self._throttle.look(self._cluster(), now, view, each).items())
            if state == "moving" and (reasons := [one.text for one in wrong if one.stops]):
                state, message = "stalled", f"Batch {self.batch.number} needs a person: {' '.join(reasons)}"
        self._say(progress, odd, say)
        if self._happenings is None:
            self._happenings, fullest = progress_notes.read_told(self.folder)
            self._fullest = max(filter(None, (fullest, self._fullest)), key=lambda one: one[1], default=None)
        self._happenings = events_after(self._happenings, now, progress_notes.wrong(progress, odd))
        flows = broker_traffic.seen(each, known)
        self._flows = broker_traffic.recent_samples(self._flows, now, flows.copied)
        unwritten = progress_notes.write_progress(
            self.folder,
            self._followed,
            progress,
            self._rate,
            state=state,
            seen=seen,
            each=each,
            odd=odd,
            control=self._control,
            traffic=flows,
            brokers=broker_traffic.by_broker(
                self._followed.flow_earlier, self._followed.flow_later, flows.done, flows.total, self._flows
            ),
            measured_bytes=self._measured[0] if self._measured else None,
            happenings=self._happenings,
            fullest_disk=self._fullest,
        )
        if unwritten is not None:
            why = f"progress.json cannot be written ({unwritten}), so the run's page is old. The batch goes on"
            self._say_once("notes", why, say)
        if state == "moving" and self._has_room(progress, each):
            return BatchSeen(BatchState.ROOM, self.batch.number)
        if state in ("moving", "settling"):
            return None
        return BatchSeen(BatchState(state), self.batch.number, message)

    def _has_room(self, progress: MovesProgress, each: Sequence[PartitionProgress]) -> bool:
        """Whether more is to be requested. If anything is wrong with what is in flight, that comes to its end first."""
        if self._followed.beside is None or progress.refused or progress.taken_back:
            return False
        if self._control.cancelled is not None or self._control.stop_after_batch is not None:
            return False
        return self._followed.beside.is_due([one.move for one in each if one.phase is not Phase.DONE])

    def seconds_to_next_look(self, quickest: float, slowest: float) -> float:
        seen = self._movement
        if self.is_refused:
            return slowest
        if self._unreadable_for is not None:
            return max(quickest, min(slowest, self._unreadable_for / 10))
        if seen is None or self._first_look is None:
            return quickest
        if self._complete_looks:
            return min(quickest, SETTLING_SECONDS)
        copying = any(phase is Phase.COPYING for phase, _ in seen.phases.values())
        return seconds_to_next_look(
            quickest,
            slowest,
            age_seconds=seen.at - self._first_look,
            quiet_seconds=seen.at - seen.changed_at,
            eta_seconds=self._rate.eta_seconds if copying else None,
        )

    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        """Gives up after the stall time."""
        self.close()
        self._complete_looks = 0
        if why != self._last_line:
            say(why)
            self._last_line = why
        if self._unreadable_since is None:
            self._unreadable_since = now
        self._unreadable_for = now - self._unreadable_since
        progress_notes.write_unreadable(self.folder, now, why)
        self._happenings = None  # read them again: this one is among them
        if self._unreadable_for < self.stall_seconds:
            return None
        given_up = f"The cluster could not be read for {self.stall_seconds:.0f} s: {why}"
        return BatchSeen(BatchState.UNREADABLE, self.batch.number, given_up)

    def rest(self, seconds: float) -> None:
        over = time.monotonic() + seconds
        while (left := over - time.monotonic()) > 0:
            time.sleep(min(left, SETTLING_SECONDS))
            try:
                if self._requested and not self._cluster().has_request():
                    return
            except ReadError:
                return  # the next look says so

    def _each(self, view: BatchView, known: ReplicaBytes, begun: Collection[TopicPartition]) -> list[PartitionProgress]:
        """How far each move is. After a cancel, a move that was taken back is not a finding."""
        moves = self.batch.moves
        each = [partition_progress(move, view, known, begun=move.topic_partition in begun) for move in moves]
        if self._control.cancelled is None:
            return each
        return [replace(one, anomaly=None) if one.phase is Phase.TAKEN_BACK else one for one in each]

    def _read_sizes(self, now: float, registered: frozenset[int]) -> ReplicaBytes:
        """Bytes by broker of the batch's partitions. A broker that is away gives none: they only measure progress."""
        if self._sizes is not None and now - self._sizes[0] < SIZES_SECONDS:
            return self._sizes[1]
        wanted = registered & brokers_touched(self.batch.moves)
        copied = [move.topic_partition for move in self.batch.moves if move.added]
        found = log_dirs.read_replica_sizes(self.connection.kafka, wanted, copied)
        self._sizes = (now, found.replicas, found.silent)
        self._offline = found.offline
        fullest = max(found.disk_fractions.items(), key=lambda one: one[1], default=None)
        if fullest is not None and (self._fullest is None or fullest[1] > self._fullest[1]):
            self._fullest = fullest
        return found.replicas

    def _measure(self, now: float, registered: frozenset[int]) -> tuple[int | None]:
        """Bytes of the new replicas when all are in place; None if a broker does not tell, or of parts of batches."""
        if not self._followed.is_whole:
            return (None,)
        before, self._sizes = self._sizes, None
        held = self._read_sizes(now, registered)
        found = [held.get(move.topic_partition, {}).get(broker) for move in self.batch.moves for broker in move.added]
        if None in found:
            self._sizes = before  # the progress shown must not fall because a broker is silent now
            return (None,)
        return (sum(size or 0 for size in found),)

    def _read_control(self, say: Callable[[str], object]) -> None:
        """What people have asked; as before if it cannot be read. The follower requests no batch."""
        try:
            self._control = read_control(self.folder)
        except ArtifactError as unreadable:
            self._say_once("control", f"What people asked of this run cannot be read: {unreadable}", say)

    def _read_rate(self) -> None:
        """A lower rate gives the batch more time; a higher one takes none away."""
        with suppress(ArtifactError):
            now = predicted_seconds(self.batch.moves, rate_in_force(self.folder))
            self.planned_seconds = max(self.planned_seconds, now)

    def _verdict(
        self, progress: MovesProgress, seen: Movement, silent: frozenset[int], odd: Mapping[progress_notes.Subject, str]
    ) -> tuple[str, str]:
        if progress.finished:
            self._complete_looks += 1
            copies = any(move.added for move in self.batch.moves)
            return ("settling" if copies and self._complete_looks < STABLE_LOOKS else "done"), ""
        self._complete_looks = 0
        # A refused move is shown at once. The batch is given up when no other move of it is under way.
        under_way = any(phase in stalled_copies.OPEN for phase in progress.phases)
        if self._is_lost(bool(progress.refused or progress.taken_back) and not under_way, seen.at):
            if self._control.cancelled is not None:  # moves that are back at their old lists are not refused
                return "cancelled", (
                    f"Batch {self.batch.number} was cancelled by {self._control.cancelled}: "
                    f"{progress.partitions_done} of its {progress.partitions_total} partitions are in place, the "
                    "others were taken back."
                )
            more = f"; and {len(progress.anomalies) - 10} more" if len(progress.anomalies) > 10 else ""
            named = f"{'; '.join([*progress.anomalies.values()][:10])}{more}"
            if progress.taken_back:
                return "taken_back", (
                    f"Somebody else cancelled batch {self.batch.number} while it was under way: "
                    f"{progress.partitions_done} of its {progress.partitions_total} partitions are in place, "
                    f"{len(progress.taken_back)} were taken back: {named}"
                )
            return "refused", (
                f"{len(progress.refused)} of {progress.partitions_total} partitions of batch {self.batch.number} will "
                f"not reach the approved replicas: {named}"
            )
        limit = self.stall_seconds
        if any(pair.target in silent for pair in seen.pairs):
            # Nobody tells the bytes of these copies, so only the plan says how long they may take.
            limit += stalled_copies.OVERDUE_FACTOR * self.planned_seconds
        grace = min(self.stall_seconds * GRACE_SHARE, GRACE_SECONDS)
        if seen.idle_seconds < limit or seen.at - (self._first_look or seen.at) < grace:
            return "moving", ""
        causes = "; ".join([*progress.anomalies.values(), *odd.values()][:10]).removesuffix(".")
        return "stalled", (
            f"Batch {self.batch.number} made no progress for {seen.idle_seconds:.0f} s: "
            f"{causes or 'no cause was seen'}. Its copies stay requested and throttled. Remove the cause: the "
            "copies then go on by themselves. Then clear this task."
        )

    def _is_lost(self, looks_lost: bool, now: float) -> bool:
        """Whether what was requested is neither moving nor in place, and has been so for long enough to believe it."""
        if not looks_lost:
            self._lost_since = None
            return False
        self._lost_since = self._lost_since or now
        return now - self._lost_since >= self._doubt_seconds

    def _say(
        self, progress: MovesProgress, odd: Mapping[progress_notes.Subject, str], say: Callable[[str], object]
    ) -> None:
        line = progress_line(progress, self._rate.bytes_per_second, self._rate.eta_seconds)
        if line != self._last_line:
            say(f"batch {self.batch.number} of {self._followed.batches}: {line}")
            self._last_line = line
        for subject, text in odd.items():
            self._say_once(str(subject), text, say)  # once, because the text has a time that grows
        asked = self._control.stop_after_batch
        if asked is not None:
            self._say_once("stop", f"No batch will be requested after this one, as {asked} asked", say)

    def _say_once(self, subject: str, text: str, say: Callable[[str], object]) -> None:
        if subject not in self._said:
            self._said.add(subject)
            say(text)


def follow_for(
    follower: BatchFollower,
    seconds: float,
    quickest: float,
    slowest: float,
    log: Logger,
    read_connection: Callable[[], ClusterConnection],
) -> BatchSeen | None:
    """Follows the batch in this process for so long at most; None if it is still under way then.

    Looks become rarer as the batch goes on, to spare the brokers. Between them `rest` notices its end.
    """
    began, clock = time.monotonic(), SteadyClock()
    try:
        while True:
            seen = look_with_new_connection(follower, clock(), log, read_connection)
            now, wait = time.monotonic(), follower.seconds_to_next_look(quickest, slowest)
            if wait >= quickest:
                wait = min(slowest, max(wait, (now - began) / 3))
            if seen is not None or now + wait > began + seconds:
                return seen
            follower.rest(wait)
    finally:
        follower.close()


# How long to wait until a batch is looked at again.


STABLE_LOOKS = 3  # a batch is over when this many looks in a row have found every criterion of the end
SETTLING_SECONDS = 0.1  # between those looks
YOUNG_SECONDS = 10.0  # most batches of empty or small partitions end within this time


def seconds_to_next_look(
    quickest: float, slowest: float, *, age_seconds: float, quiet_seconds: float, eta_seconds: float | None
) -> float:
    """Seconds to wait: a tenth of what is left, so that the run sees an end late by a tenth of the wait at most.

    `age_seconds`: since the first look at the batch. `eta_seconds`: what the copies still take; None: not known. Then
    the batch counts as quiet for as long again as no phase has changed (`quiet_seconds`).
    """
    if age_seconds < YOUNG_SECONDS:
        return quickest
    left = quiet_seconds if eta_seconds is None else eta_seconds
    return max(quickest, min(slowest, left / 10))


# While a run follows a batch: looks from time to time whether the throttle of its copies is in force.


class ThrottleWatch:
    """Keeps the finding of the last look until the next one is due."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._looked_at: float | None = None
        self._found: dict[FindingKind, str] = {}

    def look(
        self, cluster: OpenCluster, now: float, view: AnyView, each: Sequence[PartitionProgress]
    ) -> dict[FindingKind, str]:
        """What is wrong with the throttle of the moves that are not done; empty if it is in force."""
        moves = [
            one.move for one in each if one.phase is not Phase.DONE and one.move.topic_partition in view.partitions
        ]
        if not any(move.added for move in moves):
            return {}
        if self._looked_at is not None and 0 <= now - self._looked_at < LOOK_SECONDS:
            return self._found
        self._looked_at = now
        try:
            lease, rate = read_copy(self._folder), rate_in_force(self._folder)
            own_rates = frozenset((str(rate),)) if lease is None else lease.own_rates
            desired = desired_throttle(moves, rate)
            away = read_away(cluster, desired)
            wanted = {entity: values for entity, values in desired.items() if entity not in away}
            found = lifted(wanted, own_rates, read_configs(cluster, wanted))
            self._found = {FindingKind.THROTTLE_LIFTED: lifted_text(found)} if found else {}
        except CorruptZnodeError as unreadable:
            self._found = {FindingKind.THROTTLE_LIFTED: f"It is unknown whether the throttle is in force: {unreadable}"}
        except ArtifactError:
            pass  # the run's folder may be readable at the next look
        except ReadError:
            self._looked_at = None  # a broker has just gone away: the next look asks again, or knows that it is away
        return self._found


# Between two batches: looks whether the next batch still has to wait.


class Waiter(Watcher):
    """Waits without a limit of its own, until somebody stops the run or `wait.until` passes, the window's end.

    Before `wait.not_before` it reads nothing from the cluster.
    """

    def __init__(self, connection: ClusterConnection, folder: RunFolder, wait: Wait) -> None:
        super().__init__(connection)
        self.folder, self.wait = folder, wait
        self._said: tuple[str, ...] = ()

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        """Says each new reason to wait once; returns READY when `reassign` is to look again, else None."""
        at = datetime.fromtimestamp(now, UTC)
        wait = self.wait
        over = self._asked_to_stop() or (wait.until is not None and at >= wait.until)
        reasons: tuple[str, ...] = ()
        until: datetime | None = None
        if not over and wait.not_before is not None and at < wait.not_before:
            until, reasons = wait.not_before, (f"The run requests nothing before {wait.not_before:%Y-%m-%d %H:%M %Z}",)
        elif not over and wait.pause:
            reasons = self._still_missing()
        if not reasons:
            return BatchSeen(BatchState.READY)
        self._note(now, reasons, say, until)
        return None

    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        self.close()
        self._note(now, (why,), say)
        return None

    def _note(
        self, now: float, reasons: tuple[str, ...], say: Callable[[str], object], until: datetime | None = None
    ) -> None:
        progress_notes.write_waiting(self.folder, now, reasons, until)
        for reason in reasons:
            if reason not in self._said:
                say(reason)
        self._said = reasons

    def seconds_to_next_look(self, quickest: float, slowest: float) -> float:
        """The slowest pace: a wait takes minutes, not seconds."""
        return slowest

    def _asked_to_stop(self) -> bool:
        try:
            return read_control(self.folder).stop_after_batch is not None
        except ArtifactError:
            return True  # `reassign` reads it again, and raises

    def _still_missing(self) -> tuple[str, ...]:
        view = self._cluster().read_batch_view([tp for tp, _ in self.wait.pause.in_sync])
        return still_missing(self.wait.pause, view).reasons
