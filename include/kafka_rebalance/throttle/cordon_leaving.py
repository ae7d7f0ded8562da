"""Brokers that a run empties are cordoned meanwhile (KIP-1066) if the policy says so: Kafka puts no new replica there.

The cordon is part of the throttle's lease. So it is recorded, set, suspended and put back with the throttle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kafka_rebalance.admin.configs import read_cannot_cordon
from kafka_rebalance.documents.snapshot import Cordon
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import ConfigChangedError, ThrottleError
from kafka_rebalance.kafka.throttles import CORDON
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.throttle.entity_configs import read_lease_configs
from kafka_rebalance.throttle.in_force import Value
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.put_back import release as decide_release
from kafka_rebalance.throttle.release_throttle import ATTEMPTS


def cordon_of(connection: ClusterConnection, view: ClusterView, emptied: Collection[int]) -> Cordon | None:
    """Which of the brokers to be emptied the run cordons, and which Kafka does not let it; None: no broker is there.

    A broker that is away gets no replica anyhow. Raises ReadError.
    """
    here = sorted(set(emptied) & view.brokers.keys())
    if not here:
        return None
    if view.traits.has_request_znode:  # no Kafka with ZooKeeper knows cordoned log dirs
        return Cordon(cannot={str(broker): "" for broker in here})
    cannot = read_cannot_cordon(connection.kafka, here)
    return Cordon(
        tuple(broker for broker in here if broker not in cannot),
        {str(broker): words for broker, words in cannot.items()},
    )


def put_back_cordon(kept: ClusterLease, owner: LockOwner) -> None:
    """Takes the cordon of this run back, and leaves its throttle and its lease: Kafka refuses lists that go back to a
    broker while it is cordoned. Raises ThrottleError if others keep changing it, LockLostError.
    """
    for _ in range(ATTEMPTS):
        fence = kept.cluster.lock.read_fence()
        lease = kept.read_own(owner)
        if lease is None:
            return
        here, configs = read_lease_configs(kept.cluster, _cordon_in(lease))
        changes = decide_release(here, configs).changes
        if not changes:
            return
        try:
            kept.cluster.merge_configs(changes, decided_on=configs, fence=fence)
        except ConfigChangedError:  # somebody sets it at this moment: read it again
            continue
    raise ThrottleError(
        f"Others keep changing {CORDON} of brokers that run {owner.run} empties, while this task takes its own cordon "
        "back. Moves in flight were not taken back yet. Stop changing it, then clear this task."
    )


def _cordon_in(lease: ThrottleLease) -> ThrottleLease:
    return replace(lease, wanted=_cordons(lease.wanted), prior=_cordons(lease.prior))


def _cordons(configs: Mapping[str, Mapping[str, Value]]) -> dict[str, dict[str, Value]]:
    return {entity: {CORDON: values[CORDON]} for entity, values in configs.items() if CORDON in values}
