"""What lies on the brokers' disks today, beside what the snapshot and the approver knew of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kafka_rebalance.admin.replica_sizes import BrokerDisks, LogDir
from kafka_rebalance.execution.check.disk_room import DiskNow, LogDirNow
from kafka_rebalance.execution.check.drift import registered_again
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import BrokerCapacity
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_disk_peaks
from kafka_rebalance.steps.run.approved_plan import ApprovedPlan
from kafka_rebalance.steps.run.snapshot_tables import DiskThen, read_held


def disks_now(
    plan: ApprovedPlan, capacities: Mapping[int, BrokerCapacity], disks: BrokerDisks, *, begun: bool
) -> dict[int, DiskNow]:
    """The disks of each broker that was asked.

    `capacities` are those of the Airflow connection, which win over what the broker tells, as in the snapshot. Once the
    run has begun, bytes that are no replica's and were not there in the snapshot are of replicas that the run has
    removed: Kafka deletes them a minute later, so they do not count.
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
            log_dirs=[LogDirNow(one.path, one.usable_bytes, one.replicas, one.online) for one in dirs],
        )
    return found


def _told(dirs: Sequence[LogDir]) -> tuple[int | None, int | None]:
    """(bytes of all log dirs together, of them in use), None where one does not tell (before 3.3, or offline)."""
    sizes = [(one.total_bytes, one.usable_bytes) for one in dirs]
    known = [(total, usable) for total, usable in sizes if total is not None and usable is not None]
    if not known or len(known) < len(sizes):
        return None, None
    total = sum(total for total, _ in known)
    return total, total - sum(usable for _, usable in known)


def leader_sizes(plan: ApprovedPlan, view: ClusterView, disks: BrokerDisks) -> Mapping[TopicPartition, int | None]:
    """Bytes of each partition at its leader; None where the leader did not tell."""
    return {
        tp: disks.replicas.get(tp, {}).get(view.partitions[tp].leader)
        for move in plan.candidate.moves
        if (tp := move.topic_partition) in view.partitions
    }


def came_back_empty(plan: ApprovedPlan, view: ClusterView, disks: BrokerDisks) -> frozenset[int]:
    """Targets that registered again and have lost most of what the snapshot found there."""
    again = registered_again(view, plan.tables.baseline) & set(disks.log_dirs)
    return frozenset(broker for broker in again if _lost(_held_still(plan, view, broker), broker, disks))


def _held_still(plan: ApprovedPlan, view: ClusterView, broker: int) -> dict[TopicPartition, int]:
    """Bytes of the replicas that the snapshot found there, less those that it is not to hold any more.

    Earlier batches have moved them away, or their topic is gone; of topics that are not the plan's nothing is known.
    """
    return {
        tp: size
        for tp, size in read_held(plan.folder, broker).items()
        if tp.topic not in plan.topics or (tp in view.partitions and broker in view.partitions[tp].replicas)
    }


def _lost(held: Mapping[TopicPartition, int], broker: int, disks: BrokerDisks) -> bool:
    found = sum(size for tp, size in held.items() if disks.replicas.get(tp, {}).get(broker))
    return found < sum(held.values()) / 2
