"""The throttle's lease in the cluster's own ZooKeeper, beside the lock: `/kafka_rebalance/lease`.

A run needs the lease to put the throttle back, so the lease must not be lost with a folder. It is recorded before the
first config changes, under the same fence. Of two records, the one with the later generation stays.

The record is compressed, because the lists of a plan of 100,000 partitions take some megabytes. Parts that do not fit
into the znode are beside it, in `/kafka_rebalance/lease-<generation>-<number>`, and are written before it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from kafka_rebalance.errors import CorruptZnodeError, LockLostError
from kafka_rebalance.model.lock_owner import Fence, LeaseRecord
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import Znode, read_children, read_znodes, sync
from kafka_rebalance.zookeeper.cluster_lock import own_acl
from kafka_rebalance.zookeeper.writer import ATTEMPTS, add_checks, commit, delete_znode, repeat
from kafka_rebalance.zookeeper.znodes import compact_json, parse_object, parse_text, parse_version

PART_BYTES = 512 * 1024  # as base64 in the znode's JSON, this still fits into jute.maxbuffer (1 MiB)


@dataclass(frozen=True, slots=True)
class _Head:
    generation: str
    parts: int  # beside the one in the znode itself
    digest: str
    first: bytes


def read(client: KazooClient) -> LeaseRecord | None:
    """The cluster's record; None if there is none. Raises ReadError, and CorruptZnodeError for a damaged one."""
    for _ in range(ATTEMPTS):
        sync(client)
        znode = read_znodes(client, [znodes.LEASE])[znodes.LEASE]
        if znode is None:
            return None
        head = _decode(znode[0])
        names = [znodes.lease_part_path(head.generation, number) for number in range(1, head.parts + 1)]
        parts = read_znodes(client, names)
        found = [part[0] or b"" for name in names if (part := parts[name]) is not None]
        if len(found) == head.parts:
            return LeaseRecord(head.generation, _join(head, found))
        # A later record was written between the two reads, and its writer removed these parts.
    raise _damaged("parts of the lease are gone")


def write(client: KazooClient, record: LeaseRecord, *, run: str, fence: Fence) -> None:
    """Makes this the cluster's record unless there is a later one. `run` is for people who look at the znode.

    Raises LockLostError, and writes nothing, if the `fence` has risen. Replaces a damaged record. Raises WriteError.
    """
    packed = zlib.compress(record.text, 9)
    first, *more = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
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
        sync(client)
        found = read_znodes(client, [znodes.LEASE, *checks])
        if any((now := found[path]) is None or now[1].version != version for path, version in checks.items()):
            raise LockLostError(
                "The throttle's lease was not recorded: another worker has taken the cluster, requested moves or put "
                "throttles back since this one began. No config was changed. Clear this task if the run is to go on."
            )
        before = found[znodes.LEASE]
        if before is not None and _generation(before) > record.generation:
            return
        _write_parts(client, record.generation, more, checks)
        transaction = client.transaction()
        add_checks(transaction, checks)
        if before is None:
            transaction.create(znodes.LEASE, data, acl=own_acl(client))
        else:
            transaction.set_data(znodes.LEASE, data, before[1].version)
        commit(client, znodes.LEASE, transaction)

    repeat(znodes.LEASE, attempt)
    _remove_parts_before(client, record.generation)


def delete(client: KazooClient) -> None:
    """Deletes a record, also a damaged one, with its parts. Raises WriteError."""

    def attempt() -> None:
        sync(client)
        znode = read_znodes(client, [znodes.LEASE])[znodes.LEASE]
        if znode is not None:
            delete_znode(client, znodes.LEASE, znode[1].version)

    repeat(znodes.LEASE, attempt)
    _remove_parts_before(client, None)


def _write_parts(client: KazooClient, generation: str, parts: Sequence[bytes], checks: Mapping[str, int]) -> None:
    for number, part in enumerate(parts, 1):
        path = znodes.lease_part_path(generation, number)
        transaction = client.transaction()
        add_checks(transaction, checks)
        transaction.create(path, part, acl=own_acl(client))
        with suppress(
            NodeExistsError
        ):  # our own attempt made it, and its answer was lost: a generation is written once
            commit(client, path, transaction)


def _remove_parts_before(client: KazooClient, generation: str | None) -> None:
    """Removes the parts of earlier records, also if their writer was killed. None: removes the parts of all records."""
    for name in read_children(client, znodes.RUN_LOCK_PARENT):
        path = f"{znodes.RUN_LOCK_PARENT}/{name}"
        if path.startswith(znodes.LEASE_PART_PREFIX) and (
            generation is None or path < znodes.lease_part_path(generation, 0)
        ):
            with suppress(NoNodeError, BadVersionError):  # somebody else is removing it
                delete_znode(client, path, 0)


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
