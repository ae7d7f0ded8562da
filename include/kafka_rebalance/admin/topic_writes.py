"""Creates, expands, configures and deletes topics by requests to the controller, which checks them all.

Only a deletion names the topic's id. The other requests go by name, so the id is compared just before: a topic that
somebody deletes and makes again within these milliseconds would get the change.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)

from kafka_rebalance.admin.clients import REQUEST_SECONDS
from kafka_rebalance.admin.cluster_view import read_view
from kafka_rebalance.admin.configs import TOPIC, alter_configs, read_topic_configs, set_or_delete
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, Wire, code_in_words, error_in_words
from kafka_rebalance.errors import KafkaRuleError, ReadError, StaleProposalError, WriteDeniedError, WriteError
from kafka_rebalance.kafka.topics import (
    KafkasOwn,
    check_added_replicas,
    check_assigned_brokers,
    check_deletable,
    check_more_partitions,
    check_topic_name,
)
from kafka_rebalance.model.cluster_writes import Kind, Outcome, note
from kafka_rebalance.model.lock_owner import Fence
from kafka_rebalance.model.partition import PartitionView, TopicIdentity
from kafka_rebalance.model.topic_change import Created, Deletion, TopicChange

_TIMEOUT_MS = int(REQUEST_SECONDS * 1000)
_UNKNOWN_TOPIC_ID = 100
# Codes by which Kafka refuses a change that it has understood: name, existing topic, numbers, lists, config, policy, a
# topic in motion.
_RULES_BROKEN = (17, 36, 37, 38, 39, 40, 42, 44, 60)


class AdminApiTopics:
    """See `TopicWriter`."""

    def __init__(self, wire: Wire, bound: Callable[[Fence, str], float]) -> None:
        """`bound` gives the time of `time.monotonic` until which something may be sent that was decided on under this
        fence, and raises LockLostError with this text if it has risen.
        """
        self._wire = wire
        self._bound = bound

    def check_accepted(self, change: TopicChange) -> None:
        topic = change.topic
        if change.action == "create":
            answer = self._wire.read(_creation(change, validate_only=True)).topics[0]
            _accepted(f"the creation of topic {topic}", answer, "Create")
            return
        if change.new_partitions:
            request = _expansion(topic, change.partitions_after, change.new_partitions, validate_only=True)
            _accepted(f"the expansion of topic {topic}", self._wire.read(request).results[0], "Alter")
        if change.config_changes:
            answer = self._wire.read(_new_configs(change, validate_only=True)).responses[0]
            _accepted(f"the change of the configs of topic {topic}", answer, "AlterConfigs")

    def create(self, change: TopicChange, registered: Collection[int]) -> Created:
        topic = change.topic
        check_topic_name(topic, existing=())
        check_assigned_brokers(change.new_partitions, registered)
        partitions, _ = self._read(topic)
        if partitions:
            lists = {number: partition.replicas for number, partition in partitions.items()}
            if (
                lists == change.new_partitions
                and read_topic_configs(self._wire, [topic])[topic] == change.configs_after
            ):
                return Created(Outcome.ALREADY_THERE)
            raise KafkaRuleError(f"Topic '{topic}' already exists.", "This request changed nothing. Take another name.")
        what = f"the creation of topic {topic}"
        answer = self._wire.write(_creation(change, validate_only=False), what, Kind.TOPIC, topic).topics[0]
        _written(what, answer, "Create")
        note(Kind.TOPIC, topic)
        return Created(Outcome.CREATED)

    def expand(self, change: TopicChange, registered: Collection[int], fence: Fence) -> None:
        """Kafka refuses it if the topic has another number of partitions by then."""
        topic, wanted = change.topic, change.new_partitions
        partitions, kafkas_own = self._read_same_topic(topic, change.existing)
        lists = {number: partition.replicas for number, partition in partitions.items()}
        if wanted.items() <= lists.items():
            return
        if moving := sorted(number for number, partition in partitions.items() if partition.in_motion):
            raise WriteError(
                f"topic {topic}: it is being reassigned (partition {moving[0]}). Wait until that has "
                "ended, then clear this task."
            )
        check_more_partitions(topic, lists, len(lists) + len(wanted), kafkas_own)
        check_added_replicas(topic, lists, wanted, registered)
        what = f"the expansion of topic {topic}"
        request = _expansion(topic, len(lists) + len(wanted), wanted, validate_only=False)
        until = self._bound(fence, f"Topic {topic} was not expanded")
        _written(what, self._wire.write(request, what, Kind.TOPIC, topic, not_later_than=until).results[0], "Alter")
        note(Kind.TOPIC, topic)

    def set_configs(self, change: TopicChange) -> None:
        topic = change.topic
        self._read_same_topic(topic, change.existing)
        what, subject = f"the change of the configs of topic {topic}", f"topics/{topic}"
        answer = self._wire.write(_new_configs(change, validate_only=False), what, Kind.CONFIG, subject).responses[0]
        _written(what, answer, "AlterConfigs")
        note(Kind.CONFIG, subject)

    def delete(self, change: TopicChange, fence: Fence) -> Outcome:
        """The topic with this id. ALREADY_THERE: it is gone."""
        topic = change.topic
        check_deletable(topic, self._read(topic)[1])
        state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=_uuid(topic, change.existing))
        what = f"the deletion of topic {topic}"
        request = DeleteTopicsRequest(topics=[state], timeout_ms=_TIMEOUT_MS)
        until = self._bound(fence, f"Topic {topic} was not deleted")
        answer = self._wire.write(request, what, Kind.DELETION, topic, not_later_than=until).responses[0]
        if answer.error_code == _UNKNOWN_TOPIC_ID:
            return Outcome.ALREADY_THERE
        _written(what, answer, "Delete")
        note(Kind.DELETION, topic)
        return Outcome.CREATED

    def read_deletion(self, change: TopicChange) -> Deletion:
        """Kafka tells nobody which topics it is about to delete: a topic is there, or it is not."""
        partitions, _ = self._read(change.topic)
        is_left = any(partition.topic_id == change.existing.topic_id for partition in partitions.values())
        return Deletion(marked=False, topic_left=is_left, config_left=False)

    def _read(self, topic: str) -> tuple[dict[int, PartitionView], KafkasOwn]:
        """(the topic's partitions, whether it is Kafka's own)"""
        view = read_view(self._wire, [topic])
        return {tp.partition: partition for tp, partition in view.partitions.items()}, KafkasOwn(view.internal)

    def _read_same_topic(self, topic: str, expected: TopicIdentity) -> tuple[dict[int, PartitionView], KafkasOwn]:
        """As `_read`. Raises StaleProposalError if it is another topic, or gone."""
        partitions, kafkas_own = self._read(topic)
        ids = {partition.topic_id for partition in partitions.values()}
        if ids != {expected.topic_id}:
            now = f"it was deleted and made again (topic id {ids.pop()}, approved {expected.topic_id})" if ids else ""
            raise StaleProposalError(f"topic {topic}: {now or 'it was deleted'}. Start a new Dag run.")
        return partitions, kafkas_own


def _uuid(topic: str, expected: TopicIdentity) -> UUID:
    if expected.topic_id is None:
        raise WriteError(f"topic {topic}: the request does not have its id. Start a new Dag run.")
    return UUID(bytes=base64.urlsafe_b64decode(expected.topic_id + "=="))


def new_topic(
    name: str,
    lists: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
    *,
    numbers: tuple[int, int] = (-1, -1),
    validate_only: bool = False,
) -> CreateTopicsRequest:
    """`lists`: the replicas by partition. `numbers` of partitions and replicas, if Kafka is to choose the brokers."""
    new = CreateTopicsRequest.CreatableTopic
    assignments = [
        new.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
        for partition, replicas in sorted(lists.items())
    ]
    topic = new(
        name=name,
        num_partitions=numbers[0],
        replication_factor=numbers[1],
        assignments=assignments,
        configs=[new.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=validate_only)


def _creation(change: TopicChange, *, validate_only: bool) -> CreateTopicsRequest:
    return new_topic(change.topic, change.new_partitions, change.configs_after, validate_only=validate_only)


def _expansion(
    topic: str, total: int, added: Mapping[int, Sequence[int]], *, validate_only: bool
) -> CreatePartitionsRequest:
    more = CreatePartitionsRequest.CreatePartitionsTopic
    lists = [more.CreatePartitionsAssignment(broker_ids=list(replicas)) for _, replicas in sorted(added.items())]
    return CreatePartitionsRequest(
        topics=[more(name=topic, count=total, assignments=lists)], timeout_ms=_TIMEOUT_MS, validate_only=validate_only
    )


def _new_configs(change: TopicChange, *, validate_only: bool) -> IncrementalAlterConfigsRequest:
    changes = [set_or_delete(key, value) for key, value in sorted(change.config_changes.items())]
    return alter_configs(TOPIC, {change.topic: changes}, validate_only=validate_only)


def _accepted(what: str, answer: Any, needed: str) -> None:
    """Of a request that only asks. Raises as `_check`, and WriteError for any other error: it has changed nothing."""
    _check(what, answer, needed)
    if answer.error_code:
        raise WriteError(f"Kafka refused {what} ({error_in_words(answer)}). Read the log of the controller.")


def _written(what: str, answer: Any, needed: str) -> None:
    """Of a request that writes. Raises as `_check`, and ReadError for any other error.

    An answer such as "timed out", or one with a code that no version here knows, does not say whether the controller
    carries the request out all the same.
    """
    _check(what, answer, needed)
    if answer.error_code:
        raise ReadError(
            f"Kafka did not confirm {what} ({error_in_words(answer)}), so whether it is carried out is unknown. Clear "
            "this task: it looks first, and asks again only for what is missing."
        )


def _check(what: str, answer: Any, needed: str) -> None:
    """Raises KafkaRuleError if Kafka refuses the change, WriteDeniedError if the user lacks the permission `needed`."""
    if answer.error_code in NOT_AUTHORIZED:
        raise WriteDeniedError(
            f"Kafka refused {what}: the Kafka user needs {needed} on the topic. Grant it, then start a new Dag run."
        )
    if answer.error_code in _RULES_BROKEN:
        raise KafkaRuleError(answer.error_message or code_in_words(answer.error_code), "This request changed nothing.")
