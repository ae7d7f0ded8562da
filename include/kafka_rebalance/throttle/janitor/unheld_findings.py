"""What is on a cluster and belongs to nobody: throttles, configs without a topic, stray replicas."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafka_rebalance.kafka.throttles import EVERY_REPLICA, THROTTLE_KEYS, split_entry
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.throttle.wanted import Configs


@dataclass(frozen=True, slots=True)
class UnheldFinding:
    """Something that should not be there. `id` holds its content too: after a change it is another finding."""

    id: str
    text: str
    remedy: str
    can_be_cleaned: bool
    entity: str = ""  # of a config
    key: str = ""  # of a throttle

    @classmethod
    def from_mapping(cls, found: Mapping[str, Any]) -> Self:
        """As the janitor's report has it; keys of a later version are ignored. Raises KeyError."""
        names = ("id", "text", "remedy", "can_be_cleaned")
        return cls(**{name: found[name] for name in names}, entity=found.get("entity", ""), key=found.get("key", ""))


def unheld_throttles(
    configs: Configs, lease: ThrottleLease | None, lock_holder: str | None
) -> tuple[UnheldFinding, ...]:
    """Throttle keys that are set and that no open lease holds. An empty list holds nothing back.

    If a run without a lease here holds the lock, the throttle may be another Airflow's: nobody may clean it.
    """
    foreign = lock_holder is not None and lease is None
    remedy = "It slows every catch-up. Tick it if nobody needs it."
    if foreign:
        remedy = f"It may belong to {lock_holder}, which holds the cluster: let that run end."
    held = {} if lease is None else lease.wanted
    return tuple(
        UnheldFinding(
            f"throttle:{entity}:{key}:{digest_of(values[key])[:8]}",
            f"{entity}: {key} is {_shown(values[key])}, and no lease of ours holds it",
            remedy,
            can_be_cleaned=not foreign and "<" not in entity,
            entity=entity,
            key=key,
        )
        for entity, values in sorted(configs.items())
        for key in THROTTLE_KEYS
        if values.get(key) and key not in held.get(entity, {})
    )


def orphaned_configs(orphans: Mapping[str, int], view: ClusterView) -> tuple[UnheldFinding, ...]:
    """Configs of topics that do not exist; `orphans`: {topic: zxid of the config's last change}."""
    return tuple(
        UnheldFinding(
            f"config:{topic}:{changed}",
            f"/config/topics/{topic} is there without its topic: somebody's creation or deletion broke off",
            "The next topic of that name would get this config. Tick it if nobody is creating the topic.",
            can_be_cleaned=True,
            entity=f"topics/{topic}",
        )
        for topic, changed in sorted(orphans.items())
        if topic not in view.deletions
    )


def stray_replicas(
    held: Mapping[TopicPartition, Collection[int]], before: ClusterView, after: ClusterView
) -> tuple[UnheldFinding, ...]:
    """Replicas in the brokers' log directories that are in neither assignment, read before and after the directories.

    The controller tells a broker only once to delete a replica. A broker that is down then keeps the files for good.
    """
    unsettled = before.moving | after.moving
    deleted = before.deletions | after.deletions
    assigned = {
        (topic_partition, broker)
        for view in (before, after)
        for topic_partition, partition in view.partitions.items()
        for broker in partition.replicas
    }
    return tuple(
        UnheldFinding(
            f"replica:{broker}:{topic_partition}",
            f"broker {broker} has a log directory of {topic_partition} that is not its replica",
            "It takes disk space for good. Stop the broker, remove the directory, and start the broker again.",
            can_be_cleaned=False,
        )
        for topic_partition, brokers in sorted(held.items())
        if topic_partition not in unsettled and topic_partition.topic not in deleted
        for broker in sorted(brokers)
        if (topic_partition, broker) not in assigned
    )


def listed_behind(finding: UnheldFinding, value: str, view: ClusterView) -> tuple[str, ...]:
    """Replicas outside the ISR that the list of this finding throttles: nobody may lift it from them."""
    topic = finding.entity.partition("/")[2]
    entries = list_entries(value, finding.key)
    numbers = {split_entry(entry)[0] for entry in entries if entry != EVERY_REPLICA}
    return tuple(
        str(topic_partition)
        for topic_partition, partition in sorted(view.partitions.items())
        if topic_partition.topic == topic
        and (entries == (EVERY_REPLICA,) or topic_partition.partition in numbers)
        and not set(partition.replicas) <= set(partition.isr)
    )


def _shown(value: str) -> str:
    return repr(value if len(value) <= 80 else f"{value[:79]}…")
