"""Reads the committed records of the lock's log, by Kafka's own requests to its leader.

It is no consumer: librdkafka's asks for the coordinator of its group, and Kafka then makes the topic
`__consumer_offsets`. Reading must make nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.record import MemoryRecords

from kafka_rebalance.admin.clients import ANOTHER_SECONDS
from kafka_rebalance.admin.topic import find_leader
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, Wire, check_read
from kafka_rebalance.errors import ReadError
from kafka_rebalance.kafka.topics import LOCK_TOPIC

_ANSWER_SECONDS = 20.0
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


class LogReader:
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
    waiting = sorted(answer.aborted_transactions or (), key=lambda one: one.first_offset)
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
