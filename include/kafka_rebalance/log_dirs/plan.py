"""`plan` of `kafka_log_dirs`: reads the log dirs, plans moves between them, and writes log_dirs.json."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.admin import wire
from kafka_rebalance.admin.log_dirs import BrokerDisks
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.log_dir_plan import (
    LOG_DIRS_FILE,
    DirForecast,
    LogDirMove,
    LogDirPlan,
    PlannedLogDirs,
    Replica,
)
from kafka_rebalance.errors import LockHeldError, NothingToDoError, PlanningError, PolicyError, SettingsError
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.log_dirs.evened_dirs import Dir, DirMoves, emptied_dir, even_dirs
from kafka_rebalance.log_dirs.next_copies import CopyState, DirsNow, offline_dirs, states_of
from kafka_rebalance.log_dirs.read_dirs import dirs_now, dirs_of, read_disks, read_disks_of_the_rest
from kafka_rebalance.log_dirs.request import plan_lines
from kafka_rebalance.log_dirs.rules import (
    BALANCE,
    DISK_HEADROOM,
    DRAIN,
    WAY_BACK,
    AskedLogDirs,
    check_fits_openings,
    check_within_policy,
)
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import Finding, listed, some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.run import snapshot_reader
from kafka_rebalance.run.checks.cluster_ready import harmed_by_copies_within, readiness_findings, refuse, waiting_for
from kafka_rebalance.run.clusters import LOG_DIRS_DAG
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.requester import check_somebody_may_approve, read_requester
from kafka_rebalance.run.run_folder import begin_run_folder, folder_of_run, newest_attempt

log = logging.getLogger(__name__)

_Dirs = Mapping[int, Sequence[Dir]]  # by broker


def plan_moves(inputs: StepInputs, params: Mapping[str, Any]) -> dict[str, Any]:
    """Writes nothing to the cluster. Raises NothingToDoError if nothing has to move."""
    request = AskedLogDirs.from_params(params)
    deployment, connection_id = inputs.deployment, params["kafka_conn_id"]
    policy = deployment.read_policy(connection_id)
    if policy is None:
        raise PolicyError(
            f"There is no policy file for the connection {connection_id!r}, so the cluster is read-only. "
            "Add include/policies/<connection id>.yaml."
        )
    check_somebody_may_approve(policy, read_requester(deployment, inputs.run))
    request.limits(policy)  # a request beyond it is refused before anything is read
    connection = deployment.read_connection(connection_id)
    folder, nonce = begin_run_folder(inputs, connection_id)
    with open_cluster(connection) as cluster:
        holder = cluster.lock.read()
        if holder is not None:
            raise LockHeldError(
                f"Run {holder.name} holds the cluster. Nothing was planned or written. Wait until it has ended."
            )
        brokers = _chosen(deployment, connection_id, request)
        ready = read_if_ready(cluster, connection, connection.expected_cluster_id, brokers)
        view, kafkas_own = ready.view, cluster.read_kafkas_own(ready.view)
    if request.broker is not None and request.broker not in view.brokers:
        raise SettingsError(
            f"There is no broker {request.broker}; the brokers are {listed(sorted(view.brokers))}. Nothing was planned "
            "or written."
        )
    limits = bound_policy(deployment, policy, connection_id, view.cluster_id)
    throttle, copies = request.limits(limits)
    dirs = dirs_of(ready.disks)
    if request.job == BALANCE:
        planned = _evened(dirs, request, limits, kafkas_own, ready.waiting)
    elif request.job == DRAIN:
        planned = _emptied(dirs, request, limits, kafkas_own, ready.waiting)
    else:
        earlier = _earlier_plan(deployment, connection_id, str(request.of_run))
        _check_same_cluster(earlier, str(request.of_run), view.cluster_id)
        done = states_of(earlier.moves, dirs_now(ready.disks))[CopyState.DONE]
        planned = _back(done, dirs)
    if not planned.moves:
        raise NothingToDoError(_nothing(request, planned))
    plan = LogDirPlan(
        view.cluster_id, request.job, planned.moves, throttle, copies, DISK_HEADROOM, request.windows(policy)
    )
    check_fits_openings(plan, clock.utc_now())
    check_within_policy(plan, limits, ready.cluster_bytes, kafkas_own)
    written = PlannedLogDirs(
        connection_id=connection_id,
        policy_digest=policy.digest,
        nonce=nonce,
        observed_at=clock.utc_now(),
        dag_id=inputs.run.dag_id,
        run_id=inputs.run.run_id,
        requested_by=inputs.run.started_by,
        reason=params.get("reason") or "",
        broker=request.broker,
        log_dir=request.log_dir,
        tolerance=request.tolerance,
        of_run=request.of_run,
        plan=plan,
        digest=plan.digest,
        dirs=tuple(_forecasts(plan, dirs)),
        bound_bytes=planned.bound_bytes,
        left_bytes=planned.left_bytes,
        policy_windows=policy.windows or (),
    )
    LOG_DIRS_FILE.write(folder, written)
    for line in plan_lines(written):
        log.info("%s", line)
    return {"digest": plan.digest, "moves": len(plan.moves), "bytes": plan.size_bytes}


@dataclass(frozen=True, slots=True)
class Ready:
    """The cluster, and the log dirs of the brokers on which replicas move."""

    view: ClusterView
    disks: BrokerDisks
    cluster_bytes: int  # of all replicas on brokers that tell them, so that a policy's share of it is never too large
    waiting: Collection[TopicPartition]  # for brokers that are away: nothing of them can be moved


def read_if_ready(
    cluster: OpenCluster,
    connection: ClusterConnection,
    cluster_id: str | None,
    brokers: Collection[int] | None = None,
    needed: Collection[TopicPartition] = (),
) -> Ready:
    """What `brokers` hold, on which alone replicas move; None: all that are registered.

    `cluster_id` is the expected one; None: any. `needed`: the partitions of an approved plan.

    A copy between log dirs of a broker needs no other broker than the partition's leader. So others may be away.

    Raises ClusterNotReadyError if one of these brokers is away, has a log dir that is offline or a Kafka below 2.2, or
    holds a partition of which nobody leads, or if somebody moves replicas between brokers or, there, between log dirs.
    Raises ReadError if one of them does not answer.
    """
    cluster.check_controller_stable(lambda: time.sleep(snapshot_reader.STORM_PAUSE_SECONDS))
    view = cluster.read_view()
    cluster.check_is_whole(view)
    cluster.check_same_cluster(view)
    wanted = set(view.brokers if brokers is None else brokers)
    chosen = sorted(view.brokers.keys() & wanted)
    on_them = {tp for tp, partition in view.partitions.items() if not wanted.isdisjoint(partition.replicas)}
    away = (
        {broker for partition in view.partitions.values() for broker in partition.replicas}
        - view.brokers.keys()
        - wanted
    )
    spoken = wire.read_api_versions(connection.kafka, chosen)
    disks = read_disks(connection.kafka, chosen)
    now = dirs_now(disks)
    refuse(
        [
            *readiness_findings(
                view,
                expected_cluster_id=cluster_id,
                may_be_down=away,
                topics={tp.topic for tp in on_them},
                needed=needed,
            ),
            *harmed_by_copies_within(spoken),
            *offline_dirs(now.disks),
            *_copies_of_others(now),
        ]
    )
    others = read_disks_of_the_rest(connection.kafka, view.brokers.keys() - set(chosen))
    every = [*disks.replicas.values(), *others.replicas.values()]
    return Ready(
        view, disks, sum(size for by_broker in every for size in by_broker.values()), set(waiting_for(view, away))
    )


def _copies_of_others(now: DirsNow) -> Iterator[Finding]:
    if now.future:
        yield Finding(
            "log dirs",
            f"replicas are on their way to another log dir of their broker ({some(sorted(now.future))})",
            "Wait for their end, or cancel them with kafka-reassign-partitions",
        )


def _chosen(deployment: Deployment, connection_id: str, request: AskedLogDirs) -> Collection[int] | None:
    """The brokers on which replicas may move; None: any."""
    if request.broker is not None:
        return {request.broker}
    return _earlier_plan(deployment, connection_id, str(request.of_run)).brokers if request.job == WAY_BACK else None


def _evened(
    dirs: _Dirs, request: AskedLogDirs, policy: Policy, kafkas_own: KafkasOwn, waiting: Collection[TopicPartition]
) -> DirMoves:
    wanted = [request.broker] if request.broker is not None else sorted(dirs.keys() - set(policy.brokers_out))
    by_broker = [
        even_dirs(
            dirs[broker],
            request.tolerance,
            DISK_HEADROOM,
            {*_kept(dirs[broker], request, policy, kafkas_own), *_waits(dirs[broker], waiting)},
        )
        for broker in wanted
        if len(dirs[broker]) > 1
    ]
    return DirMoves(
        tuple(move for planned in by_broker for move in planned.moves),
        sum(planned.bound_bytes for planned in by_broker),
        sum(planned.left_bytes for planned in by_broker),
    )


def _emptied(
    dirs: _Dirs, request: AskedLogDirs, policy: Policy, kafkas_own: KafkasOwn, waiting: Collection[TopicPartition]
) -> DirMoves:
    assert request.broker is not None  # `from_params` has checked both
    assert request.log_dir is not None
    log_dirs = dirs[request.broker]
    paths = [log_dir.path for log_dir in log_dirs]
    if request.log_dir not in paths:
        raise SettingsError(
            f"Broker {request.broker} has no log dir {request.log_dir!r}; it has {listed(paths)}. "
            "Nothing was planned or written. Give one of them."
        )
    kept = _kept(log_dirs, request, policy, kafkas_own)
    waits = _waits(log_dirs, waiting) - kept
    planned = emptied_dir(log_dirs, request.log_dir, DISK_HEADROOM, kept | waits)
    moved = {move.replica for move in planned.moves}
    remaining = sorted(next(log_dir for log_dir in log_dirs if log_dir.path == request.log_dir).replicas.keys() - moved)
    if remaining:
        stay = [replica for replica in remaining if replica in kept]
        wait = [replica for replica in remaining if replica in waits]
        no_room = [replica for replica in remaining if replica not in kept | waits]
        why = [f"topics_out or internal_topics keeps {some(stay)}"] if stay else []
        why += [f"{some(wait)} cannot move unless brokers that are away come back"] if wait else []
        why += [f"no other log dir has room for {some(no_room)}"] if no_room else []
        raise PlanningError(
            f"Log dir {request.log_dir} of broker {request.broker} cannot be emptied: {'; '.join(why)}. Nothing was "
            "written. Tick internal_topics if the policy allows it, make room, or move replicas to other brokers first."
        )
    return planned


def _back(done: Sequence[LogDirMove], dirs: _Dirs) -> DirMoves:
    """Each replica that lies where the earlier run has put it goes back to its log dir of before."""
    log_dirs = {(broker, log_dir.path): log_dir for broker, of_broker in dirs.items() for log_dir in of_broker}
    sizes = {replica: size for log_dir in log_dirs.values() for replica, size in log_dir.replicas.items()}
    moves = tuple(
        LogDirMove(*move.replica, before=move.after, after=move.before, size_bytes=sizes[move.replica]) for move in done
    )
    coming = Counter[tuple[int, str]]()
    for move in moves:
        coming[move.broker, move.after] += move.size_bytes
    full = [
        f"{path} of broker {broker}"
        for (broker, path), more in sorted(coming.items())
        if more > log_dirs[broker, path].room_bytes(DISK_HEADROOM)
    ]
    if full:
        raise PlanningError(
            f"The replicas cannot all go back: {listed(full)} has no room for them. Nothing was "
            "written. Make room there."
        )
    total = sum(move.size_bytes for move in moves)
    return DirMoves(moves, total)


def _earlier_plan(deployment: Deployment, connection_id: str, run_id: str) -> LogDirPlan:
    folder = newest_attempt(folder_of_run(deployment, connection_id, run_id), LOG_DIRS_DAG)
    written = None if folder is None else LOG_DIRS_FILE.read_if_there(folder)
    if written is None:
        raise SettingsError(
            f"There is no plan of a run {run_id!r} of {LOG_DIRS_DAG} with this connection. Nothing was planned or "
            "written. Give the run id as Airflow shows it."
        )
    return written.plan


def _check_same_cluster(earlier: LogDirPlan, run_id: str, cluster_id: str) -> None:
    if earlier.cluster_id != cluster_id:
        raise SettingsError(
            f"Run {run_id} was on cluster {earlier.cluster_id}, and this is {cluster_id}. Nothing was planned or "
            "written. Give a run of this cluster."
        )


def _kept(dirs: Sequence[Dir], request: AskedLogDirs, policy: Policy, kafkas_own: KafkasOwn) -> set[Replica]:
    return {
        replica for log_dir in dirs for replica in log_dir.replicas if request.keeps(replica.topic, policy, kafkas_own)
    }


def _waits(dirs: Sequence[Dir], waiting: Collection[TopicPartition]) -> set[Replica]:
    return {replica for log_dir in dirs for replica in log_dir.replicas if replica.topic_partition in waiting}


def _nothing(request: AskedLogDirs, planned: DirMoves) -> str:
    if request.job == DRAIN:
        return f"Log dir {request.log_dir} of broker {request.broker} is empty already. Nothing was written."
    if request.job != BALANCE:
        return f"No replica lies where run {request.of_run} has put it. Nothing was written."
    if planned.left_bytes:
        left_bytes = bytes_in_words(planned.left_bytes)
        return f"{left_bytes} are outside the band, and no move of a whole replica helps. Nothing was written."
    return f"The log dirs of each broker are even within {request.tolerance:.0%}. Nothing was written."


def _forecasts(plan: LogDirPlan, dirs: _Dirs) -> Iterator[DirForecast]:
    coming, going = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for move in plan.moves:
        coming[move.broker, move.after] += move.size_bytes
        going[move.broker, move.before] += move.size_bytes
    for broker in sorted(plan.brokers):
        for log_dir in dirs[broker]:
            place = broker, log_dir.path
            used = log_dir.size_bytes
            if log_dir.total_bytes is not None and log_dir.usable_bytes is not None:
                used = log_dir.total_bytes - log_dir.usable_bytes
            yield DirForecast(
                *place,
                before_bytes=log_dir.size_bytes,
                after_bytes=log_dir.size_bytes + coming[place] - going[place],
                peak_bytes=used + coming[place],
                total_bytes=log_dir.total_bytes,
            )


log = logging.getLogger(__name__)
