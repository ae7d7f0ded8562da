"""JSON that people and Kafka's tools give, read so that nothing of it is lost, by Jackson's and Java's rules."""

from __future__ import annotations

import codecs
import json
import math
import re
from decimal import Decimal
from typing import Any, NoReturn

from kafka_rebalance.errors import KafkaRuleError, SettingsError

# JSON that a person gives, read so that nothing of it is lost. Each error names line and column.
#
# Kafka's tools read the first value of a text, ignore what follows, and of a field that comes twice take the last.
# Half of what was meant would then be approved, so here both are refused.


_MARK = "\ufeff"  # a byte order mark
_BLANKS = " \t\n\r"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = 30  # characters of the text, in an error
_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"({_STRING})([ \t\n\r]*:)?|[{{}}\[\]]", re.DOTALL)
_CONSTANT = re.compile(rf"{_STRING}|(-?Infinity|NaN)", re.DOTALL)
_UNTOUCHED = "Nothing was written."


def decode_given(content: bytes, where: str) -> str:
    """The text of a file, without a byte order mark. Raises SettingsError, which names `where`, unless it is UTF-8."""
    if content.startswith(_UTF_16) or b"\0" in content[:4]:
        raise SettingsError(
            f"{where} is UTF-16 text, but only UTF-8 is read. {_UNTOUCHED} Save it as UTF-8; in PowerShell, add "
            "`-Encoding utf8` to Out-File."
        )
    try:
        return content.decode().removeprefix(_MARK)
    except UnicodeDecodeError as wrong:
        before = content[: wrong.start].decode()
        raise SettingsError(
            f"{where} is not UTF-8 text: byte 0x{content[wrong.start]:02x} at {_place(before, len(before))} belongs to "
            f"no character. {_UNTOUCHED} Save it as UTF-8."
        ) from wrong


def one_json_value(text: str, start: int = 0) -> str:
    """The text from `start` on, without a byte order mark: one whole JSON value, in which no field comes twice.

    Raises KafkaRuleError with Kafka's message if Kafka reads nothing either, SettingsError if it would lose a part.
    """
    start += text.startswith(_MARK, start)
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> None:
        if not twice and len({name for name, _ in pairs}) < len(pairs):
            twice.append("a field comes twice")

    decoder = json.JSONDecoder(object_pairs_hook=once, parse_int=str, parse_float=str, parse_constant=refuse_constant)
    begins = len(text) - len(text[start:].lstrip(_BLANKS))
    try:
        _, end = decoder.raw_decode(text, begins)
    except json.JSONDecodeError as wrong:
        _no_json(text, wrong.pos, _what_is_wrong(text, begins, wrong))
    except RecursionError:
        _no_json(text, begins, "the text is nested too deeply")
    except ValueError:  # a constant, of which Python does not say the place
        constant = next(found for found in _CONSTANT.finditer(text, begins) if found[1])
        _no_json(text, constant.start(), f"{constant[1]} is no number in JSON")
    if rest := text[end:].lstrip(_BLANKS):
        at_rest = len(text) - len(rest)
        what = "a second JSON value begins" if rest[0] in '{["' else "the text goes on after its JSON"
        raise _lossy(
            text, at_rest, what, "Kafka's tools would ignore it. Make one text of all that is meant, and only that."
        )
    if twice:
        name, place = _comes_twice(text, begins)
        raise _lossy(
            text, place, f"the field {name!r} comes a second time in its object",
            "Kafka's tools would take one of them and ignore the other. Make one of both.",
        )  # fmt: skip
    return text[start:]


def _what_is_wrong(text: str, start: int, wrong: json.JSONDecodeError) -> str:
    here, before = text[wrong.pos : wrong.pos + 2], text[start : wrong.pos].rstrip(_BLANKS)
    causes = (
        (not here.strip(_BLANKS), "the text ends before its JSON does" if before else "there is no JSON"),
        (here.startswith(("//", "/*", "#")), "a comment, which JSON does not have; take it out"),
        (here[:1] in "]}" and before.endswith(","), "the comma before it is one too many; take it out"),
        (here[:1] == ",", "this comma is one too many, or a value is missing"),
        (here[:1] == "'", "JSON has only double quotes"),
        (here[:1] == "\\", "a backslash that JSON does not have there"),
    )
    message = wrong.msg[0].lower() + wrong.msg[1:].removesuffix(" at")
    return next((cause for holds, cause in causes if holds), message)


