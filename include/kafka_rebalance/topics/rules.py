"""What a run of `kafka_topics` is asked to do, what the policy and Kafka forbid of it, and whether it has been done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from kafka_rebalance.documents.json_files import TOPIC, JsonFile, Time, omitted
from kafka_rebalance.errors import KafkaRuleError, SettingsError, StaleProposalError
from kafka_rebalance.kafka.throttles import LIST_KEYS
from kafka_rebalance.kafka.topic_configs import parse_config_arguments
from kafka_rebalance.kafka.topics import KafkasOwn, check_actions, parse_replica_assignment
from kafka_rebalance.kafka.who_may_receive import Shut, shut_in_words
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import Finding, listed
from kafka_rebalance.model.partition import PartitionView, TopicPartition, is_uneven_over
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import brokers_for, pools_with
from kafka_rebalance.model.topic_change import TopicChange
from kafka_rebalance.model.value_readers import flag, integer, one_of
from kafka_rebalance.run.check_result import Check, CheckName
from kafka_rebalance.topics.forecast import BrokerCost

# What is asked, checked with the rules of kafka-topics.


READ_ONLY = ("list", "describe")

# Each option with its actions, in the order in which kafka-topics checks them
# (TopicCommand.TopicCommandOptions.checkArgs, 2.0).
_ALLOWED_WITH = {
    "config": ("create", "alter"),
    "delete_config": ("alter",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "only": READ_ONLY,
    "if_exists": ("alter", "delete"),
    "if_not_exists": ("create",),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise ValueError("must be a list of texts")
    return tuple(value)


_ANY_INTEGER = integer(-(2**31), 2**31 - 1)  # Kafka's int; which of them it takes, its own rules say
_READERS: dict[str, Callable[[Any], Any]] = {
    "action": _text,
    "topic": _text,
    "replica_assignment": _text,
    "config": _texts,
    "delete_config": _texts,
    "partitions": _ANY_INTEGER,
    "replication_factor": _ANY_INTEGER,
    "assignment": one_of(("room", "kafka")),
    "rack_mode": one_of(("enforced", "disabled", "safe")),
    "only": one_of(("all", "under_replicated", "unavailable", "with_overrides")),
    "if_exists": flag,
    "if_not_exists": flag,
    "bytes_in_per_second": integer(0),
    "sample_rows": integer(0),
    "sample_hours": integer(1, 1_000_000),
    "dry_run": flag,
}
_AS_GIVEN = (
    *("topic", "partitions", "replication_factor", "assignment", "rack_mode", "only", "if_exists", "if_not_exists"),
    *("bytes_in_per_second", "sample_hours", "dry_run"),
)


def needs_approval(action: str) -> bool:
    """Whether a change of this kind waits for a person: all but a creation, which removes nothing."""
    return action != "create"


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """One action on one topic; for list and describe, `topic` is a regular expression, empty for every topic."""

    action: str
    topic: str = ""
    partitions: int | None = None
    replication_factor: int | None = None
    replica_assignment: Mapping[int, tuple[int, ...]] | None = None  # of all partitions, the existing ones too
    configs: Mapping[str, str] = field(default_factory=dict)
    delete_configs: tuple[str, ...] = ()
    assignment: str = "room"
    rack_mode: Literal["enforced", "disabled", "safe"] = "enforced"
    only: str = "all"
    if_exists: bool = False
    if_not_exists: bool = False
    bytes_in_per_second: int | None = None  # what producers will write to the whole topic
    sample_rows: int = 200_000  # keys to read before an expansion; 0: none
    sample_hours: int = 24
    dry_run: bool = False

    @property
    def is_read_only(self) -> bool:
        return self.action in READ_ONLY

    @property
    def needs_approval(self) -> bool:
        """Whether a person is asked."""
        return needs_approval(self.action) and not self.is_read_only and not self.dry_run

    @property
    def adds_partitions(self) -> bool:
        return self.action == "alter" and (self.partitions is not None or self.replica_assignment is not None)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> TopicRequest:
        """The request of a Dag's params.

        Raises KafkaRuleError with the text of kafka-topics, SettingsError where that tool has no text.
        """
        # A form sends these values for a field that nobody filled in. 0 partitions is an answer, and a wrong one.
        given = {key: value for key, value in params.items() if value is not False and value not in (None, "", [], ())}
        given = {name: _read(name, value) for name, value in given.items()}
        action = check_actions([given["action"]] if "action" in given else [])
        _check_options(action, given)
        manual = given.get("replica_assignment")
        return cls(
            action=action,
            replica_assignment=None if manual is None else parse_replica_assignment(manual),
            configs=parse_config_arguments(given.get("config", ())),
            delete_configs=_names(given.get("delete_config", ()), given.get("config", ())),
            sample_rows=given.get("sample_rows", 0),
            **{name: given[name] for name in _AS_GIVEN if name in given},
        )


def _read(name: str, value: Any) -> Any:
    """Airflow's forms take 3.0 for an integer, and its API does not look at a Dag's texts. Raises SettingsError."""
    try:
        return _READERS[name](value) if name in _READERS else value
    except ValueError as wrong:
        raise SettingsError(
            f"{name} {wrong}, and is {str(value)[:100]!r}. Nothing was read or written. Correct it."
        ) from wrong


def _check_options(action: str, given: Mapping[str, Any]) -> None:
    """Which options go together; the first that does not is refused, as kafka-topics does."""
    if "topic" not in given and action not in READ_ONLY:
        raise _missing("topic")
    for option, actions in _ALLOWED_WITH.items():
        if option in given and action not in actions and not (option == "only" and given["only"] == "all"):
            raise _excluded(option, action, f"'{option}' goes with {' or '.join(actions)}.")
    if action == "create":
        sized = [option for option in ("partitions", "replication_factor") if option in given]
        if "replica_assignment" in given and sized:
            raise _excluded("replica_assignment", sized[0], "It says every replica of every partition itself.")
        if "replica_assignment" not in given:
            for option in ("partitions", "replication_factor"):
                if option not in given:
                    raise _missing(option)
    changes = ("partitions", "replica_assignment", "config", "delete_config")
    if action == "alter" and not any(option in given for option in changes):
        raise SettingsError(
            f"There is nothing to alter. Give one of {', '.join(changes)}. Nothing was read or written."
        )


def _missing(option: str) -> KafkaRuleError:
    """CommandLineUtils.checkRequiredArgs."""
    return KafkaRuleError(
        f'Missing required argument "[{option.replace("_", "-")}]"', f"Give '{option}'. Nothing was read or written."
    )


def _excluded(option: str, other: str, why: str) -> KafkaRuleError:
    """CommandLineUtils.checkInvalidArgs; without a blank before the second name, as it is there."""
    return KafkaRuleError(
        f'Option "[{option.replace("_", "-")}]" can\'t be used with option"[{other.replace("_", "-")}]"',
        f"{why} Nothing was read or written.",
    )


def _names(deleted: Iterable[str], added: Iterable[str]) -> tuple[str, ...]:
    """Configs to remove. If a name is in both, Kafka's tool removes the config; a mistake is more likely."""
    both = sorted(set(deleted) & set(parse_config_arguments(tuple(added))))
    if both:
        raise KafkaRuleError(
            f"Invalid config(s): {', '.join(both)}", "The request sets and removes them. Nothing was read or written."
        )
    return tuple(dict.fromkeys(deleted))


