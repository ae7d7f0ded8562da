"""The lock of a cluster: one run at a time moves its partitions, whichever Airflow it belongs to.

A persistent znode, created exclusively: it outlives the worker, so that a run killed half-way still holds the
cluster until its own resumption, its teardown or the janitor releases it.

Its parent's version is the fence. It grows whenever somebody takes the cluster, is about to make a request or makes it,
changes a lease or begins to put a throttle back; and each of these writes, and every config of a throttle, is made in
one transaction with a check of it.
So whoever was frozen while another went on writes nothing when it wakes. The version of the lock's own znode would not
do: a lock that was given back and taken again begins at 0, as the first one did.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import LockHeldError, LockLostError, ReadError, WriteError
from kafka_rebalance.model.same_airflow import is_same_run
from kafka_rebalance.zookeeper.client import Znode, read_znodes, sync
from kafka_rebalance.zookeeper.znode_writes import acl_like, commit, create_znode, repeat, set_znode
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.json_fields import compact_json, parse_object, parse_text, parse_version


@dataclass(frozen=True, slots=True)
class Fence:
    """What must be as it was when this was read, or nothing is written.

    `versions`: {path: version}. `generation` is a text of sixteen digits, a hyphen and ten: each raise makes a later
    one, also where somebody has deleted the parent, since zxids only grow. Empty where nobody ever held the cluster.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    generation: str = ""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Who holds the cluster. `run` and `owner` together name the run: two Airflows can have runs of one name."""

    run: str  # Dag id and run id
    digest: str  # of the approved candidate
    owner: str  # which Airflow
    acquired_at: str = ""  # ISO 8601, for people

    @property
    def name(self) -> str:
        """`dag/run of airflow`: how it is named to people, and how an operator names it to break its lock."""
        return f"{self.run} of {self.owner}"

    def is_same_run(self, other: LockOwner) -> bool:
        """By the Airflow's mark, whatever its address is now."""
        return is_same_run(self.run, self.owner, other.run, other.owner)


def decode_lock(data: bytes | None) -> LockOwner:
    """The content of `/kafka_rebalance/run`. Raises CorruptZnodeError."""
    fields = parse_object(paths.RUN_LOCK, data)
    parse_version(paths.RUN_LOCK, fields)
    texts = {name: parse_text(paths.RUN_LOCK, name, fields.get(name)) for name in ("run", "digest", "owner")}
    acquired_at = fields.get("acquired_at")
    return LockOwner(**texts, acquired_at=acquired_at if isinstance(acquired_at, str) else "")


def encode_lock(owner: LockOwner) -> bytes:
    """Raises WriteError where a field that names the owner is empty."""
    if not (owner.run and owner.digest and owner.owner):
        raise WriteError(f"{paths.RUN_LOCK} was not written: run, digest and owner must all be named, not {owner}.")
    return compact_json(
        {
            "version": 1,
            "run": owner.run,
            "digest": owner.digest,
            "owner": owner.owner,
            "acquired_at": owner.acquired_at,
        }
    )


def read(client: KazooClient) -> LockOwner | None:
    """Who holds the cluster, None where nobody does. Raises ReadError, CorruptZnodeError."""
    _, znode = _read_znodes(client)
    return None if znode is None else decode_lock(znode[0])


def acquire(client: KazooClient, owner: LockOwner) -> Fence:
    """Takes the lock, and returns the fence for what is written under it. By the run that holds it already it may be
    taken again, also with a newer digest; what others do for that run is fenced off by it.

    Raises LockHeldError naming the holder, WriteError where the outcome stays unknown.
    """
    data = encode_lock(owner)

    def attempt() -> Fence:
        parent, znode = _read_or_create(client)
        transaction = client.transaction()
        transaction.set_data(paths.RUN_LOCK_PARENT, b"", parent.version)
        if znode is None:
            transaction.create(paths.RUN_LOCK, data, acl=own_acl(client))
            held = 0
        else:
            holder = decode_lock(znode[0])
            if not holder.is_same_run(owner):
                raise LockHeldError(_held_by(holder, "Nothing was written."))
            held = int(znode[1].version)
            if holder.digest != owner.digest:
                transaction.set_data(paths.RUN_LOCK, data, held)
                held += 1
        commit(client, paths.RUN_LOCK, transaction)
        return _fence(parent.czxid, int(parent.version) + 1, held)

    return repeat(paths.RUN_LOCK, attempt)


def raise_held(client: KazooClient, owner: LockOwner) -> Fence:
    """A new fence for writes that must not be made without the lock: who has begun to put this run's throttle back
    before, and does not know of what comes now, goes no further.

    Raises LockHeldError unless this run holds the cluster, with the digest it was approved with, and WriteError.
    """

    def attempt() -> Fence:
        parent, znode = _read_znodes(client)
        if znode is None or parent is None:
            raise LockHeldError(
                f"Run {owner.run} does not hold the cluster any more ({paths.RUN_LOCK} is gone). No further move was "
                "requested. Clear hold_throttle with what follows it."
            )
        holder = decode_lock(znode[0])
        if not holder.is_same_run(owner) or holder.digest != owner.digest:
            raise LockHeldError(_held_by(holder, "No further move was requested."))
        held = int(znode[1].version)
        transaction = client.transaction()
        transaction.set_data(paths.RUN_LOCK_PARENT, b"", parent.version)
        transaction.check(paths.RUN_LOCK, held)
        commit(client, paths.RUN_LOCK, transaction)
        return _fence(parent.czxid, int(parent.version) + 1, held)

    return repeat(paths.RUN_LOCK, attempt)


