"""The lock of a cluster without ZooKeeper: one run at a time moves its partitions, whichever Airflow the run is of.

It is the state of a log in the cluster itself: a topic with one partition (`lock_topic`), written one after the other.
No request of Kafka's Admin API can be made conditional on it. A request to move replicas is therefore announced in it
first (`open_intent`), and its end is noted: whoever takes the cluster knows what may still come.

Each write is one transaction under one fixed transactional id. To begin, a writer takes that id, which fences every
earlier writer off, and then reads the state. So a write goes through only if nobody has written since it was decided
on. Each record carries the whole state, so one record is enough to read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import random
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.record import MemoryRecords

from kafka_rebalance.admin.clients import ANOTHER_SECONDS, QUIET, check_enters, librdkafka_settings, reason_of, refused
from kafka_rebalance.admin.lock_topic import add_replicas, find_leader, make_topics
from kafka_rebalance.admin.missing_rights import with_all_missing
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, Wire, check_read
from kafka_rebalance.errors import (
    CorruptZnodeError,
    LockHeldError,
    LockLostError,
    ReadError,
    RebalanceError,
    WriteDeniedError,
    WriteError,
)
from kafka_rebalance.kafka.topics import LOCK_TOPIC, TRANSACTIONAL_ID
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import (
    NO_FENCE,
    Copies,
    Fence,
    Intent,
    LeaseRecord,
    LockOwner,
    decode_copies,
    encode_copies,
)
from kafka_rebalance.model.partition import TopicPartition

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
_NEWEST = 1_000  # records; markers of transactions take offsets too


class TopicLock:
    """See `ClusterLock`."""

    def __init__(self, kafka: KafkaConnection, wire: Wire) -> None:
        self._log = TransactionLog(kafka, wire)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    @property
    def place(self) -> str:
        return LOCK_TOPIC

    def begin_anew(self) -> bool:
        return self._log.begin_anew()

    def read(self) -> LockOwner | None:
        """Who holds the cluster. Raises ReadError, CorruptZnodeError."""
        state = self._log.read()
        return None if state is None else state.lock

    def make_ready(self, leaving: Collection[int]) -> bool:
        return self._log.make_ready(leaving)

    def acquire(self, owner: LockOwner) -> Fence:
        def take(state: State) -> Write:
            _check_held_by(state, owner, "The lock was not taken.", may_be_free=True)
            held = owner if state.lock is None else replace(state.lock, digest=owner.digest)
            return Write("claim", replace(state, lock=held).raising())

        taken = self._log.write(take)
        note(Kind.LOCK_TAKEN)
        return _fence(taken)

    def raise_held(self, owner: LockOwner) -> Fence:
        def raise_it(state: State) -> Write:
            _check_still_held(state, owner)
            return Write("raise", state.raising())

        return _fence(self._log.write(raise_it))

    def read_own_fence(self, owner: LockOwner) -> Fence:
        state = self._log.read()
        if state is None:
            return NO_FENCE
        _check_held_by(state, owner, "No leader was elected.", may_be_free=True)
        return _fence(state)

    def read_fence(self) -> Fence:
        state = self._log.read()
        return NO_FENCE if state is None else _fence(state)

    def raise_fence(self) -> Fence:
        return _fence(self._log.write(lambda state: Write("raise", state.raising())))

    def read_time_of_fence(self) -> datetime:
        state = self._log.read()
        if state is None:
            raise ReadError(f"The topic {LOCK_TOPIC} is empty, so the cluster's time is not known. Clear this task.")
        return state.raised

    def release(self, owner: LockOwner, *, fence: Fence | None = None) -> bool:
        was_held = False

        def give_back(state: State) -> Write | None:
            nonlocal was_held
            was_held = state.lock is not None
            if state.lock is None:
                return None
            _check_held_by(state, owner, f"It was not released for run {owner.run}.")
            if fence is not None and fence != _fence(state):
                raise LockLostError(f"The lock was not released: somebody has gone on with run {state.lock.name}.")
            # What a worker of this run decided before must not be written after.
            return Write("release", replace(state, lock=None).raising())

        if self._log.read() is None:
            return False
        self._log.write(give_back)
        if was_held:
            note(Kind.LOCK_GIVEN_BACK)
        return was_held

    def read_lease(self) -> LeaseRecord | None:
        state = self._log.read()
        if state is None or state.lease is None:
            return None
        lease = state.lease
        found = self._log.records(lease.first_offset, lease.first_offset + lease.parts)
        parts = [one.value or b"" for one in found if one.key == PART_KEY]
        if len(parts) != lease.parts:
            raise _damaged("parts of the throttle's lease are gone")
        return LeaseRecord(lease.generation, unpack(lease.digest, parts))

    def write_lease(self, record: LeaseRecord, *, run: str, fence: Fence) -> None:
        digest, parts = pack(record.text)

        def keep(state: State) -> Write | None:
            if fence.generation and fence != _fence(state):
                raise LockLostError(
                    "The throttle's lease was not recorded: another worker has taken the cluster, requested moves or "
                    "put throttles back since this one began. No config was changed. Clear this task if the run is to "
                    "go on."
                )
            if state.lease is not None and state.lease.generation > record.generation:
                return None
            lease = Lease(record.generation, digest, len(parts), HERE)
            return Write("lease", replace(state, lease=lease), {"run": run}, tuple(parts))

        self._log.write(keep)

    def delete_lease(self) -> None:
        self._log.write(lambda state: None if state.lease is None else Write("lease", replace(state, lease=None)))

    def open_intent(
        self,
        owner: LockOwner,
        fence: Fence,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        batch: int,
        copies: Copies | None = None,
    ) -> tuple[Fence, str]:
        name = uuid.uuid4().hex

        def announce(state: State) -> Write:
            if fence != _fence(state):
                what = f"Batch {batch} was" if targets else "The copies between log dirs were"
                raise LockLostError(
                    f"{what} not requested: another worker has taken the cluster, requested moves or put "
                    "throttles back since this one began. Clear this task if the run is to go on."
                )
            _check_still_held(state, owner)
            more = {"run": owner.run, "owner": owner.owner, "batch": batch, "moves": encode_targets(targets)}
            more |= {"copies": encode_copies(copies)} if copies else {}
            intents = {**state.intents, name: HERE}
            return Write("intent", replace(state, intents=intents).raising(), more)

        return _fence(self._log.write(announce, name)), name

    def end_intent(self, name: str, *, fence: Fence | None = None) -> bool:
        is_ended = True

        def end(state: State) -> Write | None:
            nonlocal is_ended
            is_ended = fence is None or fence == _fence(state)
            if name not in state.intents or not is_ended:
                return None
            return Write("end", replace(state, intents={k: at for k, at in state.intents.items() if k != name}))

        self._log.write(end)
        return is_ended

    def read_open_intents(self) -> list[Intent]:
        state = self._log.read()
        open_intents = []
        for offset in sorted((state.intents if state is not None else {}).values()):
            open_intents += self._read_intents(offset, offset + 1)
        return open_intents

    def read_newest_intents(self) -> list[Intent]:
        """Of the last records, whether their end is in the log or not; the earliest first."""
        ends = self._log.ends()
        if ends is None:
            return []
        return self._read_intents(max(ends.first, ends.behind - _NEWEST), None)

    def read_intents_since(self, intent: Intent) -> list[Intent]:
        return self._read_intents(intent.order + 1, None)

    def read_time(self) -> datetime:
        """By the clock of the log's broker: it writes a record that says nothing else."""
        return self._log.write(lambda state: Write("look", state)).written

    def _read_intents(self, first: int, behind: int | None) -> list[Intent]:
        intents = []
        for one in self._log.records(first, behind):
            if one.key == PART_KEY:
                continue
            _, _, record = decode(one.value, one.offset, one.time_ms)
            if record["kind"] == "intent":
                intents.append(decode_intent(record, one.offset, one.time_ms))
        return intents