# topic.json: the change, and what people should know about it.


NOT_ASKED = ("",)  # a topic that is to be created has no groups


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedChange:
    """`groups` use the topic; None: they cannot be read, and `groups_unread` says why."""

    connection_id: str
    cluster_id: str
    policy_digest: str
    limits_digest: str | None = omitted()  # of the policy bound by those of other connections; earlier versions lack it
    nonce: str
    observed_at: Time
    dag_id: str
    run_id: str
    requested_by: str | None
    reason: str
    dry_run: bool
    needs_approval: bool
    change: TopicChange
    digest: str
    assignment: str
    replica_bytes: int | None
    costs: tuple[BrokerCost, ...]
    notes: tuple[str, ...]
    size_bytes: int | None
    groups: tuple[str, ...] | None = omitted(NOT_ASKED)
    groups_unread: str | None = omitted("")
    group_types: Mapping[str, str] | None = omitted()  # of those that are not classic
    groups_not_read: tuple[Finding, ...] = omitted(())
    sample_digest: str | None = omitted()  # of sample.json: the approver reads figures of exactly these offsets


TOPIC_FILE = JsonFile(TOPIC, RequestedChange)


# What the policy and Kafka forbid of the change.


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
    partitions = {tp.partition: partition for tp, partition in view.partitions.items() if tp.topic == topic}
    counts = f"{total} partitions", f"{len(partitions)} partitions", len(partitions) == total
    new = (_partition(topic, number, held, partitions.get(number), view) for number, held in sorted(wanted.items()))
    return (Check(CheckName.PARTITION_COUNT, topic, *counts), *new)


def _partition(
    topic: str, number: int, wanted: Sequence[int], partition: PartitionView | None, view: ClusterView
) -> Check:
    live = [broker for broker in wanted if broker in view.brokers]
    expectation = f"replicas {list(wanted)} in this order, led by one of them, {sorted(live)} in sync"
    check = partial(Check, CheckName.NEW_PARTITION, str(TopicPartition(topic, number)), expectation)
    if partition is None:
        return check("it does not exist yet", False)
    if partition.state is None:
        return check("the controller has not initialised it", False)
    finding = f"replicas {list(partition.replicas)}, leader {partition.leader}, {sorted(partition.isr)} in sync"
    return check(
        finding, partition.replicas == tuple(wanted) and partition.leader in wanted and set(partition.isr) >= set(live)
    )


def check_configs(topic: str, wanted: Mapping[str, str | None], now: Mapping[str, str]) -> Iterable[Check]:
    """`config` for each key that was to change; None is a key that was to be removed."""
    for key, value in sorted(wanted.items()):
        value_now = now.get(key)
        yield Check(CheckName.CONFIG, f"{topic} {key}", _value(value), _value(value_now), value_now == value)


def check_deleted(
    topic: str, view: ClusterView, *, marked: bool, topic_left: bool, config_left: bool
) -> tuple[Check, ...]:
    """`deleted`: a deletion has ended only when assignment, config and marker of the topic are all gone.

    `topic_left` and `config_left` are of the deleted topic: somebody may have made another one under its name since.
    """
    holders = {broker for tp, p in view.partitions.items() if tp.topic == topic for broker in p.replicas}
    down = sorted(holders - set(view.brokers))
    waits = f", waits for broker {', '.join(map(str, down))}, which is down" if down else ""
    kept = "it is there, and its deletion is no longer requested: the brokers refuse deletions"
    there = f"it is there{waits}" if marked else kept
    remains = {
        f"/brokers/topics/{topic}": there if topic_left else None,
        f"/config/topics/{topic}": "it is there" if config_left else None,
        f"/admin/delete_topics/{topic}": "it is there" if marked else None,
    }
    return tuple(
        Check(CheckName.DELETED, path, "gone", remnant or "gone", not remnant) for path, remnant in remains.items()
    )


def _value(value: str | None) -> str:
    return "not set" if value is None else repr(value)
