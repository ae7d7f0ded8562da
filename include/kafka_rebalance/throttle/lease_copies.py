"""A cluster's lease: the record in its ZooKeeper, or the file below `runs_url`. The later one counts.

Each alone says what was there before the throttle, so neither a lost folder nor a lost znode loses it. An open lease is
written first to ZooKeeper, under the fence, and no config changes before both are written. A lease that is given back
is first a file. A kill between the two leaves the later one, or a lease to give back again.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace

from kafka_rebalance.clock import now_text
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ArtifactError, CorruptZnodeError, FormatVersionError, LockLostError, StorageError
from kafka_rebalance.model.digests import canonical_json
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence, LeaseRecord, LockOwner, is_same_run
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.throttle import lease_files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterLease:
    deployment: Deployment
    cluster: OpenCluster
    cluster_id: str

    def read(self) -> ThrottleLease | None:
        """The cluster's lease, also one that was given back; None if there never was one.

        Raises ReadError if ZooKeeper does not answer, ArtifactError if no copy of the lease can be read.
        """
        file, recorded, damaged = None, None, []
        try:
            file = lease_files.read(self.deployment, self.cluster_id)
        except (StorageError, FormatVersionError):
            raise
        except ArtifactError as unreadable:
            damaged.append(unreadable)
        try:
            recorded = _recorded(self.cluster)
        except (ArtifactError, CorruptZnodeError) as unreadable:
            damaged.append(ArtifactError(str(unreadable)))
        if file is None and recorded is None and damaged:
            raise ArtifactError(
                f"{damaged[0]} No other copy of it can be read. If its run is over, an approver starts "
                "kafka_throttle_janitor with break_lock and the name of who holds the cluster."
            ) from damaged[0]
        if damaged:
            log.warning("The throttle's lease is read from its other copy: %s", damaged[0])
        if recorded is None or (file is not None and file.generation >= recorded.generation):
            return file
        return recorded

    def read_open(self) -> ThrottleLease | None:
        """The lease of any run that has not given it back. Errors as in `read`."""
        lease = self.read()
        return None if lease is None or lease.released_at is not None else lease

    def read_open_in(self, folder: RunFolder) -> ThrottleLease | None:
        """The open lease of the run with this folder. Errors as in `read`."""
        lease = self.read_open()
        return None if lease is None or lease.run_folder != str(folder) else lease

    def read_own(self, of: ThrottleLease | LockOwner) -> ThrottleLease | None:
        """The open lease of that run. Errors as in `read`."""
        lease = self.read_open()
        return None if lease is None or not is_same_run(lease.run, lease.owner, of.run, of.owner) else lease

    def begin(self, taken: ThrottleLease, connection_id: str, folder: RunFolder, fence: Fence) -> ThrottleLease:
        """The lease of a run under this fence, written before the run changes any config. Raises as `write` does.

        It takes over what leases before have left on brokers that are away.
        """
        before = self.read()
        lease = replace(
            taken,
            left_before=before.all_left if before is not None and before.released_at else taken.left_before,
            connection_id=connection_id,
            cluster_id=self.cluster_id,
            run_folder=str(folder),
            taken_at=now_text(),
            taken_under=fence.generation,
            generation=fence.generation,
            handed_over_at=None,
        )
        self.write(lease, fence)
        self.check_latest(lease)
        return lease

    def write(self, lease: ThrottleLease, fence: Fence) -> None:
        """Makes it the cluster's lease unless there is a later one (`is_latest`).

        Raises LockLostError if the lease is open and somebody has raised the fence since, StorageError, WriteError, and
        ArtifactError for a lease that nobody could read again.
        """
        if lease.released_at is not None:
            lease_files.write(self.deployment, lease)
            # Nothing is left to put back but what is left behind, and what may yet be set late.
            closed = lease if lease.late_until is not None else replace(lease, wanted={}, prior={})
            self.cluster.lock.write_lease(_record_of(closed), run=lease.run, fence=NO_FENCE)
            return
        self.cluster.lock.write_lease(_record_of(lease), run=lease.run, fence=fence)
        lease_files.write(self.deployment, lease)

    def is_latest(self, lease: ThrottleLease) -> bool:
        now = self.read()
        return now is not None and now.generation == lease.generation

    def check_latest(self, lease: ThrottleLease) -> None:
        """Raises LockLostError if somebody has given this lease back, changed it or taken another one meanwhile.

        Nothing is undone: the other one has read what this lease has set, and what is there now is theirs.
        """
        if not self.is_latest(lease):
            raise LockLostError(
                f"Another worker gave back, changed or took the throttle of run {lease.run} while this one set it. The "
                "other worker now takes care of it. Clear this task if the run is to go on. If this error comes again, "
                "ZooKeeper, or the topic with the lock, was restored from a backup: remove the files later than "
                f"{lease.generation} in the folder of this cluster's leases below runs_url."
            )

    def has_file(self, lease: ThrottleLease) -> bool:
        """Whether this Airflow's storage has a lease of that run, or one that cannot be read."""
        try:
            file = lease_files.read(self.deployment, self.cluster_id)
        except ArtifactError:
            return True
        return file is not None and is_same_run(file.run, file.owner, lease.run, lease.owner)

    def set_damaged_aside(self) -> list[str]:
        """Takes away the copies of the cluster's lease that cannot be read, so that they stop nobody. Returns them.

        Files stay under another name. Call it only if no run goes on under that lease.
        """
        taken = lease_files.set_damaged_aside(self.deployment, self.cluster_id)
        try:
            _recorded(self.cluster)
        except (ArtifactError, CorruptZnodeError):
            self.cluster.lock.delete_lease()
            taken.append("the record in the cluster")
        return taken


def _record_of(lease: ThrottleLease) -> LeaseRecord:
    checked = ThrottleLease.from_mapping(lease.to_mapping())  # else nobody could read it and put anything back
    return LeaseRecord(lease.generation, canonical_json(checked.to_mapping()))


def _recorded(cluster: OpenCluster) -> ThrottleLease | None:
    record = cluster.lock.read_lease()
    if record is None:
        return None
    try:
        document = json.loads(record.text)
    except ValueError as bad:
        raise ArtifactError(f"The lease in the cluster is not JSON ({bad}). No throttle was changed.") from bad
    return replace(ThrottleLease.from_mapping(document), generation=record.generation)
