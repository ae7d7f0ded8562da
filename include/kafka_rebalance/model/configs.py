"""What applies on a broker, and on which level each value was set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class ConfigValue(NamedTuple):
    """`value` None: not set. `source` is Kafka's name of the level it comes from, as in `DYNAMIC_BROKER_CONFIG`."""

    value: str | None
    source: str


BrokerConfigs: TypeAlias = Mapping[str, tuple[str | None, str]]  # key -> ConfigValue, or as plain a pair
ConfigsByBroker: TypeAlias = Mapping[int, BrokerConfigs]
