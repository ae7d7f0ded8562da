"""Documents that are nearly right, from a seed: valid ones with one to three things wrong, as values and as bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import yaml

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**63,
    10**30,
    0.0,
    1.0,
    0.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "0",
    "1",
    "-1",
    "1.0",
    "true",
    "null",
    "a" * 300,
    ".",
    "..",
    "a/b",
    "ü",
    "١",  # a decimal digit to Python
    "\x00",
    "\ud800",
    "0:1",
    "0:1,",
    "*",
    "99999999999:1",
    [],
    [[]],
    [1, 1],
    ["1", 2],
    [1.0],
    [True],
    [-1],
    [2**31],
    [None],
    {},
    {"": 0},
    {"0": [1, "2"]},
    {"-1": []},
    {"00": [1]},
    {"x": {"y": [{"z": None}]}},
)
DEEP = "nested as deep as can be"  # stands for such a value until the document is text
_GARBAGE = (
    b"",
    b" ",
    b"null",
    b"[]",
    b"{}",
    b"0",
    b'""',
    b"{",
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"1" * 5_000,
    b'{"version":' + b"9" * 5_000 + b"}",
    b"true",
    b"{}{}",
    b"\x00" * 8,
)


_YAML = (
    "&a [*a]",
    "*a",
    "&a x",
    "<<: 5",
    "<<: {max_bytes: 5}",
    "!!int x",
    "!!float x",
    "!!bool x",
    "!!timestamp x",
    "!!binary x",
    "!!set {a, b}",
    "!!python/object/apply:os.system ['true']",
    "!own x",
    "2001-99-99",
    "2001-12-14t21:59:43.10-99:00",
    "190:20:30",
    ".nan",
    ".inf",
    "0x" + "f" * 4_000,
    "9" * 5_000,
    "0b1",
    "yes",
    "~",
    "---",
    "...",
    "%YAML 9.9",
    "? [1]",
    "|",
    ">-",
    "\t",
    "{a: 1, a: 2}",
    "[" * 500,
)


def spoiled(rng: random.Random, valid: Any) -> Any:
    """A copy of the document with one to three things wrong (now and then none)."""
    document = copy.deepcopy(valid)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _spoil(rng, document)
    return document


def spoiled_bytes(rng: random.Random, valid: Any) -> bytes:
    """The same as the bytes of a znode or a file, which may be cut, mixed up or no JSON at all."""
    way = rng.random()
    if way < 0.01:
        return rng.choice(_GARBAGE)
    whole = valid if way < 0.25 else spoiled(rng, valid)
    data = json.dumps(whole, separators=rng.choice(((",", ":"), (", ", ": "))), ensure_ascii=rng.random() < 0.5)
    depth = rng.choice((3, 40, 400, 900, 5_000))
    raw = data.replace(f'"{DEEP}"', "[" * depth + "1" + "]" * depth).encode("utf-8", "surrogatepass")
    return _broken(rng, raw) if way < 0.4 else raw


def spoiled_yaml(rng: random.Random, valid: Any) -> bytes:
    """The same as the bytes of a YAML file: other values, damaged bytes, and what only YAML has."""
    way = rng.random()
    if way < 0.02:
        return rng.choice(_GARBAGE[:-7])  # those that are quickly read
    whole = valid if rng.random() < 0.5 else spoiled(rng, valid)
    text = yaml.safe_dump(whole, default_flow_style=rng.choice((False, True, None)), sort_keys=False)
    if way < 0.4:
        lines = text.splitlines()
        at = rng.randrange(len(lines))
        odd = rng.choice(_YAML)
        scalar = lines[at].rpartition(" ")[0] + " " + odd
        text = "\n".join(rng.choice(([*lines[:at], scalar, *lines[at + 1 :]], [*lines, lines[at]], [odd, *lines])))
    raw = text.encode("utf-8", "surrogatepass")
    return _broken(rng, raw) if way > 0.7 else raw


def spoiled_value(rng: random.Random, valid: Any) -> Any:
    """The same as a parser of JSON or YAML gives it: NaN can come, and as deep a nesting as the parser takes."""
    for _ in range(100):
        try:
            return json.loads(spoiled_bytes(rng, valid))
        except (ValueError, RecursionError):
            continue
    return None


def _broken(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw) + 1)
    end = min(len(raw), at + rng.randrange(1, 40))
    byte, coding = bytes([rng.randrange(256)]), rng.choice(("utf-16", "utf-32", "utf-8-sig", "cp037"))
    # A key that comes twice: the last one counts for Python, as it does for Jackson.
    twice = raw.replace(b"{", b'{"version":1,"version":%d,' % rng.choice((0, 1, 7)), 1)
    return rng.choice(
        (
            raw[:at],
            raw[:at] + byte + raw[at:],
            raw[:at] + byte + raw[at + 1 :],
            raw[:at] + raw[end:],
            raw[:end] + raw[at:end] + raw[end:],
            raw.decode("utf-8", "replace").encode(coding, "replace"),
            twice,
        )
    )


def _spoil(rng: random.Random, document: Any) -> Any:
    places = list(_places(document))
    if not places:
        return rng.choice(ODD)
    holder, key = rng.choice(places)
    if holder is None:
        return copy.deepcopy(rng.choice(ODD)) if rng.random() < 0.3 else [document]
    match rng.randrange(8):
        case 0 | 1 | 2:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        case 3:
            del holder[key]
        case 4:
            holder[key] = _other_form(holder[key])
        case 5:
            holder[key] = _nested(rng, holder[key])
        case 6 if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case _ if isinstance(holder, dict):
            name = rng.choice(("", "version", "log_dirs", "partitions", f"{key}_", f" {key}", "7", "-1", "x/y", "ü"))
            holder[name] = holder.pop(key) if rng.random() < 0.5 else copy.deepcopy(rng.choice(ODD))
        case _:
            holder.append(copy.deepcopy(rng.choice(ODD)))
    return document


def _places(document: Any, holder: Any = None, key: Any = None) -> Iterator[tuple[Any, Any]]:
    """Every value of the document, as who holds it and under what; None holds the whole."""
    yield holder, key
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _places(value, document, name)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from _places(value, document, index)


def _other_form(value: Any) -> Any:
    """The same to the eye, of another type."""
    match value:
        case bool():
            return int(value)
        case int():
            return str(value) if value % 2 else float(value)
        case str():
            return int(value) if value.isdecimal() else [value]
        case list():
            return {str(index): item for index, item in enumerate(value)}
        case dict():
            return [list(item) for item in value.items()]
    return str(value)


def _nested(rng: random.Random, value: Any) -> Any:
    if rng.random() < 0.2:
        return DEEP
    for _ in range(rng.choice((1, 2, 20))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value
