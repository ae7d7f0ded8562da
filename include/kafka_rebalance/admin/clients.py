"""Clients for the brokers, from the one set of security settings in an Airflow connection."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from kafka_rebalance.errors import ConnectionSettingsError, ReadError
from kafka_rebalance.model.connection import KafkaConnection

REQUEST_SECONDS = 30.0
# Then another broker is asked. One that stands still keeps its connections, so nothing else tells that it is gone.
ANOTHER_SECONDS = 10.0
_CLIENT_ID = "kafka-rebalance"

# People know librdkafka's names from other connections; kafka-python has names of its own.
_KAFKA_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
_HOST_CHECK = "ssl.endpoint.identification.algorithm"


def kafka_python_security(security: Mapping[str, str]) -> dict[str, object]:
    """The same security settings under kafka-python's names.

    Raises ConnectionSettingsError naming a setting that kafka-python lacks. The text never has a value.
    """
    unknown = sorted(security.keys() - _KAFKA_PYTHON_NAMES.keys() - {_HOST_CHECK})
    if unknown:
        known = ", ".join(sorted([*_KAFKA_PYTHON_NAMES, _HOST_CHECK]))
        raise ConnectionSettingsError(
            f"The Kafka security setting {', '.join(unknown)} does not exist in kafka-python, which reads the "
            f"sizes of log directories. Nothing was read. Use only {known}."
        )
    translated: dict[str, object] = {
        _KAFKA_PYTHON_NAMES[name]: value.upper() if name == "security.protocol" else value
        for name, value in security.items()
        if name != _HOST_CHECK
    }
    if _HOST_CHECK in security:
        translated["ssl_check_hostname"] = security[_HOST_CHECK].lower() == "https"
    return translated


def librdkafka_settings(kafka: KafkaConnection) -> dict[str, Any]:
    """How librdkafka's clients reach the cluster."""
    return {
        **kafka.security,
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": _CLIENT_ID,
        "log_level": 0,  # the error of a request says what matters
    }


def open_admin(kafka: KafkaConnection) -> AdminClient:
    """confluent-kafka's admin client, which connects at its first request. Raises ConnectionSettingsError."""
    try:
        return AdminClient(librdkafka_settings(kafka))
    except (KafkaException, TypeError, ValueError) as bad:
        # librdkafka's text may quote the value of a setting.
        names = ", ".join(sorted(kafka.security))
        raise ConnectionSettingsError(
            f"Kafka {kafka.bootstrap_servers}: librdkafka refuses a setting among {names} ({type(bad).__name__}). "
            "Nothing was read. Correct the security settings of the Airflow connection."
        ) from None


@contextmanager
def open_kafka_python(kafka: KafkaConnection, request_seconds: float = REQUEST_SECONDS) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client, for what confluent-kafka lacks. Raises ReadError, ConnectionSettingsError.

    `request_seconds`: how long each bootstrap server, and any request without a limit of its own, is waited for.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # at debug level, it logs its settings with the password
    security = kafka_python_security(kafka.security)
    try:
        client = KafkaAdminClient(
            bootstrap_servers=kafka.bootstrap_servers.split(","),
            client_id=_CLIENT_ID,
            bootstrap_timeout_ms=int(REQUEST_SECONDS * 1000),
            request_timeout_ms=int(request_seconds * 1000),
            **security,
        )
    except (KafkaError, OSError, ValueError, AssertionError, TypeError) as failed:
        raise unreachable(kafka, failed) from None  # the cause's text may quote a setting
    try:
        yield client
    finally:
        client.close()


def unreachable(kafka: KafkaConnection, cause: BaseException) -> ReadError:
    """The error for brokers that do not answer at all, without the cause's own text."""
    return ReadError(
        f"Kafka {kafka.bootstrap_servers} cannot be read ({type(cause).__name__}). Check that this host can reach the "
        "brokers, and check the user, password and TLS settings of the Airflow connection."
    )


def reason_of(failed: BaseException) -> str:
    """Why a request failed: name and text of librdkafka's error, which have no settings."""
    error = failed.args[0] if isinstance(failed, KafkaException) and failed.args else None
    return "no answer" if error is None else f"{error.name()}: {error.str()}"
