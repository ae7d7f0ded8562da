"""`set_throttle` and `raise_throttle`: another rate for the copies of the run that holds the cluster, within seconds.

That is a rebalance, or a run between log dirs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_rebalance.cancel import target_run
from kafka_rebalance.cancel.cancel_file import CANCEL_FILE, CancelRequest
from kafka_rebalance.clock import now_text
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.log_dir_plan import LOG_DIRS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.documents.throttle_lease import RateChange, ThrottleLease
from kafka_rebalance.errors import ApprovalError, ConfigChangedError, LockLostError, ThrottleError, ThrottleRateError
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.run.approval_rules import DECISION_FILE
from kafka_rebalance.run.approved_plan import check_may_begin, read_approved_request, read_remaining
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.policies_of_one_cluster import bound_policy
from kafka_rebalance.run.run_folder import RunFolder, open_run_folder
from kafka_rebalance.throttle import lease_files
from kafka_rebalance.throttle.entity_configs import read_lease_configs
from kafka_rebalance.throttle.in_force import rate_changes, with_rate
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.rates import LeastRate, check_rate
from kafka_rebalance.throttle.release_throttle import ATTEMPTS, put_back
from kafka_rebalance.throttle.run_rates import check_run_rate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AskedRate:
    """What a person approves with a rate."""

    run: str
    candidate_digest: str
    cluster_id: str
    bytes_per_second: int

    @property
    def digest(self) -> str:
        return digest_of([self.run, self.candidate_digest, self.cluster_id, self.bytes_per_second])


def set_throttle(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    """Sets a rate up to the approved one. It needs no approval."""
    written, target = target_run.read_request(inputs, run_folder)
    inputs.deployment.check_policy_unchanged(written.connection_id, written.policy_digest)
    approved = target_run.approved_rate(target, written)
    if written.rate > approved:
        raise ApprovalError(
            f"{written.rate} bytes/s is above the approved {approved} bytes/s of {written.run}. "
            "Nothing was changed. Start a new run of kafka_rebalance_cancel, which asks for an approval."
        )
    return _change_rate(inputs, written, target, by=target_run.who(inputs.run))


def raise_throttle(inputs: StepInputs, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Sets a rate above the approved one. A person has approved this rate."""
    approved = read_approved_request(
        inputs,
        decision,
        CANCEL_FILE,
        lambda written: AskedRate(written.run, written.candidate_digest, written.cluster_id, written.rate),
        lambda rate: f"The throttle of {rate.run}",
    )
    check_may_begin(inputs.deployment, approved)
    target = open_run_folder(inputs.deployment, approved.written.target_folder)
    return _change_rate(inputs, approved.written, target, by=approved.decision.by or "somebody")


def _change_rate(inputs: StepInputs, written: CancelRequest, target: RunFolder, *, by: str) -> dict[str, Any]:
    connection = inputs.deployment.read_connection(written.connection_id)
    rate = written.rate
    with open_cluster(connection) as cluster:
        if ended := target_run.ended(inputs, cluster, written.run, written.candidate_digest):
            return ended
        cluster.check_same_cluster(cluster.read_view(()))
    change_rate(inputs.deployment, target, rate, by=by)
    log.info("%s: the throttle is now %d bytes/s per broker", written.run, rate)
    return {"run": written.run, "throttle_bytes_per_second": rate}


# A new rate for the throttle of a run that goes on. `run_rates` checks the rate.


def change_rate(deployment: Deployment, folder: RunFolder, bytes_per_second: int, *, by: str) -> ThrottleLease:
    """Sets a new rate for the run of this folder, a rebalance or a run between log dirs, and returns the new lease.

    Brokers apply the rate within seconds. The approval stays as it was; the lease says who changed the rate, and when.
    Raises ThrottleRateError for a rate that the policy forbids or at which a copy could never end, ThrottleError if the
    run holds no throttle.
    """
    if type(bytes_per_second) is not int:
        raise ThrottleRateError(f"The rate {bytes_per_second!r} is not a whole number of bytes/s.")
    connection_id, cluster_id = _check_rate(deployment, folder, bytes_per_second)
    change = RateChange(bytes_per_second, by, now_text())
    with open_cluster(deployment.read_connection(connection_id)) as cluster:
        kept = ClusterLease(deployment, cluster, cluster_id)
        _lease_of(kept, folder)
        before, changed = _change(kept, folder, change)
        if kept.read_own(changed) is None or lease_files.was_given_back_between(deployment, before, changed):
            put_back(kept, changed)
            raise ThrottleError(
                f"Run {changed.run} gave its throttle back at the same moment. The new rate was removed again, and "
                "nothing of it is left."
            )
    log.info("%s: %s changed the rate to %d bytes/s", changed.run, by, bytes_per_second)
    return changed


def _check_rate(deployment: Deployment, folder: RunFolder, bytes_per_second: int) -> tuple[str, str]:
    """The connection and the id of the run's cluster."""
    between_dirs = LOG_DIRS_FILE.read_if_there(folder)
    if between_dirs is not None:
        # Producers write to the replica and not to its copy, so only the policy names a least rate.
        policy = _limits(deployment, between_dirs.connection_id, between_dirs.plan.cluster_id)
        check_rate(bytes_per_second, LeastRate(1, ""), policy)
        return between_dirs.connection_id, between_dirs.plan.cluster_id
    snapshot = SNAPSHOT_FILE.read(folder)
    connection_id = snapshot.connection_id
    policy = _limits(deployment, connection_id, snapshot.cluster_id)
    candidate = read_remaining(folder, DECISION_FILE.read(folder).chosen)
    check_run_rate(folder, candidate, bytes_per_second, policy)
    return connection_id, snapshot.cluster_id


def _limits(deployment: Deployment, connection_id: str, cluster_id: str) -> Policy | None:
    policy = deployment.read_policy(connection_id)
    return None if policy is None else bound_policy(deployment, policy, connection_id, cluster_id)


def _change(kept: ClusterLease, folder: RunFolder, change: RateChange) -> tuple[ThrottleLease, ThrottleLease]:
    """Writes the lease, then the brokers' configs; tries again if others write at the same moment.

    Returns the lease before and after.
    """
    cluster = kept.cluster
    for tries_left in reversed(range(ATTEMPTS)):
        # Before the lease is read: if two change the rate at once, one of them reads what the other has written.
        fence = cluster.lock.raise_fence()
        before = _lease_of(kept, folder)
        lease = before if change in before.rate_changes else with_rate(before, change)
        lease = replace(lease, generation=fence.generation)
        try:
            # The lease first: whoever puts back at this moment must know that both rates are ours.
            kept.write(lease, fence)
            here, configs = read_lease_configs(cluster, lease)
            cluster.merge_configs(rate_changes(here, configs), decided_on=configs, fence=fence)
        except (ConfigChangedError, LockLostError):
            if not tries_left:
                raise
            continue
        now = kept.read_open()
        if now is None or now.generation <= lease.generation or now.run_folder != lease.run_folder:
            break
    return before, lease


def _lease_of(kept: ClusterLease, folder: RunFolder) -> ThrottleLease:
    lease = kept.read_open_in(folder)
    if lease is None:
        raise ThrottleError(
            f"The run of {folder} holds no throttle now, so its rate cannot be changed. Nothing of it is in force. "
            "Change the rate while copies are in flight."
        )
    return lease
