"""The lock of a cluster: one run at a time moves its partitions, whichever Airflow the run belongs to.

The lock is a persistent znode, created exclusively. It outlives the worker: a killed run holds the cluster until its
own resumption, its teardown or the janitor releases it.

The version of the lock's parent is the fence. It rises whenever somebody takes the cluster, is about to make a request
or makes it, changes a lease, or begins to put a throttle back. Each of these writes, and every config of a throttle, is
one transaction with a check of the fence. So a worker that was frozen while another went on writes nothing when it
wakes. The version of the lock itself would not do: a lock that was released and taken again begins at 0.

A generation is sixteen digits, a hyphen and ten digits. Each raise makes a later one, even if somebody deletes the
parent, because zxids only grow.

Requests that were announced are `/kafka_rebalance/announced-<id>`, one znode for each. Only what a broker is asked for
directly is announced here: copies between its log dirs. A request to move replicas between brokers is a znode itself,
made in one transaction with a check of the fence.

The throttle's lease is `/kafka_rebalance/lease`. A run needs the lease to put the throttle back, so the lease must not
be lost with a folder. It is recorded before the first config changes, under the same fence. Of two records, the one
with the later generation stays. The record is compressed, because the lists of a plan of 100,000 partitions take some
megabytes. Parts that do not fit into the znode are beside it, in `/kafka_rebalance/lease-<generation>-<number>`, and
are written before it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import CorruptZnodeError, LockHeldError, LockLostError, ReadError, WriteError
from kafka_rebalance.model.lock_owner import (
    NO_FENCE,
    Copies,
    Fence,
    Intent,
    LeaseRecord,
    LockOwner,
    decode_copies,
    encode_copies,
)
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import Znode, read_children, read_znodes, sync
from kafka_rebalance.zookeeper.writer import ATTEMPTS, acl_like, add_checks, commit, create_znode, delete_znode, repeat
from kafka_rebalance.zookeeper.znodes import compact_json, parse_object, parse_text, parse_version

PART_BYTES = 512 * 1024  # as base64 in the znode's JSON, this still fits into jute.maxbuffer (1 MiB)


class ZooKeeperLock:
    """See `ClusterLock`."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    @property
    def place(self) -> str:
        return znodes.RUN_LOCK

    def read(self) -> LockOwner | None:
        _, znode = self._read_lock()
        return None if znode is None else decode_lock(znode[0])

    def begin_anew(self) -> bool:
        """Deletes a lock whose content names nobody."""

        def attempt() -> bool:
            parent, znode = self._read_lock()
            if parent is None or znode is None:
                return False
            with suppress(CorruptZnodeError):
                decode_lock(znode[0])
                return False
            transaction = self._raising(parent)
            transaction.delete(znodes.RUN_LOCK, int(znode[1].version))
            commit(self._client, znodes.RUN_LOCK, transaction)
            return True

        return repeat(znodes.RUN_LOCK, attempt)

    def make_ready(self, leaving: Collection[int]) -> bool:
        return False

    def acquire(self, owner: LockOwner) -> Fence:
        """The run that holds the lock may take it again with a newer digest. That fences off its other workers."""
        data = encode_lock(owner)

        def attempt() -> Fence:
            parent, znode = self._read_or_make_parent()
            transaction = self._raising(parent)
            if znode is None:
                transaction.create(znodes.RUN_LOCK, data, acl=self._own_acl())
                version = 0
            else:
                holder, version = _held(znode, owner, "The lock was not taken.")
                if holder.digest != owner.digest:
                    transaction.set_data(znodes.RUN_LOCK, data, version)
                    version += 1
            commit(self._client, znodes.RUN_LOCK, transaction)
            return _fence(parent, version, raised=1)

        return repeat(znodes.RUN_LOCK, attempt)

    def raise_held(self, owner: LockOwner) -> Fence:
        """It stops a worker that has begun to put this run's throttle back."""

        def attempt() -> Fence:
            parent, znode = self._read_lock()
            if znode is None or parent is None:
                raise LockHeldError(
                    f"Run {owner.run} does not hold the cluster any more ({znodes.RUN_LOCK} is gone). No further move "
                    "was requested. Clear hold_throttle with what follows it."
                )
            consequence = "No further move was requested."
            holder, version = _held(znode, owner, consequence)
            if holder.digest != owner.digest:
                raise _held_by(holder, consequence)
            transaction = self._raising(parent)
            transaction.check(znodes.RUN_LOCK, version)
            commit(self._client, znodes.RUN_LOCK, transaction)
            return _fence(parent, version, raised=1)

        return repeat(znodes.RUN_LOCK, attempt)

    def read_own_fence(self, owner: LockOwner) -> Fence:
        """For a run that may have released the lock already."""
        parent, znode = self._read_lock()
        if parent is None or znode is None:
            return _fence(parent)
        return _fence(parent, _held(znode, owner, "No leader was elected.")[1])

    def read_fence(self) -> Fence:
        return _fence(self._read_lock()[0])

    def read_time_of_fence(self) -> datetime:
        parent, _ = self._read_lock()
        if parent is None:
            raise ReadError(f"{znodes.RUN_LOCK_PARENT} is gone, so ZooKeeper's time is not known. Clear this task.")
        return datetime.fromtimestamp(parent.mtime / 1000, UTC)

    def raise_fence(self) -> Fence:
        def attempt() -> Fence:
            parent, _ = self._read_or_make_parent()
            transaction = self._raising(parent)
            commit(self._client, znodes.RUN_LOCK_PARENT, transaction)
            return _fence(parent, raised=1)

        return repeat(znodes.RUN_LOCK_PARENT, attempt)

    def release(self, owner: LockOwner, *, fence: Fence | None = None) -> bool:
        def attempt() -> bool:
            parent, znode = self._read_lock()
            if znode is None or parent is None:
                return False
            holder, version = _held(znode, owner, f"It was not released for run {owner.run}.")
            if fence is not None and fence.versions.get(znodes.RUN_LOCK_PARENT) != parent.version:
                raise LockLostError(f"{znodes.RUN_LOCK} was not released: somebody has gone on with run {holder.name}.")
            transaction = self._client.transaction()
            transaction.check(znodes.RUN_LOCK_PARENT, parent.version)
            transaction.delete(znodes.RUN_LOCK, version)
            commit(self._client, znodes.RUN_LOCK, transaction)
            return True

        return repeat(znodes.RUN_LOCK, attempt)

    def read_time(self) -> datetime:
        """By the clock of ZooKeeper's server: it writes a znode of no other use."""

        def attempt() -> datetime:
            with suppress(NodeExistsError):
                if self._read(znodes.CLOCK) is None:
                    transaction = self._client.transaction()
                    transaction.create(znodes.CLOCK, b"", acl=self._own_acl())
                    commit(self._client, znodes.CLOCK, transaction)
            with suppress(BadVersionError):
                transaction = self._client.transaction()
                transaction.set_data(znodes.CLOCK, b"")
                commit(self._client, znodes.CLOCK, transaction)
            sync(self._client)
            znode = self._read(znodes.CLOCK)
            if znode is None:
                raise NoNodeError(znodes.CLOCK)
            return datetime.fromtimestamp(znode[1].mtime / 1000, UTC)

        return repeat(znodes.CLOCK, attempt)

    def open_intent(
        self,
        owner: LockOwner,
        fence: Fence,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        batch: int,
        copies: Copies | None = None,
    ) -> tuple[Fence, str]:
        """Only what a broker is asked for directly is announced: copies between its log dirs."""
        assert not targets, "a request to move replicas is a znode itself"
        name = uuid.uuid4().hex
        path = f"{znodes.ANNOUNCED_PREFIX}{name}"
        content = {"version": 1, "run": owner.run, "owner": owner.owner, "copies": encode_copies(copies or {})}
        before = fence.versions.get(znodes.RUN_LOCK_PARENT, -1)

        def attempt() -> Fence:
            own = self.read_own_fence(owner)
            lock_version = own.versions.get(znodes.RUN_LOCK)
            is_made = self._read(path) is not None  # by an earlier attempt, whose answer was lost
            if not is_made and (lock_version is None or own.versions[znodes.RUN_LOCK_PARENT] != before):
                raise LockLostError(
                    "No further copy was requested: another worker has taken the cluster, requested copies or put "
                    "throttles back since this one began. Clear this task if the run is to go on."
                )
            if not is_made and lock_version is not None:
                transaction = self._client.transaction()
                transaction.check(znodes.RUN_LOCK, lock_version)
                transaction.set_data(znodes.RUN_LOCK_PARENT, b"", before)
                transaction.create(path, compact_json(content), acl=self._own_acl())
                commit(self._client, path, transaction)
            made_first = fence.generation.partition("-")[0]
            return Fence({**fence.versions, znodes.RUN_LOCK_PARENT: before + 1}, f"{made_first}-{before + 1:010d}")

        return repeat(path, attempt), name

    def end_intent(self, name: str, *, fence: Fence | None = None) -> bool:
        path = f"{znodes.ANNOUNCED_PREFIX}{name}"

        def attempt() -> bool:
            sync(self._client)
            if fence is not None and self.read_fence().generation != fence.generation:
                return False
            if self._read(path) is not None:
                with suppress(NoNodeError):
                    delete_znode(self._client, path, 0)
            return True

        return repeat(path, attempt)

    def read_open_intents(self) -> list[Intent]:
        sync(self._client)
        names = [f"{znodes.RUN_LOCK_PARENT}/{name}" for name in read_children(self._client, znodes.RUN_LOCK_PARENT)]
        names = [path for path in names if path.startswith(znodes.ANNOUNCED_PREFIX)]
        return sorted(self._read_intents(names), key=lambda intent: intent.order)

    def read_intents_since(self, intent: Intent) -> list[Intent]:
        return [later for later in self.read_open_intents() if later.order > intent.order]

    def read_lease(self) -> LeaseRecord | None:
        for _ in range(ATTEMPTS):
            sync(self._client)
            znode = self._read(znodes.LEASE)
            if znode is None:
                return None
            head = _decode(znode[0])
            names = [znodes.lease_part_path(head.generation, number) for number in range(1, head.parts + 1)]
            parts = read_znodes(self._client, names)
            present = [part[0] or b"" for name in names if (part := parts[name]) is not None]
            if len(present) == head.parts:
                return LeaseRecord(head.generation, _join(head, present))
            # A later record was written between the two reads, and its writer removed these parts.
        raise _damaged("parts of the lease are gone")

    def write_lease(self, record: LeaseRecord, *, run: str, fence: Fence) -> None:
        """It replaces a damaged record."""
        packed = zlib.compress(record.text, 9)
        first, *more = [packed[start : start + PART_BYTES] for start in range(0, len(packed), PART_BYTES)]
        data = compact_json(
            {
                "version": 1,
                "generation": record.generation,
                "run": run,
                "parts": len(more),
                "digest": hashlib.sha256(packed).hexdigest(),
                "lease": base64.b64encode(first).decode(),
            }
        )
        checks = fence.versions

        def attempt() -> None:
            sync(self._client)
            contents = read_znodes(self._client, [znodes.LEASE, *checks])
            if any((now := contents[path]) is None or now[1].version != version for path, version in checks.items()):
                raise LockLostError(
                    "The throttle's lease was not recorded: another worker has taken the cluster, requested moves or "
                    "put throttles back since this one began. No config was changed. Clear this task if the run is to "
                    "go on."
                )
            before = contents[znodes.LEASE]
            if before is not None and _generation(before) > record.generation:
                return
            self._write_parts(record.generation, more, checks)
            transaction = self._client.transaction()
            add_checks(transaction, checks)
            if before is None:
                transaction.create(znodes.LEASE, data, acl=self._own_acl())
            else:
                transaction.set_data(znodes.LEASE, data, before[1].version)
            commit(self._client, znodes.LEASE, transaction)

        repeat(znodes.LEASE, attempt)
        self._remove_parts_before(record.generation)

    def delete_lease(self) -> None:
        def attempt() -> None:
            sync(self._client)
            znode = self._read(znodes.LEASE)
            if znode is not None:
                delete_znode(self._client, znodes.LEASE, znode[1].version)

        repeat(znodes.LEASE, attempt)
        self._remove_parts_before(None)

    def _read(self, path: str) -> Znode | None:
        return read_znodes(self._client, [path])[path]

    def _raising(self, parent: ZnodeStat) -> TransactionRequest:
        """A transaction that raises the fence before all else that is added to it."""
        transaction = self._client.transaction()
        transaction.set_data(znodes.RUN_LOCK_PARENT, b"", parent.version)
        return transaction

    def _read_lock(self) -> tuple[ZnodeStat | None, Znode | None]:
        """(the parent's stat, the lock). The parent comes first: a lock taken between the two fails its check."""
        sync(self._client)
        contents = read_znodes(self._client, [znodes.RUN_LOCK_PARENT, znodes.RUN_LOCK])
        parent = contents[znodes.RUN_LOCK_PARENT]
        return None if parent is None else parent[1], contents[znodes.RUN_LOCK]

    def _read_or_make_parent(self) -> tuple[ZnodeStat, Znode | None]:
        parent, znode = self._read_lock()
        if parent is None:
            with suppress(NodeExistsError):
                create_znode(self._client, znodes.RUN_LOCK_PARENT, b"", self._own_acl())
            parent, znode = self._read_lock()
        if parent is None:  # somebody has deleted it again: the next attempt creates it
            raise NoNodeError(znodes.RUN_LOCK_PARENT)
        return parent, znode

    def _read_intents(self, names: list[str]) -> Iterator[Intent]:
        for path, znode in read_znodes(self._client, names).items():
            if znode is None:
                continue  # it has ended meanwhile
            fields = parse_object(path, znode[0])
            parse_version(path, fields)
            try:
                rows: Any = fields["copies"]
                copies = decode_copies(rows)
            except (KeyError, TypeError, ValueError) as bad:
                raise CorruptZnodeError(f"{path} announces no copies ({bad}). Delete it.") from bad
            run, owner = (parse_text(path, name, fields.get(name)) for name in ("run", "owner"))
            announced_at = datetime.fromtimestamp(znode[1].mtime / 1000, UTC)  # it is written once
            yield Intent(
                path.removeprefix(znodes.ANNOUNCED_PREFIX), run, owner, 0, announced_at, {}, copies, int(znode[1].czxid)
            )

    def _write_parts(self, generation: str, parts: Sequence[bytes], checks: Mapping[str, int]) -> None:
        for number, part in enumerate(parts, 1):
            path = znodes.lease_part_path(generation, number)
            transaction = self._client.transaction()
            add_checks(transaction, checks)
            transaction.create(path, part, acl=self._own_acl())
            # If it exists, our own attempt made it and its answer was lost: a generation is written once.
            with suppress(NodeExistsError):
                commit(self._client, path, transaction)

    def _remove_parts_before(self, generation: str | None) -> None:
        """Removes the parts of earlier records, also if their writer was killed. None: the parts of all records."""
        for name in read_children(self._client, znodes.RUN_LOCK_PARENT):
            path = f"{znodes.RUN_LOCK_PARENT}/{name}"
            if path.startswith(znodes.LEASE_PART_PREFIX) and (
                generation is None or path < znodes.lease_part_path(generation, 0)
            ):
                with suppress(NoNodeError, BadVersionError):  # somebody else is removing it
                    delete_znode(self._client, path, 0)

    def _own_acl(self) -> list[ACL]:
        """The ACL for the znodes that are this program's own."""
        # As Kafka does with zookeeper.set.acl: all for the authenticated creator, reading for everybody.
        if acl_like(self._client, znodes.DELETE_TOPICS) == list(OPEN_ACL_UNSAFE):
            return list(OPEN_ACL_UNSAFE)
        return [make_acl("auth", "", all=True), *READ_ACL_UNSAFE]