def _comes_twice(text: str, start: int) -> tuple[str, int]:
    """(name, place) of the first field that its object has already. The text is JSON."""
    objects: list[set[str] | None] = []  # None: a list
    for token in _TOKEN.finditer(text, start):
        match token[0]:
            case "{":
                objects.append(set())
            case "[":
                objects.append(None)
            case "}" | "]":
                objects.pop()
            case _ if token[2]:
                fields, name = objects[-1], json.loads(token[1])
                if fields is not None:
                    if name in fields:
                        return name, token.start()
                    fields.add(name)
    raise AssertionError("no field comes twice")


def _no_json(text: str, at: int, what: str) -> NoReturn:
    raise KafkaRuleError(
        "The input string is not a valid JSON",
        f"At {_place(text, at)}: {what}. {_UNTOUCHED} Correct the text.",
    ) from None


def _lossy(text: str, at: int, what: str, remedy: str) -> SettingsError:
    return SettingsError(f"At {_place(text, at)}: {what}. {_UNTOUCHED} {remedy}")


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    shown = " ".join(text[at : at + _SHOWN].split())
    return f"line {line}, column {column}" + (f" ({shown!r})" if shown else "")


# JSON as Kafka's tools read it, and values as their messages show them: by Jackson's rules, not by Python's.
#
# Source: kafka.utils.Json.parseFull and kafka.utils.json.DecodeJson of 2.0, on Jackson 2.9.


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
            return "{" + ",".join(f"{_quoted(name)}:{_show(member)}" for name, member in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_show, value)) + "]"
        case OtherNumber():
            return str(value)
        case str():
            return _quoted(value)
    return str(value)


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda character: _ESCAPES.get(character[0], f"\\u{ord(character[0]):04X}"), text) + '"'


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


# Text as Java reads, compares and prints it, if that decides what Kafka accepts and answers.


INT_MAX = 2**31 - 1  # Integer.MAX_VALUE
LONG_MAX = 2**63 - 1  # Long.MAX_VALUE

_JAVA_BLANKS = "".join(map(chr, range(0x21)))
# Decimal digits of every script, as in Character.digit; Python does not convert a number with thousands of digits.
_INTEGER = re.compile(r"[+-]?\d{1,1000}")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def trim(text: str) -> str:
    """`text` without characters up to U+0020 at both ends; other white space stays (String.trim)."""
    return text.strip(_JAVA_BLANKS)


def split(text: str, pattern: str) -> list[str]:
    """The parts between matches of `pattern`, without empty parts at the end (String.split)."""
    parts = re.split(pattern, text, flags=re.ASCII)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


def parse_integer(text: str, bits: int = 32) -> int:
    """A signed integer of that size. Raises ValueError with Java's message (Integer.parseInt, Long.parseLong)."""
    # Java reads single UTF-16 units, and a digit outside the basic plane has two of them.
    if _INTEGER.fullmatch(text) and max(text) <= "\uffff":
        value = int(text)
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise ValueError(f'For input string: "{text}"')


def parse_double(text: str) -> float:
    """A double, also NaN, Infinity, hexadecimal digits, and with a suffix d or f (Double.parseDouble)."""
    if match := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    raise ValueError(f'For input string: "{text}"')


def format_double(value: float) -> str:
    """The shortest digits for `value`; below 0.001 and from 10 million on with an exponent (Double.toString)."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def utf16_length(text: str) -> int:
    """The length in Java, in UTF-16 units (String.length)."""
    return len(utf16_order(text)) // 2


def utf16_order(text: str) -> bytes:
    """A sort key for Java's order: by UTF-16 unit, not by code point (String.compareTo)."""
    return text.encode("utf-16-be", "surrogatepass")
