"""The rules of kafka-topics for names, creation, expansion and deletion, in its order and with its texts.

Source: kafka.admin.TopicCommand, kafka.zk.AdminZkClient and org.apache.kafka.common.internals.Topic of 2.0. The tool
forgets to refuse unknown brokers, partition ids with gaps and empty replica lists. They are refused here, with the text
that Kafka has elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.assignment import check_increase, scala_map
from kafka_rebalance.kafka.given_json import parse_integer, split, trim, utf16_length
from kafka_rebalance.kafka.topic_configs import (
    check_topic_config,  # noqa: F401  docs/tables.md promises this name here
    check_topic_configs,
)

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
# What brokers of some version call internal: known where no broker answers, and before the topic exists.
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, "__share_group_state"})
# Kafka calls it ordinary, but finds the metadata of a tiered partition by a hash modulo its number of partitions
# (RemoteLogMetadataTopicPartitioner).
REMOTE_LOG_TOPIC = "__remote_log_metadata"
TRANSACTIONAL_ID = "kafka-rebalance"  # of this program, under which the log of the lock is written
LOCK_TOPIC = "__kafka_rebalance"  # of this program, on clusters without ZooKeeper
ACTIONS = ("list", "describe", "create", "alter", "delete")

_MOST_CHARACTERS = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class KafkasOwn:
    """Which topics hold the state of Kafka itself. `told`: those that the brokers call internal."""

    told: frozenset[str] = frozenset()

    def is_internal(self, topic: str) -> bool:
        """Whether Kafka refuses to delete it, as its tool does."""
        return topic in self.told or topic in INTERNAL_TOPICS

    def needs_its_count(self, topic: str) -> bool:
        """Whether its reader finds a record by a hash modulo the number of partitions, so that more lose the state."""
        return self.is_internal(topic) or topic == REMOTE_LOG_TOPIC

    def holds_back(self, topic: str) -> bool:
        """Whether it is moved, changed and deleted only where the policy allows it: Kafka's own and the lock's."""
        return self.needs_its_count(topic) or topic == LOCK_TOPIC

    def is_told_alone(self, topic: str) -> bool:
        """Whether only the brokers tell it: no name does."""
        return topic in self.told and not BY_NAME.holds_back(topic)


BY_NAME = KafkasOwn()  # as far as it is known without an answer of a broker


def check_actions(actions: Collection[str]) -> str:
    """The one requested action. Raises KafkaRuleError unless there is exactly one, of Kafka's five."""
    if len(actions) == 1 and (action := next(iter(actions))) in ACTIONS:
        return action
    raise KafkaRuleError(
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
        f"Asked for: {', '.join(sorted(actions)) or 'none'}. Nothing was read or written.",
    )


def check_topic_name(name: str, *, existing: Collection[str] = ()) -> None:
    """Raises KafkaRuleError unless a topic of this name can be created beside the `existing` ones.

    Two names collide if they differ only by `.` and `_`: Kafka's metrics could not tell them apart.
    """
    if problem := _name_problem(name):
        raise KafkaRuleError(problem)
    if name in existing:
        raise KafkaRuleError(f"Topic '{name}' already exists.")
    alike = sorted(other for other in existing if other.replace(".", "_") == name.replace(".", "_"))
    if alike:
        raise KafkaRuleError(
            f"Topic '{name}' collides with existing topics: {', '.join(alike)}",
            "Nothing was written. Choose a name that differs by more than '.' and '_'.",
        )


def parse_replica_assignment(text: str) -> dict[int, tuple[int, ...]]:
    """{partition: broker ids} of `1:2,2:3,3:1`: partitions from 0 on, preferred leader first.

    Raises KafkaRuleError with kafka-topics' message for a duplicate, lists of different length, and a part that is no
    number. Empty parts at the end are dropped, as Java's split does. `:` is an empty list, see `check_assignment`.
    """
    assignment: dict[int, tuple[int, ...]] = {}
    for partition, part in enumerate(split(text, ",")):
        replicas = tuple(_broker_id(broker, text) for broker in split(part, ":"))
        repeated = _repeated(replicas)
        if repeated:
            raise KafkaRuleError(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, repeated))}",
                f"Partition {partition} has {part!r}. Nothing was written.",
            )
        assignment[partition] = replicas
        if len(replicas) != len(assignment[0]):
            raise KafkaRuleError(
                f"Partition {partition} has different replication factor: {', '.join(map(str, replicas))}",
                f"Partition 0 has {len(assignment[0])}. Nothing was written.",
            )
    return assignment


def check_assignment(assignment: Mapping[int, Sequence[int]]) -> None:
    """Raises KafkaRuleError unless all lists have one length and no duplicates, and partitions count up from 0.

    kafka-topics checks the ids only from 2.3 on, and never checks for the empty list. For an empty list, this raises
    Kafka's text for added partitions.
    """
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise KafkaRuleError("All partitions should have the same number of replicas")
    if any(_repeated(replicas) for replicas in assignment.values()):
        raise KafkaRuleError(f"Duplicate replica assignment found: {scala_map(assignment)}")
    _check_consecutive(assignment)
    if not assignment[0]:
        raise KafkaRuleError("Cannot have replication factor of 0 for partition id 0.")


