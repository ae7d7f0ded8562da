"""One set of security settings for two client libraries, and never a secret in an error or a log."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError, NodeNotReadyError

from kafka_rebalance.admin import clients
from kafka_rebalance.admin.clients import (
    kafka_python_settings,
    librdkafka_settings,
    open_admin,
    open_kafka_python,
    tls_context,
)
from kafka_rebalance.errors import ConnectionSettingsError, ReadError
from kafka_rebalance.local_cluster.security.certificates import Authority
from kafka_rebalance.model.connection import HOST_CHECK, KafkaConnection

SECRET = "hunter2"
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "rebalancer",
    "sasl.password": SECRET,
}


@pytest.fixture(autouse=True)
def entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "check_enters", lambda kafka, again=False: None)


def test_librdkafkas_names_become_kafka_pythons() -> None:
    settings = kafka_python_settings(KafkaConnection("a:1,b:2", SASL))
    assert isinstance(settings.pop("ssl_context"), ssl.SSLContext)
    assert settings == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "kafka-rebalance",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "rebalancer",
        "sasl_plain_password": SECRET,
    }


def test_without_settings_the_connection_is_plain() -> None:
    settings = kafka_python_settings(KafkaConnection("a:1"))
    assert settings == {"bootstrap_servers": ["a:1"], "client_id": "kafka-rebalance", "security_protocol": "PLAINTEXT"}


def test_every_translated_name_is_one_that_kafka_python_has() -> None:
    assert kafka_python_settings(KafkaConnection("a:1", SASL)).keys() <= KafkaAdminClient.DEFAULT_CONFIG.keys()


@pytest.mark.parametrize(
    ("given", "checked"), [({}, True), ({HOST_CHECK: "https"}, True), ({HOST_CHECK: "none"}, False)]
)
def test_the_check_of_host_names_is_carried_over(given: dict[str, str], checked: bool) -> None:
    assert tls_context(given).check_hostname is checked


@pytest.mark.parametrize("password", [None, SECRET], ids=["plain key", "encrypted key"])
@pytest.mark.parametrize("as_text", [False, True], ids=["files", "texts"])
def test_certificates_come_from_files_or_texts(tmp_path: Path, password: str | None, as_text: bool) -> None:
    authority = Authority(tmp_path, "authority")
    issued = authority.issue("rebalancer", password=password)
    given = {"ca": authority.certificate, "certificate": issued.certificate, "key": issued.key}
    security = {
        f"ssl.{name}.pem" if as_text else f"ssl.{name}.location": path.read_text() if as_text else str(path)
        for name, path in given.items()
    }
    security |= {"security.protocol": "SSL"} | ({"ssl.key.password": password} if password else {})
    assert [one["serialNumber"] for one in tls_context(security).get_ca_certs()]
    AdminClient(librdkafka_settings(KafkaConnection("a:1", security)))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"ssl.ca.location": f"/no/{SECRET}.pem"}, "ssl.ca.location or ssl.ca.pem"),
        ({"ssl.ca.pem": f"-----BEGIN {SECRET}"}, "ssl.ca.location or ssl.ca.pem"),
        ({"ssl.key.password": f"not {SECRET}"}, "ssl.key.location"),
        ({"ssl.key.password": ""}, "ssl.key.location"),
    ],
    ids=["no file", "no PEM", "wrong password", "no password"],
)
def test_what_cannot_be_read_on_this_machine_is_named_without_its_value(
    tmp_path: Path, changed: dict[str, str], named: str
) -> None:
    issued = Authority(tmp_path, "authority").issue("rebalancer", password="right")
    given = {"ssl.certificate.location": str(issued.certificate), "ssl.key.location": str(issued.key)}
    with pytest.raises(ConnectionSettingsError, match=named) as refused:
        tls_context({**given, "ssl.key.password": "right", **changed})
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_value_that_librdkafka_refuses_is_not_quoted() -> None:
    with pytest.raises(ConnectionSettingsError, match=r"security\.protocol") as refused:
        open_admin(KafkaConnection("127.0.0.1:1", {"security.protocol": SECRET}))
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("error", [NodeNotReadyError(), KafkaTimeoutError(SECRET), ValueError(SECRET), OSError(SECRET)])
def test_brokers_that_cannot_be_reached_are_a_read_error_naming_them(
    monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    def fail(**config: Any) -> None:
        raise error

    monkeypatch.setattr(clients, "KafkaAdminClient", fail)
    with (
        pytest.raises(ReadError, match=r"broker-a:9092.*cannot be read") as unread,
        open_kafka_python(KafkaConnection("broker-a:9092", SASL)),
    ):
        pass
    assert SECRET not in str(unread.value)
    assert unread.value.__suppress_context__


def test_kafka_pythons_log_of_its_configuration_stays_quiet(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # KafkaAdminClient logs its whole configuration at debug level, password included.
    seen = {}

    class Client:
        def __init__(self, **config: Any) -> None:
            seen.update(config)
            logging.getLogger("kafka.admin.client").debug("Starting with configuration: %s", config)

        def close(self) -> None:
            seen["closed"] = True

    monkeypatch.setattr(clients, "KafkaAdminClient", Client)
    monkeypatch.setattr(logging.getLogger("kafka"), "level", logging.DEBUG)
    with caplog.at_level(logging.DEBUG), open_kafka_python(KafkaConnection("a:1,b:2", SASL)):
        pass
    assert seen["bootstrap_servers"] == ["a:1", "b:2"]
    assert seen["closed"]
    assert SECRET not in caplog.text


@pytest.mark.slow
def test_a_client_that_reaches_no_broker_leaves_no_thread_and_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(clients, "check_enters", lambda *_, **__: None)  # brokers have gone since that look
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # a port where nobody listens
        kafka = KafkaConnection(f"127.0.0.1:{nobody.getsockname()[1]}")
        gc.collect()
        threads, descriptors = set(threading.enumerate()), psutil.Process().num_fds()
        with pytest.raises(ReadError, match="cannot be read"), open_kafka_python(kafka):
            pass
        gc.collect()
        assert set(threading.enumerate()) <= threads
        assert psutil.Process().num_fds() <= descriptors
