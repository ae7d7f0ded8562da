"""Clients for the brokers, from the one set of security settings in an Airflow connection."""

from __future__ import annotations

import logging
import random
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, NoReturn

from confluent_kafka import KafkaError as KafkaCode
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, DescribeClusterResult
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

from kafka_rebalance.errors import AuthenticationError, ConnectionSettingsError, ReadDeniedError, ReadError
from kafka_rebalance.model.connection import (
    CERTIFICATE,
    HOST_CHECK,
    KEY,
    KEY_PASSWORD,
    MECHANISM,
    PASSWORD,
    PROTOCOL,
    TRUSTED,
    USERNAME,
    KafkaConnection,
    certificate_problem,
)

log = logging.getLogger(__name__)
QUIET = logging.getLogger("kafka_rebalance.librdkafka")  # the errors of its calls say what matters
QUIET.setLevel(logging.CRITICAL + 1)

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


# Whether brokers let this connection in, and if not, why: in seconds, and in the words of client and broker.
#
# Both clients try again until a request's time is over, and then tell that the time is over.


FIRST_SECONDS = 10.0
# A client whose first broker names no controller, or one that has just gone, asks for it again after five minutes only
# (librdkafka's topic.metadata.refresh.interval.ms; less than ten seconds it does not take). So another client asks.
_NEXT_CLIENT_SECONDS = 2.0
# Beyond FIRST_SECONDS: librdkafka may end the process if an answer comes late (its issue 4605).
_DESCRIBE_SECONDS = 30.0
_HANDSHAKE_SECONDS = 1.0
_SAYS_NOTHING = (KafkaCode._ALL_BROKERS_DOWN, KafkaCode._TIMED_OUT)
_entered: set[int] = set()
# After a refusal these very settings are not tried again for so long, then for twice as long: brokers count failed
# logins, and a directory behind them locks the account.
_REST_SECONDS, _LONGEST_REST_SECONDS = 30.0, 600.0
_refusals: dict[int, _Refusal] = {}


@dataclass(frozen=True, slots=True)
class _Refusal:
    """`until`, of `time.monotonic`: nobody tries before. `seconds`: how long this rest is."""

    text: str
    until: float
    seconds: float


def refused(kafka: KafkaConnection, said: str) -> AuthenticationError:
    """The error for a login that brokers refuse. For a while, nobody in this process tries these settings again."""
    key = _key(kafka)
    _entered.discard(key)
    before, now = _refusals.get(key), time.monotonic()
    seconds = _REST_SECONDS if before is None else before.seconds
    if before is not None and now >= before.until:
        seconds = min(2 * before.seconds, _LONGEST_REST_SECONDS)
    text = (
        f"Kafka {kafka.bootstrap_servers} does not let this connection in ({kafka.without_secrets(said)}). "
        "Correct user, password and mechanism (sasl.*) of the Airflow connection."
    )
    if before is None or now >= before.until:
        _refusals[key] = _Refusal(text, now + seconds, seconds)
    return AuthenticationError(text)


def _key(kafka: KafkaConnection) -> int:
    return hash((kafka.bootstrap_servers, *sorted(kafka.security.items())))


def check_enters(kafka: KafkaConnection, *, again: bool = False) -> None:
    """Once in a process for each connection, or `again`. Raises ConnectionSettingsError.

    Raises AuthenticationError if user, password or a certificate is refused, and ReadError if no broker answers.
    """
    key = _key(kafka)
    before = _refusals.get(key)
    if before is not None and time.monotonic() < before.until:
        raise AuthenticationError(before.text)
    if key in _entered and not again:
        return
    _entered.discard(key)
    describe_cluster(kafka)
    _refusals.pop(key, None)
    _entered.add(key)