def check_new_topic(
    name: str,
    assignment: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
    *,
    existing: Collection[str],
    version: str = "2.0",
) -> None:
    """Raises KafkaRuleError unless this topic can be created: name, then assignment, then configs.

    Source: AdminZkClient.validateCreateOrUpdateTopic. `check_assigned_brokers` checks that the brokers exist.
    """
    check_topic_name(name, existing=existing)
    check_assignment(assignment)
    check_topic_configs(configs, version=version)


def check_more_partitions(
    topic: str, existing: Mapping[int, Sequence[int]], total: int, kafkas_own: KafkasOwn = BY_NAME
) -> None:
    """Raises KafkaRuleError unless the topic may grow from its `existing` partitions to `total`.

    The tool of 2.0 refuses only the offsets topic, and from 2.3 on every internal topic: the place of a key depends on
    the number of partitions. Without ZooKeeper, Kafka itself refuses none. A gap in the existing ids is refused: new
    ids start at their count, and would replace one.
    """
    if kafkas_own.needs_its_count(topic):
        which = "offsets topic" if topic == OFFSETS_TOPIC else f"internal topic {topic}"
        raise KafkaRuleError(
            f"The number of partitions for the {which} cannot be changed.",
            "Kafka finds the state in it by a hash modulo that number. Nothing was written.",
        )
    if not existing:
        raise KafkaRuleError(f"The topic {topic} does not exist")
    check_increase(topic, existing, total)
    _check_consecutive(existing)


def check_added_replicas(
    topic: str,
    existing: Mapping[int, Sequence[int]],
    added: Mapping[int, Sequence[int]],
    brokers: Collection[int],
) -> None:
    """Raises KafkaRuleError unless the `added` partitions, given by hand, fit the topic and the live `brokers`.

    Each partition is checked for an empty list, duplicates and unknown brokers, and then for the replication factor of
    partition 0. Partition ids must go on where the existing ones end. Source: AdminZkClient.validateReplicaAssignment.
    """
    check_increase(topic, existing, len(existing) + len(added))
    for partition, replicas in sorted(added.items()):
        if not replicas:
            raise KafkaRuleError(
                f"Cannot have replication factor of 0 for partition id {partition}.", "Nothing was written."
            )
        listed = ", ".join(map(str, replicas))
        if _repeated(replicas):
            raise KafkaRuleError(
                f"Duplicate brokers not allowed in replica assignment: {listed} for partition id {partition}."
            )
        check_assigned_brokers({partition: replicas}, brokers)
    factor = len(existing[0])
    others = {partition: len(replicas) for partition, replicas in sorted(added.items()) if len(replicas) != factor}
    if others:
        raise KafkaRuleError(
            f"Inconsistent replication factor between partitions, partition 0 has {factor} while partitions "
            f"[{', '.join(map(str, others))}] have replication factors [{', '.join(map(str, others.values()))}], "
            "respectively.",
            f"Topic {topic} was not changed.",
        )
    _check_consecutive({**existing, **added})


def check_assigned_brokers(assignment: Mapping[int, Sequence[int]], brokers: Collection[int]) -> None:
    """Raises KafkaRuleError if a replica's broker is not live: Kafka would wait for it for ever.

    kafka-topics checks this when it adds partitions, but not when it creates a topic.
    """
    for partition, replicas in sorted(assignment.items()):
        if not set(replicas) <= set(brokers):
            raise KafkaRuleError(
                f"Some brokers specified for partition id {partition} are not available. Specified brokers: "
                f"{', '.join(map(str, replicas))}, available brokers: {', '.join(map(str, sorted(brokers)))}."
            )


def check_deletable(topic: str, kafkas_own: KafkasOwn = BY_NAME) -> None:
    """Raises KafkaRuleError for a topic that Kafka itself needs."""
    if kafkas_own.is_internal(topic):
        raise KafkaRuleError(f"Topic {topic} is a kafka internal topic and is not allowed to be marked for deletion.")


def _name_problem(name: str) -> str | None:
    if not name:
        return "Topic name is illegal, it can't be empty"
    if name in (".", ".."):
        return 'Topic name cannot be "." or ".."'
    if utf16_length(name) > _MOST_CHARACTERS:
        return f"Topic name is illegal, it can't be longer than {_MOST_CHARACTERS} characters, topic name: {name}"
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f'Topic name "{name}" is illegal, it contains a character other than ASCII alphanumerics, '
            "'.', '_' and '-'"
        )
    return None


def _broker_id(part: str, text: str) -> int:
    try:
        return parse_integer(trim(part))
    except ValueError as not_a_number:
        raise KafkaRuleError(
            str(not_a_number),
            f"{text!r} is not a list of broker ids such as 1:2,2:3,3:1. Nothing was written.",
        ) from None


def _repeated(replicas: Sequence[int]) -> list[int]:
    return sorted(broker for broker, times in Counter(replicas).items() if times > 1)


def _check_consecutive(assignment: Mapping[int, Sequence[int]]) -> None:
    if sorted(assignment) != list(range(len(assignment))):
        raise KafkaRuleError(
            "partitions should be a consecutive 0-based integer sequence",
            f"They are {', '.join(map(str, sorted(assignment)))}. Nothing was written.",
        )
