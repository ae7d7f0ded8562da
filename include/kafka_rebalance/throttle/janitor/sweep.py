"""Sweeps a whole cluster for throttles, configs and replicas that no run holds. Cleans what a person names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.admin import log_dirs
from kafka_rebalance.documents.janitor_report import UnheldFinding
from kafka_rebalance.errors import InputError, PolicyError, ReadError, SettingsError
from kafka_rebalance.kafka.throttles import LIST_KEYS
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import Fence, is_same_run
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.throttle.janitor import rules
from kafka_rebalance.throttle.lease_copies import ClusterLease


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asks for beside the ordinary look: findings to clean, a lock to break."""

    clean: tuple[str, ...] = ()
    break_lock: str | None = None
    by: str = ""

    def breaks(self, run: str, owner: str) -> bool:
        """Whether a person wants this run's lock broken. Its lease may name another address of the same Airflow."""
        named, _, of = (self.break_lock or "").rpartition(" of ")
        return is_same_run(named, of, run, owner)

    def __bool__(self) -> bool:
        return bool(self.clean or self.break_lock)


@dataclass(frozen=True, slots=True)
class Swept:
    """The findings as of `fence`, and what could not be read and so was not judged."""

    fence: Fence
    findings: tuple[UnheldFinding, ...]
    configs: Mapping[str, Mapping[str, str]]
    view: ClusterView
    unread: tuple[str, ...]


def read_asked(inputs: StepInputs, connection_id: str, params: Mapping[str, Any]) -> Asked:
    """Reads the run's params. Raises PolicyError unless an approver of the cluster's policy asks."""
    asked = Asked(tuple(params.get("clean") or ()), params.get("break_lock") or None, inputs.run.started_by or "")
    if not asked:
        return asked
    if not params.get("kafka_conn_id"):
        raise SettingsError("clean and break_lock need one cluster. Nothing was changed. Name it in kafka_conn_id.")
    policy = inputs.deployment.read_policy(connection_id)
    names = {person.name for person in policy.approvers} if policy is not None else set()
    if asked.by not in names:
        raise PolicyError(
            f"{asked.by or 'An unknown user'} may not clean {connection_id} or break its lock: the approvers of "
            f"its policy are {', '.join(sorted(names)) or 'none, because there is no policy file'}. Nothing was "
            "changed. Let one of them start the run."
        )
    return asked


def sweep(kept: ClusterLease, connection: ClusterConnection, *, to_clean: bool = False) -> Swept:
    """Finds everything that no run holds. Raises ReadError if ZooKeeper cannot be read.

    It writes nothing, except the fence if something is `to_clean`: a cluster that no run ever held has no fence yet.
    """
    cluster = kept.cluster
    # The fence comes first, so a run that throttles later is not among the findings.
    fence = cluster.lock.raise_fence() if to_clean else cluster.lock.read_fence()
    before = cluster.read_view()
    lease = kept.read_open()
    holder = cluster.lock.read()
    configs, strange = cluster.read_all_configs()
    orphans = cluster.read_orphaned_configs()
    unread = [f"/config/brokers/{name!r} names no broker, so the sweep left it out. Remove it." for name in strange]
    held: Mapping[TopicPartition, Collection[int]] = {}
    try:
        held = log_dirs.read_log_dirs(connection.kafka, sorted(before.brokers)).replicas
    except ReadError as away:
        unread.append(f"The sweep left out replica directories: {away}")
    after = cluster.read_view()
    findings = (
        *rules.unheld_throttles(configs, lease, holder.name if holder else None),
        *rules.orphaned_configs(orphans, after),
        *rules.stray_replicas(held, before, after),
    )
    return Swept(fence, findings, configs, after, tuple(unread))


def clean(kept: ClusterLease, connection_id: str, asked: Asked, swept: Swept) -> list[str]:
    """Cleans the findings that a person named; returns their ids.

    Raises InputError for a finding that must not be cleaned, before it changes anything. Raises LockLostError if a run
    has begun since the sweep, because the throttle may be its own. Raises ConfigChangedError if somebody has changed
    the value since.
    """
    by_id = {finding.id: finding for finding in swept.findings}
    problems = [problem for name in asked.clean if (problem := _problem(name, by_id.get(name), swept)) is not None]
    if problems:
        raise InputError(f"Nothing was cleaned: {'; '.join(problems)}. Name findings of the newest report.")
    for name in asked.clean:
        finding = by_id[name]
        if finding.key:
            gone = {finding.entity: {finding.key: None}}
            kept.cluster.merge_configs(gone, decided_on=swept.configs, fence=swept.fence)
        else:
            kept.deployment.check_not_frozen(connection_id)
            kept.cluster.delete_orphaned_config(finding.entity.partition("/")[2], int(name.rpartition(":")[2]))
    return list(asked.clean)


def _problem(name: str, finding: UnheldFinding | None, swept: Swept) -> str | None:
    if finding is None:
        return f"{name!r} does not exist, or has changed since"
    if not finding.can_be_cleaned:
        return f"{name!r} is not for this Dag to clean. {finding.remedy}"
    if finding.key and (swept.view.reassignments is not None or swept.view.moving):
        return f"{name!r}: a reassignment is in motion, and this throttle may limit its copies"
    if finding.key in LIST_KEYS:
        behind = rules.listed_behind(finding, swept.configs[finding.entity][finding.key], swept.view)
        if behind:
            return f"{name!r}: replicas of {', '.join(behind[:5])} are outside the ISR and would catch up unthrottled"
    return None
