"""Requests of Kafka's protocol, sent as kafka-python's own classes.

kafka-python's methods hide what these answers tell: texts of errors, the error of a whole answer, and silence of a
broker. They also keep a dead controller for ever.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownBrokerIdError,
    for_code,
)
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kafka_rebalance.admin.clients import (
    ANOTHER_SECONDS,
    REFUSED,
    REQUEST_SECONDS,
    NotSentError,
    ThrottledError,
    TooLateError,
    check_certificates,
    held_back,
    open_kafka_python,
    refused,
    unreachable,
)
from kafka_rebalance.errors import (
    AuthenticationError,
    LockLostError,
    ReadDeniedError,
    ReadError,
    WriteDeniedError,
    WriteError,
)
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection

# After these, the same read may succeed: the client chose a broker that has just gone, or has not connected yet.
_AWAY = (KafkaConnectionError, NodeNotReadyError, RequestTimedOutError, UnknownBrokerIdError)
_NO_CONNECTION = (KafkaConnectionError, NodeNotReadyError, OSError)
_PAUSE_SECONDS = 0.2
_BROKERS_SECONDS = 2.0
# A broker that gets one of these asks the quorum's leader.
_OF_CONTROLLERS = ("DescribeQuorumRequest", "ListPartitionReassignmentsRequest")
_TIMED_OUT = 7  # REQUEST_TIMED_OUT: the broker has waited for the controllers
UNKNOWN_TOPIC = 3
NOT_AUTHORIZED = (29, 30, 31)  # TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED
DESCRIBE_CLUSTER = "Describe on the cluster"


class Fresh(NamedTuple):
    """A broker that had applied the controllers' log up to this offset, where it ended at that time."""

    broker: int
    offset: int
    at: float  # time.monotonic()


