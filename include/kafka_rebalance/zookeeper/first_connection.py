"""Starts a kazoo client, and tells why ZooKeeper does not let it in. kazoo itself only logs that, and tries again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, SessionClosedRequireSaslError
from kazoo.protocol.states import KazooState, KeeperState

from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.model.connection import ZooKeeperConnection, certificate_problem
from kafka_rebalance.zookeeper.quick_handler import QuickHandler

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


def start_client(
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
            problems = [certificate_problem(one) for one in failures]
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
    if refused or any(isinstance(one, _REFUSALS) for one in (failure, handler.ended_by)):
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
