"""One question to a metrics server: what comes whole within the limits counts; all else is an error that says why."""

from __future__ import annotations

import base64
import html
import json
import ssl
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from kafka_rebalance import metrics_server as range_query
from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.local_cluster.machine.ports import free_port
from kafka_rebalance.local_cluster.security.certificates import Authority
from kafka_rebalance.metrics_server import query_range
from support.metrics.http_server import Answer, Asked, answering, body, metrics_server, success

SECRET = "hunter2-s3cret"
PASSWORD = 'S3cret & "Pw"/é'
ORDERS = {"metric": {"topic": "orders"}, "values": [[3600, "1.5"], [7200, "2"]]}


def asked_of(answer: Answer, timeout_seconds: float = 30.0, **more: str) -> Any:
    with answering(answer) as (url, _):
        return query_range(metrics_server(url, **more), 3600, 7200, 3600, timeout_seconds)


def refusal_of(answer: Answer, **more: Any) -> str:
    with pytest.raises(ReadError) as caught:
        asked_of(answer, **more)
    return str(caught.value)


def test_the_question_is_the_one_that_prometheus_documents() -> None:
    with answering(body(success([ORDERS]))) as (url, asked):
        (found,) = query_range(metrics_server(f"{url}/select/0/prometheus"), 3600, 7200, 3600, 30.0)
    assert found.metric == {"topic": "orders"}
    assert found.values == [(3600.0, "1.5"), (7200.0, "2")]
    assert asked[0].path == "/select/0/prometheus/api/v1/query_range"
    query = "sum by (topic) (rate(bytes_in_total[1h]))"
    assert asked[0].query == {"query": query, "start": "3600", "end": "7200", "step": "3600"}
    assert "Authorization" not in asked[0].headers


def test_a_token_or_a_password_goes_along_in_the_header_alone() -> None:
    login = base64.b64encode(f"olive:{SECRET}".encode()).decode()
    for given, header in (
        ({"token": SECRET}, f"Bearer {SECRET}"),
        ({"username": "olive", "password": SECRET}, f"Basic {login}"),
    ):
        with answering(body(success([]))) as (url, asked):
            query_range(metrics_server(url, **given), 3600, 7200, 3600, 30.0)
        assert asked[0].headers["Authorization"] == header
        assert SECRET not in f"{asked[0].path} {asked[0].query}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (body({"status": "error", "errorType": "bad_data", "error": "no closing quote"}, 400), "400, no closing quote"),
        (body({"status": "error", "error": "query timed out"}), "query timed out"),
        (body(b"<html>away</html>", 503), "HTTP 503"),
        (body(b"<html>a login</html>"), "not that of /api/v1/query_range"),
        (body(success([ORDERS], isPartial=True)), "partial: isPartial"),
        (body(success([ORDERS], warnings=["store b is away"])), "partial: store b is away"),
        (body({"status": "success", "data": {"resultType": "vector", "result": []}}), "no series"),
        (body({"status": "success"}), "no series"),
        (body(success([{"metric": {"topic": "orders"}, "histograms": []}])), "values"),
        (body(success([{"metric": {"topic": 7}, "values": []}])), "not that of"),
        (body(b'{"status": "success", "data": ' + b"[" * 100_000), "not that of"),
        (body(b'{"status": "succ', 200), "not that of"),
        (body(b"", 302, Location="http://elsewhere.example.org/"), "HTTP 302"),
    ],
    ids=range(13),
)
def test_an_answer_that_is_no_whole_success_is_an_error_in_the_servers_words(answer: Answer, said: str) -> None:
    assert said in refusal_of(answer)


def test_a_redirect_is_not_followed_so_that_no_other_server_gets_the_token() -> None:
    with answering(body(success([]))) as (other, asked):
        refusal_of(body(b"", 307, Location=f"{other}/api/v1/query_range"), token=SECRET)
    assert asked == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_is_told_without_the_secret(status: int) -> None:
    with pytest.raises(AuthenticationError, match=rf"HTTP {status}.*metrics_secret_config") as caught:
        asked_of(body(f"{SECRET} is wrong".encode(), status), token=SECRET)
    assert SECRET not in str(caught.value)


def test_the_words_of_a_server_are_short_printable_and_hold_no_secret() -> None:
    said = refusal_of(body({"status": "error", "error": f"{SECRET}\nERROR forged line {'x' * 10_000}"}), token=SECRET)
    assert SECRET not in said
    assert "\n" not in said
    assert len(said) < 600


