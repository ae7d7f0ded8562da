"""The log behind the lock of a cluster without ZooKeeper: a topic with one partition, written one after the other.

Each write is one transaction under one fixed transactional id. To begin, a writer takes that id, which fences every
earlier writer off, and then reads the state. So a write goes through only if nobody has written since it was decided
on. Each record carries the whole state, so one record is enough to read.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as LogPartition

from kafka_rebalance.admin.access.client_settings import librdkafka_settings
from kafka_rebalance.admin.access.clients import reason_of
from kafka_rebalance.admin.lock.records import State, damaged, decode, encode
from kafka_rebalance.admin.lock.topic import ensure_lock_topic, lock_topic_exists
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import ReadDeniedError, ReadError, RebalanceError, WriteDeniedError, WriteError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.model.connection import KafkaConnection

TRANSACTIONAL_ID = "kafka-rebalance"
_quiet = logging.getLogger("kafka_rebalance.librdkafka")  # the errors of its calls say what matters
_quiet.setLevel(logging.CRITICAL + 1)
_GIVE_UP_SECONDS = 60.0
_ANSWER_SECONDS = 20.0
_VISIBLE_SECONDS = 10.0
_TRANSACTION_MS = 15_000
_WINDOW = 50  # records read at first from the end backwards; markers of transactions take offsets too
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_ABSENT = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
_REFUSED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_NEEDS = (
    f"Grant the Kafka user Write and Describe on the transactional id {TRANSACTIONAL_ID}, and Create, Read, Write and "
    f"Describe on the topic {LOCK_TOPIC}"
)


_LOG = LogPartition(LOCK_TOPIC, 0)
PART_KEY = b"lease-part"


def _connect(producer: Producer) -> None:
    """librdkafka looks for the coordinator of transactions at once, and without a connection again half a second later.

    The first request names the brokers, in place of the bootstrap servers. The second one connects to one of them.
    """
    for _ in range(2):
        producer.list_topics(LOCK_TOPIC, timeout=_ANSWER_SECONDS)


def _commit(producer: Producer) -> None:
    """A producer that is fenced raises within its callbacks, which ends them with a SystemError."""
    try:
        producer.commit_transaction(_ANSWER_SECONDS)
    except SystemError as fenced:
        raise KafkaException(KafkaError(KafkaError._FENCED)) from fenced


def _ignore(_: KafkaError) -> None:
    """A call that fails says so itself."""


class Write(NamedTuple):
    """What a decision gives: the kind of the record and the state after it, with parts of a lease before it."""

    kind: str
    state: State
    more: Mapping[str, Any] = {}
    parts: tuple[bytes, ...] = ()


class TransactionLog:
    """It connects when it is first needed. `wire` is the cluster's open client, which looks for the topic."""

    def __init__(self, kafka: KafkaConnection, wire: Wire) -> None:
        self._kafka = kafka
        self._wire = wire
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._is_ready = False  # the topic exists, with the settings that it needs
        self._state: State | None = None  # after our own last write, while nobody has fenced our producer

    def close(self) -> None:
        self._drop_producer()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def read(self) -> State | None:
        """The state after the last committed record; None if there is none. Raises ReadError, CorruptZnodeError."""
        last = self._last()
        return None if last is None else last[1]

    def _last(self, *, is_there: bool = False) -> tuple[str, State] | None:
        """(id of the last committed record, the state after it). `is_there`: the topic exists."""
        # A consumer looks for its group. Kafka then makes the topic __consumer_offsets if nobody had a group before.
        if self._consumer is None and not is_there and not lock_topic_exists(self._wire):
            return None
        try:
            low, high = self._open_consumer().get_watermark_offsets(_LOG, timeout=_ANSWER_SECONDS, cached=False)
        except KafkaException as failed:
            if failed.args[0].code() in _ABSENT and not is_there and not lock_topic_exists(self._wire):
                return None
            raise self._unreadable(failed) from failed
        if low > 0:
            raise damaged(f"its first {low} records are gone: somebody has deleted them or set a retention")
        window = _WINDOW
        while high > low:
            first = max(low, high - window)
            found = [message for message in self.records(first, None) if message.key() != PART_KEY]
            if found:
                message = found[-1]
                offset = message.offset()
                assert offset is not None
                name, state, _ = decode(message.value(), offset, message.timestamp()[1])
                return name, state
            if first == low:
                return None  # nothing was ever committed
            window *= 4
        return None

    def records(self, first: int, behind: int | None) -> list[Message]:
        """Committed records from this offset, up to `behind` or to the end. Raises ReadError."""
        consumer, found = self._open_consumer(), list[Message]()
        consumer.assign([LogPartition(LOCK_TOPIC, 0, first)])
        give_up = time.monotonic() + _ANSWER_SECONDS
        try:
            while time.monotonic() < give_up:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    continue  # librdkafka asks for the group that it was made to name; nothing of ours needs one
                if error is not None:
                    raise self._unreadable(KafkaException(error))
                offset = message.offset()
                assert offset is not None
                if behind is not None and offset >= behind:
                    return found
                found.append(message)
                if behind is not None and offset == behind - 1:
                    return found
        finally:
            consumer.unassign()
        raise ReadError(f"The topic {LOCK_TOPIC} does not answer. Nothing was written. Check that its leader is up.")

    def _open_consumer(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    **librdkafka_settings(self._kafka),
                    "group.id": TRANSACTIONAL_ID,  # nothing is committed, so no group exists
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    "error_cb": _ignore,
                    "fetch.wait.max.ms": 10,  # else the end of the log is told half a second later
                    "fetch.queue.backoff.ms": 10,
                },
                logger=_quiet,
            )
        return self._consumer

    def write(self, decide: Callable[[State], Write | None], name: str = "") -> State:
        """The state after what was decided on the state before. None: nothing is written.

        Raises what `decide` raises, and WriteError if the log does not take the record or the outcome is unknown.
        """
        give_up = time.monotonic() + _GIVE_UP_SECONDS
        while True:
            try:
                state, is_known = self._state, self._state is not None
                if state is None:
                    state = self._take_over()
                try:
                    wanted = decide(state)
                except RebalanceError:
                    if not is_known:
                        raise
                    wanted = None
                if wanted is not None:
                    return self._commit(state, wanted, name or uuid.uuid4().hex)
                if not is_known:
                    return state
                self._drop_producer()  # others may have written since: nothing is refused by what is only remembered
            except KafkaException as failed:
                self._drop_producer()
                if failed.args[0].code() in _REFUSED:
                    denied = f"{LOCK_TOPIC} was not written ({reason_of(failed)}). {_NEEDS}."
                    raise WriteDeniedError(denied) from failed
                if time.monotonic() > give_up:
                    raise WriteError(
                        f"{LOCK_TOPIC} was not written ({reason_of(failed)}). Clear this task when the brokers answer."
                    ) from failed
                time.sleep(random.uniform(0.05, 0.5))  # or two writers would fence each other for ever

    def _take_over(self) -> State:
        """Fences every earlier writer, and reads the state that nobody else can change from now on."""
        if not self._is_ready:
            ensure_lock_topic(self._wire)
            self._is_ready = True
        self._producer = Producer(
            {
                **librdkafka_settings(self._kafka),
                "transactional.id": TRANSACTIONAL_ID,
                "transaction.timeout.ms": _TRANSACTION_MS,
                "acks": "all",
                "linger.ms": 0,
                "error_cb": _ignore,
            },
            logger=_quiet,
        )
        _connect(self._producer)
        self._producer.init_transactions(_ANSWER_SECONDS)
        last = self._last(is_there=True)
        if last is None:
            # The first record only tells when the log began: its time is known once it is written.
            self._append(self._producer, [(None, encode(uuid.uuid4().hex, "begin", State(0)))])
            begun = self.records(0, None)[0].timestamp()[1]
            last = "", State(began_ms=begun, raised_at=0, raised_ms=begun)
        self._state = last[1]
        return self._state

    def _commit(self, state: State, wanted: Write, name: str) -> State:
        assert self._producer is not None
        records: list[tuple[bytes | None, bytes]] = [(PART_KEY, part) for part in wanted.parts]
        content = encode(name, wanted.kind, wanted.state, **wanted.more)
        try:
            message = self._append(self._producer, [*records, (None, content)])
        except KafkaException as failed:
            if failed.args[0].code() in _FENCED or failed.args[0].txn_requires_abort():
                raise
            self._drop_producer()
            return self._find_out(name, failed)
        offset = message.offset()
        assert offset is not None
        self._state = wanted.state.at(offset, message.timestamp()[1])
        return self._state

    def _find_out(self, name: str, cause: KafkaException) -> State:
        """The state if the record is there. Raises `cause` if it is not, WriteError if nobody can tell."""
        try:
            last = self._last()
        except ReadError as unreadable:
            raise WriteError(
                f"Whether {LOCK_TOPIC} was written is unknown ({reason_of(cause)}). Clear this task when the brokers "
                "answer: it looks first."
            ) from unreadable
        if last is not None and last[0] == name:
            return last[1]
        raise cause

    def _append(self, producer: Producer, records: list[tuple[bytes | None, bytes]]) -> Message:
        """The last of the records, once the transaction is committed."""
        delivered: list[tuple[KafkaError | None, Message]] = []
        producer.begin_transaction()
        for key, value in records:
            producer.produce(
                LOCK_TOPIC, value, key, partition=0, on_delivery=lambda error, one: delivered.append((error, one))
            )
        try:
            _commit(producer)
        except KafkaException as failed:
            if failed.args[0].txn_requires_abort():
                with suppress(KafkaException):
                    producer.abort_transaction(_ANSWER_SECONDS)
            raise
        self._wait_for(delivered[-1][1])
        self._wire.forget_fresh()  # what was read before may be old now
        return delivered[-1][1]

    def _wait_for(self, message: Message) -> None:
        """Until everybody can read it: the coordinator confirms a transaction before it has told the log's leader."""
        give_up, offset = time.monotonic() + _VISIBLE_SECONDS, message.offset() or 0
        while time.monotonic() < give_up:
            with suppress(KafkaException):  # it is committed anyway
                if self._open_consumer().get_watermark_offsets(_LOG, timeout=_ANSWER_SECONDS, cached=False)[1] > offset:
                    return
            time.sleep(0.005)

    def _drop_producer(self) -> None:
        self._producer = self._state = None

    def _unreadable(self, failed: KafkaException) -> ReadError:
        is_denied = failed.args[0].code() in _REFUSED
        remedy = _NEEDS if is_denied else "Check that its leader is up, and try again"
        text = f"The topic {LOCK_TOPIC} cannot be read ({reason_of(failed)}). Nothing was written. {remedy}."
        return ReadDeniedError(text) if is_denied else ReadError(text)
