"""The configs of a broker, and the level on which each value was set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class ConfigValue(NamedTuple):
    """`value` None: not set. `source` is Kafka's name of its level, as in `DYNAMIC_BROKER_CONFIG`."""

    value: str | None
    source: str


BrokerConfigs: TypeAlias = Mapping[str, tuple[str | None, str]]  # key -> ConfigValue, or a plain pair
ConfigsByBroker: TypeAlias = Mapping[int, BrokerConfigs]


DEFAULT_BROKER = -1  # stands for /config/brokers/<default>


def entity_of(broker: int) -> str:
    """`brokers/1`, or `brokers/<default>`."""
    return "brokers/<default>" if broker == DEFAULT_BROKER else f"brokers/{broker}"
