"""The lock of a cluster: one run at a time moves its partitions, whichever Airflow it belongs to.

A persistent znode, created exclusively: it outlives the worker, so that a run killed half-way still holds the
cluster until its own resumption, its teardown or the janitor releases it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import LockHeldError, WriteError
from kafka_rebalance.zookeeper.client import Znode, read_znodes, sync
from kafka_rebalance.zookeeper.primitives import acl_like, create_znode, delete_znode, repeat, set_znode
from kafka_rebalance.zookeeper.znodes import paths
from kafka_rebalance.zookeeper.znodes.parsing import compact_json, parse_object, parse_text, parse_version


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
        return (self.run, self.owner) == (other.run, other.owner)


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
    znode = _read_znode(client)
    return None if znode is None else decode_lock(znode[0])


def acquire(client: KazooClient, owner: LockOwner) -> None:
    """Takes the lock. By the run that holds it already it may be taken again, also with a newer digest.

    Raises LockHeldError naming the holder, WriteError where the outcome stays unknown.
    """
    data = encode_lock(owner)

    def attempt() -> None:
        znode = _read_znode(client)
        if znode is None:
            acl = _acl(client)
            with suppress(NodeExistsError):
                create_znode(client, paths.RUN_LOCK_PARENT, b"", acl)
            create_znode(client, paths.RUN_LOCK, data, acl)
            return
        holder = decode_lock(znode[0])
        if not holder.is_same_run(owner):
            raise LockHeldError(_held_by(holder, "Nothing was written."))
        if holder.digest != owner.digest:
            set_znode(client, paths.RUN_LOCK, data, znode[1].version)

    repeat(paths.RUN_LOCK, attempt)


def check_held(client: KazooClient, owner: LockOwner) -> int:
    """The version of the lock's znode, for writes that must not be made without it.

    Raises LockHeldError unless this run holds the cluster, with the digest it was approved with.
    """
    znode = _read_znode(client)
    if znode is None:
        raise LockHeldError(
            f"Run {owner.run} does not hold the cluster any more ({paths.RUN_LOCK} is gone). No further move was "
            "requested. Clear hold_throttle with what follows it."
        )
    holder = decode_lock(znode[0])
    if not holder.is_same_run(owner) or holder.digest != owner.digest:
        raise LockHeldError(_held_by(holder, "No further move was requested."))
    return int(znode[1].version)


def release(client: KazooClient, owner: LockOwner) -> bool:
    """Gives the lock back; False where nobody held it. Raises LockHeldError where another run does."""

    def attempt() -> bool:
        znode = _read_znode(client)
        if znode is None:
            return False
        holder = decode_lock(znode[0])
        if not holder.is_same_run(owner):
            raise LockHeldError(_held_by(holder, f"It was not released for run {owner.run}."))
        delete_znode(client, paths.RUN_LOCK, znode[1].version)
        return True

    return repeat(paths.RUN_LOCK, attempt)


def _read_znode(client: KazooClient) -> Znode | None:
    sync(client)
    return read_znodes(client, [paths.RUN_LOCK])[paths.RUN_LOCK]


def _held_by(holder: LockOwner, consequence: str) -> str:
    since = f" since {holder.acquired_at}" if holder.acquired_at else ""
    return (
        f"The cluster is held by run {holder.name}{since} ({paths.RUN_LOCK}). {consequence} "
        "Wait until that run has ended; if it is gone, the Dag kafka_throttle_janitor releases what it held, and where "
        f"it cannot know, an operator does with its param break_lock '{holder.name}'."
    )


def _acl(client: KazooClient) -> list[ACL]:
    # As Kafka does with zookeeper.set.acl: all for the authenticated creator, reading for everybody.
    if acl_like(client, paths.DELETE_TOPICS) == list(OPEN_ACL_UNSAFE):
        return list(OPEN_ACL_UNSAFE)
    return [make_acl("auth", "", all=True), *READ_ACL_UNSAFE]
