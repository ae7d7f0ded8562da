"""The connection to ZooKeeper, and reads that survive a lost connection."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    OperationTimeoutError,
    SessionClosedRequireSaslError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, multiheader_struct, read_buffer, stat_struct
from kazoo.protocol.states import KazooState, KeeperState, ZnodeStat
from kazoo.retry import KazooRetry, RetryFailedError
from kazoo.security import ACL

from kafka_rebalance.errors import AuthenticationError, ReadDeniedError, ReadError
from kafka_rebalance.model.connection import ZooKeeperConnection, certificate_problem

# kazoo's handler, with fewer system calls for a request. A large cluster takes 150,000 of them.


class QuickHandler(SequentialThreadingHandler):
    """`poll` in place of kazoo's selector, which is made and closed several times for each request. And `together`."""

    def __init__(self) -> None:
        super().__init__()
        self._wake = _Wake()

    def create_socket_pair(self) -> tuple[Any, Any]:
        waits, wakes = super().create_socket_pair()
        self._wake.of = wakes
        return waits, self._wake

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        poll = select.poll()
        for watched in {*rlist, *wlist}:
            wanted = (select.POLLIN if watched in rlist else 0) | (select.POLLOUT if watched in wlist else 0)
            poll.register(watched, wanted)
        # A lost connection counts as readable and as writable, so that the next read or write tells of it.
        ready = {file for file, _ in poll.poll(None if timeout is None else timeout * 1000)}
        reads, writes = ([file for file in some if file.fileno() in ready] for some in (rlist, wlist))
        return reads, writes, []

    @contextmanager
    def together(self) -> Iterator[None]:
        """Requests that are made meanwhile go out at the end. Else kazoo wakes its thread for each of them."""
        self._wake.hold()
        try:
            yield
        finally:
            self._wake.release()


class _Wake:
    """The end of kazoo's socket pair to which it writes a byte for each request. Any thread may request."""

    def __init__(self) -> None:
        self.of: socket.socket | None = None
        self._holders, self._held = 0, 0
        self._guard = threading.Lock()

    def send(self, data: bytes) -> int:
        assert self.of is not None
        with self._guard:
            if not self._holders:
                return self.of.send(data)
            self._held += len(data)
            return len(data)

    def hold(self) -> None:
        with self._guard:
            self._holders += 1

    def release(self) -> None:
        with self._guard:
            self._holders -= 1
            if not self._holders and self._held and self.of is not None:
                requests, self._held = self._held, 0
                with suppress(OSError):  # the client was closed meanwhile, which ends its requests
                    self.of.sendall(bytes(requests))

    def close(self) -> None:
        if self.of is not None:
            self.of.close()


# Starts a kazoo client, and tells why ZooKeeper does not let it in. kazoo itself only logs that, and tries again.


_REFUSALS = (AuthFailedError, SessionClosedRequireSaslError)
_END_SECONDS = 1.0
_LOOK_SECONDS = 0.05
REFUSED_SECONDS = 10.0  # servers that start refuse connections for so long


