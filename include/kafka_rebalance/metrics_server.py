"""The bytes in that a server with Prometheus' HTTP API has measured, hour by hour."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, quote_plus, urlencode, urlsplit

import msgspec
import numpy as np

from kafka_rebalance.documents.proposals import RatesLeftOut
from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.model.connection import MetricsServer, certificate_problem
from kafka_rebalance.model.finding import some
from kafka_rebalance.planning.tables.history import HourlyRates
from kafka_rebalance.planning.tables.parquet_files import LARGEST_AMOUNT

# The bytes in of each topic in each hour of four weeks, as a metrics server gives them.


HOUR, HOURS_ASKED = 3600, 24  # a day at a time keeps each answer small
SECONDS = 60.0  # for all questions together
NAMED = 5
_TOPIC = "topic"
_LONGEST_NAME = 249  # of a topic, in Kafka


def read_hourly_rates(
    server: MetricsServer,
    topics: Collection[str],
    now: datetime,
    days: int,
    clock: Callable[[], float] = time.monotonic,
) -> HourlyRates:
    """The rates of these topics in the whole hours before `now`. The point at 13:00 is the hour from 12:00.

    Errors as in `query_range`, and ReadError if the answers together take too long, or if a topic has two series.
    """
    give_up = clock() + SECONDS
    last = int(now.timestamp()) // HOUR * HOUR
    first = last - (days * HOURS_ASKED - 1) * HOUR
    names = sorted(topics)
    found = _Found(server, names, first, np.full((len(names), days * HOURS_ASKED), np.nan))
    for begin in range(first, last, HOURS_ASKED * HOUR):
        left = give_up - clock()
        if left <= 0:
            raise found.unusable(f"the answers take longer than {SECONDS:.0f} s")
        end = begin + (HOURS_ASKED - 1) * HOUR
        found.take(query_range(server, begin, end, HOUR, left), begin, end)
    measured = np.flatnonzero(~np.isnan(found.rates).all(axis=1))
    return HourlyRates(
        topics=tuple(names[row] for row in measured),
        first_hour=first // HOUR - 1,
        rates=found.rates[measured],
        left_out=RatesLeftOut(
            without_topic=found.without_topic,
            unknown_topics=found.unknown_topics,
            unknown_first=found.unknown_first,
            no_rate_topics=len(found.no_rate),
            no_rate_first=tuple(sorted(found.no_rate)[:NAMED]),
        ),
    )


class _Found:
    """What the answers have given so far."""

    def __init__(self, server: MetricsServer, names: Sequence[str], first: int, rates: np.ndarray) -> None:
        self.server, self.first, self.rates = server, first, rates
        self.row = {name: row for row, name in enumerate(names)}
        self.labels: dict[str, dict[str, str]] = {}
        self.no_rate: set[str] = set()
        # The most of any answer: only what is known to the cluster is added up.
        self.without_topic, self.unknown_topics = 0, 0
        self.unknown_first: tuple[str, ...] = ()

    def take(self, answer: Sequence[Series], begin: int, end: int) -> None:
        unknown = {series.metric[_TOPIC] for series in answer if _TOPIC in series.metric} - self.row.keys()
        if len(unknown) > self.unknown_topics:
            self.unknown_topics = len(unknown)
            self.unknown_first = tuple(ascii(name[:_LONGEST_NAME])[1:-1] for name in sorted(unknown)[:NAMED])
        self.without_topic = max(self.without_topic, sum(_TOPIC not in series.metric for series in answer))
        twice = set()
        for series in answer:
            topic = series.metric.get(_TOPIC)
            if topic not in self.row:
                continue
            if self.labels.setdefault(topic, series.metric) != series.metric:
                twice.add(topic)
            self._take_points(topic, series, begin, end)
        if twice:
            raise self.unusable(f"bytes_in gives several series for {some(sorted(twice))}: let it sum by (topic)")

    def _take_points(self, topic: str, series: Series, begin: int, end: int) -> None:
        for at, text in series.values:
            if not begin <= at <= end or (at - begin) % HOUR:
                raise self.unusable(f"the point of {topic} at {at:.0f} was not asked for")
            try:
                value = float(text)
            except ValueError:
                value = np.nan
            if 0 <= value <= LARGEST_AMOUNT:  # not if it is NaN
                self.rates[self.row[topic], (int(at) - self.first) // HOUR] = value
            else:
                self.no_rate.add(topic)

    def unusable(self, why: str) -> ReadError:
        return ReadError(
            f"The metrics server {self.server.url} gives no rates that a plan can use ({why}). "
            "Correct bytes_in in metrics_secret_config of the Airflow connection."
        )


# One range query to a server with Prometheus' HTTP API, within limits of size and time.
#
# The form is that of Prometheus, "HTTP API", /api/v1/query_range. VictoriaMetrics adds `isPartial`. A server of any
# kind may answer: what comes is checked for its form before anything is made of it.


LARGEST_ANSWER = 16 << 20  # bytes: 24 points of 20,000 topics; decoded, the worst that was measured takes 300 MiB
SILENT_SECONDS = 10.0  # for a connection, and between two parts of an answer
WORDS_SHOWN = 200
_PATH = "/api/v1/query_range"
_SCHEME = re.compile(r"\b(basic|bearer)(?:\s|%20|\+|\\u0020|&#32;)+[^\s\"'<>,;]+", re.IGNORECASE)


class Series(msgspec.Struct):
    """Labels; and points, each a time in seconds since 1970 and a value as text."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[Series]
    result_type: str = msgspec.field(name="resultType")


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = msgspec.field(default=False, name="isPartial")


