"""The znodes of dynamic configs, and the notification that tells brokers of a change."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafka_rebalance.errors import WriteError
from kafka_rebalance.kafka.java_text import INT_MAX, LONG_MAX
from kafka_rebalance.kafka.throttles import LIST_KEYS, RATE_KEYS
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.json_fields import (
    compact_json,
    corrupt,
    is_topic_name,
    parse_object,
    parse_object_field,
    parse_version,
    shortened,
)

_RATE = re.compile(r"[0-9]{1,19}", re.ASCII)
# ThrottledReplicaListValidator: `*`, or partition:broker pairs, or nothing.
_REPLICA_LIST = re.compile(r"\*|(?:[0-9]{1,10}:[0-9]{1,10}(?:\s*,\s*[0-9]{1,10}:[0-9]{1,10})*)?", re.ASCII)


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
            raise WriteError(f"config {shortened(key)}: key and value must be texts. Nothing was written.")
    return compact_json({"version": 1, "config": dict(config)})


def encode_config_change(entity: str) -> bytes:
    """The notification in `/config/changes`. Without it, brokers see a change only after a restart."""
    return compact_json({"version": 2, "entity_path": entity})


def throttle_problem(entity: str, changes: Mapping[str, str | None]) -> str | None:
    """Why these changes must not be written, or None. A rebalance writes only throttle keys.

    `entity` is `brokers/N` or `topics/T`. A value of None removes the key. Rates are whole bytes a second
    (DynamicConfig.Broker); replica lists are `partition:broker` pairs or `*` (ThrottledReplicaListValidator).
    """
    kind, _, name = entity.partition("/")
    if kind == "brokers" and re.fullmatch(r"0|[1-9][0-9]{0,9}", name, re.ASCII) and int(name) <= INT_MAX:
        allowed = RATE_KEYS
    elif kind == "topics" and is_topic_name(name):
        allowed = LIST_KEYS
    else:
        return f"{shortened(entity)} is neither brokers/ID nor topics/NAME"
    for key, value in changes.items():
        if key not in allowed:
            return f"{shortened(key)} is not a throttle key of {kind}; these are {', '.join(sorted(allowed))}"
        if value is None:
            continue
        if not isinstance(value, str):
            return f"{key} must be a text, not {shortened(value)}"
        if key in RATE_KEYS and not (_RATE.fullmatch(value) and int(value) <= LONG_MAX):
            return f"{key} must be whole bytes a second, not {shortened(value)}"
        if key in LIST_KEYS and not _REPLICA_LIST.fullmatch(value):
            return f"{key} must be partition:broker pairs or *, not {shortened(value)}"
    return None
