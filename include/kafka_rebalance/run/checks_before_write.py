"""The last checks before a write: is it allowed, is the cluster ready, and is everything as it was approved?"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kafka_rebalance import clock
from kafka_rebalance.admin import configs as broker_configs
from kafka_rebalance.admin import log_dirs, wire
from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir, read_dir_states
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import is_there
from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.kafka.reassignment_json import rollback_file
from kafka_rebalance.kafka.who_may_receive import Shut, who_is_shut
from kafka_rebalance.model.candidate import Batch, Move, brokers_touched
from kafka_rebalance.model.cluster_view import BrokerRegistration, ClusterView, ConfigsByBroker
from kafka_rebalance.model.connection import BrokerCapacity, ClusterConnection, KafkaConnection
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import LEAVE_OUT, Policy
from kafka_rebalance.moves.run_position import Position
from kafka_rebalance.moves.windows import Window, check_clock
from kafka_rebalance.planning.tables.result_tables import read_disk_peaks
from kafka_rebalance.run.approval_rules import check_approval_fresh
from kafka_rebalance.run.approved_plan import ApprovedPlan, leave_out
from kafka_rebalance.run.checks.batch_wait import Pause, pause_before
from kafka_rebalance.run.checks.cluster_ready import (
    ApiVersions,
    cruise_control,
    mixed_versions,
    moving_by_api,
    readiness_findings,
    refuse,
)
from kafka_rebalance.run.checks.disk_room import DiskNow, LogDirNow, ReplicasNow, without_room
from kafka_rebalance.run.checks.drift import (
    Drift,
    MoveDrift,
    check_growth,
    check_no_conflict,
    check_only_receivers,
    conflicts,
    drifts,
    named_by_reason,
    registered_again,
)
from kafka_rebalance.run.checks.in_sync import (
    check_leaders_may_lead,
    cut_below_min_isr,
    min_insync_now,
    out_of_isr_now,
    under_min_isr,
)
from kafka_rebalance.run.checks.limits import check_within_policy, too_large_znodes, too_many_now
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.snapshot_reader import DiskThen

log = logging.getLogger(__name__)


# What nobody moves is read again after so long. It is the time in which a leader removes a lagging replica from the ISR
# (replica.lag.time.max.ms, 30 s), so that no state of a partition is known earlier either.
READ_AGAIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Brokers:
    """What the brokers report: configs and versions of all, disks of those that send or receive copies, and which
    topics there are.
    """

    disks: log_dirs.BrokerDisks
    configs: ConfigsByBroker
    spoken: ApiVersions
    topics: frozenset[str]


class BrokerReports:
    """What brokers have reported, for a worker that checks batch after batch.

    A report holds for `READ_AGAIN_SECONDS` as long as the same brokers are registered. Of it, log dirs and the replicas
    that the run moves are read each time: their bytes decide whether the next batch fits.
    """

    def __init__(self) -> None:
        self._read_at = 0.0
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self._report: _Brokers | None = None
        self._moved: set[TopicPartition] = set()  # by the run since then

    def read(
        self,
        cluster: OpenCluster,
        kafka: KafkaConnection,
        view: ClusterView,
        moves: Sequence[Move],
        now: Collection[TopicPartition],
    ) -> _Brokers:
        """`moves`: of the whole plan. `now`: what of it is in flight or comes next. Raises ReadError.

        The controller is read before and after these requests: epochs that grow in between are an election storm.
        Raises ClusterNotReadyError.
        """
        everyone = sorted(view.brokers)
        copying = sorted(brokers_touched([move for move in moves if move.added]) & view.brokers.keys())
        self._moved.update(now)

        def ask() -> None:
            known = self._report
            if (
                known is None
                or view.brokers != self._brokers
                or set(copying) != known.disks.log_dirs.keys()
                or not 0 <= time.monotonic() - self._read_at < READ_AGAIN_SECONDS
            ):
                self._read_at, self._brokers = time.monotonic(), view.brokers
                self._moved = set(now)
                configs = broker_configs.read_effective_configs(kafka, everyone)
                disks = log_dirs.read_log_dirs(kafka, copying)
                spoken = wire.read_api_versions(kafka, everyone)
                self._report = _Brokers(disks, configs, spoken, cluster.read_topic_names())
            else:
                disks = log_dirs.read_log_dirs_again(kafka, known.disks, self._moved)
                self._report = dataclasses.replace(known, disks=disks)

        cluster.check_controller_stable(ask)
        assert self._report is not None
        return self._report


def pause_now(plan: ApprovedPlan, view: ClusterView, where: Position) -> Pause:
    """What the next batch waits for. The first batch never waits: the checks refuse it, and a retry asks again."""
    if not where.begun or where.next is None:
        return Pause()
    return pause_before(
        where.next.moves,
        plan.candidate.moves,
        view,
        min_in_sync=plan.tables.min_insync,
        registered_again=registered_again(view, plan.tables.baseline),
        may_be_down=plan.given_up,
    )


def check_before_write(
    deployment: Deployment,
    cluster: OpenCluster,
    connection: ClusterConnection,
    plan: ApprovedPlan,
    view: ClusterView,
    where: Position,
    *,
    requesting: Batch | None = None,
    reports: BrokerReports | None = None,
) -> ApprovedPlan:
    """The plan that may be executed now: the approved one, without the moves that the policy lets the run leave out.

    Raises if the cluster is frozen or not ready, or if the policy or partitions have changed since the approval. Before
    the first write it also raises if the approval has expired or there is much more to copy. `requesting`: what comes
    next; None: the throttle comes first. `reports`: of the worker's earlier checks of this plan.
    """
    deployment.check_not_frozen(plan.connection_id)
    policy = deployment.check_policy_unchanged(plan.connection_id, plan.decision.policy_digest)
    begun = bool(where.begun)
    if not begun:
        check_approval_fresh(
            plan.decision.given_at,
            policy.approval_expires_after_seconds,
            clock.utc_now(),
            not_before=plan.begins_at,
        )
    own = {move.topic_partition for move in where.in_flight.moves} if where.in_flight is not None else set()
    who_moves = cluster.read_movers
    refuse(
        readiness_findings(
            view, expected_cluster_id=plan.snapshot.cluster_id, topics=(), own=own, who_moves=cluster.read_movers
        )
    )
    cluster.check_same_cluster(view)
    pause = pause_now(plan, view, where)
    if pause:  # `reassign` has waited; another task that somebody has cleared must not take it for a conflict
        raise ClusterNotReadyError(f"The next batch waits, so it is not requested. {' '.join(pause.reasons)}")
    near = own if requesting is None else own | {move.topic_partition for move in requesting.moves}
    brokers = (reports or BrokerReports()).read(cluster, connection.kafka, view, plan.candidate.moves, near)
    drifted = drifts(
        plan.candidate.moves,
        view,
        plan.tables.baseline,
        batches_touched=where.begun,
        came_back_empty=_came_back_empty(plan, view, brokers.disks),
        shut=shut_now(connection, view, _named(plan), brokers.disks.log_dirs),
    )
    plan = _settle(plan, view, policy, drifted, begun)
    remaining = {move.topic_partition.topic for move in plan.candidate.moves}
    needed = {move.topic_partition for move in plan.candidate.moves}
    refuse(
        readiness_findings(
            view, may_be_down=plan.leaving, topics=remaining, own=own, needed=needed, who_moves=who_moves
        )
    )
    now = _leader_sizes(plan, view, brokers.disks)
    if not begun:
        check_growth(plan.candidate.moves, now, policy.growth_limit)
    refuse(
        [
            *_hazards(cluster, plan, view, policy, brokers, requesting),
            *without_room(
                _at_once(_batches(plan, requesting), where.in_flight),
                ReplicasNow(now, brokers.disks.replicas, brokers.disks.paths),
                _disks_now(plan, connection.capacities, brokers.disks, begun=begun),
                plan.settings.disk_headroom,
            ),
            *too_many_now(
                plan.candidate.moves,
                brokers.disks.replicas,
                brokers.disks.log_dirs,
                plan.settings.replicas_per_broker,
            ),
        ]
    )
    harmless = [drift for drift in drifted if drift.drift is Drift.HARMLESS]
    harmless = [drift for drift in harmless if requesting is not None and drift.move in requesting.moves]
    if requesting is not None and harmless:
        log.info(
            "%d partitions of batch %d differ from the snapshot without harm: %s",
            len(harmless),
            requesting.number,
            some(named_by_reason(harmless)),
        )
    return plan


def check_plan_within_policy(
    deployment: Deployment, cluster: OpenCluster, plan: ApprovedPlan, view: ClusterView
) -> None:
    """Raises PolicyError or SettingsError if the approved moves exceed a limit, also one of another connection
    to the same cluster: for example after an error in planning, or if that policy is stricter since.

    Call it before the first write.
    """
    policy = bound_policy(
        deployment,
        deployment.check_policy_unchanged(plan.connection_id, plan.decision.policy_digest),
        plan.connection_id,
        view.cluster_id,
        len(plan.tables.baseline.brokers),
    )
    check_within_policy(
        plan.candidate.batches,
        policy,
        sizes=plan.tables.sizes,
        cluster_bytes=plan.tables.cluster_bytes,
        held_replicas=plan.tables.held_replicas,
        racks={broker: then.rack for broker, then in plan.tables.baseline.brokers.items()},
        throttle_bytes_per_second=plan.throttle_bytes_per_second,
        throttle_from_bytes_per_second=plan.decision.throttle_from_bytes_per_second,
        kafkas_own=cluster.read_kafkas_own(view),
    )
    check_only_receivers(plan.candidate.moves, plan.settings, plan.tables.baseline.brokers)
    closed = {*plan.settings.brokers_out, *policy.brokers_out}
    check_leaders_may_lead(plan.candidate.moves, plan.tables.baseline.partitions, closed)


def check_clock_for_window(cluster: OpenCluster, window: Window) -> None:
    """Compares this worker's clock with ZooKeeper's if the run has a window; raise the fence just before.

    Raises ClusterNotReadyError if they differ.
    """
    if window != Window():
        check_clock(clock.utc_now(), cluster.lock.read_time_of_fence())


def _named(plan: ApprovedPlan) -> set[int]:
    """Brokers of new lists: Kafka refuses a list with a cordoned broker even where it only changes the order."""
    return {broker for move in plan.candidate.moves if not move.is_election for broker in move.after}


def _hazards(
    cluster: OpenCluster,
    plan: ApprovedPlan,
    view: ClusterView,
    policy: Policy,
    brokers: _Brokers,
    requesting: Batch | None,
) -> Iterable[Finding]:
    """What makes a write dangerous for the batch that comes next; before the first write, for all batches."""
    batches = _batches(plan, requesting)
    moves = [move for batch in batches for move in batch.moves if not move.is_election]
    yield from mixed_versions(brokers.configs, brokers.spoken)
    if not policy.beside_cruise_control:
        yield from cruise_control(brokers.topics, brokers.configs)
    yield from moving_by_api(cluster.read_moving(plan.topics), cluster.read_movers)
    if requesting is None:
        yield from _rollback_missing(plan)
    own = cluster.read_topic_configs({move.topic_partition.topic for move in moves})
    min_insync = min_insync_now(moves, view, own, brokers.configs, plan.tables.min_insync)
    yield from under_min_isr(moves, view, min_insync, plan.given_up)
    yield from cut_below_min_isr(moves, min_insync)
    yield from out_of_isr_now(moves, view)
    if view.traits.has_request_znode:
        yield from too_large_znodes(batches, view)


def _batches(plan: ApprovedPlan, requesting: Batch | None) -> list[Batch]:
    """What comes next, without what was left out meanwhile; all batches before the first write."""
    if requesting is None:
        return list(plan.candidate.batches)
    remaining = {move.topic_partition for move in plan.candidate.moves}
    moves = tuple(move for move in requesting.moves if move.topic_partition in remaining)
    return [dataclasses.replace(requesting, moves=moves)]


def _at_once(batches: list[Batch], in_flight: Batch | None) -> list[Batch]:
    """With what is in flight: its old copies are still there when the new ones come."""
    if in_flight is None:
        return batches
    return [dataclasses.replace(batch, moves=(*in_flight.moves, *batch.moves)) for batch in batches]


def _rollback_missing(plan: ApprovedPlan) -> Iterable[Finding]:
    if all(move.is_election for move in plan.approved.moves):
        return  # no list changes
    name = rollback_file(plan.approved.name)
    if not is_there(plan.folder / json_files.REASSIGNMENTS / name):
        yield Finding(
            f"{json_files.REASSIGNMENTS}/{name}",
            "the lists to go back to are not in the run's folder",
            "Clear render_report, which writes them, then clear this task",
        )


def _settle(
    plan: ApprovedPlan, view: ClusterView, policy: Policy, drifted: Sequence[MoveDrift], begun: bool
) -> ApprovedPlan:
    """Raises for conflicts, or leaves them out."""
    against = conflicts(drifted)
    if policy.on_conflict != LEAVE_OUT or len(against) == len(drifted):
        check_no_conflict(drifted, begun=begun)
        return plan
    if not against:
        return plan
    left_out = leave_out(plan.folder, plan.approved, plan.left_out, against, view)
    for line in named_by_reason(against):
        log.warning("left out from now on (on_conflict: leave_out of the policy): %s", line)
    return dataclasses.replace(plan, left_out=left_out)


def read_view_of(cluster: OpenCluster, topics: Collection[str], approved_cluster_id: str) -> ClusterView:
    """ZooKeeper's view of these topics. Raises ClusterNotReadyError if the connection now leads to another cluster."""
    view = cluster.read_view(topics)
    check_approved_cluster(view, approved_cluster_id)
    return view