class ConnectingHandler(QuickHandler):
    """Keeps why a server could not be connected to, by address."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[tuple[str, int], OSError] = {}
        self.has_connected = False
        self.ended_by: Exception | None = None  # a refusal that has ended kazoo's own thread
        self.has_ended = threading.Event()

    def spawn(self, func: Callable[..., object], *args: Any, **options: Any) -> Any:
        def run() -> None:
            try:
                func(*args, **options)
            except _REFUSALS as failed:  # a server that asks for a login ends the thread of who has a wrong one
                self.ended_by = failed
            finally:
                self.has_ended.set()

        return super().spawn(run)

    def create_connection(self, *args: Any, **options: Any) -> Any:
        address = options["address"]
        try:
            made = super().create_connection(*args, **options)
        except OSError as failed:
            self.failures[address] = failed
            raise
        self.failures.pop(address, None)
        self.has_connected = True
        return made


def _start_client(
    client: KazooClient, handler: ConnectingHandler, connection: ZooKeeperConnection, seconds: float
) -> bool:
    """Connects and reads once. Returns whether the chroot exists.

    Raises AuthenticationError if user, password or a certificate is refused, and ReadError if ZooKeeper cannot be read
    after `seconds`, with the reason that is known. No text has a secret.
    """
    refused = []

    def note(state: str) -> None:
        if state == KazooState.LOST and client.client_state == KeeperState.AUTH_FAILED:
            refused.append(state)

    client.add_listener(note)
    hosts = connection.hosts
    try:
        began = time.monotonic()
        started = client.start_async()
        while not started.wait(_LOOK_SECONDS):
            waited = time.monotonic() - began
            failures = list(handler.failures.values()) if len(handler.failures) >= len(client.hosts) else []
            is_over = waited > seconds or (bool(failures) and waited > REFUSED_SECONDS)
            problems = [certificate_problem(failure) for failure in failures]
            # Servers that are down may yet come up, and have another certificate.
            if (problems and all(problems)) or (is_over and any(problems)):
                raise AuthenticationError(
                    f"ZooKeeper {hosts}: the TLS handshake fails ({next(filter(None, problems))}). "
                    "Correct zookeeper_secret_config and the host names of the Airflow connection."
                )
            if refused:
                raise _not_let_in(connection)
            if is_over:
                raise ReadError(_unreadable(connection, _why_not_connected(handler)))
        # A wrong password raises at the first read, not while connecting.
        return client.exists_async("/").get(timeout=seconds) is not None
    except ReadError:
        raise
    except Exception as failed:  # kazoo lets socket, ssl and SASL errors through
        failure: BaseException = failed
    if not isinstance(failure, _REFUSALS):
        handler.has_ended.wait(_END_SECONDS)  # the read fails a moment before the thread ends
    if refused or any(isinstance(error, _REFUSALS) for error in (failure, handler.ended_by)):
        raise _not_let_in(connection)
    raise ReadError(_unreadable(connection, type(failure).__name__))


def _not_let_in(connection: ZooKeeperConnection) -> AuthenticationError:
    user = connection.sasl_options.get("username")
    who = "a client without a user" if user is None else f"the login of the user {user}"
    return AuthenticationError(
        f"ZooKeeper {connection.hosts} refuses {who}. Correct login and password of the Airflow "
        "connection: they are ZooKeeper's digest user."
    )


def _why_not_connected(handler: ConnectingHandler) -> str:
    if handler.failures:
        return "; ".join(f"{host}:{port}: {_reason(failed)}" for (host, port, *_), failed in handler.failures.items())
    if handler.has_connected:
        return "the servers close each connection: they may ask for TLS (use_ssl), or for a client's certificate"
    return "the host names do not resolve, or no server answers"


def _reason(failed: OSError) -> str:
    return (getattr(failed, "reason", None) or failed.strerror or type(failed).__name__).replace("\n", " ")


def _unreadable(connection: ZooKeeperConnection, why: str) -> str:
    secured = " as the user of the Airflow connection" if connection.sasl_options else ""
    return (
        f"ZooKeeper {connection.hosts} cannot be read{secured} ({why}). Check that the "
        "hosts can be reached from here, and the user, password and TLS options of the Airflow connection."
    )


# Many znodes in one request: ZooKeeper's multi-read (ZOOKEEPER-3402, since 3.6), which kazoo does not have.
#
# A request costs the server and us many times what a znode in it costs.


PER_REQUEST = 100  # so few that nobody else waits long behind one of them
AT_ONCE = 20  # requests in flight
ERROR = -1  # the type of an answer that is an error

Znode = tuple[bytes | None, ZnodeStat]


def _multi_read(client: KazooClient, paths: Sequence[str], seconds: float) -> dict[str, Znode | None]:
    """Content and stat by path; None if the znode does not exist. Waits so many seconds for each answer.

    Raises kazoo's errors: KazooException, ConnectionClosedError, KazooTimeoutError. A server before 3.6 answers with
    UnimplementedError and closes the connection.
    """
    znodes: dict[str, Znode | None] = {}
    parts = [paths[start : start + PER_REQUEST] for start in range(0, len(paths), PER_REQUEST)]
    for start in range(0, len(parts), AT_ONCE):
        requests = [(part, client.handler.async_result()) for part in parts[start : start + AT_ONCE]]
        for part, answer in requests:
            client._call(_MultiRead([client.chroot + path for path in part]), answer)
        for part, answer in requests:
            for path, znode in zip(part, answer.get(timeout=seconds), strict=True):
                if isinstance(znode, KazooException):
                    raise znode
                znodes[path] = znode
    return znodes


@dataclass(frozen=True)
class _MultiRead:
    """`MultiOperationRecord` of `ZooDefs.OpCode.multiRead`, with nothing but `getData`; as kazoo's `Transaction`."""

    paths: Sequence[str]

    type: ClassVar = 22

    def serialize(self) -> bytes:
        header = multiheader_struct.pack(GetData.type, False, -1)
        reads = (header + GetData(path, None).serialize() for path in self.paths)
        return b"".join(reads) + multiheader_struct.pack(-1, True, -1)

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Znode | KazooException | None]:
        results: list[Znode | KazooException | None] = []
        header, offset = MultiHeader.deserialize(answer, offset)
        while not header.done:
            if header.type == ERROR:
                error = EXCEPTIONS[int_struct.unpack_from(answer, offset)[0]]
                results.append(None if error is NoNodeError else error())
                offset += int_struct.size
            else:
                content, offset = read_buffer(answer, offset)
                results.append((content, ZnodeStat._make(stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size
            header, offset = MultiHeader.deserialize(answer, offset)
        return results


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
        if not _start_client(client, handler, connection, START_SECONDS):
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
    znodes = _by_multi_read(client, wanted) if len(wanted) >= MANY else None
    return _pipelined(client, client.get_async, wanted) if znodes is None else znodes


def _by_multi_read(client: Any, paths: Sequence[str]) -> dict[str, Znode | None] | None:
    """None: they cannot be read so. What is wrong, if anything is, shows when they are read one by one.

    A server that does not know the request closes the connection, so these requests have a connection of their own.
    """
    if not getattr(client, "may_multi_read", False):  # or somebody else has opened the client
        return None
    try:
        with open_client(client.opened_with) as own:
            sync(own)
            znodes = _multi_read(own, paths, REPLY_SECONDS)
    except (ReadError, KazooException, ConnectionClosedError, KazooTimeoutError):
        client.may_multi_read = False
        return None
    sync(client)  # the other connection's server may be newer than ours, and no later read may be older than this one
    return znodes


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
