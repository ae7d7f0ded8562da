"""What was announced and has no end yet: waited for, and taken back where somebody has stopped it.

No request of Kafka's Admin API can be made conditional on the fence of the lock. So it is announced under the fence
before it is sent, and its end is noted. To raise the fence stops what nobody has announced yet. `settle` stops what was
announced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from kafka_rebalance.admin import moves
from kafka_rebalance.admin.lock.records import Intent
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import LockLostError
from kafka_rebalance.execution.announced import came, is_closed, may_still_come
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import TopicPartition

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
ATTEMPTS = 5  # at a fence that others raise at the same moment


class Announcements(Protocol):
    """A lock that keeps announcements. See `ClusterLock`."""

    def read_fence(self) -> Fence: ...

    def raise_fence(self) -> Fence: ...

    def read_open_intents(self) -> list[Intent]: ...

    def read_intents_since(self, intent: Intent) -> list[Intent]: ...

    def end_intent(self, name: str, *, fence: Fence | None = None) -> bool: ...

    def read_time(self) -> datetime: ...


class Requests(Protocol):
    """One kind of request. It names what it moves, and where each goes."""

    def announced(self, intent: Intent) -> Mapping[Any, Any]: ...

    def under_way(self) -> Mapping[Any, Any]:
        """Where everything goes that is under way now, by the word of who carries it out."""

    def take_back(self, names: Collection[Any]) -> frozenset[Any]:
        """Returns what was taken back. The others had ended meanwhile."""


class Moves:
    """Of replicas between brokers."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def announced(self, intent: Intent) -> Mapping[TopicPartition, tuple[int, ...]]:
        return intent.targets

    def under_way(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        return moves.read_targets(self._wire)

    def take_back(self, names: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        return moves.cancel_moves(self._wire, names)


def stop(lock: Announcements, requests: Requests) -> tuple[Fence, frozenset[Any]]:
    """See `OpenCluster.stop_requests`."""
    back: frozenset[Any] = frozenset()
    for _ in range(ATTEMPTS):
        fence = lock.raise_fence()
        try:
            return fence, back | settle(lock, requests, fence)
        except LockLostError:
            continue  # somebody goes on or stops something at this moment: what is announced now is not what was read
    raise LockLostError(
        "Others keep taking the cluster or stopping its run while this task waits for requests that were announced. "
        "Clear this task."
    )


def settle(lock: Announcements, requests: Requests, fence: Fence) -> frozenset[Any]:
    """Waits until nothing that was announced before this fence can come any more. Takes back what comes meanwhile.

    What was under way at its beginning had come before: the caller decides on that. Raises LockLostError if somebody
    raises the fence meanwhile.
    """
    intents = [intent for intent in lock.read_open_intents() if requests.announced(intent)]
    if not intents:
        return frozenset()
    before, age, back = requests.under_way(), _ages(lock), set[Any]()
    while True:
        # First what is open, then what is under way: what has an end by now, had come before that.
        waiting = _waiting(lock, intents, age)
        now = requests.under_way()
        if lock.read_fence() != fence:
            raise LockLostError(
                "No further move was requested: another worker has taken the cluster, requested moves or put throttles "
                "back since this one began. Clear this task if the run is to go on."
            )
        for intent in intents:
            back |= _take_back(requests, intent, came(requests.announced(intent), now, before=before, again=back))
        if not waiting:
            return frozenset(back)
        time.sleep(POLL_SECONDS)


def wait_for(lock: Announcements, intents: Sequence[Intent]) -> None:
    """Until none of these requests can come any more."""
    if not intents:
        return
    log.info("An earlier try has announced a request and noted no end of it. It is waited for.")
    age = _ages(lock)
    while _waiting(lock, intents, age):
        time.sleep(POLL_SECONDS)


def take_back_own(lock: Announcements, requests: Requests, name: str) -> frozenset[Any]:
    """What this worker has asked for although the fence has risen. Its answer has come, so the announcement has ended.

    What somebody has announced again since is theirs.
    """
    own = next((intent for intent in lock.read_open_intents() if intent.id == name), None)
    if own is None:
        return frozenset()
    back = _take_back(
        requests, own, came(requests.announced(own), requests.under_way(), again=_again(lock, requests, own))
    )
    lock.end_intent(name)
    return back


def take_back_late(
    lock: Announcements,
    requests: Requests,
    intents: Sequence[Intent],
    own: Mapping[Any, Any],
    late_seconds: float,
) -> frozenset[Any]:
    """What of these came late, from runs that do not hold the cluster any more. `own`: what stays all the same."""
    if not intents:
        return frozenset()
    now, age, back = requests.under_way(), _ages(lock), set[Any]()
    for intent in intents:
        late = came(requests.announced(intent), now, before=own, again=back | _again(lock, requests, intent))
        back |= _take_back(requests, intent, late)
        if is_closed(age(intent), late_seconds):
            lock.end_intent(intent.id)
    return frozenset(back)


def of_others(lock: Announcements, owner: LockOwner) -> tuple[list[Intent], list[Intent]]:
    """The open announcements of this run, and those of others."""
    own, others = list[Intent](), list[Intent]()
    for intent in lock.read_open_intents():
        (own if owner.is_same_run(LockOwner(intent.run, "-", intent.owner)) else others).append(intent)
    return own, others


def _ages(lock: Announcements) -> Callable[[Intent], float]:
    """How old an announcement is now, by the clock of the cluster: this worker's may be wrong."""
    began, now = time.monotonic(), lock.read_time()
    return lambda intent: (now - intent.at).total_seconds() + time.monotonic() - began


def _waiting(lock: Announcements, intents: Sequence[Intent], age: Callable[[Intent], float]) -> bool:
    young = [intent.id for intent in intents if may_still_come(age(intent))]
    return bool(young) and any(intent.id in young for intent in lock.read_open_intents())


def _again(lock: Announcements, requests: Requests, intent: Intent) -> set[Any]:
    return {name for later in lock.read_intents_since(intent) for name in requests.announced(later)}


def _take_back(requests: Requests, intent: Intent, names: Collection[Any]) -> frozenset[Any]:
    if not names:
        return frozenset()
    log.warning("Run %s asked late for %s. It is taken back.", intent.run, some(sorted(map(str, names))))
    return requests.take_back(names)
