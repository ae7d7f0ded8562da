"""What the janitor decides: about a lease whose run is gone, a silent follower, and what no lease holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_rebalance.documents.janitor_report import Sighting, UnheldFinding
from kafka_rebalance.documents.json_files import time_in
from kafka_rebalance.documents.throttle_lease import ThrottleLease, list_entries
from kafka_rebalance.kafka.throttles import EVERY_REPLICA, THROTTLE_KEYS, split_entry
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.in_force import Configs

# Since when the follower of a run has given no sign, without trust in the follower's clock.
#
# A sign carries the follower's time, and that clock may be a day off. So each look remembers the signs of the last
# one: a new sign was written between the two looks, whatever its time says.


# After a longer gap the time of the first look says nothing: the janitor was away, or somebody set its clock.
LONGEST_GAP = timedelta(minutes=10)


def sighted(before: Sighting | None, signs: Sequence[object], now: datetime, believed_seconds: float) -> Sighting:
    """After another look. `before`: the last one.

    A first look believes the time of a sign that is not in the future and no older than `believed_seconds`. So the
    janitor reports a dead follower later by no more than that.
    """
    texts = tuple(map(str, signs))
    newest = max((at for text in texts if (at := time_in(text)) is not None), default=None)
    oldest = now - timedelta(seconds=believed_seconds)
    if before is not None and timedelta(0) <= now - before.looked_at <= LONGEST_GAP:
        if texts == before.signs:
            return Sighting(texts, min(before.since, now), now)
        oldest = before.looked_at
    return Sighting(texts, newest if newest is not None and oldest <= newest <= now else now, now)


# What the janitor does with a lease and a lock whose run may be gone.
#
# It puts back what a lease says is ours, once nothing of it is in motion. It gives back the lock of a run that is
# known to be over. For what else it finds on a cluster see `unheld_findings`.


UNWATCHED_SECONDS = 35.0  # a follower writes progress.json at each look, every 15 s at least
IDLE_SECONDS = 900.0  # a run that Airflow does not know, or whose Dag is paused, may still be between two batches


@dataclass(frozen=True, slots=True)
class Custody:
    """What becomes of a lease now. `alert`: why a person must look; None: nobody has to."""

    put_back: bool
    release_lock: bool
    state: str
    alert: str | None = None


def custody(
    lease: ThrottleLease, standing: AirflowState, copying: Collection[TopicPartition], silent_seconds: float
) -> Custody:
    """What to do with a lease that nobody has given back.

    `copying`: its partitions of which a copy is in motion (`copying_of`). `silent_seconds`: since the last sign of
    their follower. While copies run, only the rest is put back. The lock of a run that is not known to be over stays:
    that run may go on.
    """
    run = f"run {lease.run} of {lease.owner or 'an unknown Airflow'} ({standing})"
    shown = f"{len(copying)} partitions copy under its throttle of {lease.rate_in_words}"
    if standing.is_ended or lease.handed_over_at is not None:
        if not copying:
            return Custody(True, standing.is_ended, f"{run}: nothing of it copies any more")
        alert = (
            f"Nobody follows the copies of {run}: {shown}. The janitor takes the throttle off when the last copy is in "
            "sync. Look at these copies, or clear the task of that run that requests them, if it is still there."
        )
        return Custody(True, False, f"{run}: {shown}", alert)
    if copying and silent_seconds > UNWATCHED_SECONDS:
        alert = (
            f"Nobody has followed the copies of {run} for {silent_seconds:.0f} s: {shown}. Check triggerer and "
            "workers, and whether the Dag is paused. The copies go on by themselves."
        )
        return Custody(False, False, f"{run}: {shown}, and nobody follows", alert)
    if not copying and standing is not AirflowState.RUNNING and silent_seconds > IDLE_SECONDS:
        return Custody(True, False, f"{run}: idle for {silent_seconds:.0f} s, so its throttle is put back")
    return Custody(False, False, f"{run}: {shown if copying else 'nothing copies'}, and the run takes care of it")


# What is on a cluster and belongs to nobody: throttles, configs without a topic, stray replicas.


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
