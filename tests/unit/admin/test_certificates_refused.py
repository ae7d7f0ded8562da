"""A broker whose certificate is no longer accepted, or no longer accepts ours, is told as that and not as silent."""

from __future__ import annotations

import socketserver
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from kafka_rebalance.admin import wire
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.local_cluster.security.certificates import Authority
from kafka_rebalance.model.connection import KafkaConnection


@contextmanager
def listener(folder: Path, authority: Authority, *, of_clients: Authority | None = None) -> Iterator[int]:
    """A listener with TLS; `of_clients`: it takes only clients with a certificate of this authority."""
    issued = authority.issue("broker", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    if of_clients is not None:
        context.load_verify_locations(of_clients.certificate)
        context.verify_mode = ssl.CERT_REQUIRED

    class Secured(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as secured:
                secured.recv(1024)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Secured) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def wire_to(port: int, trusted: Authority) -> Wire:
    """A wire that was open, and whose broker does not let it connect again."""

    def run(call: Any, *arguments: Any, **_: Any) -> None:
        if arguments:
            raise KafkaConnectionError("closed")

    known = {1: SimpleNamespace(host="127.0.0.1", port=port)}
    manager = SimpleNamespace(run=run, cluster=SimpleNamespace(refresh_metadata=None, broker_metadata=known.get))
    client: Any = SimpleNamespace(_manager=manager)
    security = {"security.protocol": "SSL", "ssl.ca.location": str(trusted.certificate)}
    return Wire(KafkaConnection(f"127.0.0.1:{port}", security), client)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "REQUEST_SECONDS", 0)
    monkeypatch.setattr(wire, "_PAUSE_SECONDS", 0)


@pytest.mark.parametrize("ours_is_refused", [False, True], ids=["the broker's", "ours"])
def test_a_certificate_that_is_refused_on_a_new_connection_is_told_as_refused(
    tmp_path: Path, ours_is_refused: bool
) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    with listener(tmp_path, ours if ours_is_refused else others, of_clients=ours if ours_is_refused else None) as port:
        opened = wire_to(port, ours)
        for broker in (1, None):
            with pytest.raises(AuthenticationError, match=r"the TLS handshake fails \(127\.0\.0\.1: .*certificate"):
                opened.read("request", broker, repeat_seconds=0)


@pytest.mark.slow
def test_a_broker_that_only_closes_connections_is_told_as_not_answering(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    said = r"Broker 1 at 127\.0\.0\.1:\d+ .* cannot be read \(KafkaConnectionError\)"
    with listener(tmp_path, ours) as port, pytest.raises(ReadError, match=said) as told:
        wire_to(port, ours).read("request", 1, repeat_seconds=0)
    assert not isinstance(told.value, AuthenticationError)


def test_a_write_that_was_not_sent_because_a_certificate_is_refused_says_so(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    with listener(tmp_path, others) as port, pytest.raises(AuthenticationError, match="the TLS handshake fails"):
        wire_to(port, ours)._check_may_send_again(KafkaConnectionError("closed"), "a move", 0.0)
