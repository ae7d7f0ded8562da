"""A write of the lock's log whose answer is lost: its own record is found, whatever others have written since."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_rebalance.admin import transaction_log
from kafka_rebalance.admin.log_lock import LogLock
from kafka_rebalance.admin.transaction_log import Record, State, TransactionLog, Write, decode, encode
from kafka_rebalance.errors import LockLostError, WriteError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import LockOwner

OWNER = LockOwner("kafka_rebalance/one", "d" * 64, "airflow (a1)", "2026-11-23T00:00:00+00:00")
NOW_MS = 1_795_000_000_000


class Log(TransactionLog):
    """Its topic in memory. `lose`: what happens to a commit whose answer is lost."""

    def __init__(self, records: list[Record]) -> None:
        super().__init__(KafkaConnection("kafka:9092"), None)  # type: ignore[arg-type]
        self.there = records
        self.lose: list[Callable[[], object]] = []

    def make_ready(self, leaving: Collection[int] = ()) -> bool:
        return False

    def records(self, first: int, behind: int | None) -> list[Record]:
        return [one for one in self.there if one.offset >= first and (behind is None or one.offset < behind)]

    def _last(self) -> tuple[str, State] | None:
        if not self.there:
            return None
        one = self.there[-1]
        name, state, _ = decode(one.value, one.offset, one.time_ms)
        return name, state

    def _open_producer(self) -> Any:
        return object()

    def _append(self, _: Any, records: list[tuple[bytes | None, bytes]]) -> Any:
        for key, value in records:
            self.there.append(Record(len(self.there) * 2, key, value, NOW_MS + len(self.there)))
        if self.lose:
            self.lose.pop()()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        last = self.there[-1]
        return type("Message", (), {"offset": lambda _: last.offset, "timestamp": lambda _: (2, last.time_ms)})()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(transaction_log.time, "sleep", lambda _: None)
    return Log([Record(0, None, encode("first", "claim", State(NOW_MS, OWNER)), NOW_MS)])


@pytest.fixture
def lock(log: Log) -> LogLock:
    made = LogLock(KafkaConnection("kafka:9092"), None)  # type: ignore[arg-type]
    made._log = log
    return made


def others_write(log: Log) -> None:
    """Their record does not raise the fence."""
    assert log._last() is not None
    state = log._last()[1]
    log.there.append(Record(len(log.there) * 2, None, encode("theirs", "lease", state), NOW_MS))


def test_an_announcement_whose_answer_is_lost_is_not_said_to_be_refused(log: Log, lock: LogLock) -> None:
    """It has raised the fence itself, and others have written behind it."""
    fence = lock.read_fence()
    log.lose.append(lambda: others_write(log))
    raised, name = lock.open_intent(OWNER, fence, {}, 1)
    assert raised.generation > fence.generation
    assert [intent.id for intent in lock.read_open_intents()] == [name], "it is announced once"


def test_what_was_lost_before_it_was_written_is_written_again(log: Log, lock: LogLock) -> None:
    log.lose.append(log.there.pop)
    lock.raise_held(OWNER)
    assert len(log.there) == 2


def test_who_was_really_fenced_off_is_told_so(log: Log, lock: LogLock) -> None:
    fence = lock.read_fence()

    def others_raise() -> None:
        log.there.pop()
        state = log._last()[1]
        log.there.append(Record(len(log.there) * 2, None, encode("theirs", "raise", state.raising()), NOW_MS))

    log.lose.append(others_raise)
    with pytest.raises(LockLostError, match="not requested: another worker"):
        lock.open_intent(OWNER, fence, {}, 1)


def test_a_write_that_may_be_there_is_not_said_to_be_missing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_log, "_GIVE_UP_SECONDS", -1.0)
    log.lose.append(lambda: None)
    with pytest.raises(WriteError, match="is unknown"):
        log.write(lambda state: Write("raise", replace(state).raising()))
