"""What lies on the brokers' disks today, beside what the snapshot and the approver knew of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kafka_rebalance.admin.replica_sizes import BrokerDisks, LogDir
from kafka_rebalance.execution.check.disk_room import DiskNow, LogDirNow, ReplicasNow
from kafka_rebalance.model.connection import BrokerCapacity
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.result_tables import read_disk_peaks
from kafka_rebalance.workflow.run.approved import ApprovedPlan
from kafka_rebalance.workflow.run.baseline import DiskThen


def replicas_now(leaders: Mapping[TopicPartition, int | None], disks: BrokerDisks) -> ReplicasNow:
    """The bytes of every replica that was asked for; `leaders` are those of the plan's partitions."""
    return ReplicasNow(leaders, disks.replicas, disks.paths)


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
