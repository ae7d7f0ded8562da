"""One change of one topic, as it will be written: what an approval is given for, and what its digest is taken of."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from kafka_rebalance.errors import ArtifactError, StaleProposalError
from kafka_rebalance.kafka.throttles import LIST_KEYS
from kafka_rebalance.kafka.topics import INTERNAL_TOPICS
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.model.policy import Policy

MIN_INSYNC_REPLICAS = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A creation, an alteration or a deletion. Numbers of partitions are of the whole topic."""

    action: str
    topic: str
    cluster_id: str
    kafka_version: str  # of the inter-broker protocol: decides what Kafka accepts and writes
    new_partitions: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # broker ids, preferred leader first
    partitions_before: int = 0
    replication_factor: int = 0
    configs_before: Mapping[str, str] = field(default_factory=dict)
    config_changes: Mapping[str, str | None] = field(default_factory=dict)  # None: remove
    identity: TopicIdentity | None = None  # of the topic that is there; None: it is to be created

    @property
    def partitions_after(self) -> int:
        return 0 if self.action == "delete" else self.partitions_before + len(self.new_partitions)

    @property
    def adds_partitions(self) -> bool:
        return self.action == "alter" and bool(self.new_partitions)

    @property
    def configs_after(self) -> dict[str, str]:
        merged = {**self.configs_before, **self.config_changes}
        return {key: value for key, value in sorted(merged.items()) if value is not None}

    @property
    def changes_nothing(self) -> bool:
        return self.action == "alter" and not self.new_partitions and not self.config_changes

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values, every key present."""
        plain = dataclasses.asdict(self)
        plain["new_partitions"] = {
            str(partition): list(held) for partition, held in sorted(self.new_partitions.items())
        }
        return plain

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> TopicChange:
        """Back from JSON. Raises ArtifactError where it is not one."""
        try:
            identity = given["identity"]
            return cls(
                **{
                    **given,
                    "new_partitions": {int(key): tuple(held) for key, held in given["new_partitions"].items()},
                    "identity": None if identity is None else TopicIdentity(**identity),
                }
            )
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise ArtifactError(
                f"topic.json does not hold a change of a topic ({wrong}). Nothing was written. Start a new Dag run."
            ) from wrong

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of what will be written, and of the topic it starts from."""
        return digest_of(self.to_mapping())


def house_problems(
    change: TopicChange,
    *,
    policy: Policy,
    racks: Mapping[int, str | None],
    replicas: Mapping[int, int],
    min_insync_replicas: int | None,
) -> tuple[str, ...]:
    """What Kafka would accept and this house does not, each with its reason.

    `racks` and `replicas` (how many it holds now) are of the registered brokers; `min_insync_replicas` is what the
    topic will have, None where unknown.
    """
    return (
        *_kept_out(change, policy),
        *_replication_problems(change, racks, min_insync_replicas),
        *_size_problems(change, policy, replicas),
    )


def _kept_out(change: TopicChange, policy: Policy) -> Iterable[str]:
    for glob in policy.topics_out:
        if fnmatchcase(change.topic, glob):
            yield f"topic {change.topic} is kept out by the policy's topics_out {glob!r}"
    if change.topic in INTERNAL_TOPICS and not policy.internal_topics:
        yield f"topic {change.topic} is internal to Kafka, and the policy does not allow internal topics"
    throttles = sorted(set(change.config_changes) & set(LIST_KEYS))
    if throttles:
        yield f"{', '.join(throttles)} belong to reassignments: a list by hand slows replicas that nobody moves"
    used = {broker for held in change.new_partitions.values() for broker in held}
    shut = sorted(used & set(policy.brokers_out))
    if shut:
        yield f"broker {listed(shut)} is kept out by the policy's brokers_out"


def _replication_problems(
    change: TopicChange, racks: Mapping[int, str | None], min_insync_replicas: int | None
) -> Iterable[str]:
    factor = change.replication_factor
    known = {rack for rack in racks.values() if rack is not None}
    if change.action == "create" and known and None not in racks.values() and factor > len(known):
        yield (
            f"replication factor {factor} is above the {len(known)} racks: with one rack two replicas of a partition "
            "would be lost"
        )
    touches = change.action == "create" or MIN_INSYNC_REPLICAS in change.config_changes
    if touches and min_insync_replicas is not None and factor and min_insync_replicas >= factor > 1:
        yield (
            f"{MIN_INSYNC_REPLICAS} {min_insync_replicas} with replication factor {factor}: one broker down, or one "
            "restart, and producers with acks=all are refused"
        )
    elif touches and min_insync_replicas is not None and factor and min_insync_replicas > factor:
        yield (
            f"{MIN_INSYNC_REPLICAS} {min_insync_replicas} is above the replication factor {factor}: producers with "
            "acks=all would be refused"
        )


def _size_problems(change: TopicChange, policy: Policy, replicas: Mapping[int, int]) -> Iterable[str]:
    if change.new_partitions and change.partitions_after > policy.partitions_per_topic:
        yield (
            f"{change.partitions_after} partitions are more than the policy's partitions_per_topic "
            f"{policy.partitions_per_topic}"
        )
    added = replicas_added(change.new_partitions)
    full = [
        broker
        for broker, count in sorted(added.items())
        if replicas.get(broker, 0) + count > policy.replicas_per_broker
    ]
    if full:
        first = full[0]
        yield (
            f"broker {listed(full)} would hold more replicas than the policy's replicas_per_broker "
            f"{policy.replicas_per_broker}, the first of them {replicas.get(first, 0) + added[first]}"
        )


def replicas_added(partitions: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """{broker: new replicas}."""
    counts: dict[int, int] = {}
    for held in partitions.values():
        for broker in held:
            counts[broker] = counts.get(broker, 0) + 1
    return counts


def check_still(change: TopicChange, *, configs_now: Mapping[str, str], registered: Collection[int]) -> None:
    """Raises StaleProposalError unless the values to be changed are those that were shown, and every target is up.

    A value that is already what it is to become is no change by somebody else, but one of ours that was cut short.
    That the topic itself is the one that was shown is checked where it is written, against the znode's version.
    """
    stale = [
        f"{key} is now {configs_now.get(key, 'not set')!r}, shown was {change.configs_before.get(key, 'not set')!r}"
        for key in sorted(change.config_changes)
        if change.action == "alter"
        and configs_now.get(key) not in (change.configs_before.get(key), change.config_changes[key])
    ]
    used = {broker for held in change.new_partitions.values() for broker in held}
    stale += [f"broker {broker} is not registered any more" for broker in sorted(used - set(registered))]
    if stale:
        raise StaleProposalError(
            f"Topic {change.topic} or the cluster has changed since this was shown: {'; '.join(stale)}. "
            "Nothing was written. Start a new Dag run."
        )
