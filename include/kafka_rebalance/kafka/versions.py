"""Kafka's release numbers, as far as behaviour depends on them."""

from __future__ import annotations

import re

from kafka_rebalance.errors import InputError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:[.-].*)?")


def release(version: str) -> tuple[int, int]:
    """(major, minor) of `2.0`, `2.0.1` or `3.9.2-rc1`: features come with minor releases."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise InputError(f"{version!r} is not a Kafka version such as 2.0 or 3.9.2. Nothing was read or written.")
    return int(match[1]), int(match[2])
