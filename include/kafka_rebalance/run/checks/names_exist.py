"""Whether the brokers and topics that the settings name exist in the cluster."""

from __future__ import annotations

from kafka_rebalance.errors import NothingToDoError, SettingsError
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.settings import Settings


def check_names(settings: Settings, view: ClusterView) -> None:
    """Raises SettingsError for brokers and topic globs that match nothing: a typo must not give an empty plan.

    Raises NothingToDoError if there are no topics at all and the settings name none.
    """
    if not view.partitions and settings.topics_in == Settings().topics_in and settings.plan is None:
        raise NothingToDoError(f"Cluster {view.cluster_id} has no topics, so there is nothing to do.")
    held = {broker for partition in view.partitions.values() for broker in partition.replicas}
    existing = set(view.brokers) | held
    problems = [
        f"{name} names broker {listed(unknown)}, which does not exist"
        for name in ("drain", "replace", "brokers_out")
        if (unknown := sorted(set(getattr(settings, name)) - existing))
    ]
    pooled = {broker for pool in settings.broker_pools for broker in pool.brokers}
    if unknown := sorted(pooled - existing):
        problems.append(f"broker_pools of the policy names broker {listed(unknown)}, which does not exist")
    for name, receiving in (("replace", settings.replace.values()), ("brokers_in", settings.brokers_in)):
        if unregistered := sorted(set(receiving) - set(view.brokers)):
            problems.append(f"{name} puts replicas on broker {listed(unregistered)}, which is not registered")
    topics = {tp.topic for tp in view.partitions}
    if not any(settings.selects(topic) for topic in topics):
        problems.append(
            f"topics_in {list(settings.topics_in)} less topics_out {list(settings.topics_out)} matches none of "
            f"{len(topics)} topics"
        )
    factor = settings.replication_factor
    if factor is not None:
        stay = [rack for broker, rack in view.racks.items() if broker not in settings.leaving]
        racks = set(stay)
        if factor > len(stay):
            problems.append(f"replication_factor {factor} is larger than the {len(stay)} brokers that stay")
        elif None not in racks and factor > len(racks) and not settings.more_replicas_than_racks:
            problems.append(
                f"replication_factor {factor} is larger than the {len(racks)} racks (the policy's "
                "more_replicas_than_racks may allow it)"
            )
    if problems:
        raise SettingsError(
            f"The settings do not fit this cluster: {'; '.join(problems)}. Brokers are {listed(sorted(existing))}. "
            "Nothing was planned. Correct the params and start again."
        )