def _fence(state: State) -> Fence:
    return Fence(generation=state.generation)


def _check_held_by(state: State, owner: LockOwner, consequence: str, *, may_be_free: bool = False) -> None:
    """Raises LockHeldError if another run holds the cluster, or nobody does where that matters."""
    if state.lock is None and may_be_free:
        return
    if state.lock is None or not state.lock.is_same_run(owner):
        raise _held_by(state.lock, owner, consequence)


def _check_still_held(state: State, owner: LockOwner) -> None:
    """Raises LockHeldError unless this run holds the cluster with its digest."""
    lock = state.lock
    if lock is None or not lock.is_same_run(owner) or lock.digest != owner.digest:
        raise _held_by(lock, owner, "No further move was requested.")


def _held_by(holder: LockOwner | None, owner: LockOwner, consequence: str) -> LockHeldError:
    if holder is None:
        return LockHeldError(
            f"Run {owner.run} does not hold the cluster any more. {consequence} Clear hold_throttle with what follows "
            "it."
        )
    since = f" since {holder.acquired_at}" if holder.acquired_at else ""
    return LockHeldError(
        f"The cluster is held by run {holder.name}{since} (topic {LOCK_TOPIC}). {consequence} Wait until that run has "
        "ended. If it is gone, the Dag kafka_throttle_janitor releases what it held. If that Dag cannot know whether "
        f"the run is gone, start it with the param break_lock '{holder.name}'."
    )


