"""The lock of a cluster: one run at a time moves its partitions, whichever Airflow the run belongs to.

The lock is a persistent znode, created exclusively. It outlives the worker: a killed run holds the cluster until its
own resumption, its teardown or the janitor releases it.

The version of the lock's parent is the fence. It rises whenever somebody takes the cluster, is about to make a request
or makes it, changes a lease, or begins to put a throttle back. Each of these writes, and every config of a throttle, is
one transaction with a check of the fence. So a worker that was frozen while another went on writes nothing when it
wakes. The version of the lock itself would not do: a lock that was released and taken again begins at 0.

A generation is sixteen digits, a hyphen and ten digits. Each raise makes a later one, even if somebody deletes the
parent, because zxids only grow.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import CorruptZnodeError, LockHeldError, LockLostError, ReadError, WriteError
from kafka_rebalance.model.lock_owner import NO_FENCE, Fence, LockOwner
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import Znode, read_znodes, sync
from kafka_rebalance.zookeeper.writer import acl_like, commit, create_znode, repeat
from kafka_rebalance.zookeeper.znodes import compact_json, parse_object, parse_text, parse_version


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


def read(client: KazooClient) -> LockOwner | None:
    """Who holds the cluster; None if nobody does. Raises ReadError, CorruptZnodeError."""
    _, znode = _read_znodes(client)
    return None if znode is None else decode_lock(znode[0])


def acquire(client: KazooClient, owner: LockOwner) -> Fence:
    """Takes the lock, and returns the fence for what is written under it.

    The run that holds the lock may take it again, also with a newer digest. That fences off other workers of the run.
    Raises LockHeldError naming the holder, WriteError if the outcome stays unknown.
    """
    data = encode_lock(owner)

    def attempt() -> Fence:
        parent, znode = _read_or_create(client)
        transaction = client.transaction()
        transaction.set_data(znodes.RUN_LOCK_PARENT, b"", parent.version)
        if znode is None:
            transaction.create(znodes.RUN_LOCK, data, acl=own_acl(client))
            held = 0
        else:
            holder, held = _held(znode, owner, "The lock was not taken.")
            if holder.digest != owner.digest:
                transaction.set_data(znodes.RUN_LOCK, data, held)
                held += 1
        commit(client, znodes.RUN_LOCK, transaction)
        return _fence(parent, held, raised=1)

    return repeat(znodes.RUN_LOCK, attempt)


def raise_held(client: KazooClient, owner: LockOwner) -> Fence:
    """A new fence for writes that need the lock. It stops a worker that has begun to put this run's throttle back.

    Raises LockHeldError unless this run holds the cluster with the digest that was approved, and WriteError.
    """

    def attempt() -> Fence:
        parent, znode = _read_znodes(client)
        if znode is None or parent is None:
            raise LockHeldError(
                f"Run {owner.run} does not hold the cluster any more ({znodes.RUN_LOCK} is gone). No further move was "
                "requested. Clear hold_throttle with what follows it."
            )
        consequence = "No further move was requested."
        holder, held = _held(znode, owner, consequence)
        if holder.digest != owner.digest:
            raise _held_by(holder, consequence)
        transaction = client.transaction()
        transaction.set_data(znodes.RUN_LOCK_PARENT, b"", parent.version)
        transaction.check(znodes.RUN_LOCK, held)
        commit(client, znodes.RUN_LOCK, transaction)
        return _fence(parent, held, raised=1)

    return repeat(znodes.RUN_LOCK, attempt)


def read_own_fence(client: KazooClient, owner: LockOwner) -> Fence:
    """The fence as it stands, for a run that may have released the lock already.

    Raises LockHeldError if another run holds the cluster.
    """
    parent, znode = _read_znodes(client)
    if parent is None or znode is None:
        return _fence(parent)
    return _fence(parent, _held(znode, owner, "No leader was elected.")[1])


def read_fence(client: KazooClient) -> Fence:
    """The fence as it stands, for somebody who does not hold the lock; empty if nobody ever did."""
    return _fence(_read_znodes(client)[0])


def read_time_of_fence(client: KazooClient) -> datetime:
    """When the fence was raised last, by the clock of ZooKeeper's server. Raises ReadError."""
    parent, _ = _read_znodes(client)
    if parent is None:
        raise ReadError(f"{znodes.RUN_LOCK_PARENT} is gone, so ZooKeeper's time is not known. Clear this task.")
    return datetime.fromtimestamp(parent.mtime / 1000, UTC)


