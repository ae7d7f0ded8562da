"""Writes to ZooKeeper: bounded in time and size, with the ACL that fits the cluster.

`BadVersionError`, `NodeExistsError`, `NoNodeError` and `client.LOST` come through as they are: only the caller knows
what they mean. Everything else is a `WriteError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.serialization import Create, Delete, SetData, Transaction
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from kafka_rebalance.errors import ReadError, WriteDeniedError, WriteError
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_BYTES
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.zookeeper.client import LOST, REPLY_SECONDS, read_acl
from kafka_rebalance.zookeeper.znodes import paths

_MARGIN_BYTES = 64
_CALLS = {Create: "create", SetData: "set", Delete: "delete"}
ATTEMPTS = 5
# Something may have changed meanwhile, or the outcome is unknown: the caller reads again.
CHANGED = (BadVersionError, NodeExistsError, NoNodeError, *LOST)

T = TypeVar("T")


def create_znode(client: KazooClient, path: str, data: bytes, acl: Sequence[ACL]) -> None:
    """Creates a persistent znode."""
    transaction = client.transaction()
    transaction.create(path, data, acl=list(acl))
    commit(client, path, transaction)


def delete_znode(client: KazooClient, path: str, version: int) -> None:
    """Deletes exactly the version that was read."""
    transaction = client.transaction()
    transaction.delete(path, version)
    commit(client, path, transaction)


def commit(client: KazooClient, path: str, transaction: TransactionRequest) -> None:
    """Makes all of the transaction's writes or none of them. `path` names it in errors."""
    check_fits(path, transaction)
    try:
        results = transaction.commit_async().get(timeout=REPLY_SECONDS)
        failures = [result for result in results if isinstance(result, KazooException)]
        # One operation has failed. ZooKeeper rolled back those before it and did not try those after it.
        failures.sort(key=lambda failure: isinstance(failure, RolledBackError | RuntimeInconsistency))
        if failures:
            raise failures[0]
    except LOST:
        _note(client, transaction, is_certain=False)
        raise
    except CHANGED:
        raise
    except NoAuthError as refused:
        raise WriteDeniedError(
            f"{path}: ZooKeeper does not let this client write it. It was not written. Put the brokers' user into the "
            "Airflow connection, or give the connection's user the same rights on this znode."
        ) from refused
    except KazooException as failed:
        raise WriteError(
            f"{path}: ZooKeeper refused the write ({type(failed).__name__}). It was not written."
        ) from failed
    _note(client, transaction)


def repeat(path: str, attempt: Callable[[], T]) -> T:
    """The result of the attempt, which is repeated if somebody changed what it read, or the connection was lost.

    Each attempt must start by reading, so that it finds out what the one before has done. Raises WriteError.
    """
    lost = False
    failure: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except CHANGED as changed:
            lost, failure = lost or isinstance(changed, LOST), changed
        except ReadError as unreadable:
            if not lost:
                raise
            failure = unreadable
            break
    if lost:
        state = "the connection was lost, so whether it was written is unknown"
        remedy = "Clear this task when ZooKeeper answers: it finds out and goes on."
    else:
        state = f"it was not written, because somebody else changed it during each of {ATTEMPTS} attempts"
        remedy = "Clear this task to try again."
    raise WriteError(f"{path}: {state} ({type(failure).__name__}). {remedy}") from failure


def _note(client: KazooClient, transaction: TransactionRequest, *, is_certain: bool = True) -> None:
    """Notes the writes that were made, or perhaps made."""
    for operation in transaction.operations:
        call = _CALLS.get(type(operation))
        change = _change(call, operation.path.removeprefix(client.chroot)) if call else None
        if change is not None:
            note(*change, is_certain=is_certain)


def _change(call: str, path: str) -> tuple[Kind, str] | None:
    """What the write changes; None if it means nothing by itself, as the fence and the notifications of brokers."""
    if path == paths.RUN_LOCK:
        return {"create": (Kind.LOCK_TAKEN, ""), "delete": (Kind.LOCK_GIVEN_BACK, "")}.get(call)
    if path == paths.REASSIGN_PARTITIONS:
        return (Kind.REASSIGNMENT, "") if call == "create" else None
    if path == paths.PREFERRED_ELECTION:
        return Kind.ELECTION, ""
    if path == paths.CONTROLLER:
        return Kind.CONTROLLER, ""
    for parent, kind in ((paths.TOPICS, Kind.TOPIC), (paths.DELETE_TOPICS, Kind.DELETION), (paths.CONFIG, Kind.CONFIG)):
        if path.startswith(f"{parent}/") and not path.startswith(paths.CONFIG_CHANGES):
            return kind, path.removeprefix(f"{parent}/")
    return None


def acl_like(client: KazooClient, sibling: str) -> list[ACL]:
    """The ACL of one of Kafka's znodes, for a new znode beside it; open if that one does not exist.

    The controller must be able to rewrite and delete what we create. Where Kafka protects its znodes
    (`zookeeper.set.acl`), nobody else may. Raises ReadError.
    """
    return read_acl(client, sibling) or list(OPEN_ACL_UNSAFE)


def check_fits(path: str, transaction: TransactionRequest) -> None:
    """Raises WriteError if the request is too large.

    ZooKeeper answers a request beyond `jute.maxbuffer` by closing the connection. The client would see a lost
    connection, and would try again for ever.
    """
    header_bytes = 4 + 4  # xid, type
    size_bytes = header_bytes + len(Transaction(transaction.operations).serialize())
    limit = JUTE_MAXBUFFER_BYTES - _MARGIN_BYTES
    if size_bytes > limit:
        raise WriteError(
            f"{path}: the request would be {size_bytes:,} bytes, but ZooKeeper takes {limit:,} (jute.maxbuffer). "
            "It was not written. Use smaller batches, or fewer partitions in a topic."
        )


def add_checks(transaction: TransactionRequest, unchanged: Mapping[str, int]) -> None:
    """Adds to a transaction that these znodes must still have these versions: {path: version}."""
    for path, version in unchanged.items():
        transaction.check(path, version)
