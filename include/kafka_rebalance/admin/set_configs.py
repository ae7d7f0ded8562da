"""Configs that somebody has set: on topics, on single brokers, and on all brokers. Without defaults."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafka.protocol.admin import DescribeConfigsRequest

from kafka_rebalance.admin.quorum import fresh_broker, read_fresh, wait_for_own_configs
from kafka_rebalance.admin.wire import Wire, check_read

ALL_BROKERS = -1  # stands for the default of all brokers, whose resource has no name
TOPIC, BROKER = 2, 4  # ConfigResource.Type
_SET_ON_TOPIC, _SET_ON_BROKER, _SET_ON_ALL_BROKERS = 1, 2, 3  # DescribeConfigsResponse.ConfigSource
_UNKNOWN_TOPIC = 3
_AT_ONCE = 500  # topics in one request; a topic has about 35 configs


def read_topic_configs(wire: Wire, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """The configs that are set on each topic; one that does not exist has none. Raises ReadError naming the topic."""
    names = sorted(topics)
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for start in range(0, len(names), _AT_ONCE):
        found |= dict(_asked(wire, TOPIC, names[start : start + _AT_ONCE], {_SET_ON_TOPIC}))
    return found


def read_broker_configs(wire: Wire, brokers: Collection[int]) -> dict[int, dict[str, str]]:
    """The configs that are set on each of these live brokers, and as broker -1 those of all brokers. Raises ReadError.

    A broker answers for itself alone. Secrets are absent.
    """
    wait_for_own_configs(wire, brokers)
    found = {broker: _own(wire, broker) for broker in brokers}
    return {**found, ALL_BROKERS: dict(_asked(wire, BROKER, [""], {_SET_ON_ALL_BROKERS}))[""]}


def ask_brokers(wire: Wire, brokers: Collection[int]) -> dict[int, dict[str, str]]:
    """The configs that are set on each, perhaps without what was written just now. Raises ReadError."""
    return {broker: _own(wire, fresh_broker(wire, broker, anew=False)) for broker in brokers}


def _own(wire: Wire, broker: int) -> dict[str, str]:
    return dict(_asked(wire, BROKER, [str(broker)], {_SET_ON_BROKER}, broker))[str(broker)]


def _asked(
    wire: Wire, kind: int, names: Collection[str], sources: Collection[int], broker: int | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """(name, configs from these sources) of each resource, as this broker tells it; None: any that is up to date."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names]
    request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
    answer = read_fresh(wire, request, anew=False) if broker is None else wire.read(request, broker, repeat_seconds=0)
    for result in answer.results:
        if kind == TOPIC and result.error_code == _UNKNOWN_TOPIC:
            continue
        if kind == TOPIC:
            what, needs = f"topic {result.resource_name}", "DescribeConfigs on all topics"
        else:
            what, needs = f"broker {result.resource_name or 'default'}", "DescribeConfigs on the cluster"
        check_read(f"The configs of {what}", needs, result.error_code, result.error_message)
        yield (
            result.resource_name,
            {
                one.name: one.value
                for one in sorted(result.configs, key=lambda one: one.name)
                if one.config_source in sources and one.value is not None
            },
        )
