"""Reads checked values from a znode's bytes. Whatever Kafka would not write raises `CorruptZnodeError`."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from kafka_rebalance.errors import CorruptZnodeError
from kafka_rebalance.kafka.jackson import refuse_constant
from kafka_rebalance.kafka.java_text import INT_MAX, LONG_MAX
from kafka_rebalance.model.replica_list import replica_list_problem

# Topic.validate (clients): ASCII letters, digits, dot, underscore, hyphen; at most 249 characters.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def corrupt(path: str, wrong: str) -> CorruptZnodeError:
    return CorruptZnodeError(
        f"{path}: {wrong}. It was left as it is. "
        f"Look at it with `zookeeper-shell.sh HOSTS get {path}` and repair it before going on."
    )


def shortened(value: object) -> str:
    """The value for an error text. It is cut, because a corrupt znode can hold a megabyte."""
    return reprlib.repr(value)


def parse_object(path: str, data: bytes | None) -> dict[str, object]:
    """The JSON object in a znode. Unknown keys stay, because later Kafka versions add some."""
    if not data:
        raise corrupt(path, "it is empty, but Kafka writes a JSON object")
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
    except UnicodeDecodeError:
        raise corrupt(path, f"it is not UTF-8: {shortened(data)}") from None
    except (ValueError, RecursionError) as bad:
        # An integer of more than 4,300 digits also raises ValueError.
        raise corrupt(path, f"it is not JSON ({shortened(str(bad))}): {shortened(data)}") from None
    if not isinstance(document, dict):
        raise corrupt(path, f"it must be a JSON object, not {shortened(document)}")
    return document


def parse_version(path: str, fields: Mapping[str, object], *, required: bool = False) -> int:
    """The `version`; if it is absent and not `required`, it is 1. Unknown higher versions are read like the newest."""
    return json_integer(path, "version", fields.get("version", None if required else 1), least=1)


def json_integer(path: str, name: str, value: object, *, least: int = 0) -> int:
    """A JSON integer of 32 bits, never a text, float or boolean. A text id costs the cluster its controller."""
    if type(value) is not int:
        raise corrupt(path, f"{name} must be a JSON integer, not {shortened(value)}")
    if not least <= value <= INT_MAX:
        raise corrupt(path, f"{name} must be from {least} to {INT_MAX}, not {shortened(value)}")
    return value


def parse_text(path: str, name: str, value: object) -> str:
    """A JSON string that is not empty."""
    if not isinstance(value, str) or not value:
        raise corrupt(path, f"{name} must be a text, not {shortened(value)}")
    return value


def parse_object_field(path: str, name: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise corrupt(path, f"{name} must be a JSON object, not {shortened(value)}")
    return value


def parse_list(path: str, name: str, value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise corrupt(path, f"{name} must be a list, not {shortened(value)}")
    return value


def parse_brokers(path: str, name: str, value: object) -> tuple[int, ...]:
    """A list of broker ids, which may be empty or repeat an id.

    Kafka stores such lists after a bad reassignment, and the cluster must stay readable. `replica_list_problem` names
    them.
    """
    return tuple(json_integer(path, f"each broker id of {name}", broker) for broker in parse_list(path, name, value))


def parse_milliseconds(path: str, name: str, value: object) -> int | None:
    """A time that Kafka writes as a text of milliseconds; None if it is absent."""
    if value is None:
        return None
    text = str(value) if type(value) is int and 0 <= value <= LONG_MAX else value
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise corrupt(path, f"{name} must be a text of milliseconds, not {shortened(value)}")
    return int(text)


def parse_partition_key(path: str, name: str, key: str) -> int:
    """A partition id as a key of a JSON object: `"7"`, never `"07"` or `"+7"`."""
    if not _DECIMAL.fullmatch(key) or int(key) > INT_MAX:
        raise corrupt(path, f"{name} has the key {shortened(key)}, which is not a partition id")
    return int(key)


def is_topic_name(name: object) -> TypeGuard[str]:
    """Whether Kafka accepts this name for a topic."""
    return isinstance(name, str) and bool(_TOPIC_NAME.fullmatch(name)) and name not in {".", ".."}


def list_problem(replicas: object) -> str | None:
    """Why this replica list must not be written, or None."""
    if not isinstance(replicas, list | tuple):
        return "the replicas are not a list of broker ids"
    over = [broker for broker in replicas if type(broker) is int and broker > INT_MAX]
    return f"broker {over[0]} is beyond the largest broker id" if over else replica_list_problem(replicas)


def compact_json(document: Mapping[str, object]) -> bytes:
    """JSON without blanks, as Kafka writes it. It is ASCII, because a config may hold half a surrogate pair."""
    return json.dumps(document, separators=(",", ":")).encode()