def describe_cluster(kafka: KafkaConnection) -> DescribeClusterResult:
    """The brokers' own description, asked for until one of them gives it. Raises the errors of `check_enters`."""
    said: dict[int, str] = {}

    def note(error: KafkaCode) -> None:
        said[error.code()] = error.str()

    asked: list[tuple[AdminClient, Future[DescribeClusterResult]]] = []
    another = time.monotonic()
    give_up = another + FIRST_SECONDS
    tls: _Handshake | None = None if kafka.has_tls else _Handshake()
    while time.monotonic() < give_up:
        if time.monotonic() >= another:
            another += _NEXT_CLIENT_SECONDS
            admin = new_admin(kafka, error_cb=note)
            asked.append((admin, admin.describe_cluster(request_timeout=_DESCRIBE_SECONDS)))
        for number, (admin, answer) in enumerate(asked):
            admin.poll(0.05 / len(asked))
            if not answer.done():
                continue
            failed = answer.exception()
            if failed is None:
                return answer.result()
            # A broker that has just started may not name itself yet. The client drops it then, with what it asked it.
            note(failed.args[0])
            asked[number] = (admin, admin.describe_cluster(request_timeout=_DESCRIBE_SECONDS))
        if KafkaCode._ALL_BROKERS_DOWN in said:
            if KafkaCode._AUTHENTICATION in said:
                break
            tls = tls or _shake_hands(kafka, kafka.bootstrap_servers.split(","))
            if tls.certificate is not None:
                break
    _raise(kafka, said, tls or _Handshake())


def new_admin(kafka: KafkaConnection, **more: object) -> AdminClient:
    """confluent-kafka's admin client, which connects at its first request. Raises ConnectionSettingsError."""
    try:
        return AdminClient({**librdkafka_settings(kafka), **more}, logger=QUIET)
    except (KafkaException, TypeError, ValueError) as bad:
        # librdkafka's text may quote the value of a setting.
        names = ", ".join(sorted(kafka.security))
        raise ConnectionSettingsError(
            f"Kafka {kafka.bootstrap_servers}: librdkafka refuses a setting among {names} ({type(bad).__name__}). "
            "Nothing was read. Correct the security settings of the Airflow connection."
        ) from None


def check_certificates(kafka: KafkaConnection, server: str | None = None) -> None:
    """For a connection that fails where there was one before: a certificate may have changed, or be over.

    Raises AuthenticationError if this server, or a bootstrap server, and this host do not accept each other's. A server
    that does not answer says nothing of it.
    """
    if not kafka.has_tls:
        return
    tls = _shake_hands(kafka, kafka.bootstrap_servers.split(",") if server is None else [server])
    if tls.certificate is not None:
        _entered.discard(_key(kafka))
        raise _wrong_certificate(kafka, tls.certificate)


def _wrong_certificate(kafka: KafkaConnection, why: str) -> AuthenticationError:
    return AuthenticationError(
        f"Kafka {kafka.bootstrap_servers}: the TLS handshake fails ({why}). "
        "Correct the certificates (ssl.*) and the host names of the Airflow connection."
    )


def _raise(kafka: KafkaConnection, said: dict[int, str], tls: _Handshake) -> NoReturn:
    if tls.certificate is not None:
        raise _wrong_certificate(kafka, tls.certificate)
    why = said.get(KafkaCode._AUTHENTICATION)
    if why is not None:
        raise refused(kafka, why)
    reasons = [kafka.without_secrets(text) for code, text in said.items() if code not in _SAYS_NOTHING]
    if not reasons and KafkaCode._ALL_BROKERS_DOWN in said:
        reasons = ["every broker closes the connection: its listener may have another security.protocol"]
    if tls.without is not None:  # librdkafka tells it or only the end of the connection, as it happens
        reasons = [f"{tls.without} ends the TLS handshake: its listener may be one without TLS"]
    raise ReadError(
        f"Kafka {kafka.bootstrap_servers} cannot be read ({reasons[0] if reasons else 'no answer'}). "
        "Check that this host can reach the brokers, and check security.protocol of the Airflow connection."
    )


class _Handshake(NamedTuple):
    certificate: str | None = None  # what one side says of the other's certificate
    without: str | None = None  # a server that ends the connection where TLS begins


