"""The lock's log: a record is read as it was written, a stranger's is an error, and a lost answer is looked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_rebalance.admin import cluster_lock
from kafka_rebalance.admin.cluster_lock import (
    HERE,
    Lease,
    Record,
    State,
    TopicLock,
    TransactionLog,
    Write,
    decode,
    encode,
)
from kafka_rebalance.errors import CorruptZnodeError, LockLostError, WriteError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition

OWNER = LockOwner("kafka_rebalance/one", "d" * 64, "airflow (a1)", "2026-11-23T00:00:00+00:00")
STATE = State(1_795_000_000_000, OWNER, 7, 1_795_000_000_900, {"a": 5}, Lease("log-1", "x", 2, 3))
MOVES = {TopicPartition("orders", 0): (3, 1)}


def test_a_state_is_read_as_it_was_written() -> None:
    name, state, record = cluster_lock.decode(cluster_lock.encode("n", "raise", STATE), 9, 1)
    assert (name, state, record["kind"]) == ("n", STATE, "raise")


def test_a_record_that_tells_of_itself_is_placed_where_it_is() -> None:
    own = replace(
        STATE, raised_at=HERE, raised_ms=HERE, intents={"a": 5, "b": HERE}, lease=Lease("log-1", "x", 2, HERE)
    )
    _, state, _ = cluster_lock.decode(cluster_lock.encode("n", "intent", own), 20, 1_795_000_001_000)
    assert (state.raised_at, state.raised_ms) == (20, 1_795_000_001_000)
    assert state.intents == {"a": 5, "b": 20}
    assert state.lease == Lease("log-1", "x", 2, 18), "its parts come right before it"
    assert state.raised == datetime.fromtimestamp(1_795_000_001, UTC)


def test_later_fences_are_later_texts() -> None:
    one = State(1_795_000_000_000, raised_at=9)
    made_again = State(1_795_000_000_001, raised_at=0)
    order = ["ffffffffffffffff-0000000009", one.generation, replace(one, raised_at=10).generation]
    assert order == sorted(order)
    assert made_again.generation > order[-1]


@pytest.mark.parametrize("field", ["run", "digest", "owner"])
def test_an_owner_without_a_name_is_not_written(field: str) -> None:
    with pytest.raises(WriteError, match="must all be named"):
        cluster_lock.encode("n", "claim", replace(STATE, lock=replace(OWNER, **{field: ""})))


def changed(**fields: Any) -> bytes:
    document = json.loads(cluster_lock.encode("n", "raise", STATE))
    document["state"] |= fields
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"hello",
        b"[]",
        b'{"version": 1}',
        b'{"version": 2, "id": "n", "state": {}}',
        b"[" * 100_000,
        changed(lock="me"),
        changed(lock={"run": 1, "digest": "d", "owner": "o", "acquired_at": ""}),
        changed(raised_at="soon"),
        changed(intents=[1]),
        changed(lease={"generation": 1}),
    ],
)
def test_a_strangers_record_is_an_error_and_no_free_cluster(value: bytes | None) -> None:
    with pytest.raises(CorruptZnodeError, match=LOCK_TOPIC):
        cluster_lock.decode(value, 3, 1)


def test_an_intent_has_exact_targets() -> None:
    more = {"run": OWNER.run, "owner": OWNER.owner, "batch": 4, "moves": cluster_lock.encode_targets(MOVES)}
    _, _, record = cluster_lock.decode(cluster_lock.encode("n", "intent", STATE, **more), 9, 1_795_000_000_000)
    intent = cluster_lock.decode_intent(record, 9, 1_795_000_000_000)
    assert (intent.id, intent.run, intent.batch, intent.targets) == ("n", OWNER.run, 4, MOVES)
    with pytest.raises(CorruptZnodeError):
        cluster_lock.decode_intent({**record, "moves": [["orders", 0]]}, 9, 1)


def test_a_lease_in_parts_is_put_together_again_and_a_damaged_one_is_told() -> None:
    text = bytes(range(256)) * 10_000
    digest, parts = cluster_lock.pack(text)
    assert cluster_lock.unpack(digest, parts) == text
    for wrong in ([], [b"x"], [*parts, b"x"]):
        with pytest.raises(CorruptZnodeError, match="digest"):
            cluster_lock.unpack(digest, wrong)


# --- a write whose answer is lost: its own record is found, whatever others have written since ---

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
    monkeypatch.setattr(cluster_lock.time, "sleep", lambda _: None)
    return Log([Record(0, None, encode("first", "claim", State(NOW_MS, OWNER)), NOW_MS)])


@pytest.fixture
def lock(log: Log) -> TopicLock:
    made = TopicLock(KafkaConnection("kafka:9092"), None)  # type: ignore[arg-type]
    made._log = log
    return made


def others_write(log: Log) -> None:
    """Their record does not raise the fence."""
    assert log._last() is not None
    state = log._last()[1]
    log.there.append(Record(len(log.there) * 2, None, encode("theirs", "lease", state), NOW_MS))


def test_an_announcement_whose_answer_is_lost_is_not_said_to_be_refused(log: Log, lock: TopicLock) -> None:
    """It has raised the fence itself, and others have written behind it."""
    fence = lock.read_fence()
    log.lose.append(lambda: others_write(log))
    raised, name = lock.open_intent(OWNER, fence, {}, 1)
    assert raised.generation > fence.generation
    assert [intent.id for intent in lock.read_open_intents()] == [name], "it is announced once"


def test_what_was_lost_before_it_was_written_is_written_again(log: Log, lock: TopicLock) -> None:
    log.lose.append(log.there.pop)
    lock.raise_held(OWNER)
    assert len(log.there) == 2


def test_who_was_really_fenced_off_is_told_so(log: Log, lock: TopicLock) -> None:
    fence = lock.read_fence()

    def others_raise() -> None:
        log.there.pop()
        state = log._last()[1]
        log.there.append(Record(len(log.there) * 2, None, encode("theirs", "raise", state.raising()), NOW_MS))

    log.lose.append(others_raise)
    with pytest.raises(LockLostError, match="not requested: another worker"):
        lock.open_intent(OWNER, fence, {}, 1)


def test_a_write_that_may_be_there_is_not_said_to_be_missing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_lock, "_GIVE_UP_SECONDS", -1.0)
    log.lose.append(lambda: None)
    with pytest.raises(WriteError, match="is unknown"):
        log.write(lambda state: Write("raise", replace(state).raising()))
