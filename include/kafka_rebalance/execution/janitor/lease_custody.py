"""What the janitor does with a lease and a lock whose run may be gone, and what else it finds on a cluster.

It takes off what a lease says is ours, once nothing of it is in motion, and gives back the lock of a run that is known
to be over. All else it reports; a person may tick it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from kafka_rebalance.documents.cluster.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.execution.move_stage import may_be_between, traits_of
from kafka_rebalance.execution.throttle.put_back import Configs
from kafka_rebalance.kafka.throttles import (
    EVERY_REPLICA,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    THROTTLE_KEYS,
    split_entry,
)
from kafka_rebalance.model.cluster_view import AnyView, ClusterView
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import PartitionView, TopicPartition

# Who follows a batch writes progress.json at each look, every 15 s at least.
UNWATCHED_SECONDS = 35.0
# A run that Airflow does not tell of, or whose Dag is paused, may still be between two batches.
IDLE_SECONDS = 900.0


class Standing(StrEnum):
    """What Airflow says of a lease's run."""

    RUNNING = "running"
    PAUSED = "paused"  # the run goes on, but its Dag is paused: Airflow queues none of its tasks
    OVER = "over"  # success or failed
    GONE = "gone"  # deleted
    UNKNOWN = "unknown"  # another Airflow's, or this one does not answer

    @property
    def is_ended(self) -> bool:
        return self in {Standing.OVER, Standing.GONE}


@dataclass(frozen=True, slots=True)
class Custody:
    """What becomes of a lease now. `alert`: why somebody must look, None where nobody has to."""

    put_back: bool
    release_lock: bool
    state: str
    alert: str | None = None


def custody(
    lease: ThrottleLease, standing: Standing, copying: Collection[TopicPartition], silent_seconds: float
) -> Custody:
    """What to do with a lease that nobody has given back.

    `copying`: its partitions of which a copy is in motion (`copying_of`). `silent_seconds`: since the last sign of
    whoever follows them. While something copies, only what does not is put back. The lock of a run that is not known
    to be over stays: that run may go on.
    """
    run = f"run {lease.run} of {lease.owner or 'an unknown Airflow'} ({standing})"
    shown = f"{len(copying)} partitions are copied under its throttle of {lease.bytes_per_second} bytes/s"
    if standing.is_ended or lease.handed_over_at is not None:
        if not copying:
            return Custody(True, standing.is_ended, f"{run}: nothing of it is copied any more")
        return Custody(
            True,
            False,
            f"{run}: {shown}",
            f"Nobody follows the copies of {run}: {shown}. It is taken off when the last one is in sync. Look at these "
            "copies, or clear the task reassign of that run if it is still there.",
        )
    if copying and silent_seconds > UNWATCHED_SECONDS:
        return Custody(
            False,
            False,
            f"{run}: {shown}, and nobody follows",
            f"Nobody has followed the copies of {run} for {silent_seconds:.0f} s: {shown}. Look at triggerer and "
            "workers, and whether the Dag is paused; the copies go on by themselves.",
        )
    if not copying and standing is not Standing.RUNNING and silent_seconds > IDLE_SECONDS:
        return Custody(True, False, f"{run}: idle for {silent_seconds:.0f} s, so its throttle is put back")
    return Custody(False, False, f"{run}: {shown if copying else 'nothing is copied'}, in its own hands")