def decode_lock(data: bytes | None) -> LockOwner:
    """The content of `/kafka_rebalance/run`. Raises CorruptZnodeError."""
    fields = parse_object(znodes.RUN_LOCK, data)
    parse_version(znodes.RUN_LOCK, fields)
    texts = {name: parse_text(znodes.RUN_LOCK, name, fields.get(name)) for name in ("run", "digest", "owner")}
    acquired_at = fields.get("acquired_at")
    return LockOwner(**texts, acquired_at=acquired_at if isinstance(acquired_at, str) else "")


def encode_lock(owner: LockOwner) -> bytes:
    """Raises WriteError if a field that names the owner is empty."""
    if not (owner.run and owner.digest and owner.owner):
        raise WriteError(f"{znodes.RUN_LOCK} was not written: run, digest and owner must all be named, not {owner}.")
    return compact_json({"version": 1, **asdict(owner)})


def _fence(parent: ZnodeStat | None, held: int | None = None, *, raised: int = 0) -> Fence:
    if parent is None:
        return NO_FENCE
    version = int(parent.version) + raised
    versions = {znodes.RUN_LOCK_PARENT: version, **({} if held is None else {znodes.RUN_LOCK: held})}
    return Fence(versions, f"{parent.czxid:016x}-{version:010d}")


