"""Follows one batch: writes its progress to the run's folder, and tells how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from logging import Logger

from kafka_rebalance.admin import log_dirs
from kafka_rebalance.clock import SteadyClock
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.progress import FullestSeen
from kafka_rebalance.errors import ArtifactError, CorruptZnodeError, ReadError
from kafka_rebalance.model.candidate import brokers_touched
from kafka_rebalance.model.cluster_view import AnyView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.eta import predicted_seconds
from kafka_rebalance.moves.move_progress import PartitionProgress, Phase, progress_line
from kafka_rebalance.rebalance.batch_file import Followed, read_followed, read_kafka_elects
from kafka_rebalance.rebalance.controller_findings import FindingKind
from kafka_rebalance.rebalance.observe_batch import Look, Reading, Sizes, State, Task, observe, progress_of_each
from kafka_rebalance.rebalance.progress_notes import read_progress, write_progress, write_unreadable, write_waiting
from kafka_rebalance.run.checks.batch_wait import Wait, still_missing
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.stop_and_cancel_requests import Control, read_control
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState, Watcher, look_with_new_connection
from kafka_rebalance.throttle.adapt_rates import RateWatch
from kafka_rebalance.throttle.entity_configs import read_away, read_configs
from kafka_rebalance.throttle.in_force import desired_throttle
from kafka_rebalance.throttle.lease_files import rate_in_force, read_copy
from kafka_rebalance.throttle.put_back import LOOK_SECONDS, lifted, lifted_text

SIZES_SECONDS = 2.0  # a broker answers with all its replicas, so it is asked less often than ZooKeeper


class BatchFollower(Watcher):
    """Reads the cluster and what people ask, lets `observe` judge, and tells it: in the log and in progress.json."""

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
        self.folder, self.stall_seconds = folder, stall_seconds
        self._followed = read_followed(folder, candidate, batch) if isinstance(candidate, str) else candidate
        self.batch = self._followed.batch
        self._kafka_elects = read_kafka_elects(folder)
        self._rate = rate_in_force(folder)
        self.planned_seconds = predicted_seconds(self.batch.moves, self._rate)
        self._state = State()
        self._control = Control()
        self._sizes = Sizes()
        self._measured_bytes: int | None = None
        self._is_measured = False  # or brokers that were asked once did not tell
        self._throttle = ThrottleWatch(folder)
        self._rates = RateWatch(folder)
        self._requested = False
        self._flying = frozenset[TopicPartition]()  # of the batch, at the last look
        self._unreadable_since: float | None = None
        self._unreadable_for: float | None = None
        self._log = OnceSaid()

    def share(self, cluster: OpenCluster, throttle_watch: ThrottleWatch, rate_watch: RateWatch) -> None:
        """Uses the cluster that its worker has open, and what that has seen of throttle and rates."""
        self._open, self._throttle, self._rates = cluster, throttle_watch, rate_watch

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        self._read_control(say)
        self._read_rate()
        reading = self._read(now)
        task = Task(self._followed, self.stall_seconds, self.planned_seconds, self._kafka_elects, self._rate)
        self._state, look = observe(task, self._state, reading)
        self._say(look, say)
        if (unwritten := write_progress(self.folder, look.noted)) is not None:
            why = f"progress.json cannot be written ({unwritten}), so the run's page is old. The batch goes on"
            self._log.once("notes", why, say)
        if look.has_room:
            return BatchSeen(BatchState.ROOM, self.batch.number)
        if look.state == "moving" and self._rates.wants_change(self.connection, self._cluster(), now, self.batch.moves):
            return BatchSeen(BatchState.RATES, self.batch.number)
        if look.state in ("moving", "settling"):
            return None
        return BatchSeen(BatchState(look.state), self.batch.number, look.message)

    def _read(self, now: float) -> Reading:
        """Asks brokers for sizes only while a copy is under way, and once when all are in place."""
        view = self._cluster().read_batch_view([move.topic_partition for move in self.batch.moves])
        self._unreadable_since = self._unreadable_for = None
        self._requested, self._flying = view.is_requested, view.moving
        earlier = read_progress(self.folder) if self._state.told is None else None
        begun = self._state.begun(earlier, self.batch.number)
        each = progress_of_each(self._followed, view, {}, begun, self._control)
        phases = {move.phase for move in each}
        if Phase.COPYING in phases:
            read_at = self._sizes.read_at
            if read_at is None and not any(move.bytes_to_copy for move in self.batch.moves):
                # Copies without bytes most often end before brokers have told their sizes.
                read_at = now if self._state.movement is None else self._state.first_look
            if read_at is None or now - read_at >= SIZES_SECONDS:
                self._sizes = self._read_sizes(now, view.brokers)
        elif phases == {Phase.DONE} and self._sizes.read_at is not None and not self._is_measured:
            self._measure(now, view.brokers)
        each = progress_of_each(self._followed, view, self._sizes.replicas, begun, self._control)
        return Reading(
            now=now,
            view=view,
            each=each,
            sizes=self._sizes,
            measured_bytes=self._measured_bytes,
            control=self._control,
            throttle={} if self._control.cancelled else self._throttle.look(self._cluster(), now, view, each),
            earlier=earlier,
        )

    def _read_sizes(self, now: float, registered: frozenset[int]) -> Sizes:
        wanted = registered & brokers_touched(self.batch.moves)
        copied = [move.topic_partition for move in self.batch.moves if move.added]
        told = log_dirs.read_replica_sizes(self.connection.kafka, wanted, copied)
        fullest = max(told.disk_fractions.items(), key=lambda disk: disk[1], default=None)
        return Sizes(now, told.replicas, told.silent, told.offline, FullestSeen(*fullest) if fullest else None)

    def _measure(self, now: float, registered: frozenset[int]) -> None:
        """Bytes of the new replicas when all are in place; none if a broker does not tell, or of parts of batches."""
        self._is_measured = True
        if not self._followed.is_whole:
            return
        sizes = self._read_sizes(now, registered)
        copies = [
            sizes.replicas.get(move.topic_partition, {}).get(broker)
            for move in self.batch.moves
            for broker in move.added
        ]
        if None not in copies:  # else the progress shown must not fall because a broker is silent now
            self._sizes, self._measured_bytes = sizes, sum(size or 0 for size in copies)

    def _read_control(self, say: Callable[[str], object]) -> None:
        """What people have asked; as before if it cannot be read. The follower requests no batch."""
        try:
            self._control = read_control(self.folder)
        except ArtifactError as unreadable:
            self._log.once("control", f"What people asked of this run cannot be read: {unreadable}", say)

    def _read_rate(self) -> None:
        """A lower rate gives the batch more time; a higher one takes none away."""
        with suppress(ArtifactError):
            self._rate = rate_in_force(self.folder)
            seconds = predicted_seconds(self.batch.moves, self._rate)
            self.planned_seconds = max(self.planned_seconds, seconds)

    def _say(self, look: Look, say: Callable[[str], object]) -> None:
        rate = self._state.rate
        line = progress_line(look.progress, rate.bytes_per_second, rate.eta_seconds)
        self._log.anew(line, f"batch {self.batch.number} of {self._followed.batches}: {line}", say)
        for subject, text in look.odd.items():
            self._log.once(str(subject), text, say)  # once, because the text has a time that grows
        if (asked := self._control.stop_after_batch) is not None:
            self._log.once("stop", f"No batch will be requested after this one, as {asked} asked", say)

    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        """Gives up after the stall time."""
        self.close()
        self._log.anew(why, why, say)
        if self._unreadable_since is None:
            self._unreadable_since = now
        self._unreadable_for = now - self._unreadable_since
        write_unreadable(self.folder, now, why)
        self._state = replace(self._state, complete_looks=0, told=None)  # the note has one thing more to tell
        if self._unreadable_for < self.stall_seconds:
            return None
        given_up = f"The cluster could not be read for {self.stall_seconds:.0f} s: {why}"
        return BatchSeen(BatchState.UNREADABLE, self.batch.number, given_up)

    def seconds_to_next_look(self, quickest: float, slowest: float) -> float:
        state, movement = self._state, self._state.movement
        if self.is_refused:
            return slowest
        if self._unreadable_for is not None:
            return max(quickest, min(slowest, self._unreadable_for / 10))
        if movement is None:
            return quickest
        if state.complete_looks:
            return min(quickest, SETTLING_SECONDS)
        copying = any(phase is Phase.COPYING for phase, _ in movement.phases.values())
        return seconds_to_next_look(
            quickest,
            slowest,
            age_seconds=movement.at - state.first_look,
            quiet_seconds=movement.at - movement.changed_at,
            eta_seconds=state.rate.eta_seconds if copying else None,
        )

    def rest(self, seconds: float) -> None:
        over = time.monotonic() + seconds
        while (left := over - time.monotonic()) > 0:
            time.sleep(min(left, SETTLING_SECONDS))
            try:
                if self._requested and self._has_news():
                    return
            except ReadError:
                return  # the next look says so

    def _has_news(self) -> bool:
        """Whether a look may find that the batch has ended, or that more may be requested beside it."""
        if self._followed.beside is None:
            return not self._cluster().has_request()
        return 2 * len(self._flying.intersection(self._cluster().read_moving(()))) <= len(self._flying)


class OnceSaid:
    """Keeps the log short."""

    def __init__(self) -> None:
        self._subjects: set[str] = set()
        self._last_line = ""

    def once(self, subject: str, text: str, say: Callable[[str], object]) -> None:
        if subject not in self._subjects:
            self._subjects.add(subject)
            say(text)

    def anew(self, line: str, text: str, say: Callable[[str], object]) -> None:
        """Says the text if the line is another than the last one."""
        if line != self._last_line:
            say(text)
            self._last_line = line


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


SETTLING_SECONDS = 0.1  # between the looks that find every criterion of the end
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

    def found_in_force(self, now: float) -> None:
        """The check before a request was a look as well."""
        self._looked_at, self._found = now, {}

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
        write_waiting(self.folder, now, reasons, until)
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
