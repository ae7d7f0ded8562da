"""Requests of Kafka's protocol: reads are repeated, writes are sent once, and refusals are told as what they are."""

from __future__ import annotations

import math
import socketserver
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, RequestTimedOutError, TopicAuthorizationFailedError, UnknownBrokerIdError
from kafka.protocol.admin import DeleteTopicsRequest

from kafka_rebalance.admin import reassignments, wire
from kafka_rebalance.admin.topic_writes import AdminApiTopics
from kafka_rebalance.admin.wire import Wire, check_read
from kafka_rebalance.errors import (
    AuthenticationError,
    KafkaRuleError,
    LockLostError,
    ReadError,
    WriteDeniedError,
    WriteError,
)
from kafka_rebalance.kafka.topics import BY_NAME
from kafka_rebalance.local_cluster.security.certificates import Authority
from kafka_rebalance.model.cluster_writes import ClusterWrite, Kind, Outcome, noted
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import NO_FENCE
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition
from kafka_rebalance.model.topic_change import TopicChange

ORDERS = TopicIdentity(None, None, "4L6g3nShTAeMCtKaaX86sw")
DELETED = TopicChange("delete", "orders", "cluster", None, identity=ORDERS)


class Manager:
    """Answers, or raises, what it was given, in this order; the last one again and again."""

    def __init__(self, *answers: Any, **advertised: Any) -> None:
        self.advertised = {3: SimpleNamespace(**advertised)} if advertised else {}
        self.answers = list(answers)
        self.sent: list[tuple[Any, int | None]] = []
        self.refreshed = 0
        self.cluster = SimpleNamespace(refresh_metadata=None, broker_metadata=self.advertised.get)

    def run(self, call: Any, *arguments: Any) -> Any:
        if not arguments:
            self.refreshed += 1
            return None
        self.sent.append((arguments[0], arguments[1]))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def wire_of(manager: Manager) -> Wire:
    client: Any = SimpleNamespace(_manager=manager)
    return Wire(KafkaConnection("b1:9092"), client)


def topics_of(manager: Manager) -> AdminApiTopics:
    return AdminApiTopics(wire_of(manager), lambda *_: math.inf)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_PAUSE_SECONDS", 0)


def test_a_read_is_repeated_after_the_client_has_looked_for_brokers_again() -> None:
    manager = Manager(UnknownBrokerIdError(3), KafkaConnectionError(), "answer")
    assert wire_of(manager).read("request", 3) == "answer"
    assert manager.sent == [("request", 3)] * 3
    assert manager.refreshed == 2


def test_the_address_that_was_dialled_is_named_and_not_only_the_configured_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = Manager(KafkaConnectionError(), host="inside.example", port=19092)
    with pytest.raises(ReadError, match=r"Broker 3 at inside\.example:19092 of Kafka b1:9092 cannot be read"):
        wire_of(manager).read("request", 3, repeat_seconds=0)


def test_where_any_broker_may_answer_another_one_is_asked_after_the_first_was_silent() -> None:
    manager = Manager(RequestTimedOutError(), "answer")
    assert wire_of(manager).read("request", repeat_seconds=0) == "answer"
    with pytest.raises(ReadError):
        wire_of(Manager(RequestTimedOutError())).read("request", repeat_seconds=0)


def test_a_broker_that_the_client_does_not_know_yet_is_looked_for_and_asked_once_more() -> None:
    manager = Manager(UnknownBrokerIdError(3), "answer")
    assert wire_of(manager).read("request", 3, repeat_seconds=0) == "answer"
    assert (len(manager.sent), manager.refreshed) == (2, 1)


def test_one_client_is_kept_for_a_connection_and_closed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[KafkaConnection] = []
    closed: list[KafkaConnection] = []

    @contextmanager
    def opening(kafka: KafkaConnection, *_: object) -> Iterator[Any]:
        opened.append(kafka)
        yield SimpleNamespace(_manager=None)
        closed.append(kafka)

    monkeypatch.setattr(wire, "open_kafka_python", opening)
    ours, other = KafkaConnection("b1:9092"), KafkaConnection("b2:9092")
    with wire.keep_wire(ours):
        assert opened == []
        with wire.kept_or_open_wire(ours) as first, wire.kept_or_open_wire(other) as third:
            assert third is not first
        with wire.kept_or_open_wire(ours) as second:
            assert second is first
        assert (opened, closed) == ([ours, other], [other])
    assert closed == [other, ours]
    with wire.kept_or_open_wire(ours) as later:
        assert later is not first