@pytest.mark.parametrize(
    "quoted",
    [
        lambda login: login,
        lambda login: login.rstrip("="),
        lambda login: login[:-6],
        lambda login: f"bearer  {login}",
        lambda _: f"u:{PASSWORD}",
        lambda _: quote(PASSWORD),
        lambda _: html.escape(PASSWORD),
        lambda _: json.dumps(PASSWORD),
    ],
)
@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_server_that_quotes_the_request_shows_no_credentials(quoted: Any, status: int) -> None:
    login = base64.b64encode(f"u:{PASSWORD}".encode()).decode()
    answer = {"status": "error", "error": f"bad credentials: Basic {quoted(login)}"}
    with pytest.raises((ReadError, AuthenticationError)) as refused:
        asked_of(body(answer, status), username="u", password=PASSWORD)
    said = str(refused.value)
    assert not any(part in said for part in (login[:-6], PASSWORD, quote(PASSWORD), html.escape(PASSWORD))), said


def test_a_server_that_is_away_is_no_server_without_series() -> None:
    with pytest.raises(ReadError, match="Connection refused"):
        query_range(metrics_server(f"http://127.0.0.1:{free_port()}"), 3600, 7200, 3600, 30.0)
    with pytest.raises(ReadError, match="closed connection"):
        asked_of(lambda handler, asked: handler.connection.close())


def test_an_answer_beyond_the_limit_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_query, "LARGEST_ANSWER", 1 << 20)
    sent = 0

    def endless(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while sent < 1 << 28:
                sent += handler.wfile.write(b" " * 65_536)

    assert "larger than 1,048,576 bytes" in refusal_of(endless)
    assert sent < 1 << 27, "the rest was read, too"


def dripping(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    """A byte now and then, for ever: no pause is long."""
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x")
            threading.Event().wait(0.01)


def dripping_body(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    handler.send_response(200)
    handler.end_headers()
    dripping(handler, asked)


@pytest.mark.parametrize("answer", [dripping, dripping_body])
def test_an_answer_that_never_ends_is_ended(answer: Answer) -> None:
    assert "takes too long" in refusal_of(answer, timeout_seconds=0.3)


def test_a_silent_server_is_given_up() -> None:
    def silent(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        with suppress(OSError):
            handler.connection.recv(1)  # until the other side gives up

    assert "cannot be read (t" in refusal_of(silent, timeout_seconds=0.3)


def test_a_server_with_tls_is_read_only_if_a_trusted_authority_vouches_for_its_address(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = ours.issue("metrics", ["127.0.0.1"])
    context.load_cert_chain(issued.certificate, issued.key)
    with answering(body(success([ORDERS])), context) as (url, asked):

        def ask(ca: Path) -> Any:
            return query_range(metrics_server(url, ca=str(ca)), 3600, 7200, 3600, 30.0)

        assert len(ask(ours.certificate)) == 1
        with pytest.raises(AuthenticationError, match="TLS handshake fails: unable to get local issuer"):
            ask(other.certificate)
        with pytest.raises(ReadError, match=r"nowhere\.pem, holds no certificates: No such file"):
            ask(tmp_path / "nowhere.pem")
        assert len(asked) == 1


def test_a_server_that_asks_for_a_certificate_is_read_with_the_one_of_the_connection(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = ours.issue("metrics", ["127.0.0.1"])
    context.load_cert_chain(issued.certificate, issued.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ours.certificate)
    ca, client = str(ours.certificate), ours.issue("planner", password=SECRET)
    known = {"certfile": str(client.certificate), "keyfile": str(client.key), "keyfile_password": SECRET}
    stranger = other.issue("stranger")
    with answering(body(success([ORDERS])), context) as (url, asked):

        def ask(**given: str) -> Any:
            return query_range(metrics_server(url, ca=ca, **given), 3600, 7200, 3600, 30.0)

        assert len(ask(**known)) == 1
        for shown in ({}, {"certfile": str(stranger.certificate), "keyfile": str(stranger.key)}):
            # It depends on who is first: the server that closes, or this side that reads why.
            with pytest.raises((AuthenticationError, ReadError), match=r"CERTIFICATE|UNKNOWN_CA|certfile"):
                ask(**shown)
        for wrong in ({**known, "keyfile_password": "another"}, {**known, "keyfile": str(tmp_path / "nowhere.pem")}):
            with pytest.raises(ReadError, match="certfile and keyfile cannot be used: ") as caught:
                ask(**wrong)
            assert SECRET not in str(caught.value)
        without = {key: value for key, value in known.items() if key != "keyfile_password"}
        with pytest.raises(ReadError, match="cannot be used"):
            ask(**without)
        assert len(asked) == 1
