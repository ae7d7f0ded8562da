"""Clients for the brokers, from the one set of security settings in an Airflow connection."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError as KafkaCode
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka.net.compat import KafkaNetClient

from kafka_rebalance.admin.client_settings import kafka_python_settings
from kafka_rebalance.admin.first_contact import check_enters, new_admin, refused
from kafka_rebalance.admin.patient_sends import ThrottledError, make_patient
from kafka_rebalance.errors import ReadDeniedError, ReadError
from kafka_rebalance.model.connection import KafkaConnection

REQUEST_SECONDS = 30.0
# A login that brokers refuse: another try with the same password can lock the account.
REFUSED = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
# Then another broker is asked. One that stands still keeps its connections, so nothing else tells that it is gone.
ANOTHER_SECONDS = 10.0


def open_admin(kafka: KafkaConnection) -> AdminClient:
    """confluent-kafka's admin client. Raises ReadError, AuthenticationError, ConnectionSettingsError."""
    check_enters(kafka)
    return new_admin(kafka)


@contextmanager
def open_kafka_python(kafka: KafkaConnection, request_seconds: float = REQUEST_SECONDS) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client, for what confluent-kafka lacks. Errors as `open_admin`.

    `request_seconds`: how long each bootstrap server, and any request without a limit of its own, is waited for.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # at debug level, it logs its settings with the password
    settings = kafka_python_settings(kafka)
    check_enters(kafka)
    begun: list[KafkaNetClient] = []

    def begin(**settings: Any) -> KafkaNetClient:
        begun.append(KafkaNetClient(**settings))
        return begun[-1]

    try:
        client = KafkaAdminClient(
            kafka_client=begin,
            bootstrap_timeout_ms=int(REQUEST_SECONDS * 1000),
            request_timeout_ms=int(request_seconds * 1000),
            **settings,
        )
    except (KafkaError, OSError, ValueError, AssertionError, TypeError) as failed:
        for one in begun:  # the constructor has started a thread with sockets, and gives nobody a client to close
            one.close()
        check_enters(kafka, again=True)  # says why, if a password or a certificate has changed
        raise unreachable(kafka, failed) from None  # the cause's text may quote a setting
    for one in begun:
        make_patient(one._manager)
    try:
        yield client
    finally:
        client.close()


def unreachable(kafka: KafkaConnection, cause: BaseException) -> ReadError:
    """The error for brokers that do not answer at all, that refuse this connection or hold it back."""
    if isinstance(cause, REFUSED):
        return refused(kafka, str(cause))
    if isinstance(cause, ThrottledError):
        return held_back(kafka, cause)
    return ReadError(
        f"Kafka {kafka.bootstrap_servers} cannot be read ({type(cause).__name__}). Check that this host can reach the "
        "brokers, and check the user, password and TLS settings of the Airflow connection."
    )


def held_back(kafka: KafkaConnection, cause: ThrottledError) -> ReadError:
    return ReadError(
        f"Kafka {kafka.bootstrap_servers} was not asked: {cause}. Nothing was sent. The brokers are up. Give the user "
        "a higher quota (kafka-configs, entity users or clients: request_percentage), then clear this task."
    )


def unread(failed: BaseException, text: str) -> ReadError:
    """The error of this text: another kind if the user lacks a right, which no retry gives."""
    error = failed.args[0] if isinstance(failed, KafkaException) and failed.args else None
    denied = error is not None and error.code() in (
        KafkaCode.TOPIC_AUTHORIZATION_FAILED,
        KafkaCode.CLUSTER_AUTHORIZATION_FAILED,
    )
    return ReadDeniedError(text) if denied else ReadError(text)


def reason_of(failed: BaseException) -> str:
    """Why a request failed: name and text of librdkafka's error, which have no settings."""
    error = failed.args[0] if isinstance(failed, KafkaException) and failed.args else None
    return "no answer" if error is None else f"{error.name()}: {error.str()}"
