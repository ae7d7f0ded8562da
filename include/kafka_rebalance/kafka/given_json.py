"""JSON that a person gives, read so that nothing of it is lost. Each error names line and column.

Kafka's tools read the first value of a text, ignore what follows, and of a field that comes twice take the last. Half
of what was meant would then be approved, so here both are refused.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, NoReturn

from kafka_rebalance.errors import KafkaRuleError, SettingsError
from kafka_rebalance.kafka.jackson import refuse_constant

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
        at = next(found for found in _CONSTANT.finditer(text, begins) if found[1])
        _no_json(text, at.start(), f"{at[1]} is no number in JSON")
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
    said = wrong.msg[0].lower() + wrong.msg[1:].removesuffix(" at")
    return next((cause for holds, cause in causes if holds), said)


def _comes_twice(text: str, start: int) -> tuple[str, int]:
    """(name, place) of the first field that its object has already. The text is JSON."""
    objects: list[set[str] | None] = []  # None: a list
    for found in _TOKEN.finditer(text, start):
        match found[0]:
            case "{":
                objects.append(set())
            case "[":
                objects.append(None)
            case "}" | "]":
                objects.pop()
            case _ if found[2]:
                fields, name = objects[-1], json.loads(found[1])
                if fields is not None:
                    if name in fields:
                        return name, found.start()
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