def copying_of(lease: ThrottleLease, view: AnyView) -> frozenset[TopicPartition]:
    """The lease's partitions on which a copy of ours may still run: what nobody lifts their throttle from.

    Those that are on their way to a list with a broker that the lease lets receive, whoever asked for that list: where
    others send a partition elsewhere in mid-copy, our copies that are in their list too go on. And those of which such
    a broker is outside the ISR. From the lease alone, since the plan of a run may be gone; what the view does not have
    no longer exists.

    A broker that is not registered copies nothing. It counts nevertheless while its copy has not ended: the copy would
    go on without throttle when the broker returns, hours later, with nobody there. Where it had ended, the broker was
    whole, and does not count: it may be gone for good, and would keep its cluster from every other run. Should it
    return after that, it catches up without throttle, as any broker that was restarted; one that comes back with an
    empty disk copies all of it so. `absent_receivers` says that to people.
    """
    found = set()
    for topic_partition, (sending, receiving) in _listed(lease).items():
        partition = view.partitions.get(topic_partition)
        if partition is None:
            continue
        ours = receiving & {*partition.replicas, *(view.reassignments or {}).get(topic_partition, ())}
        behind = ours - set(partition.isr)
        if topic_partition in view.moving:
            behind = ours
        elif _has_ended(partition, sending | receiving):
            behind &= frozenset(view.brokers)
        if behind:
            found.add(topic_partition)
    return frozenset(found)


def _has_ended(partition: PartitionView, union: Collection[int]) -> bool:
    """Whether the copies to a partition that nobody asks to move have all been in sync.

    The controller takes an old replica out of the list only after that. While none is out the list may be the one in
    between, where somebody has deleted the request, which below 2.4 ends nothing.
    """
    return not may_be_between(union, partition, traits_of(partition))


