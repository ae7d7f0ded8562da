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
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_rebalance.admin.client_settings import librdkafka_settings
from kafka_rebalance.admin.clients import reason_of
from kafka_rebalance.admin.first_contact import check_enters, refused
from kafka_rebalance.admin.log_reader import Ends, LogReader, Record
from kafka_rebalance.admin.missing_rights import with_all_missing
from kafka_rebalance.admin.records import HERE, State, damaged, decode, encode
from kafka_rebalance.admin.topic import add_replicas, make_topics
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import CorruptZnodeError, ReadError, RebalanceError, WriteDeniedError, WriteError
from kafka_rebalance.kafka.topics import LOCK_TOPIC, TRANSACTIONAL_ID
from kafka_rebalance.model.connection import KafkaConnection

_quiet = logging.getLogger("kafka_rebalance.librdkafka")  # the errors of its calls say what matters
_quiet.setLevel(logging.CRITICAL + 1)
_GIVE_UP_SECONDS = 60.0
_ANSWER_SECONDS = 20.0
_LOOK_SECONDS = 2.0
_VISIBLE_SECONDS = 10.0
_TRANSACTION_MS = 15_000
_WINDOW = 50  # records read at first from the end backwards; markers of transactions take offsets too
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_REFUSED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_NEEDS = (
    f"Grant the Kafka user Write and Describe on the transactional id {TRANSACTIONAL_ID}, and Create, Read, Write and "
    f"Describe on the topic {LOCK_TOPIC}"
)

PART_KEY = b"lease-part"


def _connect(kafka: KafkaConnection, producer: Producer, said: Mapping[int, str]) -> None:
    """librdkafka looks for the coordinator of transactions at once, and without a connection again half a second later.

    The first request names the brokers, in place of the bootstrap servers. The second one connects to one of them.
    `said` are the errors that the producer has told. Raises KafkaException, AuthenticationError.
    """
    give_up, answers = time.monotonic() + _ANSWER_SECONDS, 0
    while answers < 2:
        try:
            producer.list_topics(LOCK_TOPIC, timeout=_LOOK_SECONDS)
            answers += 1
        except KafkaException:
            why = said.get(KafkaError._AUTHENTICATION)
            if why is not None:  # librdkafka would try the same password again and again
                raise refused(kafka, why) from None
            if time.monotonic() > give_up:
                raise