def _held(znode: Znode, owner: LockOwner, consequence: str) -> tuple[LockOwner, int]:
    """(the lock's content, its version). Raises LockHeldError if it is another run's."""
    holder = decode_lock(znode[0])
    if not holder.is_same_run(owner):
        raise _held_by(holder, consequence)
    return holder, int(znode[1].version)


def _held_by(holder: LockOwner, consequence: str) -> LockHeldError:
    since = f" since {holder.acquired_at}" if holder.acquired_at else ""
    return LockHeldError(
        f"The cluster is held by run {holder.name}{since} ({znodes.RUN_LOCK}). {consequence} "
        "Wait until that run has ended. If it is gone, the Dag kafka_throttle_janitor releases what it held. If that "
        f"Dag cannot know whether the run is gone, start it with the param break_lock '{holder.name}'."
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """Of the record of a lease."""

    generation: str
    parts: int  # beside the one in the znode itself
    digest: str
    first: bytes


def _generation(znode: Znode) -> str:
    """The record's generation. A damaged record counts as earlier than every other."""
    try:
        return _decode(znode[0]).generation
    except CorruptZnodeError:
        return ""


def _decode(data: bytes | None) -> _Head:
    fields = parse_object(znodes.LEASE, data)
    parse_version(znodes.LEASE, fields)
    texts = {name: parse_text(znodes.LEASE, name, fields.get(name)) for name in ("generation", "digest", "lease")}
    parts = fields.get("parts")
    if type(parts) is not int or not 0 <= parts < 1000:
        raise _damaged(f"parts is {parts!r}, not a number of parts")
    try:
        first = base64.b64decode(texts["lease"], validate=True)
    except (ValueError, binascii.Error) as bad:
        raise _damaged(f"the lease is not base64 ({bad})") from bad
    return _Head(texts["generation"], parts, texts["digest"], first)


def _join(head: _Head, parts: Sequence[bytes]) -> bytes:
    packed = b"".join((head.first, *parts))
    if hashlib.sha256(packed).hexdigest() != head.digest:
        raise _damaged("the lease does not match its digest")
    try:
        return zlib.decompress(packed)
    except zlib.error as bad:
        raise _damaged(f"the lease cannot be unpacked ({bad})") from bad


def _damaged(wrong: str) -> CorruptZnodeError:
    return CorruptZnodeError(f"{znodes.LEASE}: {wrong}.")
