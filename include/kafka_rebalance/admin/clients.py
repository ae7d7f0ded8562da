"""Clients for the brokers, from the one set of security settings in an Airflow connection."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError as KafkaCode
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient

from kafka_rebalance.admin.first_contact import check_enters, kafka_python_settings, new_admin, refused
from kafka_rebalance.errors import ReadDeniedError, ReadError
from kafka_rebalance.model.connection import KafkaConnection

log = logging.getLogger(__name__)


REQUEST_SECONDS = 30.0
# A login that brokers refuse: another try with the same password can lock the account.
REFUSED = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
# Then another broker is asked. One that stands still keeps its connections, so nothing else tells that it is gone.
ANOTHER_SECONDS = 10.0


def open_admin(kafka: KafkaConnection) -> AdminClient:
    """confluent-kafka's admin client. Raises ReadError, AuthenticationError, ConnectionSettingsError."""
    check_enters(kafka)
    return new_admin(kafka)


@contextmanager
def open_kafka_python(kafka: KafkaConnection, request_seconds: float = REQUEST_SECONDS) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client, for what confluent-kafka lacks. Errors as `open_admin`.

    `request_seconds`: how long each bootstrap server, and any request without a limit of its own, is waited for.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # at debug level, it logs its settings with the password
    settings = kafka_python_settings(kafka)
    check_enters(kafka)
    begun: list[KafkaNetClient] = []

    def begin(**settings: Any) -> KafkaNetClient:
        begun.append(KafkaNetClient(**settings))
        return begun[-1]

    try:
        client = KafkaAdminClient(
            kafka_client=begin,
            bootstrap_timeout_ms=int(REQUEST_SECONDS * 1000),
            request_timeout_ms=int(request_seconds * 1000),
            **settings,
        )
    except (KafkaError, OSError, ValueError, AssertionError, TypeError) as failed:
        for one in begun:  # the constructor has started a thread with sockets, and gives nobody a client to close
            one.close()
        check_enters(kafka, again=True)  # says why, if a password or a certificate has changed
        raise unreachable(kafka, failed) from None  # the cause's text may quote a setting
    for one in begun:
        _make_patient(one._manager)
    try:
        yield client
    finally:
        client.close()


def unreachable(kafka: KafkaConnection, cause: BaseException) -> ReadError:
    """The error for brokers that do not answer at all, that refuse this connection or hold it back."""
    if isinstance(cause, REFUSED):
        return refused(kafka, str(cause))
    if isinstance(cause, ThrottledError):
        return held_back(kafka, cause)
    return ReadError(
        f"Kafka {kafka.bootstrap_servers} cannot be read ({type(cause).__name__}). Check that this host can reach the "
        "brokers, and check the user, password and TLS settings of the Airflow connection."
    )


def held_back(kafka: KafkaConnection, cause: ThrottledError) -> ReadError:
    return ReadError(
        f"Kafka {kafka.bootstrap_servers} was not asked: {cause}. Nothing was sent. The brokers are up. Give the user "
        "a higher quota (kafka-configs, entity users or clients: request_percentage), then clear this task."
    )


def unread(failed: BaseException, text: str) -> ReadError:
    """The error of this text: another kind if the user lacks a right, which no retry gives."""
    error = failed.args[0] if isinstance(failed, KafkaException) and failed.args else None
    denied = error is not None and error.code() in (
        KafkaCode.TOPIC_AUTHORIZATION_FAILED,
        KafkaCode.CLUSTER_AUTHORIZATION_FAILED,
    )
    return ReadDeniedError(text) if denied else ReadError(text)


def reason_of(failed: BaseException) -> str:
    """Why a request failed: name and text of librdkafka's error, which have no settings."""
    error = failed.args[0] if isinstance(failed, KafkaException) and failed.args else None
    return "no answer" if error is None else f"{error.name()}: {error.str()}"


# How kafka-python sends a request here: it waits for what will pass, and tells what has left this host.
#
# kafka-python itself fails a request at once while a broker's quota holds the user back (KIP-219), as if the broker
# were away. And it keeps a request while it connects, so nobody knows when it goes out.


