"""Readers of one value from JSON, YAML or a form: each gives the value, or says in words what is allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_LARGEST_LONG = 2**63 - 1  # Kafka's rates and sizes are Java's longs, and so are the planner's arrays


def read_values(
    given: Mapping[Any, Any],
    readers: Mapping[str, Callable[[Any], Any]],
    known: str,
    retired: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """(the values of the known keys, what is wrong with the keys); `known` says in words what the keys are.

    A reader raises ValueError with what is allowed. `retired` says of keys of earlier versions what to give instead.
    """
    values: dict[str, Any] = {}
    instead = {key: retired[key] for key in given if retired and key in retired}
    problems = [f"{key!r} is no longer a setting: {what}" for key, what in instead.items()]
    unknown = [key for key in given if key not in readers and key not in instead]
    problems += [f"{key!r} is not {known} {', '.join(readers)}" for key in unknown]
    for key in [key for key in given if key in readers]:
        try:
            values[key] = readers[key](given[key])
        except ValueError as wrong:
            problems.append(f"{key} {wrong}, not {given[key]!r}")
    return values, problems


def plain_values(value: Any) -> dict[str, Any]:
    """A dataclass as JSON values: its tuples become lists, and dataclasses in it objects."""
    return {key: _plain(field) for key, field in dataclasses.asdict(value).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def integer(least: int, most: int = _LARGEST_LONG) -> Callable[[Any], int]:
    """A reader of one integer; JSON floats and booleans are not integers."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"must be an integer of at least {least} and at most {most}")
        return value

    return read


def number_reader(allowed: str, is_allowed: Callable[[float], bool]) -> Callable[[Any], float]:
    """A reader of one number; `allowed` says in words what `is_allowed` tests."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not is_allowed(value):
            raise ValueError(f"must be a number {allowed}")
        return float(value)

    return read


def one_of(allowed: tuple[str, ...]) -> Callable[[Any], str]:

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return str(value)

    return read


def globs(value: Any) -> tuple[str, ...]:
    """Reads a list of topic globs, which may be empty."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(glob, str) and glob for glob in value):
        raise ValueError("must be a list of topic globs, non-empty texts")
    return tuple(value)


def names(value: Any) -> tuple[str, ...]:
    """Reads a list of names, which may be empty."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) and name for name in value):
        raise ValueError("must be a list of names, non-empty texts")
    return tuple(dict.fromkeys(value))


def flag(value: Any) -> bool:
    """Reads true or false."""
    if type(value) is not bool:
        raise ValueError("must be true or false")
    return value


def optional(reader: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else reader(value)


def some_globs(value: Any) -> tuple[str, ...]:
    if value in ([], ()):
        raise ValueError('must name at least one topic glob; ["*"] selects every topic')
    return globs(value)


def broker_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)) or not all(type(broker) is int and broker >= 0 for broker in value):
        raise ValueError("must be a list of broker ids, non-negative integers")
    if len(set(value)) < len(value):
        raise ValueError("names a broker more than once")
    return tuple(sorted(value))


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


share = number_reader("above 0 and below 1", lambda value: 0 < value < 1)
