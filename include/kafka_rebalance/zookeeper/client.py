"""The connection to ZooKeeper, and reads that survive a lost connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry, RetryFailedError
from kazoo.security import ACL

from kafka_rebalance.errors import ReadDeniedError, ReadError
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.zookeeper.first_connection import ConnectingHandler, start_client
from kafka_rebalance.zookeeper.multi_read import Znode, multi_read
from kafka_rebalance.zookeeper.quick_handler import QuickHandler

# After these, the outcome of a request is unknown; kazoo reconnects by itself.
LOST = (ConnectionLoss, SessionExpiredError, OperationTimeoutError, KazooTimeoutError)
START_SECONDS = 30.0  # Kafka's tools also wait so long for a connection (TopicCommand, 30000 ms)
REPLY_SECONDS = 30.0
WINDOW = 2_000  # requests in flight: enough to hide the round trips, few enough not to be throttled by the server
MANY = 1_000  # znodes that take longer to read one by one than a connection takes to open

T = TypeVar("T")


class Client(KazooClient):
    """Knows how it was opened, and whether the server may take many znodes in one request."""

    opened_with: ZooKeeperConnection
    may_multi_read = True


@contextmanager
def open_client(connection: ZooKeeperConnection) -> Iterator[KazooClient]:
    """A started client, closed at the end. Raises ReadError, AuthenticationError, naming the hosts, never a secret."""
    # kazoo logs every request, and each lost connection with a traceback. Our own errors say what matters of that.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    handler = ConnectingHandler()
    try:
        client = Client(
            hosts=connection.hosts,
            timeout=connection.session_timeout_seconds,
            sasl_options=dict(connection.sasl_options) or None,
            handler=handler,
            **connection.tls_options,
        )
    except (TypeError, ValueError, KazooException) as bad:
        # The cause's text stays out, because it may quote an option's value.
        raise ReadError(
            f"ZooKeeper {connection.hosts}: the connection's options cannot be used ({type(bad).__name__}). "
            "Correct hosts, SASL and TLS options of the Airflow connection."
        ) from None
    client.opened_with = connection
    try:
        if not start_client(client, handler, connection, START_SECONDS):
            raise ReadError(
                f"ZooKeeper {connection.hosts}: the chroot {client.chroot} does not exist. "
                "Correct the path after the hosts in the Airflow connection."
            )
        yield client
    finally:
        try:
            client.stop()
        finally:
            client.close()


def _with_retry(call: Callable[[], T]) -> T:
    """The result of a call that may be repeated; it is repeated while the connection is lost."""

    def once() -> T:
        try:
            return call()
        except KazooTimeoutError as slow:
            raise OperationTimeoutError(str(slow)) from slow

    try:
        return KazooRetry(max_tries=5, max_delay=5.0, deadline=REPLY_SECONDS)(once)
    except RetryFailedError as failed:
        raise ConnectionLoss("no answer from ZooKeeper") from failed


def read_znodes(client: KazooClient, paths: Iterable[str]) -> dict[str, Znode | None]:
    """Content and stat by path; None if the znode does not exist. Raises ReadError for everything else.

    Up to `WINDOW` requests are in flight at once. `MANY` znodes are read by few requests, if the server takes such.
    """
    wanted = list(dict.fromkeys(paths))
    found = _by_multi_read(client, wanted) if len(wanted) >= MANY else None
    return _pipelined(client, client.get_async, wanted) if found is None else found


def _by_multi_read(client: Any, paths: Sequence[str]) -> dict[str, Znode | None] | None:
    """None: they cannot be read so. What is wrong, if anything is, shows when they are read one by one.

    A server that does not know the request closes the connection, so these requests have a connection of their own.
    """
    if not getattr(client, "may_multi_read", False):  # or somebody else has opened the client
        return None
    try:
        with open_client(client.opened_with) as own:
            sync(own)
            found = multi_read(own, paths, REPLY_SECONDS)
    except (ReadError, KazooException, ConnectionClosedError, KazooTimeoutError):
        client.may_multi_read = False
        return None
    sync(client)  # the other connection's server may be newer than ours, and no later read may be older than this one
    return found


def read_children(client: KazooClient, path: str) -> list[str]:
    """The children's names, sorted; none if the parent does not exist. Raises ReadError."""
    return sorted(_pipelined(client, client.get_children_async, [path])[path] or [])


def exists(client: KazooClient, path: str) -> bool:
    """Whether the znode exists. Raises ReadError."""
    return bool(which_exist(client, [path]))


def which_exist(client: KazooClient, paths: Iterable[str]) -> list[str]:
    """Those of these znodes that exist. Raises ReadError."""
    return [path for path, stat in _pipelined(client, client.exists_async, paths).items() if stat is not None]


def read_acl(client: KazooClient, path: str) -> list[ACL]:
    """The znode's ACL; empty if the znode does not exist. Raises ReadError."""
    answer = _pipelined(client, client.get_acls_async, [path])[path]
    return list(answer[0]) if answer else []


def _pipelined(client: KazooClient, request: Callable[[str], Any], paths: Iterable[str]) -> dict[str, Any]:
    wanted = list(dict.fromkeys(paths))
    answers: dict[str, Any] = {}
    for start in range(0, len(wanted), WINDOW):
        window = wanted[start : start + WINDOW]
        try:
            answers.update(_with_retry(lambda window=window: _window(client, request, window)))  # type: ignore[misc]
        except NoAuthError as refused:
            raise ReadDeniedError(
                f"{_span(window)}: this client may not read it. "
                "Use a user that the znodes' ACLs let read, or run zookeeper-security-migration."
            ) from refused
        except (KazooException, ConnectionClosedError) as failed:
            raise ReadError(
                f"{_span(window)} of ZooKeeper {_hosts(client)} cannot be read ({type(failed).__name__}). "
                "Try again when ZooKeeper answers."
            ) from failed
    return answers


def _window(client: KazooClient, request: Callable[[str], Any], window: list[str]) -> dict[str, Any]:
    requests = _requested(client, request, window)
    answers: dict[str, Any] = {}
    for path, answer in requests:
        try:
            answers[path] = answer.get(timeout=REPLY_SECONDS)
        except NoNodeError:
            answers[path] = None
    return answers


def _requested(client: KazooClient, request: Callable[[str], Any], window: list[str]) -> list[tuple[str, Any]]:
    handler = getattr(client, "handler", None)
    if not isinstance(handler, QuickHandler):  # somebody else has opened the client
        return [(path, request(path)) for path in window]
    with handler.together():
        requests = [(path, request(path)) for path in window]
    # Answers come in order: with the last one all are there. Else this thread would wake for each of them.
    requests[-1][1].wait(REPLY_SECONDS)
    return requests


def _span(window: list[str]) -> str:
    return window[0] if len(window) == 1 else f"{window[0]} (and {len(window) - 1} more)"


def _hosts(client: KazooClient) -> str:
    return ",".join(f"{host}:{port}" for host, port in client.hosts) + client.chroot


def sync(client: KazooClient) -> None:
    """Makes our server as new as ZooKeeper's leader, so that no decision rests on old data."""
    try:
        _with_retry(lambda: client.sync_async("/").get(timeout=REPLY_SECONDS))
    except (KazooException, ConnectionClosedError) as failed:
        raise ReadError(
            f"ZooKeeper {_hosts(client)} does not answer ({type(failed).__name__}). Try again when ZooKeeper answers."
        ) from failed