def _commit(producer: Producer) -> None:
    """A producer that is fenced raises within its callbacks, which ends them with a SystemError."""
    try:
        producer.commit_transaction(_ANSWER_SECONDS)
    except SystemError as fenced:
        raise KafkaException(KafkaError(KafkaError._FENCED)) from fenced


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
        self._reader = LogReader(wire)
        self._producer: Producer | None = None
        self._is_ready = False  # the topic exists, with the settings that it needs
        self._state: State | None = None  # after our own last write, while nobody has fenced our producer

    def close(self) -> None:
        self._drop_producer()

    def read(self) -> State | None:
        """The state after the last committed record; None if there is none. Raises ReadError, CorruptZnodeError."""
        last = self._last()
        return None if last is None else last[1]

    def ends(self) -> Ends | None:
        """None: the topic does not exist. Raises ReadError."""
        return self._reader.ends()

    def records(self, first: int, behind: int | None) -> list[Record]:
        """Committed records from this offset, up to `behind` or to the end. Raises ReadError."""
        return self._reader.records(first, behind)

    def _last(self) -> tuple[str, State] | None:
        """(id of the last committed record, the state after it); None if there is no record, or no topic."""
        behind = self._reader.behind()
        if behind is None:
            return None
        first, window = behind, _WINDOW
        while first > 0:
            first = max(0, behind - window)
            found = [one for one in self.records(first, None) if one.key != PART_KEY]
            if found:
                name, state, _ = decode(found[-1].value, found[-1].offset, found[-1].time_ms)
                _check_whole(state, self._reader.first)
                return name, state
            if first <= self._reader.first:
                break  # nothing was ever committed, or nothing is left
            window *= 4
        if behind and self._reader.first > 0:
            raise damaged(f"all of its records up to {behind} are gone: somebody has deleted them or set a retention")
        return None

    def begin_anew(self) -> bool:
        """Writes a free lock behind a log that cannot be used, for a person who says that no run goes on.

        False, and nothing is written, if the log can be used. Raises WriteError, ReadError.
        """
        with suppress(CorruptZnodeError):
            self.read()
            return False
        make_topics(self._wire)
        producer = self._open_producer()
        try:
            self._begin(producer)
        except KafkaException as failed:
            raise WriteError(
                f"{LOCK_TOPIC} was not begun anew ({reason_of(failed)}). Start the janitor again."
            ) from failed
        finally:
            self._drop_producer()
        return True

    def make_ready(self, leaving: Collection[int] = ()) -> bool:
        """Makes what the log needs, on no broker that leaves. Returns whether the cluster has changed by it.

        Raises ClusterNotReadyError, WriteError, ReadError.
        """
        has_made = make_topics(self._wire, leaving)
        state = self.read()
        if state is None or state.lock is None:
            has_made |= add_replicas(self._wire, leaving)
        self._is_ready = True
        return has_made

    def write(self, decide: Callable[[State], Write | None], name: str = "") -> State:
        """The state after what was decided on the state before. None: nothing is written.

        If an attempt failed, its record may be there all the same, and others may have written since. So every record
        since then is looked at, once nobody can commit what was begun before. Raises what `decide` raises, and
        WriteError if the log does not take the record or the outcome is unknown.
        """
        give_up, name, tried_after = time.monotonic() + _GIVE_UP_SECONDS, name or uuid.uuid4().hex, HERE
        while True:
            try:
                state, is_known = self._state, self._state is not None
                if state is None:
                    state = self._take_over()
                    if tried_after != HERE and (own := self._own(name, tried_after)) is not None:
                        return own
                try:
                    wanted = decide(state)
                except RebalanceError:
                    if not is_known:
                        raise
                    wanted = None
                if wanted is not None:
                    tried_after = state.offset if tried_after == HERE else tried_after
                    return self._commit(wanted, name)
                if not is_known:
                    return state
                self._drop_producer()  # others may have written since: nothing is refused by what is only remembered
            except KafkaException as failed:
                self._drop_producer()
                self._check_may_try_again(failed, give_up, has_tried=tried_after != HERE)
                time.sleep(random.uniform(0.05, 0.5))  # or two writers would fence each other for ever
            except ReadError as unreadable:
                if tried_after == HERE:
                    raise
                raise _unknown(str(unreadable)) from unreadable

    def _check_may_try_again(self, failed: KafkaException, give_up: float, *, has_tried: bool) -> None:
        """Raises WriteError if another attempt cannot help, or comes too late."""
        if failed.args[0].code() not in _FENCED:
            self._is_ready = False  # the topic may be gone
        if failed.args[0].code() in _REFUSED:
            denied = WriteDeniedError(f"{LOCK_TOPIC} was not written ({reason_of(failed)}). {_NEEDS}.")
            raise with_all_missing(self._wire, denied) from failed
        if time.monotonic() <= give_up:
            return
        if has_tried:
            raise _unknown(reason_of(failed)) from failed
        raise WriteError(
            f"{LOCK_TOPIC} was not written ({reason_of(failed)}). Clear this task when the brokers answer."
        ) from failed

    def _take_over(self) -> State:
        """Fences every earlier writer, and reads the state that nobody else can change from now on."""
        if not self._is_ready:
            self.make_ready()
        self._producer = self._open_producer()
        last = self._last()
        self._state = self._begin(self._producer) if last is None else last[1]
        return self._state

    def _begin(self, producer: Producer) -> State:
        """Writes the first state, with a free lock, or one behind records that cannot be used."""
        # The record before it is nobody's state. It tells the time of the log's broker, which makes later generations.
        now = self._append(producer, [(PART_KEY, b"")]).timestamp()[1]
        begun = State(began_ms=now)
        first = self._append(producer, [(None, encode(uuid.uuid4().hex, "begin", begun))])
        offset = first.offset()
        assert offset is not None
        return begun.at(offset, first.timestamp()[1])

    def _open_producer(self) -> Producer:
        check_enters(self._kafka)
        said: dict[int, str] = {}  # a call that fails says so itself, but not why
        producer = Producer(
            {
                **librdkafka_settings(self._kafka),
                "transactional.id": TRANSACTIONAL_ID,
                "transaction.timeout.ms": _TRANSACTION_MS,
                "acks": "all",
                "linger.ms": 0,
                "error_cb": lambda error: said.update({error.code(): error.str()}),
            },
            logger=_quiet,
        )
        _connect(self._kafka, producer, said)
        producer.init_transactions(_ANSWER_SECONDS)
        return producer

    def _commit(self, wanted: Write, name: str) -> State:
        assert self._producer is not None
        records: list[tuple[bytes | None, bytes]] = [(PART_KEY, part) for part in wanted.parts]
        content = encode(name, wanted.kind, wanted.state, **wanted.more)
        message = self._append(self._producer, [*records, (None, content)])
        offset = message.offset()
        assert offset is not None
        self._state = wanted.state.at(offset, message.timestamp()[1])
        return self._state

    def _own(self, name: str, after: int) -> State | None:
        """The state of the record with this id behind that offset; None if it is not there."""
        for one in self.records(after + 1, None):
            if one.key != PART_KEY:
                found, state, _ = decode(one.value, one.offset, one.time_ms)
                if found == name:
                    return state
        return None

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
            with suppress(ReadError):  # it is committed anyway
                if (self._reader.behind() or 0) > offset:
                    return
            time.sleep(0.005)

    def _drop_producer(self) -> None:
        self._producer = self._state = None


def _check_whole(state: State, first: int) -> None:
    """Raises CorruptZnodeError if the state points to records before this offset, which are gone.

    A lease whose parts are gone is told where it is read: there is another copy of it.
    """
    gone = [name for name, offset in state.intents.items() if offset < first]
    if gone:
        raise damaged(
            f"its records up to {first} are gone, and with them {len(gone)} requests to move replicas that were "
            "announced and have not ended"
        )


def _unknown(why: str) -> WriteError:
    return WriteError(
        f"Whether {LOCK_TOPIC} was written is unknown ({why}). Clear this task when the brokers answer: it looks first."
    )