# The log that has this state.


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
        self._reader = _LogReader(wire)
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
            found = [record for record in self.records(first, None) if record.key != PART_KEY]
            if found:
                name, state, _ = decode(found[-1].value, found[-1].offset, found[-1].time_ms)
                _check_whole(state, self._reader.first)
                return name, state
            if first <= self._reader.first:
                break  # nothing was ever committed, or nothing is left
            window *= 4
        if behind and self._reader.first > 0:
            raise _damaged(f"all of its records up to {behind} are gone: somebody has deleted them or set a retention")
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
            logger=QUIET,
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
        for record in self.records(after + 1, None):
            if record.key != PART_KEY:
                found, state, _ = decode(record.value, record.offset, record.time_ms)
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


def _check_whole(state: State, first: int) -> None:
    """Raises CorruptZnodeError if the state points to records before this offset, which are gone.

    A lease whose parts are gone is told where it is read: there is another copy of it.
    """
    gone = [name for name, offset in state.intents.items() if offset < first]
    if gone:
        raise _damaged(
            f"its records up to {first} are gone, and with them {len(gone)} requests to move replicas that were "
            "announced and have not ended"
        )


def _unknown(why: str) -> WriteError:
    return WriteError(
        f"Whether {LOCK_TOPIC} was written is unknown ({why}). Clear this task when the brokers answer: it looks first."
    )


# Reads the committed records of the lock's log, by Kafka's own requests to its leader.
#
# It is no consumer: librdkafka's asks for the coordinator of its group, and Kafka then makes the topic
# `__consumer_offsets`. Reading must make nothing.


_PAUSE_SECONDS = 0.05
_HELD_BACK = 10  # answers without anything, because of a quota
_READ_COMMITTED = 1
_EARLIEST, _LATEST = -2, -1
_BY_NAME = 12  # the last version of Fetch that names the topic instead of its id
_FETCH_BYTES = 8 * 1024 * 1024
_OUT_OF_RANGE = 1
# The leader has changed or is not ready, or the topic was deleted: whoever knows the topic is asked again.
_MOVED = (3, 5, 6, 9, 13, 56, 74, 75, 76, 78, 100)


@dataclass(frozen=True, slots=True)
class Record:
    """`time_ms`: when the log's broker took it."""

    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int


@dataclass(frozen=True, slots=True)
class Ends:
    """The first offset that is left, and the one behind the last committed record."""

    first: int
    behind: int


