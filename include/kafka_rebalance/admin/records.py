"""The records of the lock's log (`transaction_log`): each carries the whole state after it, as JSON."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from kafka_rebalance.errors import CorruptZnodeError, WriteError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.model.lock_owner import Intent, LockOwner, decode_copies
from kafka_rebalance.model.partition import TopicPartition

HERE = -1
PART_BYTES = 512 * 1024  # of a packed lease in one record; a record of 1 MB is accepted everywhere


@dataclass(frozen=True, slots=True)
class Lease:
    """Where the record of the throttle's lease is: in `parts` records, just before the one that told so first."""

    generation: str
    digest: str
    parts: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class State:
    """Who holds the cluster, under which fence, and what was announced.

    `raised_at` and `raised_ms`: offset and time (milliseconds) of the record that raised the fence last. `began_ms`:
    when the log began, so that a log that was deleted and made again has later generations. `intents`: {id: offset of
    its record}. An offset of `HERE` is that of the record that carries this state, which nobody knows before it is
    written.
    """

    began_ms: int
    lock: LockOwner | None = None
    raised_at: int = HERE
    raised_ms: int = HERE
    intents: Mapping[str, int] = field(default_factory=dict)
    lease: Lease | None = None
    # Of the record that carries this state, once it is read.
    written_ms: int = field(default=HERE, compare=False)
    offset: int = field(default=HERE, compare=False)

    @property
    def generation(self) -> str:
        """Later fences are later texts, and later than those of ZooKeeper, which begin with a digit or a to f."""
        return f"log-{self.began_ms:013d}-{self.raised_at:016d}"

    @property
    def raised(self) -> datetime:
        return datetime.fromtimestamp(self.raised_ms / 1000, UTC)

    @property
    def written(self) -> datetime:
        return datetime.fromtimestamp(self.written_ms / 1000, UTC)

    def at(self, offset: int, timestamp_ms: int) -> Self:
        """The state as it is read from this record."""
        lease = self.lease
        if lease is not None and lease.first_offset == HERE:
            lease = replace(lease, first_offset=offset - lease.parts)
        raised = self.raised_at == HERE
        return replace(
            self,
            raised_at=offset if raised else self.raised_at,
            raised_ms=timestamp_ms if raised else self.raised_ms,
            intents={name: offset if at == HERE else at for name, at in self.intents.items()},
            lease=lease,
            written_ms=timestamp_ms,
            offset=offset,
        )

    def raising(self) -> Self:
        """The same, for a record that raises the fence."""
        return replace(self, raised_at=HERE, raised_ms=HERE)


def encode(record_id: str, kind: str, state: State, **more: Any) -> bytes:
    """Raises WriteError if a field that names the owner is empty."""
    owner = state.lock
    if owner is not None and not (owner.run and owner.digest and owner.owner):
        raise WriteError(f"{LOCK_TOPIC} was not written: run, digest and owner must all be named, not {owner}.")
    document = {"version": 1, "id": record_id, "kind": kind, "state": _content(state), **more}
    return json.dumps(document, separators=(",", ":")).encode()


def _content(state: State) -> dict[str, Any]:
    return {name: value for name, value in asdict(state).items() if name not in ("written_ms", "offset")}


def decode(value: bytes | None, offset: int, timestamp_ms: int) -> tuple[str, State, Mapping[str, Any]]:
    """(the record's id, the state after it, all of its fields). Raises CorruptZnodeError."""
    try:
        document = json.loads(value or b"")
        if document["version"] != 1:
            raise ValueError(f"its version is {document['version']!r}, this program reads 1")
        found = document["state"]
        lock, lease = found["lock"], found["lease"]
        state = State(
            began_ms=int(found["began_ms"]),
            lock=None if lock is None else LockOwner(**{key: _text(lock[key]) for key in _OWNER}),
            raised_at=int(found["raised_at"]),
            raised_ms=int(found["raised_ms"]),
            intents={_text(key): int(at) for key, at in found["intents"].items()},
            lease=None if lease is None else Lease(
                _text(lease["generation"]), _text(lease["digest"]), int(lease["parts"]), int(lease["first_offset"])
            ),
        )  # fmt: skip
        return _text(document["id"]), state.at(offset, timestamp_ms), document
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as bad:
        raise damaged(f"record {offset} cannot be read ({type(bad).__name__}: {bad})") from bad


_OWNER = ("run", "digest", "owner", "acquired_at")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def encode_targets(targets: Mapping[TopicPartition, tuple[int, ...]]) -> list[list[Any]]:
    return [[*tp, list(replicas)] for tp, replicas in sorted(targets.items())]


def decode_intent(record: Mapping[str, Any], offset: int, timestamp_ms: int) -> Intent:
    """Raises CorruptZnodeError."""
    try:
        targets = {
            TopicPartition(topic, int(number)): tuple(map(int, after)) for topic, number, after in record["moves"]
        }
        copies = decode_copies(record.get("copies", ()))  # an earlier version's has none
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        run, owner = _text(record["run"]), _text(record["owner"])
        return Intent(_text(record["id"]), run, owner, int(record["batch"]), at, targets, copies, offset)
    except (ValueError, KeyError, TypeError) as bad:
        raise damaged(f"record {offset} announces no request ({type(bad).__name__}: {bad})") from bad


def pack(text: bytes) -> tuple[str, list[bytes]]:
    """(digest, the lease in parts)"""
    packed = base64.b64encode(zlib.compress(text, 9))
    return hashlib.sha256(packed).hexdigest(), [
        packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)
    ] or [b""]


def unpack(digest: str, parts: list[bytes]) -> bytes:
    """Raises CorruptZnodeError."""
    packed = b"".join(parts)
    if hashlib.sha256(packed).hexdigest() != digest:
        raise damaged("the throttle's lease does not match its digest")
    try:
        return zlib.decompress(base64.b64decode(packed, validate=True))
    except (zlib.error, ValueError, binascii.Error) as bad:
        raise damaged(f"the throttle's lease cannot be unpacked ({bad})") from bad


def damaged(wrong: str) -> CorruptZnodeError:
    return CorruptZnodeError(
        f"Topic {LOCK_TOPIC}: {wrong}. If no run of this cluster goes on, an approver starts "
        f"kafka_throttle_janitor with break_lock '{LOCK_TOPIC}'. It begins the log anew."
    )