def absent_receivers(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """Of each broker that lacks a copy of ours and is not registered: what waits for it, and what no longer does."""
    copying = copying_of(lease, view)
    absent: dict[int, list[TopicPartition]] = {}
    for topic_partition, (_, receiving) in sorted(_listed(lease).items()):
        partition = view.partitions.get(topic_partition)
        asked = (view.reassignments or {}).get(topic_partition, ())
        for broker in receiving & {*partition.replicas, *asked} - set(partition.isr) if partition else ():
            if broker not in view.brokers:
                absent.setdefault(broker, []).append(topic_partition)
    found = []
    for broker, lacking in sorted(absent.items()):
        waiting = [topic_partition for topic_partition in lacking if topic_partition in copying]
        ended = [topic_partition for topic_partition in lacking if topic_partition not in copying]
        if waiting:
            found.append(
                f"Broker {broker} is not registered, and copies to it cannot end: {some(waiting)}. Start it. If it is "
                "gone for good: cancel what is requested with kafka_rebalance_cancel, and give partitions that are not "
                "being moved a list without it with kafka-reassign-partitions."
            )
        if ended:
            found.append(
                f"Broker {broker} is not registered. What was copied to it had ended ({some(ended)}), and "
                "no throttle is kept for it: what it has missed it copies without one when it returns. If its disk is "
                "empty then, throttle it with kafka-configs before it is started."
            )
    return tuple(found)


def slowed_catch_up(lease: ThrottleLease, view: ClusterView) -> tuple[str, ...]:
    """Replicas that catch up under our throttle and are none of our copies: of brokers that were restarted.

    A follower outside the ISR fetches at the leader's throttled rate where the leader's replica is listed.
    """
    found = []
    for topic_partition, (_, receiving) in sorted(_listed(lease).items()):
        partition = view.partitions.get(topic_partition)
        if partition is None:
            continue
        behind = [
            broker
            for broker in partition.replicas
            if broker not in partition.isr and broker not in receiving and broker in view.brokers
        ]
        found += [
            f"{topic_partition}: replica {broker} is outside the ISR and catches up under this run's throttle of "
            f"{lease.bytes_per_second} bytes/s. Raise the rate if it takes too long."
            for broker in behind
        ]
    return tuple(found)


def _listed(lease: ThrottleLease) -> dict[TopicPartition, tuple[frozenset[int], frozenset[int]]]:
    """The brokers that send, and those that receive, a copy of each listed partition: old replicas and new ones."""
    found: dict[TopicPartition, tuple[set[int], set[int]]] = {}
    for entity, values in lease.wanted.items():
        topic = entity.partition("/")[2]
        for side, key in enumerate((LEADER_REPLICAS, FOLLOWER_REPLICAS)):
            for entry in list_entries(values.get(key), key):
                partition, broker = split_entry(entry)
                found.setdefault(TopicPartition(topic, partition), (set(), set()))[side].add(broker)
    return {tp: (frozenset(sending), frozenset(receiving)) for tp, (sending, receiving) in found.items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should not be there. `id` names it with its content: what has changed since is another finding."""

    id: str
    text: str
    remedy: str
    can_be_cleaned: bool
    entity: str = ""  # of a config
    key: str = ""  # of a throttle

    @classmethod
    def from_mapping(cls, found: Mapping[str, Any]) -> Self:
        """What the janitor's report has of it; keys of a later version are passed over. Raises KeyError."""
        names = ("id", "text", "remedy", "can_be_cleaned")
        return cls(**{name: found[name] for name in names}, entity=found.get("entity", ""), key=found.get("key", ""))


def unheld_throttles(configs: Configs, lease: ThrottleLease | None, lock_holder: str | None) -> tuple[Finding, ...]:
    """Throttle keys that are set and that no open lease holds. An empty list holds nothing back.

    Where a run holds the lock that has no lease here, it may be another Airflow's throttle: nobody may clean it.
    """
    foreign = lock_holder is not None and lease is None
    found = []
    for entity, values in sorted(configs.items()):
        for key in THROTTLE_KEYS:
            if not values.get(key) or (lease is not None and key in lease.wanted.get(entity, {})):
                continue
            found.append(
                Finding(
                    f"throttle:{entity}:{key}:{digest_of(values[key])[:8]}",
                    f"{entity}: {key} is {_shown(values[key])}, and no lease of ours holds it",
                    f"It may be of {lock_holder}, which holds the cluster: let that run end."
                    if foreign
                    else "It slows every catch-up. Tick it if nobody needs it.",
                    can_be_cleaned=not foreign and "<" not in entity,
                    entity=entity,
                    key=key,
                )
            )
    return tuple(found)


def orphaned_configs(orphans: Mapping[str, int], view: ClusterView) -> tuple[Finding, ...]:
    """Configs of topics that do not exist; `orphans`: {topic: zxid of the config's last change}."""
    return tuple(
        Finding(
            f"config:{topic}:{changed}",
            f"/config/topics/{topic} is there and the topic is not: a creation that broke off, or a deletion",
            "The next topic of that name would get it. Tick it if nobody is creating the topic.",
            can_be_cleaned=True,
            entity=f"topics/{topic}",
        )
        for topic, changed in sorted(orphans.items())
        if topic not in view.deletions
    )


def stray_replicas(
    held: Mapping[TopicPartition, Collection[int]], before: ClusterView, after: ClusterView
) -> tuple[Finding, ...]:
    """Replicas in the brokers' log directories that the assignment, read before and after them, does not have.

    The controller tells a broker once to delete a replica; one that was down then keeps its files for good.
    """
    unsettled = before.moving | after.moving
    deleted = before.deletions | after.deletions
    found = []
    for topic_partition, brokers in sorted(held.items()):
        if topic_partition in unsettled or topic_partition.topic in deleted:
            continue
        assigned = {
            broker
            for view in (before, after)
            if (partition := view.partitions.get(topic_partition)) is not None
            for broker in partition.replicas
        }
        found += [
            Finding(
                f"replica:{broker}:{topic_partition}",
                f"broker {broker} has a log directory of {topic_partition} that is not its replica",
                "It takes disk for good. Stop the broker, remove the directory, and start it again.",
                can_be_cleaned=False,
            )
            for broker in sorted(set(brokers) - assigned)
        ]
    return tuple(found)


def listed_behind(finding: Finding, value: str, view: ClusterView) -> tuple[str, ...]:
    """Replicas outside the ISR that the list of this finding throttles: not to be lifted from them by anybody."""
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
