"""kazoo's handler with fewer system calls: what it says of sockets, and requests that go out together."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from kafka_rebalance.zookeeper.client import QuickHandler

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