# A quota of requests holds back for a second at most (quota.window.size.seconds), one of bytes for longer.
MOST_SECONDS = 60.0
DEAF_SECONDS = 60.0
_SAY_SECONDS = 1.0
_SHORTEST_SECONDS = 0.01


class ThrottledError(KafkaError):
    """Quotas of the Kafka user hold every request back for longer than anybody waits. Nothing was sent."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"quotas of the Kafka user hold its requests back for another {seconds:.1f} s")


class NotSentError(KafkaError):
    """Nothing of the request has left this host."""

    def __init__(self, cause: KafkaError | OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class TooLateError(KafkaError):
    """The request would have left this host after the time that was given. Nothing was sent."""


def _make_patient(manager: Any) -> None:
    """From now on this client's requests wait out quotas, and are sent over connections that are open."""

    async def send(
        request: Any,
        node_id: int | None = None,
        request_timeout_ms: int | None = None,
        *,
        not_later_than: float | None = None,
        tells_not_sent: bool = False,
    ) -> Any:
        seconds = (request_timeout_ms or manager.config["request_timeout_ms"]) / 1000
        try:
            connection = await _ready(manager, node_id, seconds, not_later_than)
        except (KafkaError, OSError) as failed:
            if tells_not_sent:
                raise NotSentError(failed) from failed
            raise
        if not_later_than is not None and time.monotonic() > not_later_than:
            raise TooLateError
        try:
            answer = await connection.send_request(request, request_timeout_ms=request_timeout_ms)
        except RequestTimedOutError:
            manager.deaf[connection.node_id] = time.monotonic() + DEAF_SECONDS
            raise
        manager.deaf.pop(connection.node_id, None)
        return answer

    manager.deaf = {}  # {broker that has not answered in time: until when others are asked first}
    manager.send = send


def _is_deaf(manager: Any, broker: int) -> bool:
    """Whether this live broker has just not answered in time. What any broker can answer is asked of others."""
    return getattr(manager, "deaf", {}).get(broker, 0.0) > time.monotonic()


async def _ready(manager: Any, broker: int | None, seconds: float, not_later_than: float | None) -> Any:
    """A connection that is open and not held back. Raises kafka-python's errors, ThrottledError."""
    began, held_back = time.monotonic(), 0.0
    while True:
        node = _any(manager) if broker is None else broker
        if node is not None:
            connection = manager.get_connection(node)
            if not connection.init_future.is_done:
                left = seconds - (time.monotonic() - began - held_back)
                await _connected(manager, connection, left)
            if not connection.paused:
                return connection
            delay = connection._throttle_time - time.monotonic()
        else:
            delay = _shortest_throttle(manager)
            if delay is None:
                raise NodeNotReadyError("every broker has just refused a connection")
        delay = max(delay, _SHORTEST_SECONDS)
        until = time.monotonic() + delay
        if held_back + delay > MOST_SECONDS or (not_later_than is not None and until > not_later_than):
            raise ThrottledError(delay)
        if delay > _SAY_SECONDS:
            log.info("Quotas of the Kafka user hold a request back for %.1f s", delay)
        await manager._net.sleep(delay)
        held_back += delay


def _any(manager: Any) -> int | None:
    node = manager.least_loaded_node()
    if node is None or not _is_deaf(manager, node):
        return node
    others = [broker.node_id for broker in manager.cluster.brokers() if not _is_deaf(manager, broker.node_id)]
    others = [other for other in others if not manager.connection_delay(other)]
    return random.choice(others) if others else node


async def _connected(manager: Any, connection: Any, seconds: float) -> None:
    try:
        await manager.wait_for(connection.init_future, max(seconds, _SHORTEST_SECONDS) * 1000)
    except KafkaTimeoutError as silent:
        manager.deaf[connection.node_id] = time.monotonic() + DEAF_SECONDS
        raise RequestTimedOutError(f"no connection within {seconds:.0f} s") from silent
    except KafkaError:
        manager.maybe_raise_auth_failure(connection.node_id)  # which says more
        raise


def _shortest_throttle(manager: Any) -> float | None:
    """Of the connections that are held back; None if there is none."""
    now = time.monotonic()
    held = [conn._throttle_time - now for conn in manager._conns.values() if "throttle" in conn.paused]
    return min(held, default=None)
