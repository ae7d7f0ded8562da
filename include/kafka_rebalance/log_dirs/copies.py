"""The copies between log dirs: requested a few at a time until all are in place, cancelled, and verified."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.admin import log_dirs
from kafka_rebalance.admin.log_dirs import alter_log_dirs
from kafka_rebalance.admin.wire import Wire, open_wire
from kafka_rebalance.clock import looks
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, LogDirMove, LogDirPlan, PlannedLogDirs
from kafka_rebalance.errors import ExecutionError, ReadError, RefusedError, StoppedError, ThrottleError
from kafka_rebalance.log_dirs.follow_copies import rate_now, write_progress
from kafka_rebalance.log_dirs.next_copies import (
    CopyState,
    DirsNow,
    check_as_approved,
    next_moves,
    offline_dirs,
    states_of,
    without_room,
)
from kafka_rebalance.log_dirs.read_dirs import dirs_now, read_disks
from kafka_rebalance.log_dirs.rules import bytes_in_time, check_log_dirs, seconds_at_most, window_of
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.announcement_age import SEND_SECONDS
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approved_plan import ApprovedRequest, read_approved_request
from kafka_rebalance.run.check_result import Check, check_passed, write_checks
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.checks.cluster_ready import refuse
from kafka_rebalance.run.checks_before_write import check_clock_for_window
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.passed_over_tasks import check_rest_will_run
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.run_lock import lock_owner
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.throttle.entity_configs import read_away, read_configs, read_lease_configs
from kafka_rebalance.throttle.in_force import (
    check_in_force,
    check_throttles,
    check_unrecorded,
    desired_log_dir_rate,
    set_now,
)
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.lease_files import read_copy
from kafka_rebalance.throttle.suspend_throttle import set_for_batch, suspend
from kafka_rebalance.throttle.wait_for_window import wait_for_opening

log = logging.getLogger(__name__)


def read_approved_moves(inputs: StepInputs, decision: Mapping[str, Any]) -> ApprovedRequest[PlannedLogDirs, LogDirPlan]:
    """Raises ApprovalError if log_dirs.json holds another plan, ArtifactError."""
    return read_approved_request(
        inputs,
        decision,
        LOG_DIRS_FILE,
        lambda written: written.plan,
        lambda plan: f"The plan of {len(plan.moves)} moves between log dirs",
    )


# `move` of `kafka_log_dirs`: requests the approved copies, a few on each broker at once, until all are in place.
#
# Each look reads from the brokers where every replica is, so a retry goes on where an earlier try was killed. To ask
# for a copy again changes nothing.


LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Copying:
    """Copies are under way, and there is nothing to request until one of them ends."""

    connection_id: str
    run_folder: str

    def to_arguments(self) -> dict[str, Any]:
        return {"connection_id": self.connection_id, "run_folder": self.run_folder}


def move_replicas(
    inputs: StepInputs, decision: Mapping[str, Any], seen: BatchSeen | None = None, stay_seconds: float = 60.0
) -> Copying | Wait | None:
    """Requests what is next and looks for `stay_seconds`; None once every replica is in place or gone.

    It requests nothing that may end after the policy's window closes. Once nothing copies any more, the rate is put
    back until the next opening, and Wait is returned.

    `seen` is what a follower gave up with. If no byte was copied for long, the copies are cancelled and ExecutionError
    is raised: the next try asks for them anew. Raises StaleProposalError if somebody else has moved a replica,
    RefusedError if a broker refuses a copy, and ClusterNotReadyError if a log dir is offline or has no room. Raises
    StoppedError if the approval ends before the next opening.
    """
    approved = read_approved_moves(inputs, decision)
    plan = approved.plan
    connection = inputs.deployment.read_connection(approved.connection_id)
    with open_cluster(connection) as cluster, open_wire(connection.kafka) as wire:
        kept = ClusterLease(inputs.deployment, cluster, plan.cluster_id)
        if seen is not None and seen.state is BatchState.STALLED:
            cancel_copies(kept, wire, connection.kafka, plan, lock_owner(inputs.deployment, plan.digest, inputs.run))
            raise ExecutionError(seen.message)
        for _ in looks(stay_seconds, LOOK_SECONDS):
            now = dirs_now(read_disks(connection.kafka, plan.brokers))
            refuse(offline_dirs(now.disks))
            states = states_of(plan.moves, now)
            check_as_approved(states)
            write_progress(approved.folder, plan, now, clock.now_seconds())
            if not (states[CopyState.WAITING] or states[CopyState.COPYING]):
                for move in states[CopyState.GONE]:
                    log.warning("%s: the broker no longer has it, so nothing is copied", move.replica)
                check_rest_will_run(inputs, "No copy is left to request.", ("release_rate",))
                return None
            rate = rate_now(approved.folder, plan)
            chosen = next_moves(plan, now, bytes_in_time(window_of(plan), rate, clock.utc_now()))
            wait = None
            if chosen:
                wait = _request(inputs, kept, wire, approved, now, chosen)
            elif not states[CopyState.COPYING]:
                later = next_moves(plan, now)
                if not later:
                    refuse(without_room(plan, now))
                wait = _wait(inputs, kept, approved, now, later)
            if wait is not None:
                return wait
    return Copying(approved.connection_id, str(approved.folder))


def _request(
    inputs: StepInputs,
    kept: ClusterLease,
    wire: Wire,
    approved: ApprovedRequest[PlannedLogDirs, LogDirPlan],
    now: DirsNow,
    chosen: Sequence[LogDirMove],
) -> Wait | None:
    """None once they are requested, or what to wait for.

    Raises LockHeldError unless this run holds the cluster, ThrottleError unless its rate is in force.
    """
    inputs.deployment.check_not_frozen(approved.connection_id)
    inputs.deployment.check_policy_unchanged(approved.connection_id, approved.decision.policy_digest)
    owner = lock_owner(inputs.deployment, approved.plan.digest, inputs.run)
    lease = kept.read_open_in(approved.folder)
    if lease is not None and lease.suspended_at is not None:
        wait = _wait(inputs, kept, approved, now, chosen)
        if wait is not None:
            return wait
    # The fence first: whoever puts the rate back after this check does not get through.
    fence = set_for_batch(kept, approved.folder, owner)
    check_clock_for_window(kept.cluster, window_of(approved.plan))
    lease = kept.read_open_in(approved.folder)
    if lease is None or lease.handed_over_at is not None:
        raise ThrottleError(
            "This run holds no rate for its copies, so none is requested. Clear hold_rate with what follows it."
        )
    check_in_force(*read_lease_configs(kept.cluster, lease))
    refused = _ask(kept, wire, owner, fence, now, chosen)
    if refused:
        shown = "; ".join(f"{name} ({why})" for name, why in refused[:10])
        raise RefusedError(
            f"The brokers refused {len(refused)} of {len(chosen)} copies: {shown}. The others go on until this run's "
            "release_rate cancels them. Read the broker's log, then start a new Dag run."
        )
    return None


def _wait(
    inputs: StepInputs,
    kept: ClusterLease,
    approved: ApprovedRequest[PlannedLogDirs, LogDirPlan],
    now: DirsNow,
    moves: Sequence[LogDirMove],
) -> Wait | None:
    """What to wait for before the smallest of these moves may begin; None: it may. The rate is put back meanwhile."""
    plan, window = approved.plan, window_of(approved.plan)
    if not window.recurring:
        return None
    smallest = min(now.sizes[move.replica] for move in moves)
    lease = kept.read_open_in(approved.folder)
    is_paused = lease is not None and lease.suspended_at is not None
    seconds = seconds_at_most(smallest, rate_now(approved.folder, plan))
    try:
        wait = wait_for_opening(inputs.deployment, approved, window, seconds, is_paused=is_paused)
    except StoppedError as never:
        done = len(states_of(plan.moves, now)[CopyState.DONE])
        raise StoppedError(
            f"No further copy was requested: {never}. {done} of {len(plan.moves)} replicas are in place; "
            "verification.json names the others. The rate is put back."
        ) from never
    if wait is not None:
        if lease is not None and lease.handed_over_at is None and not suspend(kept, lease):
            log.warning("Part of the rate is still set. The janitor puts it back")
        log.info("The next copies wait: %s", wait.words)
    return wait


def cancel_copies(kept: ClusterLease, wire: Wire, kafka: KafkaConnection, plan: LogDirPlan, owner: LockOwner) -> int:
    """Cancels this run's copies on the brokers that answer, and returns how many. Raises LockHeldError.

    A broker cancels a copy if it is asked for the log dir in which the replica lies. One that is not registered copies
    nothing. Raises ReadError if none of the others answers.
    """
    kept.cluster.stop_requests()  # a worker of this run that stood still requests nothing more
    registered = kept.cluster.read_view([]).brokers.keys()
    now = dirs_now(log_dirs.read_log_dirs(kafka, sorted(plan.brokers & registered), of_the_rest=True))
    copying = states_of([move for move in plan.moves if move.broker in now.disks], now)[CopyState.COPYING]
    if not copying:
        return 0
    kept.cluster.lock.raise_held(owner)
    log.warning("These copies are cancelled: %s", some([move.replica for move in copying]))
    refused: list[tuple[str, str]] = []
    for broker, moves in _by_broker(copying).items():
        not_later_than = time.monotonic() + SEND_SECONDS
        kept.cluster.lock.read_own_fence(owner)
        paths = {move.replica.topic_partition: move.before for move in moves}
        refused += _send(wire, broker, now, paths, not_later_than)
    for name, why in refused:
        log.error("%s: its copy was not cancelled (%s)", name, why)
    return len(copying) - len(refused)


def _ask(
    kept: ClusterLease, wire: Wire, owner: LockOwner, fence: Fence, now: DirsNow, chosen: Sequence[LogDirMove]
) -> list[tuple[str, str]]:
    """One request to each broker, announced before. Returns (replica, why it was refused).

    Raises LockLostError if the fence has risen: then nothing of the last request is left.
    """
    refused = list[tuple[str, str]]()
    for broker, moves in _by_broker(chosen).items():
        paths = {move.replica.topic_partition: move.after for move in moves}
        fence, refusals = kept.cluster.request_copies(
            owner, broker, paths, partial(_send, wire, broker, now, paths), fence=fence
        )
        refused += refusals
    return refused


def _send(
    wire: Wire, broker: int, now: DirsNow, paths: Mapping[TopicPartition, str], not_later_than: float
) -> list[tuple[str, str]]:
    online = {path for path, disk in now.disks[broker].items() if disk.online}
    on_broker = {replica.topic_partition for replica in now.paths if replica.broker == broker}
    refusals = alter_log_dirs(wire, broker, paths, held=on_broker, log_dirs=online, not_later_than=not_later_than)
    log.info("broker %d: asked for %d replicas in other log dirs", broker, len(paths))
    return [(f"{tp} on broker {broker}", why) for tp, why in sorted(refusals.items())]


def _by_broker(moves: Sequence[LogDirMove]) -> dict[int, list[LogDirMove]]:
    moves_of: dict[int, list[LogDirMove]] = {}
    for move in sorted(moves, key=lambda move: move.broker):
        moves_of.setdefault(move.broker, []).append(move)
    return moves_of


# `verify` of `kafka_log_dirs`: checks every replica's log dir and the rates, and adds a row to the ledger.


def verify(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, int]:
    """Raises VerificationError if a replica is not in its log dir, is still copied, or a rate is not as before."""
    approved = read_approved_moves(inputs, decision)
    plan = approved.plan
    connection = inputs.deployment.read_connection(approved.connection_id)
    try:
        now = dirs_now(read_disks(connection.kafka, plan.brokers))
        future = {replica: path for replica, (path, _) in now.future.items()}
        with open_cluster(connection) as cluster:
            checks = (*check_log_dirs(plan.moves, now.paths, future), *_rates(cluster, plan, approved.folder))
    except ReadError:
        _record(inputs, approved, None, verified=False)  # until a later try replaces it
        raise
    summary = write_checks(approved.folder, checks, plan.digest)
    _record(inputs, approved, states_of(plan.moves, now)[CopyState.DONE], verified=summary.passed)
    check_passed(summary)
    return {"checks": len(checks), "warnings": len(summary.warnings)}


def _record(
    inputs: StepInputs,
    approved: ApprovedRequest[PlannedLogDirs, LogDirPlan],
    in_place: Sequence[LogDirMove] | None,
    *,
    verified: bool,
) -> None:
    """A cleared or repeated task replaces its run's row."""
    plan, lease = approved.plan, read_copy(approved.folder)
    began, ended = (lease.taken_at, lease.released_at) if lease is not None else (None, None)
    row = {
        "run_id": inputs.run.run_id,
        "job": plan.job,
        "digest": plan.digest,
        "requested_by": approved.written.requested_by,
        "approved_by": approved.decision.by_id,
        "verified": verified,
        "brokers": sorted(plan.brokers),
        "replicas": len(plan.moves),
        "in_place": None if in_place is None else len(in_place),
        "predicted_bytes": plan.size_bytes,
        "copied_bytes": None if in_place is None else sum(move.size_bytes for move in in_place),
        "predicted_seconds": plan.seconds,
        "began_at": None if began is None else datetime.fromisoformat(began),
        "ended_at": None if ended is None else datetime.fromisoformat(ended),
        "throttle_bytes_per_second": plan.throttle_bytes_per_second,
    }
    now = clock.utc_now()
    ledger.append(inputs.deployment, "log_dirs", approved.connection_id, inputs.run.run_id, now, [row])


def _rates(cluster: OpenCluster, plan: LogDirPlan, folder: RunFolder) -> tuple[Check, ...]:
    """The janitor puts back the rates of brokers that are away, when they return."""
    wanted = desired_log_dir_rate(plan.brokers, plan.throttle_bytes_per_second)
    away = read_away(cluster, wanted)
    now = read_configs(cluster, wanted.keys() - away)
    lease = read_copy(folder)
    if lease is None:
        return check_unrecorded(set_now(wanted, now))
    lease = lease.without(away)
    return check_throttles(lease.prior, lease.wanted, now, lease.own_rates)