def check_approved_cluster(view: ClusterView, approved_cluster_id: str) -> None:
    """Raises ClusterNotReadyError if this is another cluster than the approved one."""
    if view.cluster_id != approved_cluster_id:
        raise ClusterNotReadyError(
            f"This is cluster {view.cluster_id}, the approval is for {approved_cluster_id}. Correct the connection."
        )


# The brokers' disks today, compared with the snapshot and with what was approved.


def _disks_now(
    plan: ApprovedPlan, capacities: Mapping[int, BrokerCapacity], disks: BrokerDisks, *, begun: bool
) -> dict[int, DiskNow]:
    """The disks of each broker that was asked.

    `capacities` of the Airflow connection win over what the broker reports, as in the snapshot. Once the run has begun,
    new bytes that belong to no replica do not count: they are of replicas that the run has removed, and Kafka deletes
    them a minute later.
    """
    replica_bytes: Counter[int] = Counter()
    for sizes in disks.replicas.values():
        replica_bytes.update(sizes)
    approved, now = read_disk_peaks(plan.folder, plan.approved.name), {}
    for broker, dirs in disks.log_dirs.items():
        then = plan.tables.disks.get(broker, DiskThen(None, None))
        total, used = _told(dirs)
        other = max(0, used - replica_bytes[broker]) if used is not None else then.other_bytes or 0
        if begun and then.other_bytes is not None:
            other = min(other, then.other_bytes)
        stated = capacities.get(broker, BrokerCapacity()).disk_bytes
        now[broker] = DiskNow(
            used_bytes=replica_bytes[broker] + other,
            capacity_bytes=next((size for size in (stated, total, then.capacity_bytes) if size is not None), None),
            approved_peak_bytes=approved.get(broker, 0),
            log_dirs=[
                LogDirNow(log_dir.path, log_dir.usable_bytes, log_dir.replicas, log_dir.online, log_dir.cordoned)
                for log_dir in dirs
            ],
        )
    return now


