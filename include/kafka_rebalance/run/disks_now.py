"""The brokers' disks today, compared with the snapshot and with what was approved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from kafka_rebalance.admin.replica_sizes import BrokerDisks, LogDir, read_dir_states
from kafka_rebalance.kafka.who_may_receive import Shut, who_is_shut
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import BrokerCapacity, ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_disk_peaks
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.checks.disk_room import DiskNow, LogDirNow
from kafka_rebalance.run.checks.drift import registered_again
from kafka_rebalance.run.snapshot_tables import DiskThen


def disks_now(
    plan: ApprovedPlan, capacities: Mapping[int, BrokerCapacity], disks: BrokerDisks, *, begun: bool
) -> dict[int, DiskNow]:
    """The disks of each broker that was asked.

    `capacities` of the Airflow connection win over what the broker reports, as in the snapshot. Once the run has begun,
    new bytes that belong to no replica do not count: they are of replicas that the run has removed, and Kafka deletes
    them a minute later.
    """
    held: Counter[int] = Counter()
    for sizes in disks.replicas.values():
        held.update(sizes)
    approved, found = read_disk_peaks(plan.folder, plan.approved.name), {}
    for broker, dirs in disks.log_dirs.items():
        then = plan.tables.disks.get(broker, DiskThen(None, None))
        total, used = _told(dirs)
        other = max(0, used - held[broker]) if used is not None else then.other_bytes or 0
        if begun and then.other_bytes is not None:
            other = min(other, then.other_bytes)
        stated = capacities.get(broker, BrokerCapacity()).disk_bytes
        found[broker] = DiskNow(
            used_bytes=held[broker] + other,
            capacity_bytes=next((one for one in (stated, total, then.capacity_bytes) if one is not None), None),
            approved_peak_bytes=approved.get(broker, 0),
            log_dirs=[LogDirNow(one.path, one.usable_bytes, one.replicas, one.online, one.cordoned) for one in dirs],
        )
    return found


def _told(dirs: Sequence[LogDir]) -> tuple[int | None, int | None]:
    """(bytes of all log dirs, bytes in use); None if a log dir does not tell (before 3.3, or offline)."""
    sizes = [(one.total_bytes, one.usable_bytes) for one in dirs]
    known = [(total, usable) for total, usable in sizes if total is not None and usable is not None]
    if not known or len(known) < len(sizes):
        return None, None
    total = sum(total for total, _ in known)
    return total, total - sum(usable for _, usable in known)


def leader_sizes(plan: ApprovedPlan, view: ClusterView, disks: BrokerDisks) -> Mapping[TopicPartition, int | None]:
    """Bytes of each partition at its leader; None: the leader did not tell."""
    return {
        tp: disks.replicas.get(tp, {}).get(view.partitions[tp].leader)
        for move in plan.candidate.moves
        if (tp := move.topic_partition) in view.partitions
    }


def came_back_empty(plan: ApprovedPlan, view: ClusterView, disks: BrokerDisks) -> frozenset[int]:
    """Brokers that registered again and have lost most of what the snapshot found there.

    Where registrations cannot be told apart, any live broker may have registered again.
    """
    again = registered_again(view, plan.tables.baseline) if view.traits.has_broker_epochs else frozenset(view.brokers)
    again &= set(disks.log_dirs)
    topics, held, there = plan.topics, Counter[int](), Counter[int]()
    # Without replicas that earlier batches have moved away. A topic outside the plan counts as unchanged.
    for tp, (brokers, size) in plan.tables.held.items():
        left = brokers & again
        if tp.topic in topics:
            left &= set(view.partitions[tp].replicas) if tp in view.partitions else set()
        for broker in left:
            held[broker] += size
            there[broker] += size if disks.replicas.get(tp, {}).get(broker) else 0
    return frozenset(broker for broker in again if there[broker] < held[broker] / 2)


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