class Wire:
    """One open client. `fresh`: see `quorum.fresh_broker`; a write makes it old."""

    def __init__(self, kafka: KafkaConnection, client: KafkaAdminClient) -> None:
        self.fresh: Fresh | None = None
        self._kafka = kafka
        self._manager = client._manager

    def forget_fresh(self) -> None:
        self.fresh = None

    def known_brokers(self) -> frozenset[int]:
        """Those of the client's last look: some may be gone, and new ones may be missing."""
        return frozenset(broker.node_id for broker in self._manager.cluster.brokers())

    def read(
        self,
        request: Any,
        broker: int | None = None,
        *,
        repeat_seconds: float = REQUEST_SECONDS,
        answer_seconds: float | None = None,
    ) -> Any:
        """The answer of this broker, or of any one. The request is repeated if nobody answers, so it must only read.
        If any one may answer, the silence of the first is not the last word, however long it took.

        `answer_seconds`: how long each is waited for; by default longest where no other broker can answer. Raises
        ReadError, and IncompatibleBrokerVersion if the brokers do not know this request.
        """
        seconds = answer_seconds or (ANOTHER_SECONDS if broker is None else REQUEST_SECONDS)
        give_up, another_may, may_be_new = time.monotonic() + repeat_seconds, broker is None, True
        while True:
            try:
                return self._manager.run(self._send, request, broker, seconds)
            except _AWAY as away:
                # The client knows the brokers of its first look. A client that is kept open may be older than a broker.
                is_unknown = may_be_new and isinstance(away, UnknownBrokerIdError)
                may_be_new = may_be_new and not is_unknown
                is_last = not is_unknown and time.monotonic() >= give_up
                is_last = is_last and not (another_may and isinstance(away, RequestTimedOutError))
                another_may = False
                if not is_last:
                    with suppress(KafkaError, OSError):
                        self._manager.run(self._manager.cluster.refresh_metadata)
                if is_last:
                    raise self._silent(broker, away, request) from away
                time.sleep(_PAUSE_SECONDS)
            except IncompatibleBrokerVersion:
                raise
            except (KafkaError, OSError) as failed:
                raise self._silent(broker, failed, request) from failed

    def write(
        self,
        request: Any,
        what: str,
        kind: Kind,
        subject: str,
        *,
        broker: int | None = None,
        not_later_than: float | None = None,
    ) -> Any:
        """The answer of this broker, or of any one, which forwards the request to the controller. It is sent once.

        `what` names the change in errors: `the creation of topic orders`. After `not_later_than`, a time of
        `time.monotonic`, nothing is sent: LockLostError. Raises ReadError if nobody answers: then the outcome is
        unknown, and the next try of the task has to look first.
        """
        self.fresh = None
        give_up = time.monotonic() + REQUEST_SECONDS
        send = partial(self._send, not_later_than=not_later_than, tells_not_sent=True)
        while True:
            if not_later_than is not None and time.monotonic() > not_later_than:
                raise _stood_still(what)
            try:
                return self._manager.run(send, request, broker)
            except TooLateError as late:
                raise _stood_still(what) from late
            except NotSentError as unsent:
                self._check_may_send_again(unsent.cause, what, give_up)
            except (KafkaError, OSError) as failed:
                raise self._unknown(failed, what, kind, subject) from failed

    def _check_may_send_again(self, cause: KafkaError | OSError, what: str, give_up: float) -> None:
        """Waits for a moment. Raises the error of a request of which nothing has left this host, if it cannot."""
        if isinstance(cause, REFUSED):
            raise refused(self._kafka, str(cause)) from cause
        if isinstance(cause, ThrottledError):
            raise WriteError(f"{held_back(self._kafka, cause)} It was {what}.") from cause
        if time.monotonic() > give_up or isinstance(cause, IncompatibleBrokerVersion):
            if isinstance(cause, _NO_CONNECTION):
                check_certificates(self._kafka)
            raise WriteError(
                f"Kafka {self._kafka.bootstrap_servers} cannot be reached ({type(cause).__name__}), so {what} was not "
                "requested. Nothing was sent. Check that this host can reach the brokers, then clear this task."
            ) from cause
        with suppress(KafkaError, OSError):
            self._manager.run(self._manager.cluster.refresh_metadata)
        time.sleep(_PAUSE_SECONDS)

    def _unknown(self, failed: KafkaError | OSError, what: str, kind: Kind, subject: str) -> ReadError:
        note(kind, subject, is_certain=False)
        return ReadError(
            f"Kafka {self._kafka.bootstrap_servers} did not answer the request for {what} ({type(failed).__name__}), "
            "so whether it was carried out is unknown. Clear this task: it looks first, and asks again only for what "
            "is missing."
        )

    def _brokers_answer(self) -> bool:
        """Whether any broker answers what brokers answer by themselves."""
        for broker in sorted(self.known_brokers()):
            with suppress(KafkaError, OSError):
                if self._manager.run(self._send, metadata_of([]), broker, _BROKERS_SECONDS).brokers:
                    return True
        return False

    async def _send(
        self,
        request: Any,
        broker: int | None,
        answer_seconds: float = REQUEST_SECONDS,
        *,
        not_later_than: float | None = None,
        tells_not_sent: bool = False,
    ) -> Any:
        return await self._manager.send(
            request,
            node_id=broker,
            request_timeout_ms=int(answer_seconds * 1000),
            not_later_than=not_later_than,
            tells_not_sent=tells_not_sent,
        )

    def _silent(self, broker: int | None, cause: BaseException, request: Any = None) -> ReadError:
        if type(request).__name__ in _OF_CONTROLLERS and isinstance(cause, _AWAY) and self._brokers_answer():
            return ReadError(
                f"The brokers of Kafka {self._kafka.bootstrap_servers} answer, but its controllers do not: their "
                "quorum has no leader. Start the controllers; more than half of them are needed."
            )
        if isinstance(cause, (*REFUSED, ThrottledError)):
            return unreachable(self._kafka, cause)
        known = None if broker is None else self._manager.cluster.broker_metadata(broker)
        if isinstance(cause, _NO_CONNECTION):
            try:
                check_certificates(self._kafka, None if known is None else f"{known.host}:{known.port}")
            except AuthenticationError as refusal:
                return refusal
        if broker is None:
            return unreachable(self._kafka, cause)
        # What the broker advertises is dialled, and not what the connection names.
        at = "" if known is None else f" at {known.host}:{known.port}"
        return ReadError(
            f"Broker {broker}{at} of Kafka {self._kafka.bootstrap_servers} cannot be read ({type(cause).__name__}). "
            "Check that the broker is up and that this host can reach it."
        )


