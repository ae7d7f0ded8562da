"""Clients of the brokers, from the one set of security settings that an Airflow connection holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from kafka_rebalance.errors import ConnectionSettingsError, ReadError
from kafka_rebalance.model.connection import KafkaConnection

REQUEST_SECONDS = 30.0
_CLIENT_ID = "kafka-rebalance"

# librdkafka's names are the ones people know from other connections; kafka-python has its own.
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

    Raises ConnectionSettingsError naming a setting that it has nothing for; values are never in the text.
    """
    unknown = sorted(security.keys() - _KAFKA_PYTHON_NAMES.keys() - {_HOST_CHECK})
    if unknown:
        known = ", ".join(sorted([*_KAFKA_PYTHON_NAMES, _HOST_CHECK]))
        raise ConnectionSettingsError(
            f"The Kafka security setting {', '.join(unknown)} has no counterpart in kafka-python, which reads the "
            f"sizes of log directories. Nothing was read. Known are {known}."
        )
    translated: dict[str, object] = {
        _KAFKA_PYTHON_NAMES[name]: value for name, value in security.items() if name in _KAFKA_PYTHON_NAMES
    }
    if "security_protocol" in translated:
        translated["security_protocol"] = str(translated["security_protocol"]).upper()
    if _HOST_CHECK in security:
        translated["ssl_check_hostname"] = security[_HOST_CHECK].lower() == "https"
    return translated


def open_admin(kafka: KafkaConnection) -> AdminClient:
    """confluent-kafka's admin client; it connects at its first request. Raises ConnectionSettingsError."""
    try:
        return AdminClient(
            {
                **kafka.security,
                "bootstrap.servers": kafka.bootstrap_servers,
                "client.id": _CLIENT_ID,
                "log_level": 0,  # what matters comes back as an error of the request
            }
        )
    except (KafkaException, TypeError, ValueError) as bad:
        # librdkafka's text may quote the value of a setting.
        names = ", ".join(sorted(kafka.security))
        raise ConnectionSettingsError(
            f"Kafka {kafka.bootstrap_servers}: librdkafka refuses one of the settings {names} ({type(bad).__name__}). "
            "Nothing was read. Correct the security settings of the Airflow connection."
        ) from None


@contextmanager
def open_kafka_python(kafka: KafkaConnection) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client, for what confluent-kafka lacks. Raises ReadError, ConnectionSettingsError."""
    # It logs its whole configuration, password included, at debug level.
    quiet = logging.getLogger("kafka")
    if quiet.level < logging.CRITICAL:
        quiet.setLevel(logging.CRITICAL)
    security = kafka_python_security(kafka.security)
    try:
        client = KafkaAdminClient(
            bootstrap_servers=kafka.bootstrap_servers.split(","),
            client_id=_CLIENT_ID,
            bootstrap_timeout_ms=int(REQUEST_SECONDS * 1000),
            request_timeout_ms=int(REQUEST_SECONDS * 1000),
            **security,
        )
    except (KafkaError, OSError, ValueError, AssertionError, TypeError) as failed:
        raise unreachable(kafka, failed) from None  # its text may quote a setting
    try:
        yield client
    finally:
        client.close()


def unreachable(kafka: KafkaConnection, cause: BaseException) -> ReadError:
    """The error for brokers that do not answer at all, without the cause's own text."""
    return ReadError(
        f"Kafka {kafka.bootstrap_servers} cannot be read ({type(cause).__name__}). Check that the brokers can be "
        "reached from here, and the user, password and TLS settings of the Airflow connection."
    )


def reason_of(failed: BaseException) -> str:
    """Why a request failed, in librdkafka's words: an error's name and text, no settings."""
    error = failed.args[0] if isinstance(failed, KafkaException) and failed.args else None
    return "no answer" if error is None else f"{error.name()}: {error.str()}"
