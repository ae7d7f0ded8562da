"""Text as Java reads, compares and prints it, if that decides what Kafka accepts and answers."""

from __future__ import annotations

import math
import re
from decimal import Decimal

INT_MAX = 2**31 - 1  # Integer.MAX_VALUE
LONG_MAX = 2**63 - 1  # Long.MAX_VALUE

_BLANKS = "".join(map(chr, range(0x21)))
# Decimal digits of every script, as in Character.digit; Python does not convert a number with thousands of digits.
_INTEGER = re.compile(r"[+-]?\d{1,1000}")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def trim(text: str) -> str:
    """`text` without characters up to U+0020 at both ends; other white space stays (String.trim)."""
    return text.strip(_BLANKS)


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
