"""The topic of the lock in memory. One fixed transactional id: who takes it fences every earlier writer off.

The product's own `TopicLock` and its records run on it (`admin.cluster_lock`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_rebalance.admin.cluster_lock import PART_KEY, Ends, Record, State, Write, decode, encode
from kafka_rebalance.errors import ReadError, RebalanceError, WriteError
from kafka_rebalance.kafka.topics import LOCK_TOPIC


@dataclass
class LockTopic:
    """Committed records. `writer`: the number of the producer that took the transactional id last."""

    records: list[Record] = field(default_factory=list)
    end: int = 0
    writer: int = 0

    def append(self, records: list[tuple[bytes | None, bytes]], time_ms: int) -> Record:
        """One transaction, whose marker takes an offset too."""
        for key, value in records:
            self.records.append(Record(self.end, key, value, time_ms))
            self.end += 1
        self.end += 1
        return self.records[-1]

    def last(self) -> tuple[str, State] | None:
        """(the last record's id, the state after it)"""
        for record in reversed(self.records):
            if record.key != PART_KEY:
                name, state, _ = decode(record.value, record.offset, record.time_ms)
                return name, state
        return None

    @property
    def state(self) -> State | None:
        last = self.last()
        return None if last is None else last[1]


class Lost(Exception):
    """The connection, before the call took effect or after it."""

    def __init__(self, took_effect: bool) -> None:
        super().__init__()
        self.took_effect = took_effect


class _Fenced(Exception):
    pass


class Around(Protocol):
    """The world, as a process meets it."""

    lock_topic: LockTopic

    def now_ms(self) -> int: ...

    def log_call(self, process: Any, write: Write | None, act: Callable[[], Any]) -> Any:
        """Raises Lost."""

    def heard_fence(self, process: Any, state: State | None, *, raised: bool) -> None: ...


class ModelLog:
    """See `TransactionLog`."""

    def __init__(self, world: Around, process: Any, after_write: Callable[[], None]) -> None:
        self._world, self._process, self._after_write = world, process, after_write
        self._writer = 0
        self._state: State | None = None

    @property
    def _topic(self) -> LockTopic:
        return self._world.lock_topic

    def close(self) -> None:
        self._state = None

    def read(self) -> State | None:
        try:
            state: State | None = self._world.log_call(self._process, None, lambda: self._topic.state)
        except Lost as lost:
            raise ReadError(f"The topic {LOCK_TOPIC} cannot be read.") from lost
        self._world.heard_fence(self._process, state, raised=False)
        return state

    def ends(self) -> Ends:
        return Ends(0, self._topic.end)

    def records(self, first: int, behind: int | None) -> list[Record]:
        return [one for one in self._topic.records if one.offset >= first and (behind is None or one.offset < behind)]

    def make_ready(self, leaving: Collection[int] = ()) -> bool:
        return False

    def write(self, decide: Callable[[State], Write | None], name: str = "") -> State:
        while True:
            is_known = self._state is not None
            state = self._state or self._take_over()
            try:
                wanted = decide(state)
            except RebalanceError:
                if not is_known:
                    raise
                wanted = None
            if wanted is None and not is_known:
                return state
            if wanted is None:
                self._state = None
                continue
            try:
                return self._commit(wanted, name or uuid.uuid4().hex)
            except _Fenced:
                self._state = None

    def _take_over(self) -> State:
        def take() -> State:
            self._topic.writer += 1
            self._writer = self._topic.writer
            if self._topic.state is None:
                now = self._world.now_ms()
                self._topic.append([(None, encode(uuid.uuid4().hex, "begin", State(now, None, 0, now)))], now)
            state = self._topic.state
            assert state is not None
            return state

        try:
            self._state = self._world.log_call(self._process, None, take)
        except Lost as lost:
            raise WriteError(f"{LOCK_TOPIC} was not written. Clear this task when the brokers answer.") from lost
        assert self._state is not None
        self._world.heard_fence(self._process, self._state, raised=False)
        return self._state

    def _commit(self, wanted: Write, name: str) -> State:
        def commit() -> State:
            if self._writer != self._topic.writer:
                raise _Fenced
            content = encode(name, wanted.kind, wanted.state, **wanted.more)
            parts = [(PART_KEY, part) for part in wanted.parts]
            record = self._topic.append([*parts, (None, content)], self._world.now_ms())
            return wanted.state.at(record.offset, record.time_ms)

        try:
            state: State = self._world.log_call(self._process, wanted, commit)
        except Lost as lost:
            self._state = None
            how = "Whether it was written is unknown" if lost.took_effect else "It was not written"
            raise WriteError(f"{LOCK_TOPIC}: {how}. Clear this task when the brokers answer.") from lost
        self._state = state
        self._world.heard_fence(self._process, state, raised=wanted.state.raised_at < 0)
        self._after_write()
        return state