def query_range(server: MetricsServer, begin: int, end: int, step: int, timeout_seconds: float) -> list[Series]:
    """The series of the server's query, with a point every `step` seconds from `begin` to `end`, in seconds since 1970.

    Raises AuthenticationError if token, password or a certificate is refused. Raises ReadError if the answer does not
    come whole within the limits, is an error, or is partial by its own words.
    """
    return _query(server, server.bytes_in, begin, end, step, timeout_seconds)


def query_now(
    server: MetricsServer, query: str, now: int, timeout_seconds: float
) -> Iterator[tuple[dict[str, str], float]]:
    """The labels and the value of each series of a query at one moment, in seconds since 1970. Errors as in
    `query_range`. A value that is no number is left out.
    """
    for series in _query(server, query, now, now, 1, timeout_seconds):
        for _, text in series.values[-1:]:
            with suppress(ValueError):
                if math.isfinite(value := float(text)):
                    yield series.metric, value


def _query(server: MetricsServer, query: str, begin: int, end: int, step: int, timeout_seconds: float) -> list[Series]:
    asked = {"query": query, "start": begin, "end": end, "step": step}
    try:
        with _connected(server, timeout_seconds) as connection:
            target = f"{urlsplit(server.url).path}{_PATH}?{urlencode(asked)}"
            connection.request("GET", target, headers={"Accept": "application/json", **_login(server)})
            with connection.getresponse() as response:
                content = response.read(LARGEST_ANSWER + 1)
    except (OSError, HTTPException) as failed:
        certificate = certificate_problem(failed)
        if certificate is not None:
            raise _refused(server, f"the TLS handshake fails: {certificate}") from None
        why = (isinstance(failed, OSError) and failed.strerror) or str(failed) or type(failed).__name__
        # With TLS 1.3 a server refuses a certificate after the handshake. It may be gone before its reason is read.
        if isinstance(failed, ssl.SSLEOFError | ConnectionError) and server.url.startswith("https:"):
            why += "; the server may ask for a certificate, or refuse the one of certfile"
        raise _unreadable(server, why) from None
    if response.status in (401, 403):
        raise _refused(server, f"HTTP {response.status}")
    if len(content) > LARGEST_ANSWER:
        raise _unreadable(server, f"an answer is larger than {LARGEST_ANSWER:,} bytes")
    return _whole(server, response, content)


