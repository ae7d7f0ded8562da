"""What the policy and Kafka forbid of a change of a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from types import MappingProxyType

from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.kafka.throttles import LIST_KEYS
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.kafka.who_may_receive import Shut, shut_in_words
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.partition import PartitionView, TopicPartition, is_uneven_over
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import brokers_for, pools_with
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.run.check_result import Check, CheckName

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def house_problems(
    change: TopicChange,
    *,
    policy: Policy,
    racks: Mapping[int, str | None],
    replicas: Mapping[int, int],
    min_insync_replicas: int | None,
    kafkas_own: KafkasOwn,
) -> tuple[str, ...]:
    """What Kafka would accept and the policy, or our own rules, do not, each with its reason.

    `racks` and `replicas` (how many a broker holds now) are of the registered brokers. `min_insync_replicas`: what the
    topic will have; None: not known.
    """
    return (
        *_kept_out(change, policy, kafkas_own),
        *_rack_problems(change, policy, racks),
        *_replication_problems(change, min_insync_replicas),
        *_size_problems(change, policy, replicas),
    )


def _kept_out(change: TopicChange, policy: Policy, kafkas_own: KafkasOwn) -> Iterable[str]:
    for glob in policy.topics_out:
        if fnmatchcase(change.topic, glob):
            yield f"the policy's topics_out {glob!r} keeps out topic {change.topic}"
    if kafkas_own.holds_back(change.topic) and not policy.internal_topics:
        yield f"topic {change.topic} is internal to Kafka, and the policy does not allow internal topics"
    if throttles := sorted(set(change.config_changes) & set(LIST_KEYS)):
        yield f"{', '.join(throttles)} belong to reassignments: a list by hand slows replicas that nobody moves"
    if shut := sorted(change.brokers_used & set(policy.brokers_out)):
        yield f"the policy's brokers_out keeps out broker {listed(shut)}"
    if policy.broker_pools:
        inside = brokers_for(change.topic, policy.broker_pools, change.brokers_used)
        if outside := sorted(set(change.brokers_used) - set(inside)):
            yield f"broker {listed(outside)} is not in the pool of topic {change.topic} (broker_pools of the policy)"
        named = [policy.broker_pools[number].name for number in pools_with(change.topic, policy.broker_pools)]
        if len(named) > 1 and change.action == "create":
            yield f"topic {change.topic} would be in the pools of {' and '.join(map(repr, named))} (broker_pools)"


def _rack_problems(change: TopicChange, policy: Policy, racks: Mapping[int, str | None]) -> Iterable[str]:
    factor = change.replication_factor
    inside = brokers_for(change.topic, policy.broker_pools or (), racks)
    racks = {broker: racks[broker] for broker in inside}
    known = {rack for rack in racks.values() if rack is not None}
    if not known or None in racks.values() or factor <= len(known):
        return
    if policy.more_replicas_than_racks:
        may_hold = {broker: rack for broker, rack in racks.items() if broker not in policy.brokers_out}
        new = sorted(change.new_partitions.items())
        uneven = [partition for partition, replicas in new if is_uneven_over(may_hold, replicas)]
        if uneven:
            yield (
                f"{len(uneven)} new partitions, first {uneven[0]}, are not spread over the {len(known)} racks as "
                "evenly as these allow (more_replicas_than_racks): use assignment room"
            )
    elif change.action == "create":
        yield (
            f"replication factor {factor} is above the {len(known)} racks: if one rack fails, two replicas of a "
            "partition are lost (more_replicas_than_racks in the policy allows it)"
        )


def _replication_problems(change: TopicChange, min_insync_replicas: int | None) -> Iterable[str]:
    factor = change.replication_factor
    touches = change.action == "create" or MIN_INSYNC_REPLICAS in change.config_changes
    if not touches or min_insync_replicas is None or not factor:
        return
    if min_insync_replicas >= factor > 1:
        yield (
            f"{MIN_INSYNC_REPLICAS} {min_insync_replicas} with replication factor {factor}: with one broker down, even "
            "for a restart, the brokers refuse producers with acks=all"
        )
    elif min_insync_replicas > factor:
        yield (
            f"{MIN_INSYNC_REPLICAS} {min_insync_replicas} is above the replication factor {factor}: the brokers would "
            "refuse producers with acks=all"
        )


def _size_problems(change: TopicChange, policy: Policy, replicas: Mapping[int, int]) -> Iterable[str]:
    if change.new_partitions:
        yield from too_many_partitions(change.partitions_after, policy)
    added = Counter(broker for held in change.new_partitions.values() for broker in held)
    after = {broker: replicas.get(broker, 0) + count for broker, count in sorted(added.items())}
    full = [broker for broker, count in after.items() if count > policy.replicas_per_broker]
    if full:
        yield (
            f"broker {listed(full)} would hold more replicas than the policy's replicas_per_broker "
            f"{policy.replicas_per_broker}: broker {full[0]} would hold {after[full[0]]}"
        )


def too_many_partitions(total: int, policy: Policy) -> Iterable[str]:
    """Also asked before anything is placed, since that work grows with the number."""
    if total > policy.partitions_per_topic:
        yield f"{total} partitions are more than the policy's partitions_per_topic {policy.partitions_per_topic}"


def check_still(
    change: TopicChange,
    *,
    configs_now: Mapping[str, str],
    registered: Collection[int],
    shut: Mapping[int, Shut] = MappingProxyType({}),
) -> None:
    """Raises StaleProposalError unless the values to be changed are those that were shown, and every target may
    receive. `shut`: registered brokers that Kafka gives no new replica.

    If a value is already what it is to become, an earlier attempt of ours was cut short: that is no change by somebody
    else. The write itself checks against the znode's version that the topic is the one that was shown.
    """
    stale = [
        f"{key} is now {configs_now.get(key, 'not set')!r}, shown was {change.configs_before.get(key, 'not set')!r}"
        for key in sorted(change.config_changes)
        if change.action == "alter"
        and configs_now.get(key) not in (change.configs_before.get(key), change.config_changes[key])
    ]
    stale += [f"broker {broker} is not registered any more" for broker in sorted(change.brokers_used - set(registered))]
    stale += [f"broker {broker} {shut_in_words(why)}" for broker, why in sorted(shut.items())]
    if stale:
        raise StaleProposalError(
            f"Topic {change.topic} or the cluster has changed since this was shown: {'; '.join(stale)}. "
            "Start a new Dag run."
        )


# Whether a topic is as the approved change was to make it.


def check_new_partitions(
    topic: str, wanted: Mapping[int, Sequence[int]], total: int, view: ClusterView
) -> tuple[Check, ...]:
    """`partition_count`, and `new_partition` for each new one: list as approved, a leader, live replicas in sync.

    `total`: partitions that the whole topic is to have.
    """
    found = {tp.partition: partition for tp, partition in view.partitions.items() if tp.topic == topic}
    counts = f"{total} partitions", f"{len(found)} partitions", len(found) == total
    new = (_partition(topic, number, held, found.get(number), view) for number, held in sorted(wanted.items()))
    return (Check(CheckName.PARTITION_COUNT, topic, *counts), *new)


def _partition(topic: str, number: int, wanted: Sequence[int], found: PartitionView | None, view: ClusterView) -> Check:
    live = [broker for broker in wanted if broker in view.brokers]
    expectation = f"replicas {list(wanted)} in this order, led by one of them, {sorted(live)} in sync"
    check = partial(Check, CheckName.NEW_PARTITION, str(TopicPartition(topic, number)), expectation)
    if found is None:
        return check("it does not exist yet", False)
    if found.state is None:
        return check("the controller has not initialised it", False)
    finding = f"replicas {list(found.replicas)}, leader {found.leader}, {sorted(found.isr)} in sync"
    return check(finding, found.replicas == tuple(wanted) and found.leader in wanted and set(found.isr) >= set(live))


def check_configs(topic: str, wanted: Mapping[str, str | None], now: Mapping[str, str]) -> Iterable[Check]:
    """`config` for each key that was to change; None is a key that was to be removed."""
    for key, value in sorted(wanted.items()):
        found = now.get(key)
        yield Check(CheckName.CONFIG, f"{topic} {key}", _text(value), _text(found), found == value)


def check_deleted(
    topic: str, view: ClusterView, *, marked: bool, topic_left: bool, config_left: bool
) -> tuple[Check, ...]:
    """`deleted`: a deletion has ended only when assignment, config and marker of the topic are all gone.

    `topic_left` and `config_left` are of the deleted topic: somebody may have made another one under its name since.
    """
    held = {broker for tp, p in view.partitions.items() if tp.topic == topic for broker in p.replicas}
    down = sorted(held - set(view.brokers))
    waits = f", waits for broker {', '.join(map(str, down))}, which is down" if down else ""
    kept = "it is there, and its deletion is no longer requested: the brokers refuse deletions"
    there = f"it is there{waits}" if marked else kept
    left = {
        f"/brokers/topics/{topic}": there if topic_left else None,
        f"/config/topics/{topic}": "it is there" if config_left else None,
        f"/admin/delete_topics/{topic}": "it is there" if marked else None,
    }
    return tuple(Check(CheckName.DELETED, path, "gone", found or "gone", not found) for path, found in left.items())


def _text(value: str | None) -> str:
    return "not set" if value is None else repr(value)
