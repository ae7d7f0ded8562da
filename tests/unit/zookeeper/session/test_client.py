"""A ZooKeeper that cannot be reached or that refuses us is an error that names the hosts and no secret."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from kafka_rebalance.errors import ReadError
from kafka_rebalance.model.connection import ZooKeeperConnection
from kafka_rebalance.zookeeper import client as client_module
from kafka_rebalance.zookeeper import client as first_connection
from kafka_rebalance.zookeeper.client import ConnectingHandler, open_client

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