def _shake_hands(kafka: KafkaConnection, servers: Sequence[str]) -> _Handshake:
    """What is wrong with TLS here. librdkafka does not tell a wrong host name from a wrong CA."""
    context = tls_context(kafka.security)
    without = None
    for server in servers:
        host, _, port = server.strip().rpartition(":")
        host = host.strip("[]")
        try:
            plain = socket.create_connection((host, int(port)), _HANDSHAKE_SECONDS)
        except (OSError, ValueError):
            continue
        try:
            with plain, context.wrap_socket(plain, server_hostname=host) as secured:
                secured.recv(1)  # a broker tells of a client's certificate after the handshake (TLS 1.3)
        except (OSError, ValueError) as failed:
            problem = certificate_problem(failed)
            if problem is not None:
                return _Handshake(f"{host}: {problem}")
            # A plain listener of Kafka takes the first bytes for the size of a request, and closes the connection.
            if isinstance(failed, (ssl.SSLEOFError, ConnectionResetError)):
                without = server.strip()
    return _Handshake(without=without)


# The one set of security settings in an Airflow connection, as each of the two client libraries takes it.
#
# `model.connection` has checked the names and their combination. Files are read here, on the machine that connects.


CLIENT_ID = "kafka-rebalance"
_CRL = "ssl.crl.location"


def librdkafka_settings(kafka: KafkaConnection) -> dict[str, Any]:
    """How librdkafka's clients reach the cluster."""
    return {
        **kafka.security,
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": CLIENT_ID,
        # Else brokers make a topic that was asked for and does not exist, as their own defaults are.
        "allow.auto.create.topics": False,
        "log_level": 0,  # the error of a request says what matters
    }


def kafka_python_settings(kafka: KafkaConnection) -> dict[str, Any]:
    """The same for kafka-python. Raises ConnectionSettingsError, which never has a value."""
    security = kafka.security
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers.split(","),
        "client_id": CLIENT_ID,
        "security_protocol": security.get(PROTOCOL, "PLAINTEXT"),
    }
    if kafka.has_login:
        settings |= {
            "sasl_mechanism": security[MECHANISM],
            "sasl_plain_username": security[USERNAME],
            "sasl_plain_password": security[PASSWORD],
        }
    if kafka.has_tls:
        settings["ssl_context"] = tls_context(security)
    return settings


def tls_context(security: Mapping[str, str]) -> ssl.SSLContext:
    """TLS as librdkafka would do it. Raises ConnectionSettingsError naming the settings whose file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.get(HOST_CHECK, "https").lower() == "https"
    with _naming(TRUSTED.names):
        if TRUSTED.text in security:
            context.load_verify_locations(cadata=security[TRUSTED.text])
        elif TRUSTED.file in security:
            context.load_verify_locations(cafile=security[TRUSTED.file])
        else:
            context.load_default_certs()
    with _naming((_CRL,)):
        if _CRL in security:
            context.load_verify_locations(cafile=security[_CRL])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    with ExitStack() as stack, _naming((*CERTIFICATE.names, *KEY.names, KEY_PASSWORD)):
        files = [_file(part.file, part.text, security, stack) for part in (CERTIFICATE, KEY)]
        if files[0] is not None:
            # Never without a password: OpenSSL would ask for it on the terminal.
            context.load_cert_chain(files[0], files[1], password=security.get(KEY_PASSWORD, ""))
    return context


def _file(file: str, text: str, security: Mapping[str, str], stack: ExitStack) -> str | None:
    """Python's ssl reads a client's certificate from files alone, so a text is in one for that moment."""
    if text in security:
        path = Path(stack.enter_context(TemporaryDirectory(prefix="kafka-rebalance-"))) / "pem"
        path.touch(mode=0o600)
        path.write_text(security[text], encoding="utf-8")
        return str(path)
    return security.get(file)


@contextmanager
def _naming(names: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as bad:  # also ssl.SSLError
        said = getattr(bad, "reason", None) or type(bad).__name__
        raise ConnectionSettingsError(
            f"The Kafka security setting {' or '.join(names)} cannot be used on this machine ({said}). Nothing was "
            "read. Correct it under Admin, Connections. A file must be there for workers, triggerer and API server."
        ) from None


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