def raise_fence(client: KazooClient) -> Fence:
    """A new fence: nobody can finish a write that was begun before. Raises WriteError."""

    def attempt() -> Fence:
        parent, _ = _read_or_create(client)
        transaction = client.transaction()
        transaction.set_data(znodes.RUN_LOCK_PARENT, b"", parent.version)
        commit(client, znodes.RUN_LOCK_PARENT, transaction)
        return _fence(parent, raised=1)

    return repeat(znodes.RUN_LOCK_PARENT, attempt)


def release(client: KazooClient, owner: LockOwner, *, fence: Fence | None = None) -> bool:
    """Releases the lock; False if nobody held it.

    Raises LockHeldError if another run holds it, and LockLostError if this run took it again since `fence` was read.
    """

    def attempt() -> bool:
        parent, znode = _read_znodes(client)
        if znode is None or parent is None:
            return False
        holder, held = _held(znode, owner, f"It was not released for run {owner.run}.")
        if fence is not None and fence.versions.get(znodes.RUN_LOCK_PARENT) != parent.version:
            raise LockLostError(f"{znodes.RUN_LOCK} was not released: somebody has gone on with run {holder.name}.")
        transaction = client.transaction()
        transaction.check(znodes.RUN_LOCK_PARENT, parent.version)
        transaction.delete(znodes.RUN_LOCK, held)
        commit(client, znodes.RUN_LOCK, transaction)
        return True

    return repeat(znodes.RUN_LOCK, attempt)


def begin_anew(client: KazooClient) -> bool:
    """Deletes a lock whose content names nobody, and raises the fence; False if it can be read, or there is none.

    Only for a person who says that no run of this cluster goes on. Raises WriteError.
    """

    def attempt() -> bool:
        parent, znode = _read_znodes(client)
        if parent is None or znode is None:
            return False
        with suppress(CorruptZnodeError):
            decode_lock(znode[0])
            return False
        transaction = client.transaction()
        transaction.set_data(znodes.RUN_LOCK_PARENT, b"", parent.version)
        transaction.delete(znodes.RUN_LOCK, int(znode[1].version))
        commit(client, znodes.RUN_LOCK, transaction)
        return True

    return repeat(znodes.RUN_LOCK, attempt)


def _read_znodes(client: KazooClient) -> tuple[ZnodeStat | None, Znode | None]:
    """(the parent's stat, the lock). The parent comes first: a lock that is taken between the two fails its check."""
    sync(client)
    found = read_znodes(client, [znodes.RUN_LOCK_PARENT, znodes.RUN_LOCK])
    parent = found[znodes.RUN_LOCK_PARENT]
    return None if parent is None else parent[1], found[znodes.RUN_LOCK]


def _read_or_create(client: KazooClient) -> tuple[ZnodeStat, Znode | None]:
    parent, znode = _read_znodes(client)
    if parent is None:
        with suppress(NodeExistsError):
            create_znode(client, znodes.RUN_LOCK_PARENT, b"", own_acl(client))
        parent, znode = _read_znodes(client)
    if parent is None:  # somebody has deleted it again: the next attempt creates it
        raise NoNodeError(znodes.RUN_LOCK_PARENT)
    return parent, znode


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


def own_acl(client: KazooClient) -> list[ACL]:
    """The ACL for the znodes that are this program's own."""
    # As Kafka does with zookeeper.set.acl: all for the authenticated creator, reading for everybody.
    if acl_like(client, znodes.DELETE_TOPICS) == list(OPEN_ACL_UNSAFE):
        return list(OPEN_ACL_UNSAFE)
    return [make_acl("auth", "", all=True), *READ_ACL_UNSAFE]
