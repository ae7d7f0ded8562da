"""From a znode's bytes to checked values. Everything that is not as Kafka writes it is a `CorruptZnodeError`."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import NoReturn

from kafka_rebalance.errors import CorruptZnodeError
from kafka_rebalance.kafka.java_text import INT_MAX, LONG_MAX

# Topic.validate (clients): ASCII letters, digits, dot, underscore, hyphen; at most 249 characters.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def corrupt(path: str, wrong: str) -> CorruptZnodeError:
    """The error for one znode, to be raised by the caller."""
    return CorruptZnodeError(
        f"{path}: {wrong}. It was left as it is. "
        f"Look at it with `zookeeper-shell.sh HOSTS get {path}` and repair it before going on."
    )


def shortened(value: object) -> str:
    """The value in an error text, shortened: a corrupt znode can hold a megabyte."""
    return reprlib.repr(value)


def parse_object(path: str, data: bytes | None) -> dict[str, object]:
    """The JSON object in a znode. Extra keys are kept; later Kafka versions add some."""
    if not data:
        raise corrupt(path, "it is empty, a JSON object is expected")
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise corrupt(path, f"it is not UTF-8: {shortened(data)}") from None
    except (ValueError, RecursionError) as bad:
        # ValueError is also what an integer of more than 4,300 digits gives.
        raise corrupt(path, f"it is not JSON ({shortened(str(bad))}): {shortened(data)}") from None
    if not isinstance(document, dict):
        raise corrupt(path, f"a JSON object is expected, not {shortened(document)}")
    return document


def _refuse_constant(constant: str) -> NoReturn:
    # Python's parser takes NaN and Infinity, JSON and Kafka's Jackson do not.
    raise ValueError(f"{constant} is not JSON")


def parse_version(path: str, fields: Mapping[str, object], *, required: bool = False) -> int:
    """`version`, 1 where it is absent and need not be there. Unknown higher versions are read like the newest."""
    if "version" not in fields and not required:
        return 1
    return json_integer(path, "version", fields.get("version"), least=1)


def json_integer(path: str, name: str, value: object, *, least: int = 0) -> int:
    """A JSON integer of 32 bits. Text, floats and booleans are refused: a text id costs the cluster its controller."""
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
    """A JSON object inside the document."""
    if not isinstance(value, dict):
        raise corrupt(path, f"{name} must be a JSON object, not {shortened(value)}")
    return value


def parse_list(path: str, name: str, value: object) -> Sequence[object]:
    """A JSON list inside the document."""
    if not isinstance(value, list):
        raise corrupt(path, f"{name} must be a list, not {shortened(value)}")
    return value


def parse_brokers(path: str, name: str, value: object) -> tuple[int, ...]:
    """A list of broker ids.

    Empty lists and repeated ids are returned as they stand: Kafka does store them after a bad reassignment, and a
    cluster in that condition must stay readable. `model.replica_list.replica_list_problem` names them.
    """
    return tuple(json_integer(path, f"each broker id of {name}", broker) for broker in parse_list(path, name, value))


def parse_milliseconds(path: str, name: str, value: object) -> int | None:
    """A time that Kafka writes as a text of milliseconds; None where it is absent."""
    if value is None:
        return None
    text = str(value) if type(value) is int and 0 <= value <= LONG_MAX else value
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise corrupt(path, f"{name} must be a text of milliseconds, not {shortened(value)}")
    return int(text)


def parse_partition_key(path: str, name: str, key: str) -> int:
    """A partition id that is a key of a JSON object, hence a text: `"7"`, never `"07"` or `"+7"`."""
    if not _DECIMAL.fullmatch(key) or int(key) > INT_MAX:
        raise corrupt(path, f"{name} has the key {shortened(key)}, which is not a partition id")
    return int(key)


def is_topic_name(name: object) -> bool:
    """Whether Kafka could have given a topic this name."""
    return isinstance(name, str) and bool(_TOPIC_NAME.fullmatch(name)) and name not in {".", ".."}


def parse_topic_name(path: str, name: str, value: object) -> str:
    """A legal topic name."""
    if not isinstance(value, str) or not is_topic_name(value):
        raise corrupt(path, f"{name} must be a topic name, not {shortened(value)}")
    return value


def compact_json(document: Mapping[str, object]) -> bytes:
    """No blanks, as Kafka writes. Escaped to ASCII: a config kept as it was read may hold half a surrogate pair."""
    return json.dumps(document, separators=(",", ":")).encode()
