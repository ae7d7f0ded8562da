"""The first request to a cluster: a simulated client, or the real one and a simulated broker.

Real refusals: tests/integration/secured.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from kafka_rebalance.admin import clients
from kafka_rebalance.admin.clients import check_enters
from kafka_rebalance.admin.cluster_view import read_cluster_id
from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import KafkaConnection

_METADATA, _API_VERSIONS = 3, 18
_UNSUPPORTED_VERSION = 35
_NEWEST = {_METADATA: 4, _API_VERSIONS: 2}  # these have no tagged fields, so the header of an answer is one number
CLUSTER_ID = "starting-cluster"

# (the Metadata requests that it has answered before) -> what it knows: whether itself is a broker, and the controller
Knows = Callable[[int], tuple[bool, int]]


@contextmanager
def starting_broker(knows: Knows) -> Iterator[str]:
    """`host:port` of broker 1."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asked: list[int] = []

        def answer(key: int, version: int) -> bytes:
            if key == _API_VERSIONS:
                return _versions(version)
            is_broker, controller = knows(len(asked))
            asked.append(key)
            node = MetadataResponse.MetadataResponseBroker(
                node_id=1, host="127.0.0.1", port=listening.getsockname()[1], rack=None
            )
            known = MetadataResponse(
                throttle_time_ms=0, brokers=[node] * is_broker, cluster_id=CLUSTER_ID, controller_id=controller,
                topics=[],
            )  # fmt: skip
            return bytes(known.encode(version=version))

        def accept() -> None:
            with suppress(OSError):  # closed at the end
                while True:
                    threading.Thread(target=_serve, args=(listening.accept()[0], answer), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()


def _versions(asked: int) -> bytes:
    """Of a newer version than ours: refused, in version 0."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=newest)
        for key, newest in _NEWEST.items()
    ]
    is_newer = asked > _NEWEST[_API_VERSIONS]
    versions = ApiVersionsResponse(
        error_code=_UNSUPPORTED_VERSION if is_newer else 0, api_keys=keys, throttle_time_ms=0
    )
    return bytes(versions.encode(version=0 if is_newer else asked))


def _serve(client: socket.socket, answer: Callable[[int, int], bytes]) -> None:
    with client, client.makefile("rwb") as stream, suppress(OSError):
        while head := stream.read(4):
            request = stream.read(struct.unpack(">i", head)[0])
            key, version, number = struct.unpack_from(">hhi", request)
            content = answer(key, version)
            stream.write(struct.pack(">ii", 4 + len(content), number) + content)
            stream.flush()


KAFKA = KafkaConnection("first-contact:9092")


class Client:
    """Answers one request after the other; the last answer again and again."""

    def __init__(self, *answers: KafkaError | None) -> None:
        self.answers = list(answers)
        self.asked = 0

    def poll(self, seconds: float) -> None:
        pass

    def describe_cluster(self, request_timeout: float) -> Future[Any]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        future: Future[Any] = Future()
        if answer is None:
            future.set_result(SimpleNamespace(cluster_id="abc"))
        else:
            future.set_exception(KafkaException(answer))
        return future


def use(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def new_admin(kafka: KafkaConnection, **more: Any) -> Any:
        return client

    monkeypatch.setattr(clients, "new_admin", new_admin)


def test_a_broker_that_the_client_drops_while_it_asks_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(KafkaError(KafkaError._DESTROY_BROKER), None)
    use(client, monkeypatch)
    assert read_cluster_id(KAFKA) == "abc"
    assert client.asked == 2


def test_what_the_last_answer_said_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    use(Client(KafkaError(KafkaError._DESTROY_BROKER)), monkeypatch)
    monkeypatch.setattr(clients, "FIRST_SECONDS", 0.01)
    with pytest.raises(ReadError, match=r"first-contact:9092 cannot be read \(.*Broker handle destroyed"):
        check_enters(KAFKA, again=True)


@pytest.mark.slow
def test_a_listener_without_tls_is_told_whatever_librdkafka_says_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it tells only that the connection was closed."""
    use(Client(KafkaError(KafkaError._TRANSPORT), KafkaError(KafkaError._ALL_BROKERS_DOWN)), monkeypatch)
    monkeypatch.setattr(clients, "FIRST_SECONDS", 1.0)
    with closing_listener() as address, pytest.raises(ReadError, match=f"{address} ends the TLS handshake: its liste"):
        check_enters(KafkaConnection(address, {"security.protocol": "SSL"}), again=True)


@contextmanager
def closing_listener() -> Iterator[str]:
    """Takes connections and closes each at its first bytes, as a plain listener of Kafka does with those of TLS."""

    class Closes(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Closes) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield "{}:{}".format(*server.server_address)
        server.shutdown()


@pytest.mark.parametrize("knows_itself", [False, True], ids=["no broker", "brokers without a controller"])
def test_a_cluster_whose_controller_is_not_elected_yet_is_asked_until_it_is(
    knows_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real client asks once or twice, then not again."""
    monkeypatch.setattr(clients, "_NEXT_CLIENT_SECONDS", 0.2)
    with starting_broker(lambda asked: (True, 1) if asked > 2 else (knows_itself, -1)) as address:
        assert read_cluster_id(KafkaConnection(address)) == CLUSTER_ID
