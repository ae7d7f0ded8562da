"""One set of security settings for two client libraries, and never a secret in an error or a log."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, NodeNotReadyError

from kafka_rebalance.admin import clients
from kafka_rebalance.admin.clients import kafka_python_security, open_admin, open_kafka_python
from kafka_rebalance.errors import ConnectionSettingsError, ReadError
from kafka_rebalance.model.connection import KafkaConnection

SECRET = "hunter2"
SASL = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "rebalancer",
    "sasl.password": SECRET,
    "ssl.ca.location": "/etc/ca.pem",
}


def test_librdkafkas_names_become_kafka_pythons() -> None:
    assert kafka_python_security(SASL) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "rebalancer",
        "sasl_plain_password": SECRET,
        "ssl_cafile": "/etc/ca.pem",
    }
    assert kafka_python_security({}) == {}


def test_every_translated_name_is_one_that_kafka_python_has() -> None:
    from kafka import KafkaAdminClient

    assert set(clients._KAFKA_PYTHON_NAMES.values()) <= KafkaAdminClient.DEFAULT_CONFIG.keys()


@pytest.mark.parametrize(("value", "checked"), [("https", True), ("none", False), ("", False)])
def test_the_check_of_host_names_is_carried_over(value: str, checked: bool) -> None:
    translated = kafka_python_security({"ssl.endpoint.identification.algorithm": value})
    assert translated == {"ssl_check_hostname": checked}


def test_a_setting_without_counterpart_is_named_without_its_value() -> None:
    with pytest.raises(ConnectionSettingsError, match=r"ssl\.key\.pem") as refused:
        kafka_python_security({**SASL, "ssl.key.pem": SECRET})
    assert SECRET not in str(refused.value)


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


def test_no_repr_shows_a_secret() -> None:
    assert SECRET not in repr(KafkaConnection("a:1", SASL))
