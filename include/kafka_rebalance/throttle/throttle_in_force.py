"""Whether a run's throttle is in force: before a batch, at its release, and at the verification."""

from __future__ import annotations

from collections.abc import Collection

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.throttle_lease import THROTTLE_FILE
from kafka_rebalance.errors import ThrottleError
from kafka_rebalance.model.candidate import brokers_touched
from kafka_rebalance.model.cluster_view import entity_of
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.check_result import Check
from kafka_rebalance.throttle.adaptive_rate import ladder_of
from kafka_rebalance.throttle.entity_configs import read_away, read_configs, read_lease_configs
from kafka_rebalance.throttle.in_force import (
    Configs,
    check_in_force,
    check_left,
    check_throttles,
    check_unrecorded,
    desired_throttle,
    set_now,
)
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.lease_files import rate_in_force, read_copy
from kafka_rebalance.throttle.put_back import only_for


def check_throttle_in_force(kept: ClusterLease, plan: ApprovedPlan, partitions: Collection[TopicPartition]) -> None:
    """Raises ThrottleError unless all rates, and the lists for the next batch's partitions, are as in the lease."""
    lease = kept.read_open_in(plan.folder)
    if lease is None or lease.handed_over_at is not None:
        raise ThrottleError(
            "This run holds no throttle, so no batch is requested. Clear hold_throttle with what follows it."
        )
    check_in_force(*read_lease_configs(kept.cluster, only_for(lease.without(gone_topics(plan)), partitions)))


def has_held_before(plan: ApprovedPlan, holder: LockOwner | None, owner: LockOwner) -> bool:
    if holder is not None and holder.is_same_run(owner):
        return True
    throttle = THROTTLE_FILE.read_if_there(plan.folder)
    return throttle is not None and throttle.released_at is None


def check_nothing_of_ours(cluster: OpenCluster, plan: ApprovedPlan, consequence: str) -> None:
    """For a run whose lease is neither in ZooKeeper nor below `runs_url`. Raises ThrottleError if a rate or list entry
    that this run sets is in force, because nothing tells what was there before it.
    """
    check_nothing_set(cluster, _wanted(plan), consequence, ladder_of(plan.decision))


def check_nothing_set(cluster: OpenCluster, wanted: Configs, consequence: str, ladder: tuple[int, ...] = ()) -> None:
    """As `check_nothing_of_ours`, for what a run of any Dag sets."""
    found = set_now(wanted, read_configs(cluster, wanted.keys() - read_away(cluster, wanted)), ladder)
    if found:
        shown = some([f"{entity}: {key} = {value}" for entity, key, value in found])
        raise ThrottleError(
            "A throttle of this run is in force, and nothing tells what was there before it: its lease is gone from "
            f"the folder leases below runs_url and from the cluster. {consequence} In force: {shown}. If the folder of "
            "the run has a throttle.json, its prior says what was there before. Once nothing is copied, restore that "
            "with kafka-configs, or remove these keys. kafka_throttle_janitor lists them when its break_lock has given "
            "the lock back. Then clear this task."
        )


def check_put_back(cluster: OpenCluster, plan: ApprovedPlan) -> tuple[Check, ...]:
    """The verification's results: throttles are as before, and none is left on what the run touched."""
    topics = (f"topics/{topic}" for topic in plan.topics)
    entities = {*topics, *map(entity_of, brokers_touched(plan.candidate.moves))}
    lease = read_copy(plan.folder)
    entities |= set(lease.wanted if lease else ())
    away = read_away(cluster, entities)  # the janitor puts back their rates when they return
    now = read_configs(cluster, entities - away)
    lease = None if lease is None else lease.without(away)
    if lease is None:
        checks = check_unrecorded(set_now(_wanted(plan), now, ladder_of(plan.decision)))
    else:
        checks = check_throttles(lease.prior, lease.wanted, now, lease.own_rates)
    return (*checks, *check_left(now, checks))


def _wanted(plan: ApprovedPlan) -> Configs:
    return desired_throttle(plan.approved.moves, rate_in_force(plan.folder), plan.cordoned)


def gone_topics(plan: ApprovedPlan) -> set[str]:
    """The lease's entities of topics that were left out because they are gone."""
    return {f"topics/{topic}" for topic in plan.topics - {move.topic_partition.topic for move in plan.candidate.moves}}