def test_a_kept_client_that_cannot_read_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(*_: object) -> Any:
        return nullcontext(SimpleNamespace(_manager=None))

    monkeypatch.setattr(wire, "open_kafka_python", opening)
    ours = KafkaConnection("b1:9092")
    with wire.keep_wire(ours):
        with pytest.raises(ReadError), wire.kept_or_open_wire(ours) as first:
            raise ReadError("nobody answers")
        with wire.kept_or_open_wire(ours) as second:
            assert second is not first


def test_a_broker_that_never_answers_is_named() -> None:
    with pytest.raises(ReadError, match=r"Broker 3 of Kafka b1:9092 cannot be read \(UnknownBrokerIdError\)"):
        wire_of(Manager(UnknownBrokerIdError(3))).read("request", 3, repeat_seconds=0)


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers call no topic internal. That look is a request too."""
    monkeypatch.setattr(AdminApiTopics, "_read", lambda *_: ({}, BY_NAME))


@pytest.mark.usefixtures("ordinary")
def test_a_write_is_sent_once_and_its_unknown_outcome_is_told_and_noted() -> None:
    manager = Manager(KafkaConnectionError())
    with noted() as writes, pytest.raises(ReadError, match=r"the deletion of topic orders.*unknown.*looks first"):
        topics_of(manager).delete(DELETED, NO_FENCE)
    assert len(manager.sent) == 1
    assert writes == [ClusterWrite(Kind.DELETION, "orders", is_certain=False)]


def answer_to_deletion(code: int, text: str | None = None) -> Any:
    return SimpleNamespace(responses=[SimpleNamespace(error_code=code, error_message=text)])


@pytest.mark.usefixtures("ordinary")
def test_a_deletion_names_the_id_alone_and_a_topic_that_is_gone_is_deleted() -> None:
    manager = Manager(answer_to_deletion(0), answer_to_deletion(100))
    with noted() as writes:
        assert topics_of(manager).delete(DELETED, NO_FENCE) is Outcome.CREATED
        assert topics_of(manager).delete(DELETED, NO_FENCE) is Outcome.ALREADY_THERE
    assert writes == [ClusterWrite(Kind.DELETION, "orders")]
    request, _ = manager.sent[0]
    assert isinstance(request, DeleteTopicsRequest)
    assert [(one.name, one.topic_id.hex) for one in request.topics] == [(None, "e0bea0de74a14c078c0ad29a697f3ab3")]


@pytest.mark.usefixtures("ordinary")
def test_a_topic_without_an_id_is_not_deleted() -> None:
    manager = Manager(answer_to_deletion(0))
    with pytest.raises(WriteError, match="does not have its id"):
        topics_of(manager).delete(replace(DELETED, identity=TopicIdentity(None, None)), NO_FENCE)
    assert manager.sent == []


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (40, KafkaRuleError, "Invalid value a week"),
        (44, KafkaRuleError, "Invalid value a week"),
        (31, WriteDeniedError, r"Kafka refused the creation of topic Orders: the Kafka user needs Create.*Grant it"),
        (7, WriteError, r"Kafka refused the creation of topic Orders \(RequestTimedOutError"),
    ],
)
def test_what_kafka_refuses_is_told_in_its_own_words(code: int, kind: type[Exception], said: str) -> None:
    told = SimpleNamespace(error_code=code, error_message="Invalid value a week")
    manager = Manager(SimpleNamespace(topics=[told]))
    change = TopicChange("create", "Orders", "cluster", None, {0: (1, 2)}, config_changes={"retention.ms": "a week"})
    with pytest.raises(kind, match=said):
        topics_of(manager).check_accepted(change)
    request, _ = manager.sent[0]
    assert request.validate_only is True


@pytest.mark.usefixtures("ordinary")
@pytest.mark.parametrize("code", [7, -1, 3, 29_999], ids=["timed out", "unknown error", "unknown topic", "new code"])
def test_an_answer_that_does_not_say_what_became_of_a_write_is_no_refusal(code: int) -> None:
    """A controller may carry a request out whose answer says that its time is over."""
    manager = Manager(answer_to_deletion(code))
    with pytest.raises(ReadError, match=r"Kafka did not confirm the deletion of topic orders .*unknown.*looks first"):
        topics_of(manager).delete(DELETED, NO_FENCE)


def test_an_answer_without_permission_names_it() -> None:
    code = TopicAuthorizationFailedError.errno
    with pytest.raises(ReadError, match=r"Topic orders cannot be read.*Grant the Kafka user Describe on all topics\."):
        check_read("Topic orders", "Describe on all topics", code)
    with pytest.raises(ReadError, match=r"UnknownError: odd\).*Try again"):
        check_read("Topic orders", "Describe on all topics", -1, "odd")
    check_read("Topic orders", "Describe on all topics", 0)


@pytest.mark.parametrize("what", ["delete", "expand", "elect"])
def test_what_a_fence_stops_is_not_sent(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    def risen(*_: object) -> float:
        raise LockLostError("the fence has risen")

    manager = Manager(answer_to_deletion(0))
    there = {0: SimpleNamespace(replicas=(1, 2), topic_id=ORDERS.topic_id, in_motion=False)}
    monkeypatch.setattr(AdminApiTopics, "_read", lambda *_: (there, BY_NAME))
    change = TopicChange("alter", "orders", "cluster", None, {1: (1, 2)}, 1, 2, identity=ORDERS)
    opened = wire_of(manager)
    topics = AdminApiTopics(opened, risen)
    act: Callable[[], object] = {
        "delete": lambda: topics.delete(DELETED, NO_FENCE),
        "elect": lambda: reassignments.elect_leaders(opened, [TopicPartition("orders", 0)], bound=risen),
        "expand": lambda: topics.expand(change, [1, 2], NO_FENCE),
    }[what]
    with pytest.raises(LockLostError, match="the fence has risen"):
        act()
    assert manager.sent == []


# --- certificates ---


@contextmanager
def listener(folder: Path, authority: Authority, *, of_clients: Authority | None = None) -> Iterator[int]:
    """A listener with TLS; `of_clients`: it takes only clients with a certificate of this authority."""
    issued = authority.issue("broker", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    if of_clients is not None:
        context.load_verify_locations(of_clients.certificate)
        context.verify_mode = ssl.CERT_REQUIRED

    class Secured(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as secured:
                secured.recv(1024)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Secured) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def wire_to(port: int, trusted: Authority) -> Wire:
    """A wire that was open, and whose broker does not let it connect again."""

    def run(call: Any, *arguments: Any, **_: Any) -> None:
        if arguments:
            raise KafkaConnectionError("closed")

    known = {1: SimpleNamespace(host="127.0.0.1", port=port)}
    manager = SimpleNamespace(run=run, cluster=SimpleNamespace(refresh_metadata=None, broker_metadata=known.get))
    client: Any = SimpleNamespace(_manager=manager)
    security = {"security.protocol": "SSL", "ssl.ca.location": str(trusted.certificate)}
    return Wire(KafkaConnection(f"127.0.0.1:{port}", security), client)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "REQUEST_SECONDS", 0)
    monkeypatch.setattr(wire, "_PAUSE_SECONDS", 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("ours_is_refused", [False, True], ids=["the broker's", "ours"])
def test_a_certificate_that_is_refused_on_a_new_connection_is_told_as_refused(
    tmp_path: Path, ours_is_refused: bool
) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    with listener(tmp_path, ours if ours_is_refused else others, of_clients=ours if ours_is_refused else None) as port:
        opened = wire_to(port, ours)
        for broker in (1, None):
            with pytest.raises(AuthenticationError, match=r"the TLS handshake fails \(127\.0\.0\.1: .*certificate"):
                opened.read("request", broker, repeat_seconds=0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.slow
def test_a_broker_that_only_closes_connections_is_told_as_not_answering(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    said = r"Broker 1 at 127\.0\.0\.1:\d+ .* cannot be read \(KafkaConnectionError\)"
    with listener(tmp_path, ours) as port, pytest.raises(ReadError, match=said) as told:
        wire_to(port, ours).read("request", 1, repeat_seconds=0)
    assert not isinstance(told.value, AuthenticationError)


@pytest.mark.usefixtures("at_once")
def test_a_write_that_was_not_sent_because_a_certificate_is_refused_says_so(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    with listener(tmp_path, others) as port, pytest.raises(AuthenticationError, match="the TLS handshake fails"):
        wire_to(port, ours)._check_may_send_again(KafkaConnectionError("closed"), "a move", 0.0)
