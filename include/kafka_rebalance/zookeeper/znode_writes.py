"""Single writes to ZooKeeper: bounded in time and size, with the ACL that fits the cluster.

`BadVersionError`, `NodeExistsError`, `NoNodeError` and `client.LOST` come through as they are: only the caller knows
what they mean. Everything else is a `WriteError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

from kafka_rebalance.errors import (
    ReadError,
    WriteError,
)
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_BYTES
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.zookeeper.client import LOST, REPLY_SECONDS, read_acl
from kafka_rebalance.zookeeper.znodes import paths

_MARGIN_BYTES = 64
_CALLS = {Create: "create", SetData: "set", Delete: "delete"}
ATTEMPTS = 5
# What may have changed under us, or is unknown: the caller reads again.
CHANGED = (BadVersionError, NodeExistsError, NoNodeError, *LOST)

T = TypeVar("T")


def create_znode(client: KazooClient, path: str, data: bytes, acl: Sequence[ACL]) -> None:
    """Creates a persistent znode."""
    check_size(client, path, data, acl)
    with _errors(path), _noting([("create", path)]):
        client.create_async(path, data, acl=list(acl)).get(timeout=REPLY_SECONDS)


def set_znode(client: KazooClient, path: str, data: bytes, version: int) -> None:
    """Replaces exactly the version that was read."""
    check_size(client, path, data, ())
    with _errors(path), _noting([("set", path)]):
        client.set_async(path, data, version=version).get(timeout=REPLY_SECONDS)


def delete_znode(client: KazooClient, path: str, version: int) -> None:
    """Deletes exactly the version that was read."""
    with _errors(path), _noting([("delete", path)]):
        client.delete_async(path, version=version).get(timeout=REPLY_SECONDS)


def commit(client: KazooClient, path: str, transaction: TransactionRequest) -> None:
    """All of the transaction's writes or none of them. `path` names it in errors."""
    header = 4 + 4  # xid, type
    _check_fits(path, header + len(Transaction(transaction.operations).serialize()))
    writes = [
        (_CALLS[type(one)], one.path.removeprefix(client.chroot))
        for one in transaction.operations
        if type(one) in _CALLS
    ]
    with _errors(path), _noting(writes):
        results = transaction.commit_async().get(timeout=REPLY_SECONDS)
        failures = [result for result in results if isinstance(result, KazooException)]
        # One operation has failed; those before it were rolled back, those after it not tried.
        failures.sort(key=lambda failure: isinstance(failure, RolledBackError | RuntimeInconsistency))
        if failures:
            raise failures[0]


def repeat(path: str, attempt: Callable[[], T]) -> T:
    """The result of the attempt, repeated where somebody else changed what it read, or the connection was lost.

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
        state = "whether it was written is unknown, since the connection was lost"
        remedy = "Clear this task when ZooKeeper answers: it finds out and goes on."
    else:
        state = f"it was not written, since somebody else changed it in {ATTEMPTS} attempts"
        remedy = "Clear this task to try again."
    raise WriteError(f"{path}: {state} ({type(failure).__name__}). {remedy}") from failure


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except CHANGED:
        raise
    except NoAuthError as refused:
        raise WriteError(
            f"{path}: ZooKeeper does not let this client write it. It was not written. Use the user of the brokers in "
            "the Airflow connection, or grant this one the rights on it that Kafka's own user has."
        ) from refused
    except KazooException as failed:
        raise WriteError(
            f"{path}: ZooKeeper refused the write ({type(failed).__name__}). It was not written."
        ) from failed


@contextmanager
def _noting(writes: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Notes the writes (call, path) once they are made, or perhaps made."""
    is_certain = True
    try:
        yield
    except LOST:
        is_certain = False
        raise
    except BaseException:
        writes = ()
        raise
    finally:
        for call, path in writes:
            change = _change(call, path)
            if change is not None:
                note(*change, is_certain=is_certain)


def _change(call: str, path: str) -> tuple[Kind, str] | None:
    """What the write changes; None for what is of no consequence by itself, as the fence and the brokers' notices."""
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
    """The ACL of another znode of Kafka's, for a new one beside it; open where that does not exist.

    The controller must be able to rewrite and delete what we create, and where Kafka protects its znodes
    (`zookeeper.set.acl`) nobody else may. Raises ReadError.
    """
    return read_acl(client, sibling) or list(OPEN_ACL_UNSAFE)


def check_size(client: KazooClient, path: str, data: bytes, acl: Sequence[ACL]) -> None:
    """Raises WriteError where the request would not fit.

    ZooKeeper answers a request beyond `jute.maxbuffer` by closing the connection, so that the client sees a lost
    connection and would try again for ever.
    """
    header = 4 + 4 + 4 + 4 + 4  # xid, type, lengths of path and data, flags or version
    acl_bytes = 4 + sum(12 + len(entry.id.scheme) + len(entry.id.id) for entry in acl)
    _check_fits(path, header + len((client.chroot + path).encode()) + acl_bytes + len(data))


def _check_fits(path: str, size_bytes: int) -> None:
    limit = JUTE_MAXBUFFER_BYTES - _MARGIN_BYTES
    if size_bytes > limit:
        raise WriteError(
            f"{path}: the request would be {size_bytes:,} bytes, and ZooKeeper takes {limit:,} (jute.maxbuffer). "
            "It was not written. Use smaller batches, or fewer partitions in a topic."
        )


def add_checks(transaction: TransactionRequest, unchanged: Mapping[str, int]) -> None:
    """Adds to a transaction that these znodes must be of these versions: {path: version}."""
    for path, version in unchanged.items():
        transaction.check(path, version)
