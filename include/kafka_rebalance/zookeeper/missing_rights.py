"""What this client may not write in ZooKeeper, found without writing.

ZooKeeper makes all operations of a transaction or none. It checks them in their order, the rights of each first. Each
transaction here ends in a check that cannot hold, so it makes none, and its answer tells of the first right that is
missing. The ACLs alone do not tell: an address, a certificate or ZooKeeper's own superuser may give a right, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import ConnectionClosedError, KazooException, NoAuthError
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from kafka_rebalance.errors import ReadDeniedError, ReadError
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.zookeeper import znodes
from kafka_rebalance.zookeeper.client import REPLY_SECONDS, exists, which_exist
from kafka_rebalance.zookeeper.writer import acl_like

_NO_VERSION = 2**31 - 1  # a znode has it after two billion writes
_CHILD = "kafka_rebalance_right"  # of a znode that nobody makes
_AT_ONCE = 200
_Probe = tuple[str, str, Callable[[TransactionRequest], Any]]  # znode, right, operation


def read_missing_rights(client: KazooClient, brokers: Collection[int], topics: Collection[str]) -> tuple[Finding, ...]:
    """A finding for each kind of znode that a rebalance of these brokers and topics may not write. Raises ReadError."""
    parent = znodes.RUN_LOCK_PARENT
    lock = [_set(parent), _create(parent)] if exists(client, parent) else [_create("/")]
    kinds = (
        lock,
        [_create(znodes.ADMIN)],
        [_create(znodes.CONFIG_CHANGES)],
        _rates(client, brokers),
        _existing(client, [f"topics/{topic}" for topic in sorted(topics)]),
    )
    missing = [right for probes in kinds for right in _first_missing(client, probes)]
    return tuple(
        Finding(path, f"this ZooKeeper user may not {right} it", f"Give the user the right to {right} this znode")
        for path, right in missing
    )


def _rates(client: KazooClient, brokers: Collection[int]) -> list[_Probe]:
    """A new config of a broker gets the rights of `/config/brokers`, and is written again later."""
    parent = f"{znodes.CONFIG}/brokers"
    try:
        acl = acl_like(client, parent)
    except ReadDeniedError:
        acl = list(OPEN_ACL_UNSAFE)
    new = (parent, "write a znode below", lambda transaction: transaction.set_data(_child(parent), b"", -1))
    return [_create(parent, acl), new, *_existing(client, [f"brokers/{broker}" for broker in sorted(brokers)])]


def _existing(client: KazooClient, entities: Sequence[str]) -> list[_Probe]:
    return [_set(path) for path in which_exist(client, map(znodes.config_path, entities))]


def _create(parent: str, acl: Sequence[ACL] = OPEN_ACL_UNSAFE) -> _Probe:
    return (
        parent,
        "create a znode below",
        lambda transaction: transaction.create(_child(parent), b"", acl=list(acl)),
    )


def _child(parent: str) -> str:
    return f"{parent.rstrip('/')}/{_CHILD}"


def _set(path: str) -> _Probe:
    return path, "write", lambda transaction: transaction.set_data(path, b"", -1)


def _first_missing(client: KazooClient, probes: Sequence[_Probe]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(probes), _AT_ONCE):
        some = probes[start : start + _AT_ONCE]
        for (path, right, _), result in zip(some, _tried(client, some), strict=False):
            if isinstance(result, NoAuthError):
                yield path, right
                return


def _tried(client: KazooClient, probes: Sequence[_Probe]) -> Sequence[object]:
    transaction = client.transaction()
    for _, _, operation in probes:
        operation(transaction)
    transaction.check("/", _NO_VERSION)
    try:
        results: Sequence[object] = transaction.commit_async().get(timeout=REPLY_SECONDS)
    except NoAuthError as refused:
        return [refused]
    except (KazooException, ConnectionClosedError) as failed:
        raise ReadError(
            f"What this user may write in ZooKeeper cannot be read ({type(failed).__name__}). Try "
            "again when ZooKeeper answers."
        ) from failed
    return results