def _whole(server: MetricsServer, response: HTTPResponse, content: bytes) -> list[Series]:
    """The series of a successful, whole answer."""
    status = f"HTTP {response.status}"
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        if response.status != 200:
            raise _unreadable(server, status) from None
        raise _unreadable(server, f"the answer is not that of /api/v1/query_range: {wrong}") from None
    if response.status != 200 or answer.status != "success":
        raise _unreadable(server, ", ".join(filter(None, [status, answer.error])))
    if answer.is_partial or answer.warnings:
        raise _unreadable(server, f"the answer is partial: {'; '.join(answer.warnings or ['isPartial'])}")
    if answer.data is None or answer.data.result_type != "matrix":
        raise _unreadable(server, "the answer holds no series")
    return answer.data.result


@contextmanager
def _connected(server: MetricsServer, timeout_seconds: float) -> Iterator[HTTPConnection]:
    """A connection that ends after `timeout_seconds`, even while a server sends a byte now and then.

    It follows no redirect: the token is for this server alone.
    """
    url = urlsplit(server.url)
    silent = min(SILENT_SECONDS, timeout_seconds)
    if url.scheme == "https":
        context = _tls_context(server)
        connection: HTTPConnection = HTTPSConnection(str(url.hostname), url.port, timeout=silent, context=context)
    else:
        connection = HTTPConnection(str(url.hostname), url.port, timeout=silent)
    over = threading.Event()
    opened: list[socket.socket] = []  # http.client forgets its socket when it hands it to the answer

    def end() -> None:
        over.set()
        for each in opened:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    watch = threading.Timer(timeout_seconds, end)
    watch.daemon = True
    watch.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        if not over.is_set():
            yield connection
    except (OSError, HTTPException):
        if not over.is_set():
            raise
    finally:
        watch.cancel()
        connection.close()
    if over.is_set():
        raise TimeoutError("the answer takes too long")


def _tls_context(server: MetricsServer) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=server.ca)
    except OSError as wrong:
        raise _unreadable(server, f"ca, {server.ca}, holds no certificates: {wrong.strerror}") from None
    if server.certfile is not None:
        try:
            # Without any password, OpenSSL would ask for it on a terminal.
            context.load_cert_chain(server.certfile, server.keyfile, server.keyfile_password or "")
        except OSError as wrong:
            raise _unreadable(server, f"certfile and keyfile cannot be used: {wrong.strerror or wrong}") from None
    return context


def _login(server: MetricsServer) -> dict[str, str]:
    if server.token is not None:
        return {"Authorization": f"Bearer {server.token}"}
    return {} if server.username is None else {"Authorization": f"Basic {_base64_login(server)}"}


def _base64_login(server: MetricsServer) -> str:
    return base64.b64encode(f"{server.username}:{server.password}".encode()).decode()


def _without_secrets(server: MetricsServer, text: str) -> str:
    """What the server says, even if it quotes the request, plain or as JSON, HTML or an address would."""
    secrets = [one for one in (server.token, server.password, server.keyfile_password) if one]
    if server.username is not None:
        secrets += [_base64_login(server), _base64_login(server).rstrip("="), f"{server.username}:{server.password}"]
    written = (str, html.escape, quote, quote_plus, lambda one: quote(one, safe=""), lambda one: json.dumps(one)[1:-1])
    for secret in sorted({write(plain) for plain in secrets for write in written}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _SCHEME.sub(r"\1 ***", text)  # also if it quotes a part


def _refused(server: MetricsServer, why: str) -> AuthenticationError:
    return AuthenticationError(
        f"The metrics server {server.url} does not let this connection in ({why}). Correct "
        "metrics_secret_config of the Airflow connection."
    )


def _unreadable(server: MetricsServer, why: str) -> ReadError:
    """`why` may be the server's own words, of any length and with any characters."""
    said = "".join(secret if secret.isprintable() else " " for secret in _without_secrets(server, why))[:WORDS_SHOWN]
    return ReadError(
        f"The metrics server {server.url} cannot be read ({said.strip()}). Check that this host "
        "reaches it, and url and bytes_in in metrics_secret_config of the Airflow connection."
    )
