"""Digests of values and files. They tell an approved plan from every other plan."""

from __future__ import annotations

import hashlib
import json


def canonical_json(value: object) -> bytes:
    """One text for one value: sorted keys, no blanks, no NaN. Digests are computed from it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def digest_of(value: object) -> str:
    """SHA-256, hex, of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def digest_of_bytes(*parts: bytes) -> str:
    """SHA-256, hex, of the parts' own digests: a byte that moves from one part to the next changes it."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
