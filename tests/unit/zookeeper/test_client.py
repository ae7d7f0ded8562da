"""kazoo's client and its handler: an error names the hosts and no secret; requests go out together."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.zookeeper import client as client_module
from kafka_rebalance.zookeeper import client as first_connection
from kafka_rebalance.zookeeper.client import ConnectingHandler, QuickHandler, open_client

SECRET = "hunter2"
SASL = {"mechanism": "DIGEST-MD5", "username": "rebalancer", "password": SECRET}


class Stub:
    """kazoo's client, as far as opening and closing goes."""

    chroot = "/kafka"

    def __init__(self, answer: Any = None, **options: Any) -> None:
        self.options, self.answer, self.ended = options, answer, []

    def add_listener(self, listener: Any) -> None:
        pass

    def start_async(self) -> Any:
        started = threading.Event()
        started.set()
        return started

    def exists_async(self, path: Any) -> Any:
        return self

    def get(self, timeout: Any) -> Any:
        self.waited = timeout
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def stop(self) -> None:
        self.ended.append("stop")

    def close(self) -> None:
        self.ended.append("close")


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes `open_client` use a stub whose first read gives the answer; gives the stub made."""
    made = []

    def use(answer: Any) -> Any:
        monkeypatch.setattr(client_module, "Client", lambda **o: made.append(Stub(answer, **o)) or made[-1])
        return made

    return use


def refused(connection: Any) -> Any:
    with pytest.raises(ReadError) as unread, open_client(connection):
        pytest.fail("it must not open")
    assert SECRET not in str(unread.value)
    return str(unread.value)


def test_hosts_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "START_SECONDS", 0.2)
    assert "127.0.0.1:1/kafka cannot be read" in refused(ZooKeeperConnection("127.0.0.1:1/kafka", SASL))


@pytest.mark.slow
@pytest.mark.parametrize("error", [RuntimeError(SECRET), TimeoutError(SECRET), OSError(SECRET)], ids=repr)
def test_a_first_read_that_fails_closes_the_client_and_shows_no_secret(stubbed: Any, error: Any) -> None:
    made = stubbed(error)
    text = refused(ZooKeeperConnection("zk:2181/kafka", SASL))
    assert "zk:2181/kafka cannot be read as the user of the Airflow connection" in text
    assert made[0].ended == ["stop", "close"]


def test_a_chroot_that_does_not_exist_is_not_an_empty_cluster(stubbed: Any) -> None:
    stubbed(None)
    assert "the chroot /kafka does not exist" in refused(ZooKeeperConnection("zk:2181/kafka"))


@pytest.mark.parametrize(
    "connection",
    [
        ZooKeeperConnection("zk:2181", {}, {"no_such_option": SECRET}),
        ZooKeeperConnection("zk:not-a-port", {"mechanism": SECRET}),
    ],
    ids=["option", "port"],
)
def test_options_that_kazoo_does_not_take_are_refused_without_their_values(connection: Any) -> None:
    assert "options cannot be used" in refused(connection)


def test_each_address_that_was_dialled_is_named_with_its_reason() -> None:
    handler = ConnectingHandler()
    handler.failures[("10.0.0.1", 2181)] = ConnectionRefusedError(111, "Connection refused")
    handler.failures[("10.0.0.2", 2182)] = OSError(113, "No route to host")
    assert first_connection._why_not_connected(handler) == (
        "10.0.0.1:2181: Connection refused; 10.0.0.2:2182: No route to host"
    )


def test_sasl_tls_and_session_timeout_reach_the_client_which_is_closed_at_the_end(stubbed: Any) -> None:
    made = stubbed(object())
    connection = ZooKeeperConnection("a:1,b:2/kafka", SASL, {"use_ssl": True, "ca": "/ca.pem"}, 7.5)
    with open_client(connection) as client:
        assert client.ended == []
    handler = made[0].options.pop("handler")
    assert isinstance(handler, ConnectingHandler)
    assert made[0].options == {
        "hosts": "a:1,b:2/kafka",
        "timeout": 7.5,
        "sasl_options": SASL,
        "use_ssl": True,
        "ca": "/ca.pem",
    }
    assert made[0].ended == ["stop", "close"]


def test_topic_creation_waits_as_long_for_zookeeper_as_kafkas_tool(stubbed: Any) -> None:
    """Seed 004, row 3: a connection may take 30000 ms. The session is the connection's own setting, 10 s by default."""
    made = stubbed(object())
    with open_client(ZooKeeperConnection("a:1")):
        assert made[0].waited == 30
        assert made[0].options["timeout"] == 10


def test_without_sasl_none_is_asked_for(stubbed: Any) -> None:
    made = stubbed(object())
    with open_client(ZooKeeperConnection("a:1")):
        assert made[0].options["sasl_options"] is None


def test_kazoos_own_log_is_quiet(
    stubbed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("kazoo"), "level", logging.NOTSET)
    stubbed(object())
    with open_client(ZooKeeperConnection("a:1")):
        logging.getLogger("kazoo.client").warning("Connection dropped: %s", SECRET)
    assert SECRET not in caplog.text


# --- the handler with fewer system calls ---

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_it_says_of_sockets_what_kazoos_own_handler_says(pair: Pair) -> None:
    one, other = pair
    quick, plain = QuickHandler(), SequentialThreadingHandler()
    for asked in (([one], [], [], 0), ([one, other], [], [], 0), ([], [one, other], [], 0)):
        assert quick.select(*asked) == plain.select(*asked)
    other.send(b"x")
    assert quick.select([one, other], [], [], 5) == plain.select([one, other], [], [], 5) == ([one], [], [])
    other.close()
    assert quick.select([one], [], [], None) == ([one], [], []), "the end of a connection can be read"
    with pytest.raises(ValueError, match="file descriptor"):
        quick.select([other], [], [], 0)


def received(waits: socket.socket) -> int:
    waits.setblocking(False)
    try:
        return len(waits.recv(1_000))
    except BlockingIOError:
        return 0


def test_requests_that_are_made_together_wake_the_connection_once_at_the_end() -> None:
    handler = QuickHandler()
    waits, wakes = handler.create_socket_pair()
    with handler.together():
        for _ in range(3):
            wakes.send(b"\0")
        with handler.together():
            wakes.send(b"\0")
        assert received(waits) == 0
    assert received(waits) == 4, "kazoo reads a byte for each request"
    wakes.send(b"\0")
    assert received(waits) == 1
    waits.close()
    wakes.close()


def test_no_request_is_forgotten_whichever_thread_makes_it() -> None:
    handler = QuickHandler()
    waits, wakes = handler.create_socket_pair()

    def request() -> None:
        for _ in range(20):
            with handler.together():
                wakes.send(b"\0")
            wakes.send(b"\0")

    threads = [threading.Thread(target=request) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert received(waits) == 160
    waits.close()
    wakes.close()


def test_requests_go_out_also_if_one_of_them_could_not_be_made() -> None:
    handler = QuickHandler()
    waits, wakes = handler.create_socket_pair()
    with suppress(TypeError), handler.together():
        wakes.send(b"\0")
        wakes.send(None)
    assert received(waits) == 1
    waits.close()
    wakes.close()