def _stood_still(what: str) -> LockLostError:
    return LockLostError(
        f"This worker stood still before it sent {what}, so another one may have gone on. Nothing was sent. Clear this "
        "task: it reads again and goes on."
    )


def metadata_of(topics: Collection[str] | None) -> MetadataRequest:
    """Of these topics, or of all. The request makes none."""
    named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


@contextmanager
def open_wire(kafka: KafkaConnection) -> Iterator[Wire]:
    """Raises ReadError, ConnectionSettingsError."""
    with open_kafka_python(kafka, ANOTHER_SECONDS) as client:
        yield Wire(kafka, client)


# To open a client takes a dozen requests: to a bootstrap server, and to each broker that is asked.


class _KeptWire:
    """A client that is opened when it is first needed, and again after a failure."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self.kafka = kafka
        self._stack = ExitStack()
        self._wire: Wire | None = None

    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = self._stack.enter_context(open_wire(self.kafka))
        return self._wire

    def close(self) -> None:
        self._wire = None
        self._stack.close()


_kept: ContextVar[_KeptWire | None] = ContextVar("kept wire", default=None)


@contextmanager
def keep_wire(kafka: KafkaConnection) -> Iterator[None]:
    """Within it, `kept_or_open_wire` gives one and the same client for this connection, in this thread."""
    kept = _KeptWire(kafka)
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        kept.close()


@contextmanager
def kept_or_open_wire(kafka: KafkaConnection) -> Iterator[Wire]:
    """For some requests: the client that is kept, or else one of their own. Errors as `open_wire`."""
    kept = _kept.get()
    if kept is None or kept.kafka != kafka:
        with open_wire(kafka) as wire:
            yield wire
        return
    try:
        yield kept.wire()
    except ReadError:
        kept.close()
        raise


def refused_at_all(what: str, needs: str, answer: Any) -> None:
    """Raises WriteError if the answer refuses the whole request, ReadError if its outcome is unknown.

    `what` and `needs` as in `check_read`.
    """
    code = answer.error_code
    if not code:
        return
    if code in NOT_AUTHORIZED:
        raise WriteDeniedError(f"Kafka refused {what}: the Kafka user needs {needs}. Grant it.")
    # An answer such as "timed out" does not say whether the controller carries the request out later.
    raise ReadError(
        f"Kafka did not confirm {what} ({code_in_words(code)}), so whether it is carried out is unknown. Clear "
        "this task: it looks first, and asks again only for what is missing."
    )


def check_read(what: str, needs: str, code: int, text: str | None = None) -> None:
    """Raises ReadError if the answer has an error.

    `what` names the subject: `The list of brokers`. `needs` is the permission: `Describe on the cluster`.
    """
    if not code:
        return
    remedy, kind = "Try again. If it stays, read the logs of the brokers and controllers", ReadError
    if code == _TIMED_OUT:
        remedy = "The controllers have not answered the broker: their quorum may have no leader. Start the controllers"
    if code in NOT_AUTHORIZED:
        remedy, kind = f"Grant the Kafka user {needs}", ReadDeniedError
    raise kind(f"{what} cannot be read ({code_in_words(code, text)}). {remedy}.")


def code_in_words(code: int, text: str | None = None) -> str:
    """Kafka's name of an error, with what a broker says of it."""
    name = for_code(code).__name__
    return f"{name}: {text}" if text else name


def error_in_words(answer: Any) -> str:
    return code_in_words(answer.error_code, answer.error_message)


# The versions of Kafka's requests that each broker supports. They show which brokers run other software.


ApiVersions = dict[int, tuple[int, int]]  # key of the request -> oldest and newest version


def read_api_versions(kafka: KafkaConnection, brokers: Collection[int]) -> dict[int, ApiVersions]:
    """Each broker's answer to ApiVersions. Raises ReadError naming the broker.

    kafka-python's `get_broker_version_data` does not help: it cuts each answer down to what the first broker supports.
    """
    api_versions: dict[int, ApiVersions] = {}
    with kept_or_open_wire(kafka) as wire:
        for broker in brokers:
            answer = wire.read(ApiVersionsRequest(max_version=2), broker, repeat_seconds=0)
            api_versions[broker] = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    return api_versions
