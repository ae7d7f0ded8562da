"""Single writes to ZooKeeper: bounded in time and size, with the ACL that fits the cluster.

`BadVersionError`, `NodeExistsError`, `NoNodeError` and `client.LOST` come through as they are: only the caller knows
what they mean. Everything else is a `WriteError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from kafka_rebalance.errors import WriteError
from kafka_rebalance.zookeeper.client import LOST, REPLY_SECONDS, read_acl

JUTE_MAXBUFFER_BYTES = 0xFFFFF  # ZooKeeper's default limit of one request
_MARGIN_BYTES = 64
# What may have changed under us, or is unknown: the caller reads again.
CHANGED = (BadVersionError, NodeExistsError, NoNodeError, *LOST)


def create_znode(client: KazooClient, path: str, data: bytes, acl: Sequence[ACL], *, sequence: bool = False) -> None:
    """Creates a persistent znode."""
    check_size(client, path, data, acl)
    with _errors(path):
        client.create_async(path, data, acl=list(acl), sequence=sequence).get(timeout=REPLY_SECONDS)


def set_znode(client: KazooClient, path: str, data: bytes, version: int) -> None:
    """Replaces exactly the version that was read."""
    check_size(client, path, data, ())
    with _errors(path):
        client.set_async(path, data, version=version).get(timeout=REPLY_SECONDS)


def delete_znode(client: KazooClient, path: str, version: int) -> None:
    """Deletes exactly the version that was read."""
    with _errors(path):
        client.delete_async(path, version=version).get(timeout=REPLY_SECONDS)


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
    size = header + len((client.chroot + path).encode()) + acl_bytes + len(data)
    limit = JUTE_MAXBUFFER_BYTES - _MARGIN_BYTES
    if size > limit:
        raise WriteError(
            f"{path}: the request would be {size:,} bytes ({len(data):,} of them content), and ZooKeeper takes "
            f"{limit:,}. It was not written. Use smaller batches."
        )