def read_own_fence(client: KazooClient, owner: LockOwner) -> Fence:
    """The fence as it stands, for a run that may have given the lock back already. Raises LockHeldError where another
    run holds the cluster.
    """
    parent, znode = _read_znodes(client)
    if parent is None:
        return Fence()
    if znode is None:
        return _fence(parent.czxid, int(parent.version))
    holder = decode_lock(znode[0])
    if not holder.is_same_run(owner):
        raise LockHeldError(_held_by(holder, "No leader was elected."))
    return _fence(parent.czxid, int(parent.version), int(znode[1].version))


def read_fence(client: KazooClient) -> Fence:
    """The fence as it stands, for somebody who does not hold the lock; empty where nobody ever did."""
    parent, _ = _read_znodes(client)
    return Fence() if parent is None else _fence(parent.czxid, int(parent.version))


def read_time_of_fence(client: KazooClient) -> datetime:
    """When the fence was raised last, by the clock of ZooKeeper's server. Raises ReadError."""
    parent, _ = _read_znodes(client)
    if parent is None:
        raise ReadError(f"{paths.RUN_LOCK_PARENT} is gone, so ZooKeeper's time is not known. Clear this task.")
    return datetime.fromtimestamp(parent.mtime / 1000, UTC)


def raise_fence(client: KazooClient) -> Fence:
    """A new fence: what anybody has begun before is not written any more. Raises WriteError."""

    def attempt() -> Fence:
        parent, _ = _read_or_create(client)
        set_znode(client, paths.RUN_LOCK_PARENT, b"", parent.version)
        return _fence(parent.czxid, int(parent.version) + 1)

    return repeat(paths.RUN_LOCK_PARENT, attempt)


def release(client: KazooClient, owner: LockOwner, *, fence: Fence | None = None) -> bool:
    """Gives the lock back; False where nobody held it. Raises LockHeldError where another run does, and LockLostError
    where the run has taken it again since `fence` was read.
    """

    def attempt() -> bool:
        parent, znode = _read_znodes(client)
        if znode is None or parent is None:
            return False
        holder = decode_lock(znode[0])
        if not holder.is_same_run(owner):
            raise LockHeldError(_held_by(holder, f"It was not released for run {owner.run}."))
        if fence is not None and fence.versions.get(paths.RUN_LOCK_PARENT) != parent.version:
            raise LockLostError(
                f"{paths.RUN_LOCK} was not given back: somebody has gone on with run {holder.name} meanwhile."
            )
        transaction = client.transaction()
        transaction.check(paths.RUN_LOCK_PARENT, parent.version)
        transaction.delete(paths.RUN_LOCK, znode[1].version)
        commit(client, paths.RUN_LOCK, transaction)
        return True

    return repeat(paths.RUN_LOCK, attempt)


def _read_znodes(client: KazooClient) -> tuple[ZnodeStat | None, Znode | None]:
    """(the parent's stat, the lock). The parent first: a lock that is taken between the two fails its check."""
    sync(client)
    found = read_znodes(client, [paths.RUN_LOCK_PARENT, paths.RUN_LOCK])
    parent = found[paths.RUN_LOCK_PARENT]
    return None if parent is None else parent[1], found[paths.RUN_LOCK]


def _read_or_create(client: KazooClient) -> tuple[ZnodeStat, Znode | None]:
    parent, znode = _read_znodes(client)
    if parent is None:
        with suppress(NodeExistsError):
            create_znode(client, paths.RUN_LOCK_PARENT, b"", own_acl(client))
        parent, znode = _read_znodes(client)
    if parent is None:  # somebody deletes it: the next attempt makes it again
        raise NoNodeError(paths.RUN_LOCK_PARENT)
    return parent, znode


def _fence(czxid: int, version: int, held: int | None = None) -> Fence:
    versions = {paths.RUN_LOCK_PARENT: version, **({} if held is None else {paths.RUN_LOCK: held})}
    return Fence(versions, f"{czxid:016x}-{version:010d}")


def _held_by(holder: LockOwner, consequence: str) -> str:
    since = f" since {holder.acquired_at}" if holder.acquired_at else ""
    return (
        f"The cluster is held by run {holder.name}{since} ({paths.RUN_LOCK}). {consequence} "
        "Wait until that run has ended; if it is gone, the Dag kafka_throttle_janitor releases what it held, and where "
        f"it cannot know, an operator does with its param break_lock '{holder.name}'."
    )


def own_acl(client: KazooClient) -> list[ACL]:
    """Of the znodes that are this program's own."""
    # As Kafka does with zookeeper.set.acl: all for the authenticated creator, reading for everybody.
    if acl_like(client, paths.DELETE_TOPICS) == list(OPEN_ACL_UNSAFE):
        return list(OPEN_ACL_UNSAFE)
    return [make_acl("auth", "", all=True), *READ_ACL_UNSAFE]
