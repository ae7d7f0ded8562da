"""The approved moves of a run, and the cluster on which they may begin."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.admin import wire
from kafka_rebalance.admin.log_dirs import BrokerDisks
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE, LogDirPlan, PlannedLogDirs
from kafka_rebalance.log_dirs.copy_states import DirsNow, offline_dirs
from kafka_rebalance.log_dirs.read_dirs import dirs_now, read_disks, read_disks_of_the_rest
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run import cluster_rows
from kafka_rebalance.run.approved_plan import ApprovedRequest, read_approved_request
from kafka_rebalance.run.checks.cluster_ready import harmed_by_copies_within, readiness_findings, refuse, waiting_for
from kafka_rebalance.run.inputs import StepInputs

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
    cluster.check_controller_stable(lambda: time.sleep(cluster_rows.STORM_PAUSE_SECONDS))
    view = cluster.read_view()
    cluster.check_is_whole(view)
    cluster.check_same_cluster(view)
    asked = set(view.brokers if brokers is None else brokers)
    chosen = sorted(view.brokers.keys() & asked)
    held = {tp for tp, one in view.partitions.items() if not asked.isdisjoint(one.replicas)}
    away = {broker for one in view.partitions.values() for broker in one.replicas} - view.brokers.keys() - asked
    spoken = wire.read_api_versions(connection.kafka, chosen)
    disks = read_disks(connection.kafka, chosen)
    now = dirs_now(disks)
    refuse(
        [
            *readiness_findings(
                view,
                expected_cluster_id=cluster_id,
                may_be_down=away,
                topics={tp.topic for tp in held},
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
