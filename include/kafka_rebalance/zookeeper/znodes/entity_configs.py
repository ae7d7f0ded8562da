"""The znodes of dynamic configs, and the notification that tells brokers of a change."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_rebalance.errors import WriteError
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.json_fields import (
    compact_json,
    corrupt,
    parse_object,
    parse_object_field,
    parse_version,
    shortened,
)


def decode_config(data: bytes | None, entity: str = "ENTITY") -> dict[str, str]:
    """`/config/topics/T`, `/config/brokers/N` (ConfigEntityZNode); an empty znode holds no config, as for Kafka.

    `entity` ("topics/T", "brokers/N") is for the error text. Every value must be a text: brokers cannot load others.
    """
    if not data:
        return {}
    path = paths.config_path(entity)
    fields = parse_object(path, data)
    parse_version(path, fields)
    config = parse_object_field(path, "config", fields.get("config"))
    values = {key: value for key, value in config.items() if isinstance(value, str)}
    if len(values) < len(config):
        # The value itself stays out of the text: a broker's dynamic config may hold a password.
        wrong = sorted(shortened(key) for key in config.keys() - values.keys())
        raise corrupt(path, f"every value must be a text; {', '.join(wrong[:5])} is not")
    return values


def encode_config(config: Mapping[str, str]) -> bytes:
    """The document of one entity, keys in the order given. Raises WriteError if a key or value is not a text."""
    for key, value in config.items():
        if not isinstance(key, str) or not key or not isinstance(value, str):
            raise WriteError(f"config {shortened(key)}: key and value must be texts.")
    return compact_json({"version": 1, "config": dict(config)})


def encode_config_change(entity: str) -> bytes:
    """The notification in `/config/changes`. Without it, brokers see a change only after a restart."""
    return compact_json({"version": 2, "entity_path": entity})
