"""The lock of a cluster without ZooKeeper: one run at a time moves its partitions, whichever Airflow the run is of.

It is the state of a log in the cluster itself (`transaction_log`). No request of Kafka's Admin API can be made
conditional on it. A request to move replicas is therefore announced in it first (`open_intent`), and its end is noted:
whoever takes the cluster knows what may still come.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Self

from kafka_rebalance.admin.transaction_log import (
    HERE,
    PART_KEY,
    Lease,
    State,
    TransactionLog,
    Write,
    damaged,
    decode,
    decode_intent,
    encode_targets,
    pack,
    unpack,
)
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import LockHeldError, LockLostError, ReadError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.lock_owner import NO_FENCE, Copies, Fence, Intent, LeaseRecord, LockOwner, encode_copies
from kafka_rebalance.model.partition import TopicPartition

_NEWEST = 1_000  # records; markers of transactions take offsets too


class LogLock:
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
            raise damaged("parts of the throttle's lease are gone")
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