class _LogReader:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._leader: int | None = None
        self.first = 0  # the first offset that is left, as the last answer to `records` told

    def ends(self) -> Ends | None:
        """None: the topic does not exist. Raises ReadError."""
        behind = self._offset(_LATEST)
        first = None if behind is None else self._offset(_EARLIEST)
        return None if behind is None or first is None else Ends(first, behind)

    def behind(self) -> int | None:
        """The offset behind the last committed record; None: the topic does not exist. Raises ReadError."""
        return self._offset(_LATEST)

    def records(self, first: int, behind: int | None) -> list[Record]:
        """Committed records from this offset, up to `behind` or to the end; without those that are gone.

        Raises ReadError.
        """
        found: list[Record] = []
        position, give_up = first, time.monotonic() + _ANSWER_SECONDS
        while behind is None or position < behind:
            answer = self._ask(_fetch(position), _fetched, give_up)
            if answer is None:
                return found  # the topic is gone
            if answer.error_code == _OUT_OF_RANGE:  # such an answer does not tell where the log begins
                self.first = self._offset(_EARLIEST) or 0
                if self.first <= position:
                    return found
                position = self.first
                continue
            self.first = max(answer.log_start_offset, 0)
            came, position_after = _committed(answer, position)
            found += [one for one in came if behind is None or one.offset < behind]
            if position_after >= answer.last_stable_offset:
                return found
            if position_after == position:
                _check_time(give_up)
                time.sleep(_PAUSE_SECONDS)
            position = position_after
        return found

    def _offset(self, of: int) -> int | None:
        def offset(answer: Any) -> Any:
            return answer.topics[0].partitions[0]

        answer = self._ask(_offsets(of), offset, time.monotonic() + _ANSWER_SECONDS)
        return None if answer is None else int(answer.offset)

    def _ask(self, request: Any, partition: Callable[[Any], Any], give_up: float) -> Any | None:
        """What the leader answers of the partition; None: the topic does not exist. Raises ReadError."""
        held_back = 0
        while True:
            if self._leader is None:
                found = find_leader(self._wire)
                if found is None:
                    return None
                self._leader = found if found >= 0 else None
            silent: ReadError | None = None
            if self._leader is not None:
                try:
                    answer = self._wire.read(
                        request, self._leader, repeat_seconds=0, answer_seconds=min(ANOTHER_SECONDS, _ANSWER_SECONDS)
                    )
                except ReadError as away:
                    silent = away
                else:
                    told = partition(answer)
                    if told is None:
                        held_back += 1
                        if held_back > _HELD_BACK:
                            _check_time(0.0, self._leader)
                        give_up += held_back
                        time.sleep(held_back)  # a quota that is far exceeded gives nothing until the user is quiet
                        continue
                    if told.error_code in NOT_AUTHORIZED:
                        needs = f"Read and Describe on the topic {LOCK_TOPIC}"
                        check_read(f"The topic {LOCK_TOPIC}", needs, told.error_code)
                    if told.error_code not in _MOVED:
                        if told.error_code != _OUT_OF_RANGE:
                            check_read(f"The topic {LOCK_TOPIC}", "", told.error_code)
                        return told
            leader, self._leader = self._leader, None
            self._wire.forget_fresh()
            _check_time(give_up, leader, silent)
            time.sleep(_PAUSE_SECONDS)


def _check_time(give_up: float, leader: int | None = None, cause: ReadError | None = None) -> None:
    if time.monotonic() < give_up:
        return
    who = "It has no leader" if leader is None else f"Its leader is broker {leader}"
    raise ReadError(
        f"The topic {LOCK_TOPIC} does not answer. {who}. Check that the leader is up and that this host can reach it."
    ) from cause


def _offsets(of: int) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    one = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=of)
    asked = [topic(name=LOCK_TOPIC, partitions=[one])]
    return ListOffsetsRequest(replica_id=-1, isolation_level=_READ_COMMITTED, topics=asked, max_version=8)


def _fetch(offset: int) -> FetchRequest:
    topic = FetchRequest.FetchTopic
    one = topic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        isolation_level=_READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=LOCK_TOPIC, partitions=[one])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=_BY_NAME,
    )


