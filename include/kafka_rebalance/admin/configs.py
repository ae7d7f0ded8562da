"""Configs of brokers and topics: those in effect, those that somebody has set, and how throttles are set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource
from kafka.errors import for_code
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from kafka_rebalance.admin.clients import REQUEST_SECONDS, open_admin, reason_of, unread
from kafka_rebalance.admin.quorum import fresh_broker, read_fresh, wait_for_own_configs
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, UNKNOWN_TOPIC, Wire, check_read, code_in_words, open_wire
from kafka_rebalance.errors import ConfigChangedError, ReadError, WriteDeniedError, WriteError
from kafka_rebalance.kafka.throttles import (
    CORDON,
    EVERY_LOG_DIR,
    EVERY_REPLICA,
    format_throttled_replicas,
    parse_throttled_replicas,
    throttle_problem,
)
from kafka_rebalance.model.cluster_view import ConfigValue
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import some

log = logging.getLogger(__name__)


# Effective configs of brokers. ZooKeeper has only the dynamic ones, and never what is in server.properties.


def read_effective_configs(
    kafka: KafkaConnection, brokers: Collection[int], *, of_the_rest: bool = False
) -> dict[int, dict[str, ConfigValue]]:
    """What applies on each broker now, by key, without sensitive values. Raises ReadError naming the broker.

    `of_the_rest`: a broker that does not answer is logged and absent, as long as another one answers.
    """
    admin = open_admin(kafka)
    # Each broker answers only for itself. So all requests go out before the first answer is awaited.
    resources = {broker: ConfigResource(ConfigResource.Type.BROKER, str(broker)) for broker in brokers}
    asked = {
        broker: admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource]
        for broker, resource in resources.items()
    }
    configs: dict[int, dict[str, ConfigValue]] = {}
    silent: ReadError | None = None
    for broker, answer in asked.items():
        try:
            entries = answer.result(REQUEST_SECONDS + 5)
        except (KafkaException, TimeoutError) as failed:
            silent = unread(
                failed,
                f"Broker {broker} does not tell its configs ({reason_of(failed)}). Check that the broker is up and "
                "that the Kafka user may describe the configs of the cluster: it needs DescribeConfigs on the cluster.",
            )
            if not of_the_rest:
                raise silent from failed
            log.warning("%s", silent)
            continue
        configs[broker] = {
            entry.name: ConfigValue(entry.value, ConfigSource(entry.source).name)
            for entry in entries.values()
            if not entry.is_sensitive
        }
    if silent is not None and not configs:
        raise silent
    return configs


# Configs that somebody has set: on topics, on single brokers, and on all brokers. Without defaults.


ALL_BROKERS = -1  # stands for the default of all brokers, whose resource has no name
TOPIC, BROKER = 2, 4  # ConfigResource.Type
_SET_ON_TOPIC, _SET_ON_BROKER, _SET_ON_ALL_BROKERS = 1, 2, 3  # DescribeConfigsResponse.ConfigSource
_AT_ONCE = 500  # topics in one request; a topic has about 35 configs


def read_topic_configs(wire: Wire, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """The configs that are set on each topic; one that does not exist has none. Raises ReadError naming the topic."""
    names = sorted(topics)
    topic_configs: dict[str, dict[str, str]] = {name: {} for name in names}
    for start in range(0, len(names), _AT_ONCE):
        topic_configs |= dict(_asked(wire, TOPIC, names[start : start + _AT_ONCE], {_SET_ON_TOPIC}))
    return topic_configs


def read_broker_configs(wire: Wire, brokers: Collection[int]) -> dict[int, dict[str, str]]:
    """The configs that are set on each of these live brokers, and as broker -1 those of all brokers. Raises ReadError.

    A broker answers for itself alone. Secrets are absent.
    """
    wait_for_own_configs(wire, brokers)
    found = {broker: _own(wire, broker) for broker in brokers}
    return {**found, ALL_BROKERS: dict(_asked(wire, BROKER, [""], {_SET_ON_ALL_BROKERS}))[""]}


def _ask_brokers(wire: Wire, brokers: Collection[int]) -> dict[int, dict[str, str]]:
    """The configs that are set on each, perhaps without what was written just now. Raises ReadError."""
    return {broker: _own(wire, fresh_broker(wire, broker, anew=False)) for broker in brokers}


def _own(wire: Wire, broker: int) -> dict[str, str]:
    return dict(_asked(wire, BROKER, [str(broker)], {_SET_ON_BROKER}, broker))[str(broker)]


def _asked(
    wire: Wire, kind: int, names: Collection[str], sources: Collection[int], broker: int | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """(name, configs from these sources) of each resource, as this broker tells it; None: any that is up to date."""
    request = describe_configs(kind, names)
    answer = read_fresh(wire, request, anew=False) if broker is None else wire.read(request, broker, repeat_seconds=0)
    for result in answer.results:
        if kind == TOPIC and result.error_code == UNKNOWN_TOPIC:
            continue
        if kind == TOPIC:
            what, needs = f"topic {result.resource_name}", "DescribeConfigs on all topics"
        else:
            what, needs = f"broker {result.resource_name or 'default'}", "DescribeConfigs on the cluster"
        check_read(f"The configs of {what}", needs, result.error_code, result.error_message)
        yield (
            result.resource_name,
            {
                config.name: config.value
                for config in sorted(result.configs, key=lambda config: config.name)
                if config.config_source in sources and config.value is not None
            },
        )


# Sets and removes throttles without ZooKeeper: rates on brokers, lists of replicas on topics.
#
# A list is never written as a whole. Entries are added and taken out one by one, and the controller merges them, so
# that what somebody else lists at the same moment stays (IncrementalAlterConfigs, KIP-339). After each write, a read
# waits until brokers have heard of it, up to half a second. So many topics are read, changed and read again together.


class _Do(IntEnum):
    """AlterConfigOp.OpType"""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


ConfigChange = tuple[str, _Do, str | None]
_Set = Mapping[str, Mapping[str, str]]


def merge_configs(
    wire: Wire,
    changes: Mapping[str, Mapping[str, str | None]],
    *,
    decided_on: _Set,
    registered: Collection[int],
    bound: Callable[[], float],
) -> None:
    """See `OpenCluster.merge_configs`. `registered` are the live brokers: only the broker itself takes its rate.

    `bound` is asked before each request for the time of `time.monotonic` after which it is not sent. Raises
    LockLostError then. Raises ConfigChangedError if somebody has changed a rate since or has set `*`, and WriteError
    for what the encoder refuses and for a broker that is away, before anything is written. Raises WriteError for what
    Kafka refuses, such as a topic that does not exist; it carries out the rest of that request.
    """
    rates, lists = dict[int, Mapping[str, str | None]](), dict[str, Mapping[str, str | None]]()
    for entity, values in sorted(changes.items()):
        problem = throttle_problem(entity, values)
        if problem:
            raise WriteError(f"config of {entity}: {problem}.")
        kind, _, name = entity.partition("/")
        if kind == "topics":
            lists[name] = values
        elif int(name) in registered:
            rates[int(name)] = values
        else:
            raise WriteError(f"{entity} is away, and only it can change its rate. Start it.")
    now_on_brokers = _ask_brokers(wire, rates)
    now_on_topics = read_topic_configs(wire, lists)
    of_brokers = {
        broker: _rate_changes(_entity(BROKER, broker), values, decided_on, now_on_brokers[broker])
        for broker, values in rates.items()
    }
    added, taken_out = dict[str, list[ConfigChange]](), dict[str, list[ConfigChange]]()
    for topic, values in lists.items():
        for key, value in sorted(values.items()):
            before, now = decided_on.get(_entity(TOPIC, topic), {}).get(key), now_on_topics[topic].get(key)
            # Two operations on one key in one request are refused.
            for changed, change in zip((added, taken_out), _list_changes(topic, key, value, before, now), strict=True):
                changed.setdefault(topic, []).extend(change)
    for broker, todo in of_brokers.items():
        _send(wire, BROKER, {str(broker): todo}, bound, broker)  # a broker takes its own config alone
    send = partial(_send, wire, TOPIC, bound=bound)
    if any([send(added), send(taken_out)]):
        now_on_topics = read_topic_configs(wire, lists)
    send({topic: _letters(values, now_on_topics[topic]) for topic, values in lists.items()})


def read_cannot_cordon(kafka: KafkaConnection, brokers: Collection[int]) -> dict[int, str]:
    """Those of these live brokers that cannot be cordoned, and why in Kafka's words; empty: it is unknown there.

    Kafka is asked with a change that it only checks: a broker of 4.3 or later knows the config, and a lower metadata
    version of its cluster still forbids it. A broker that does not know a config would take any value, so that is asked
    first. Raises ReadError naming the broker.
    """
    found = {}
    with open_wire(kafka) as wire:
        for broker in sorted(brokers):
            if not _knows_cordon(wire, broker):
                found[broker] = ""
                continue
            cordon = [set_or_delete(CORDON, EVERY_LOG_DIR)]
            request = alter_configs(BROKER, {str(broker): cordon}, validate_only=True)
            (answer,) = wire.read(request, broker).responses
            if answer.error_code:
                found[broker] = answer.error_message or code_in_words(answer.error_code)
    return found


def _knows_cordon(wire: Wire, broker: int) -> bool:
    request = describe_configs(BROKER, [str(broker)], [CORDON])
    (answer,) = wire.read(request, broker).results
    check_read(
        f"The configs of broker {broker}",
        "DescribeConfigs on the cluster",
        answer.error_code,
        answer.error_message,
    )
    return any(config.name == CORDON for config in answer.configs)


def _rate_changes(
    entity: str, changes: Mapping[str, str | None], decided_on: _Set, now: Mapping[str, str]
) -> list[ConfigChange]:
    before = decided_on.get(entity, {})
    # A key that has the new value already may be our own write, whose answer was lost.
    others = sorted(key for key, new in changes.items() if now.get(key) not in (before.get(key), new))
    if others:
        raise _changed(entity, ", ".join(others))
    return [set_or_delete(key, value) for key, value in sorted(changes.items()) if now.get(key) != value]


def _list_changes(
    topic: str, key: str, wanted: str | None, before: str | None, now: str | None
) -> tuple[list[ConfigChange], list[ConfigChange]]:
    """(what to set or add, what to take out)"""
    if EVERY_REPLICA in (_entries(now, key), wanted) and now != wanted:
        if _entries(before, key) != _entries(now, key):
            raise _changed(_entity(TOPIC, topic), key)
        return [set_or_delete(key, wanted)], []
    had, has, want = (set(_listed(value, key)) for value in (before, now, wanted))
    added, taken_out = want - had - has, (had - want) & has
    return (
        [(key, _Do.APPEND, _joined(added, wanted, key))] if added else [],
        [(key, _Do.SUBTRACT, _joined(taken_out, now, key))] if taken_out else [],
    )


def _letters(changes: Mapping[str, str | None], now: Mapping[str, str]) -> list[ConfigChange]:
    """The last entry leaves an empty list behind, and a list that was written with blanks has none any more."""
    return [
        set_or_delete(key, wanted)
        for key, wanted in sorted(changes.items())
        if now.get(key) != wanted and set(_listed(now.get(key), key)) == set(_listed(wanted, key))
    ]


def _entries(value: str | None, key: str) -> str | None:
    """`*`, or None for a list of single replicas."""
    return EVERY_REPLICA if value is not None and parse_throttled_replicas(value, key) == (EVERY_REPLICA,) else None


def _listed(value: str | None, key: str) -> tuple[str, ...]:
    return () if value is None else parse_throttled_replicas(value, key)


def _joined(entries: Collection[str], order: str | None, key: str) -> str:
    return format_throttled_replicas(one for one in _listed(order, key) if one in entries)


def _entity(kind: int, name: object) -> str:
    return f"{'brokers' if kind == BROKER else 'topics'}/{name}"


def _send(
    wire: Wire,
    kind: int,
    changes: Mapping[str, Sequence[ConfigChange]],
    bound: Callable[[], float],
    broker: int | None = None,
) -> bool:
    """By names of brokers or topics. Returns whether there was anything to send."""
    todo = {name: some_of_it for name, some_of_it in changes.items() if some_of_it}
    names = list(todo)
    for start in range(0, len(names), _AT_ONCE):
        _send_at_once(wire, kind, {name: todo[name] for name in names[start : start + _AT_ONCE]}, bound, broker)
    return bool(todo)


def _send_at_once(
    wire: Wire, kind: int, todo: Mapping[str, Sequence[ConfigChange]], bound: Callable[[], float], broker: int | None
) -> None:
    request = alter_configs(kind, todo)
    subject = some([_entity(kind, name) for name in todo])
    what = f"the change of the throttle of {subject}"
    answer = wire.write(request, what, Kind.CONFIG, subject, broker=broker, not_later_than=bound())
    refused = []
    for name, result in zip(todo, answer.responses, strict=True):
        if result.error_code:
            refused.append((name, result))
        else:
            note(Kind.CONFIG, _entity(kind, name))
    for name, result in refused:
        said = result.error_message or for_code(result.error_code).__name__
        remedy, error = "Clear this task: it reads again", WriteError
        if result.error_code in NOT_AUTHORIZED:
            error = WriteDeniedError
            remedy = f"Grant the Kafka user AlterConfigs on {'the cluster' if kind == BROKER else 'the topics'}"
        raise error(
            f"Kafka refused the change of the throttle of {_entity(kind, name)} "
            f"({for_code(result.error_code).__name__}: {said}). {remedy}."
        )


def _changed(entity: str, keys: str) -> ConfigChangedError:
    return ConfigChangedError(
        f"config of {entity}: somebody else has changed {keys} since it was read. Their value stays. Clear this task: "
        "it reads again and goes on."
    )


# Requests about configs, whoever sends them.


def describe_configs(kind: int, names: Collection[str], keys: Collection[str] | None = None) -> DescribeConfigsRequest:
    """Of these topics or brokers, all configs or those of these keys."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        resource(resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys))
        for name in names
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)


def alter_configs(
    kind: int, changes: Mapping[str, Sequence[ConfigChange]], *, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """`changes`: by the names of topics or brokers. Other configs stay."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [
        resource(
            resource_type=kind,
            resource_name=name,
            configs=[
                resource.AlterableConfig(name=key, config_operation=int(do), value=value)
                for key, do, value in changes_of_one
            ],
        )
        for name, changes_of_one in changes.items()
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def set_or_delete(key: str, value: str | None) -> ConfigChange:
    return (key, _Do.DELETE if value is None else _Do.SET, value)
