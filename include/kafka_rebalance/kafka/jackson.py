"""JSON as Kafka's tools read it, and values as their messages show them: by Jackson's rules, not by Python's.

Source: kafka.utils.Json.parseFull and kafka.utils.json.DecodeJson of 2.0, on Jackson 2.9.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.java_text import format_double, parse_integer

_BLANKS = " \t\n\r"
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')  # half a surrogate pair could not be logged


class OtherNumber(str):
    """The text of a number that is no `Int` for Kafka: it needs more than 32 bits, or has a point or an exponent."""

    __slots__ = ()


def parse_json(text: str) -> object:
    """The first JSON value in `text`. Like Jackson, it ignores what follows.

    Integers of 32 bits are `int`, all other numbers `OtherNumber`. All functions of this module raise KafkaRuleError
    with Kafka's message.
    """
    # A backslash that starts no escape stands for itself (SSL principals written before 1.0.1).
    for candidate in (text, text.replace("\\", "\\\\")):
        try:
            return _parse(candidate)
        except ValueError:
            continue
        except RecursionError:
            break
    raise KafkaRuleError("The input string is not a valid JSON", "Nothing was written. Correct the text.")


def _parse(text: str) -> object:
    value, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip(_BLANKS)))
    if (value is None or isinstance(value, int | OtherNumber)) and text[end : end + 1].strip(_BLANKS):
        raise ValueError("a number or a word goes on")
    return value


def required(fields: dict[str, object], name: str) -> object:
    if name not in fields:
        raise _wrong(f"No such field exists: `{name}`")
    return fields[name]


def as_object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _wrong(f"Expected JSON object, received {show(value)}")
    return value


def as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(f"Expected JSON array, received {show(value)}")
    return value


def as_int(value: object) -> int:
    """A JSON integer of 32 bits: no text, no 1.0, no true."""
    if type(value) is not int:
        raise _wrong(f"Expected `Int` value, received {show(value)}")
    return value


def as_text(value: object) -> str:
    """A JSON string without half a surrogate pair, which has no bytes."""
    if not isinstance(value, str) or isinstance(value, OtherNumber):
        raise _wrong(f"Expected `String` value, received {show(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as lone:
        raise KafkaRuleError(
            "The input string is not a valid JSON", f"{lone}. Nothing was written. Correct the text."
        ) from None
    return value


def show(value: object) -> str:
    """A value as Kafka's messages show it (JsonNode.toString): compact, with as few escapes as possible."""
    try:
        return _show(value)
    except RecursionError:
        return "a value that is nested too deeply to be shown"


def _show(value: object) -> str:
    match value:
        case None | True | False:
            return json.dumps(value)
        case dict():
            return "{" + ",".join(f"{_quoted(name)}:{_show(held)}" for name, held in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_show, value)) + "]"
        case OtherNumber():
            return str(value)
        case str():
            return _quoted(value)
    return str(value)


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}"), text) + '"'


def _integer(text: str) -> int | OtherNumber:
    try:
        return parse_integer(text)
    except ValueError:
        return OtherNumber(text)


def _double(text: str) -> OtherNumber:
    return OtherNumber(format_double(float(text)))


def refuse_constant(constant: str) -> NoReturn:
    """For `json`: Python's parser accepts NaN and Infinity, but neither JSON nor Jackson does."""
    raise ValueError(f"{constant} is not JSON")


def _wrong(kafka_message: str) -> KafkaRuleError:
    return KafkaRuleError(kafka_message, "Nothing was written. Correct the text.")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_double, parse_constant=refuse_constant)
