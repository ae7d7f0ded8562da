"""What closed leases have left on brokers that were away: put back once they are back and it slows no copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.errors import LockLostError, ReadError
from kafka_rebalance.kafka.throttles import LOG_DIR_RATE
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.throttle.cluster_lease import ClusterLease
from kafka_rebalance.throttle.copies_within import read_copies_within, read_left_alone
from kafka_rebalance.throttle.entity_configs import read_configs
from kafka_rebalance.throttle.put_back import left_changes
from kafka_rebalance.throttle.throttle_lease import ThrottleLease


@dataclass(frozen=True, slots=True)
class Returned:
    """The brokers on which what was left is put back now, and {a broker with a rate for copies within: why it stays}"""

    back: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)


def put_back_left_behind(kept: ClusterLease) -> Returned:
    """Puts back what leases have left on brokers that were away, where they are back and copy nothing under it.

    While another lease is open, everything stays. Raises ConfigChangedError or LockLostError if somebody else writes at
    this moment.
    """
    lease = kept.read()
    if lease is None or not lease.all_left:
        return Returned()
    configs: dict[str, dict[str, str | None]] = {}
    for left in lease.all_left:
        for entity, values in left.prior.items():
            configs.setdefault(entity, {}).update(values)
    view = kept.cluster.read_view(())
    away = read_left_alone(kept.cluster, configs, view)
    why = {
        entity: "which is away" if entity in away else _why_kept(kept.cluster, entity, values, view)
        for entity, values in configs.items()
    }
    back = tuple(sorted(entity for entity in configs if entity not in away and why[entity] is None))
    if lease.released_at is None:
        why.update(dict.fromkeys(back, "and another run holds the cluster"))
        back = ()
    stays = {
        entity: _kept_text(lease, entity, reason)
        for entity, reason in sorted(why.items())
        if reason is not None and LOG_DIR_RATE in configs[entity]
    }
    if back:
        _put_back(kept, lease, back)
    return Returned(back, stays)


def _put_back(kept: ClusterLease, lease: ThrottleLease, back: tuple[str, ...]) -> None:
    fence = kept.cluster.lock.raise_fence()
    if kept.read() != lease:
        raise LockLostError(f"A run has taken or changed the throttle, so what run {lease.run} left there stays.")
    now = read_configs(kept.cluster, back)
    kept.cluster.merge_configs(left_changes(lease.all_left, now), decided_on=now, fence=fence)
    kept.write(replace(lease.without_left(back), generation=fence.generation), fence)


def _why_kept(cluster: OpenCluster, entity: str, values: Mapping[str, object], view: ClusterView) -> str | None:
    """Asks one broker, so that one that does not answer keeps only its own rate. None: nothing keeps it."""
    try:
        copied = read_copies_within(cluster, {entity: values}, view)
    except ReadError as silent:
        return f"which does not tell whether it copies: {silent}"
    number = sum(map(len, copied.values()))
    return f"which still copies between its log dirs (replicas: {number})" if number else None


def _kept_text(lease: ThrottleLease, entity: str, why: str) -> str:
    run = next(left.run for left in reversed(lease.all_left) if LOG_DIR_RATE in left.prior.get(entity, ()))
    return (
        f"run {run} is over and has left its rate for copies between log dirs on {entity}, {why}. The rate is put back "
        "once the broker is back and copies nothing between them, and no other run holds the cluster."
    )