def _fetched(answer: Any) -> Any:
    """None: a quota holds the Kafka user back, and the answer has nothing (FetchContext.getThrottledResponse)."""
    check_read(f"The topic {LOCK_TOPIC}", "", answer.error_code)
    return answer.responses[0].partitions[0] if answer.responses else None


def _committed(answer: Any, position: int) -> tuple[list[Record], int]:
    """(the records of committed transactions, where to go on). Markers and aborted transactions are left out."""
    found: list[Record] = []
    try:
        for batch, is_record in _batches(answer):
            if is_record:
                found += [
                    Record(one.offset, one.key, one.value, one.timestamp) for one in batch if one.offset >= position
                ]
            position = max(position, batch.next_offset)
    except UnsupportedCodecError as codec:
        raise ReadError(
            f"The topic {LOCK_TOPIC} is compressed by its brokers ({codec}), and this host cannot read that. "
            f"Set compression.type=producer on the topic, and install the library that is named."
        ) from codec
    except CorruptRecordError as broken:
        raise ReadError(f"The topic {LOCK_TOPIC} cannot be read ({broken}). Try again.") from broken
    return found, position


def _batches(answer: Any) -> Iterator[tuple[Any, bool]]:
    """(batch, whether its records count)"""
    waiting = sorted(answer.aborted_transactions or (), key=lambda transaction: transaction.first_offset)
    aborted: set[int] = set()
    records = MemoryRecords(answer.records or b"")
    while (batch := records.next_batch()) is not None:
        while waiting and waiting[0].first_offset <= batch.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if batch.is_control_batch:
            if batch.producer_id in aborted and any(marker.abort for marker in batch):
                aborted.discard(batch.producer_id)
            yield batch, False
        else:
            yield batch, not (batch.is_transactional and batch.producer_id in aborted)


# The records: each carries the whole state after it, as JSON.


HERE = -1
PART_BYTES = 512 * 1024  # of a packed lease in one record; a record of 1 MB is accepted everywhere


@dataclass(frozen=True, slots=True)
class Lease:
    """Where the record of the throttle's lease is: in `parts` records, just before the one that told so first."""

    generation: str
    digest: str
    parts: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class State:
    """Who holds the cluster, under which fence, and what was announced.

    `raised_at` and `raised_ms`: offset and time (milliseconds) of the record that raised the fence last. `began_ms`:
    when the log began, so that a log that was deleted and made again has later generations. `intents`: {id: offset of
    its record}. An offset of `HERE` is that of the record that carries this state, which nobody knows before it is
    written.
    """

    began_ms: int
    lock: LockOwner | None = None
    raised_at: int = HERE
    raised_ms: int = HERE
    intents: Mapping[str, int] = field(default_factory=dict)
    lease: Lease | None = None
    # Of the record that carries this state, once it is read.
    written_ms: int = field(default=HERE, compare=False)
    offset: int = field(default=HERE, compare=False)

    @property
    def generation(self) -> str:
        """Later fences are later texts, and later than those of ZooKeeper, which begin with a digit or a to f."""
        return f"log-{self.began_ms:013d}-{self.raised_at:016d}"

    @property
    def raised(self) -> datetime:
        return datetime.fromtimestamp(self.raised_ms / 1000, UTC)

    @property
    def written(self) -> datetime:
        return datetime.fromtimestamp(self.written_ms / 1000, UTC)

    def at(self, offset: int, timestamp_ms: int) -> Self:
        """The state as it is read from this record."""
        lease = self.lease
        if lease is not None and lease.first_offset == HERE:
            lease = replace(lease, first_offset=offset - lease.parts)
        raised = self.raised_at == HERE
        return replace(
            self,
            raised_at=offset if raised else self.raised_at,
            raised_ms=timestamp_ms if raised else self.raised_ms,
            intents={name: offset if at == HERE else at for name, at in self.intents.items()},
            lease=lease,
            written_ms=timestamp_ms,
            offset=offset,
        )

    def raising(self) -> Self:
        """The same, for a record that raises the fence."""
        return replace(self, raised_at=HERE, raised_ms=HERE)


