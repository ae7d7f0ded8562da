"""The lease that a cluster has: its record in the cluster's ZooKeeper, or the file below `runs_url`; the later counts.

Each alone says what a throttle has to be put back to, so that neither a lost folder nor a lost znode loses it. An open
lease is recorded first in the cluster, under the fence, and no config is changed before both are written; a lease that
is given back is first a file. Whoever is killed between the two has left the later one, or one to be given back again.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace

from kazoo.client import KazooClient

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ArtifactError, CorruptZnodeError, FormatVersionError, StorageError
from kafka_rebalance.model.digests import canonical_json
from kafka_rebalance.model.same_airflow import is_same_run
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.run_folder import RunFolder
from kafka_rebalance.steps.throttle import lease_files
from kafka_rebalance.zookeeper import lease_record
from kafka_rebalance.zookeeper.cluster_lock import NO_FENCE, Fence, LockOwner
from kafka_rebalance.zookeeper.lease_record import LeaseRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterLease:
    """Where the lease of one cluster is read and written."""

    deployment: Deployment
    client: KazooClient
    cluster_id: str

    def read(self) -> ThrottleLease | None:
        """The cluster's lease, also one that was given back; None where there never was one. Raises ReadError where
        ZooKeeper does not answer, ArtifactError where there is a lease and nothing tells what it says.
        """
        file, recorded, damaged = None, None, []
        try:
            file = lease_files.read(self.deployment, self.cluster_id)
        except (StorageError, FormatVersionError):
            raise
        except ArtifactError as unreadable:
            damaged.append(unreadable)
        try:
            recorded = _recorded(self.client)
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
        """The lease that nobody has given back yet, whichever run's it is. Errors as in `read`."""
        lease = self.read()
        return None if lease is None or lease.released_at is not None else lease

    def read_open_in(self, folder: RunFolder) -> ThrottleLease | None:
        """The open lease of the run with this folder; None where it has none. Errors as in `read`."""
        lease = self.read_open()
        return None if lease is None or lease.run_folder != str(folder) else lease

    def read_own(self, of: ThrottleLease | LockOwner) -> ThrottleLease | None:
        """The open lease of that very run; None where it has none, or has given it back. Errors as in `read`."""
        lease = self.read_open()
        return None if lease is None or not is_same_run(lease.run, lease.owner, of.run, of.owner) else lease

    def write(self, lease: ThrottleLease, fence: Fence) -> None:
        """Makes it the cluster's lease unless there is a later one (`is_latest`).

        Raises LockLostError where somebody has raised the fence since and the lease is not one that is given back,
        StorageError, WriteError, and ArtifactError for one that could not be read again.
        """
        if lease.released_at is not None:
            lease_files.write(self.deployment, lease)
            closed = replace(lease, wanted={}, prior={})  # nothing of it has to be put back any more
            lease_record.write(self.client, _record_of(closed), run=lease.run, fence=NO_FENCE)
            return
        lease_record.write(self.client, _record_of(lease), run=lease.run, fence=fence)
        lease_files.write(self.deployment, lease)

    def is_latest(self, lease: ThrottleLease) -> bool:
        """Whether nobody has written a later one."""
        now = self.read()
        return now is not None and now.generation == lease.generation

    def has_file(self, lease: ThrottleLease) -> bool:
        """Whether this Airflow's storage has a lease of that cluster's run, also one that cannot be read."""
        try:
            file = lease_files.read(self.deployment, self.cluster_id)
        except ArtifactError:
            return True
        return file is not None and is_same_run(file.run, file.owner, lease.run, lease.owner)

    def set_damaged_aside(self) -> list[str]:
        """Takes away what of the cluster's lease cannot be read, so that it stops nobody; files stay beside, under
        another name. Returns what was taken away. For a cluster on which no run goes on under that lease.
        """
        taken = lease_files.set_damaged_aside(self.deployment, self.cluster_id)
        try:
            _recorded(self.client)
        except (ArtifactError, CorruptZnodeError):
            lease_record.delete(self.client)
            taken.append("the record in ZooKeeper")
        return taken


def _record_of(lease: ThrottleLease) -> LeaseRecord:
    checked = ThrottleLease.from_mapping(lease.to_mapping())  # else nobody could read it, and so put nothing back
    return LeaseRecord(lease.generation, canonical_json(checked.to_mapping()))


def _recorded(client: KazooClient) -> ThrottleLease | None:
    record = lease_record.read(client)
    if record is None:
        return None
    try:
        document = json.loads(record.text)
    except ValueError as bad:
        raise ArtifactError(f"The lease that ZooKeeper has is not JSON ({bad}). No throttle was changed.") from bad
    return replace(ThrottleLease.from_mapping(document), generation=record.generation)