def _told(dirs: Sequence[LogDir]) -> tuple[int | None, int | None]:
    """(bytes of all log dirs, bytes in use); None if a log dir does not tell (before 3.3, or offline)."""
    sizes = [(log_dir.total_bytes, log_dir.usable_bytes) for log_dir in dirs]
    known = [(total, usable) for total, usable in sizes if total is not None and usable is not None]
    if not known or len(known) < len(sizes):
        return None, None
    total = sum(total for total, _ in known)
    return total, total - sum(usable for _, usable in known)


def _leader_sizes(plan: ApprovedPlan, view: ClusterView, disks: BrokerDisks) -> Mapping[TopicPartition, int | None]:
    """Bytes of each partition at its leader; None: the leader did not tell."""
    return {
        tp: disks.replicas.get(tp, {}).get(view.partitions[tp].leader)
        for move in plan.candidate.moves
        if (tp := move.topic_partition) in view.partitions
    }


def _came_back_empty(plan: ApprovedPlan, view: ClusterView, disks: BrokerDisks) -> frozenset[int]:
    """Brokers that registered again and have lost most of what the snapshot found there.

    Where registrations cannot be told apart, any live broker may have registered again.
    """
    again = registered_again(view, plan.tables.baseline) if view.traits.has_broker_epochs else frozenset(view.brokers)
    again &= set(disks.log_dirs)
    topics, expected, there = plan.topics, Counter[int](), Counter[int]()
    # Without replicas that earlier batches have moved away. A topic outside the plan counts as unchanged.
    for tp, (brokers, size) in plan.tables.held.items():
        holders = brokers & again
        if tp.topic in topics:
            holders &= set(view.partitions[tp].replicas) if tp in view.partitions else set()
        for broker in holders:
            expected[broker] += size
            there[broker] += size if disks.replicas.get(tp, {}).get(broker) else 0
    return frozenset(broker for broker in again if there[broker] < expected[broker] / 2)


def shut_now(
    connection: ClusterConnection,
    view: ClusterView,
    named: Collection[int],
    known: Mapping[int, Sequence[LogDir]] = MappingProxyType({}),
) -> dict[int, Shut]:
    """Which of the registered brokers in `named` get no new replica from Kafka now, and why.

    The one look before every write of replica lists. `known`: log dirs that were read already. A broker that is away is
    absent: it has a finding of its own.
    """
    here = set(named) & view.brokers.keys()
    if not view.traits.has_request_znode:  # no Kafka with ZooKeeper knows cordoned log dirs
        known = {**read_dir_states(connection.kafka, here - known.keys()), **known}
    return who_is_shut(here, known, view.brokers)