def encode(record_id: str, kind: str, state: State, **more: Any) -> bytes:
    """Raises WriteError if a field that names the owner is empty."""
    owner = state.lock
    if owner is not None and not (owner.run and owner.digest and owner.owner):
        raise WriteError(f"{LOCK_TOPIC} was not written: run, digest and owner must all be named, not {owner}.")
    document = {"version": 1, "id": record_id, "kind": kind, "state": _content(state), **more}
    return json.dumps(document, separators=(",", ":")).encode()


def _content(state: State) -> dict[str, Any]:
    return {name: value for name, value in asdict(state).items() if name not in ("written_ms", "offset")}


def decode(value: bytes | None, offset: int, timestamp_ms: int) -> tuple[str, State, Mapping[str, Any]]:
    """(the record's id, the state after it, all of its fields). Raises CorruptZnodeError."""
    try:
        document = json.loads(value or b"")
        if document["version"] != 1:
            raise ValueError(f"its version is {document['version']!r}, this program reads 1")
        found = document["state"]
        lock, lease = found["lock"], found["lease"]
        state = State(
            began_ms=int(found["began_ms"]),
            lock=None if lock is None else LockOwner(**{key: _text(lock[key]) for key in _OWNER}),
            raised_at=int(found["raised_at"]),
            raised_ms=int(found["raised_ms"]),
            intents={_text(key): int(at) for key, at in found["intents"].items()},
            lease=None if lease is None else Lease(
                _text(lease["generation"]), _text(lease["digest"]), int(lease["parts"]), int(lease["first_offset"])
            ),
        )  # fmt: skip
        return _text(document["id"]), state.at(offset, timestamp_ms), document
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as bad:
        raise _damaged(f"record {offset} cannot be read ({type(bad).__name__}: {bad})") from bad


_OWNER = ("run", "digest", "owner", "acquired_at")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def encode_targets(targets: Mapping[TopicPartition, tuple[int, ...]]) -> list[list[Any]]:
    return [[*tp, list(replicas)] for tp, replicas in sorted(targets.items())]


def decode_intent(record: Mapping[str, Any], offset: int, timestamp_ms: int) -> Intent:
    """Raises CorruptZnodeError."""
    try:
        targets = {
            TopicPartition(topic, int(number)): tuple(map(int, after)) for topic, number, after in record["moves"]
        }
        copies = decode_copies(record.get("copies", ()))  # an earlier version's has none
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        run, owner = _text(record["run"]), _text(record["owner"])
        return Intent(_text(record["id"]), run, owner, int(record["batch"]), at, targets, copies, offset)
    except (ValueError, KeyError, TypeError) as bad:
        raise _damaged(f"record {offset} announces no request ({type(bad).__name__}: {bad})") from bad


def pack(text: bytes) -> tuple[str, list[bytes]]:
    """(digest, the lease in parts)"""
    packed = base64.b64encode(zlib.compress(text, 9))
    return hashlib.sha256(packed).hexdigest(), [
        packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)
    ] or [b""]


def unpack(digest: str, parts: list[bytes]) -> bytes:
    """Raises CorruptZnodeError."""
    packed = b"".join(parts)
    if hashlib.sha256(packed).hexdigest() != digest:
        raise _damaged("the throttle's lease does not match its digest")
    try:
        return zlib.decompress(base64.b64decode(packed, validate=True))
    except (zlib.error, ValueError, binascii.Error) as bad:
        raise _damaged(f"the throttle's lease cannot be unpacked ({bad})") from bad


def _damaged(wrong: str) -> CorruptZnodeError:
    return CorruptZnodeError(
        f"Topic {LOCK_TOPIC}: {wrong}. If no run of this cluster goes on, an approver starts "
        f"kafka_throttle_janitor with break_lock '{LOCK_TOPIC}'. It begins the log anew."
    )
