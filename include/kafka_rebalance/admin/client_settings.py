"""The one set of security settings in an Airflow connection, as each of the two client libraries takes it.

`model.connection` has checked the names and their combination. Files are read here, on the machine that connects.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.model.connection import (
    CERTIFICATE,
    HOST_CHECK,
    KEY,
    KEY_PASSWORD,
    MECHANISM,
    PASSWORD,
    PROTOCOL,
    TRUSTED,
    USERNAME,
    KafkaConnection,
)

CLIENT_ID = "kafka-rebalance"
_CRL = "ssl.crl.location"


def librdkafka_settings(kafka: KafkaConnection) -> dict[str, Any]:
    """How librdkafka's clients reach the cluster."""
    return {
        **kafka.security,
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": CLIENT_ID,
        # Else brokers make a topic that was asked for and does not exist, as their own defaults are.
        "allow.auto.create.topics": False,
        "log_level": 0,  # the error of a request says what matters
    }


def kafka_python_settings(kafka: KafkaConnection) -> dict[str, Any]:
    """The same for kafka-python. Raises ConnectionSettingsError, which never has a value."""
    security = kafka.security
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers.split(","),
        "client_id": CLIENT_ID,
        "security_protocol": security.get(PROTOCOL, "PLAINTEXT"),
    }
    if kafka.has_login:
        settings |= {
            "sasl_mechanism": security[MECHANISM],
            "sasl_plain_username": security[USERNAME],
            "sasl_plain_password": security[PASSWORD],
        }
    if kafka.has_tls:
        settings["ssl_context"] = tls_context(security)
    return settings


def tls_context(security: Mapping[str, str]) -> ssl.SSLContext:
    """TLS as librdkafka would do it. Raises ConnectionSettingsError naming the settings whose file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.get(HOST_CHECK, "https").lower() == "https"
    with _naming(TRUSTED.names):
        if TRUSTED.text in security:
            context.load_verify_locations(cadata=security[TRUSTED.text])
        elif TRUSTED.file in security:
            context.load_verify_locations(cafile=security[TRUSTED.file])
        else:
            context.load_default_certs()
    with _naming((_CRL,)):
        if _CRL in security:
            context.load_verify_locations(cafile=security[_CRL])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    with ExitStack() as stack, _naming((*CERTIFICATE.names, *KEY.names, KEY_PASSWORD)):
        files = [_file(part.file, part.text, security, stack) for part in (CERTIFICATE, KEY)]
        if files[0] is not None:
            # Never without a password: OpenSSL would ask for it on the terminal.
            context.load_cert_chain(files[0], files[1], password=security.get(KEY_PASSWORD, ""))
    return context


def _file(file: str, text: str, security: Mapping[str, str], stack: ExitStack) -> str | None:
    """Python's ssl reads a client's certificate from files alone, so a text is in one for that moment."""
    if text in security:
        path = Path(stack.enter_context(TemporaryDirectory(prefix="kafka-rebalance-"))) / "pem"
        path.touch(mode=0o600)
        path.write_text(security[text], encoding="utf-8")
        return str(path)
    return security.get(file)


@contextmanager
def _naming(names: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as bad:  # also ssl.SSLError
        said = getattr(bad, "reason", None) or type(bad).__name__
        raise ConnectionSettingsError(
            f"The Kafka security setting {' or '.join(names)} cannot be used on this machine ({said}). Nothing was "
            "read. Correct it under Admin, Connections. A file must be there for workers, triggerer and API server."
        ) from None
