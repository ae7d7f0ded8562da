"""What was announced and has no end yet: waited for, and taken back where somebody has stopped it.

No request of Kafka's Admin API can be made conditional on the fence of the lock. So it is announced under the fence
before it is sent (`send`), and its end is noted. To raise the fence stops what nobody has announced yet. `settle` stops
what was announced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kafka_rebalance.admin import log_dirs, reassignments
from kafka_rebalance.admin.log_dirs import alter_log_dirs
from kafka_rebalance.admin.wire import Wire, open_wire
from kafka_rebalance.cluster.protocols import ClusterLock
from kafka_rebalance.errors import LockLostError, WriteError
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import Fence, Intent, LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.announcement_age import SEND_SECONDS, came, is_closed, may_still_come

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
ATTEMPTS = 5  # at a fence that others raise at the same moment
ANNOUNCE_ATTEMPTS = 3

T = TypeVar("T")


class Requests(Protocol):
    """One kind of request. It names what it moves, and where each goes."""

    def announced(self, intent: Intent) -> Mapping[Any, Any]: ...

    def under_way(self, intents: Sequence[Intent]) -> Mapping[Any, Any]:
        """Where everything goes that is under way now, by the word of who carries it out: at least of these."""

    def take_back(self, names: Collection[Any]) -> frozenset[Any]:
        """Returns what was taken back. The others had ended meanwhile."""


class Moves:
    """Of replicas between brokers."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def announced(self, intent: Intent) -> Mapping[TopicPartition, tuple[int, ...]]:
        return intent.targets

    def under_way(self, intents: Sequence[Intent]) -> Mapping[TopicPartition, tuple[int, ...]]:
        return reassignments.read_targets(self._wire)

    def take_back(self, names: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        return reassignments.cancel_moves(self._wire, names)


class CopiesWithin:
    """Of replicas between log dirs of their broker, which the broker itself is asked for. A name is (broker,
    partition), and its target a path. A broker that is not registered copies nothing, and nobody can ask it.
    """

    def __init__(self, kafka: KafkaConnection, read_registered: Callable[[], Collection[int]]) -> None:
        self._kafka = kafka
        self._read_registered = read_registered

    def announced(self, intent: Intent) -> Mapping[tuple[int, TopicPartition], str]:
        return {(broker, tp): path for broker, paths in intent.copies.items() for tp, path in paths.items()}

    def under_way(self, intents: Sequence[Intent]) -> Mapping[tuple[int, TopicPartition], str]:
        return {
            (broker, tp): future.path
            for tp, by_broker in self._read({broker for intent in intents for broker in intent.copies}).future.items()
            for broker, future in by_broker.items()
        }

    def take_back(self, names: Collection[tuple[int, TopicPartition]]) -> frozenset[tuple[int, TopicPartition]]:
        """A broker cancels a copy if it is asked for the log dir in which the replica lies."""
        disks = self._read({broker for broker, _ in names})
        lying: dict[int, dict[TopicPartition, str]] = {}
        for broker, tp in names:
            if (path := disks.paths.get(tp, {}).get(broker)) is not None:
                lying.setdefault(broker, {})[tp] = path
        with open_wire(self._kafka) as wire:
            for broker, paths in sorted(lying.items()):
                online = [log_dir.path for log_dir in disks.log_dirs[broker] if log_dir.online]
                for tp, why in alter_log_dirs(wire, broker, paths, held=paths, log_dirs=online).items():
                    log.error("%s on broker %d: its copy was not taken back (%s)", tp, broker, why)
        return frozenset((broker, tp) for broker, paths in lying.items() for tp in paths)

    def _read(self, brokers: Collection[int]) -> log_dirs.BrokerDisks:
        """Raises ReadError if a registered one does not answer."""
        return log_dirs.read_log_dirs(self._kafka, sorted(set(brokers).intersection(self._read_registered())))


def send(
    lock: ClusterLock,
    requests: Requests,
    fence: Fence,
    what: str,
    announce: Callable[[Fence], tuple[Fence, str]],
    act: Callable[[float], T],
) -> tuple[Fence, T]:
    """Announces a request under this fence, sends it by `act`, and looks at the fence again. Returns (the fence that
    this raises, what `act` gives). `what` names it in errors: `Batch 3`.

    `act` gets the time of `time.monotonic` after which it must not send. It counts from before the announcement,
    because others measure from the time in its record. If the log was slow, the request is announced anew. Raises
    LockLostError if the fence has risen: then nothing was sent, or what came of it was taken back.
    """
    # Another worker of this run may have announced the same before it was fenced off.
    settle(lock, [requests], fence, what)
    for attempts_left in reversed(range(ANNOUNCE_ATTEMPTS)):
        not_later_than = time.monotonic() + SEND_SECONDS
        fence, intent = announce(fence)
        if not attempts_left or time.monotonic() < not_later_than - SEND_SECONDS / 2:
            break
        lock.end_intent(intent)
    try:
        answer = act(not_later_than)
    except WriteError:
        lock.end_intent(intent)  # it was not sent, or Kafka has refused it
        raise
    if lock.end_intent(intent, fence=fence):
        return fence, answer
    back = _take_back_own(lock, requests, intent)
    raise LockLostError(
        f"{what} was requested, but somebody has taken the cluster, stopped the run or put throttles back at the same "
        f"moment. So it was taken back ({len(back)} moves were in motion). Clear this task if the run is to go on."
    )


def send_copies(
    lock: ClusterLock,
    copies: CopiesWithin,
    owner: LockOwner,
    broker: int,
    targets: Mapping[TopicPartition, str],
    act: Callable[[float], T],
    fence: Fence,
) -> tuple[Fence, T]:
    """As `send`, with the announcement of these copies. See `OpenCluster.request_copies`."""
    what = f"A copy between log dirs of broker {broker}"
    return send(
        lock, copies, fence, what, lambda raised: lock.open_intent(owner, raised, {}, 0, {broker: targets}), act
    )


def stop(lock: ClusterLock, kinds: Sequence[Requests]) -> tuple[Fence, frozenset[Any]]:
    """See `OpenCluster.stop_requests`."""
    for _ in range(ATTEMPTS):
        fence = lock.raise_fence()
        try:
            return fence, settle(lock, kinds, fence)
        except LockLostError:
            continue  # somebody goes on or stops something at this moment: what is announced now is not what was read
    raise LockLostError(
        "Others keep taking the cluster or stopping its run while this task waits for requests that were announced. "
        "Clear this task."
    )


def settle(lock: ClusterLock, kinds: Sequence[Requests], fence: Fence, what: str = "What comes next") -> frozenset[Any]:
    """Waits until nothing that was announced before this fence can come any more. Takes back what comes meanwhile.

    What was under way at its beginning had come before: the caller decides on that. Raises LockLostError if somebody
    raises the fence meanwhile.
    """
    intents = lock.read_open_intents()
    concerned = [(kind, own) for kind in kinds if (own := [intent for intent in intents if kind.announced(intent)])]
    if not concerned:
        return frozenset()
    before = [kind.under_way(own) for kind, own in concerned]
    age, back = _ages(lock), set[Any]()
    while True:
        # First what is open, then what is under way: what has an end by now, had come before that.
        waiting = _waiting(lock, [one for _, own in concerned for one in own], age)
        now = [kind.under_way(own) for kind, own in concerned]
        if lock.read_fence().generation != fence.generation:
            raise LockLostError(
                f"{what} was not requested: another worker has taken the cluster, requested moves or put throttles "
                "back since this one began. Clear this task if the run is to go on."
            )
        for (kind, own), then, these in zip(concerned, before, now, strict=True):
            for intent in own:
                late = came(kind.announced(intent), these, before=then, again=back)
                back |= _take_back(kind, intent, late)
        if not waiting:
            return frozenset(back)
        time.sleep(POLL_SECONDS)


def wait_for(lock: ClusterLock, intents: Sequence[Intent]) -> None:
    """Until none of these requests can come any more."""
    if not intents:
        return
    log.info("An earlier try has announced a request and noted no end of it. It is waited for.")
    age = _ages(lock)
    while _waiting(lock, intents, age):
        time.sleep(POLL_SECONDS)


def _take_back_own(lock: ClusterLock, requests: Requests, name: str) -> frozenset[Any]:
    """What this worker has asked for although the fence has risen. Its answer has come, so the announcement has ended.

    What somebody has announced again since is theirs.
    """
    own = next((intent for intent in lock.read_open_intents() if intent.id == name), None)
    if own is None:
        return frozenset()
    now = requests.under_way([own])
    back = _take_back(requests, own, came(requests.announced(own), now, again=_again(lock, requests, own)))
    lock.end_intent(name)
    return back


def take_back_late(
    lock: ClusterLock,
    requests: Requests,
    intents: Sequence[Intent],
    own: Mapping[Any, Any],
) -> frozenset[Any]:
    """What of these came late, from runs that do not hold the cluster any more. `own`: what stays all the same."""
    if not intents:
        return frozenset()
    now, age, back = requests.under_way(intents), _ages(lock), set[Any]()
    for intent in intents:
        late = came(requests.announced(intent), now, before=own, again=back | _again(lock, requests, intent))
        back |= _take_back(requests, intent, late)
        if is_closed(age(intent)):
            lock.end_intent(intent.id)
    return frozenset(back)


def take_back_unheld(lock: ClusterLock, requests: Requests) -> frozenset[Any]:
    """What came of announcements without an end after everybody had stopped to wait for them, while nobody holds the
    cluster. It ends those of which nothing can come any more, so that none of a dead worker stays for good.

    While a run holds the cluster, what is under way may be its own, so nothing is taken back.
    """
    age = None
    open_ones = [intent for intent in lock.read_open_intents() if requests.announced(intent)]
    if open_ones and lock.read() is None:
        age = _ages(lock)
    intents = [intent for intent in open_ones if age is not None and not may_still_come(age(intent))]
    if age is None or not intents:
        return frozenset()
    now, back = requests.under_way(intents), set[Any]()
    for intent in intents:
        late = came(requests.announced(intent), now, again=back | _again(lock, requests, intent))
        if late and lock.read() is not None:
            return frozenset(back)
        back |= _take_back(requests, intent, late)
        if is_closed(age(intent)):
            lock.end_intent(intent.id)
    return frozenset(back)


def of_others(lock: ClusterLock, owner: LockOwner) -> tuple[list[Intent], list[Intent]]:
    """The open announcements of this run, and those of others."""
    own, others = list[Intent](), list[Intent]()
    for intent in lock.read_open_intents():
        (own if owner.is_same_run(LockOwner(intent.run, "-", intent.owner)) else others).append(intent)
    return own, others


def _ages(lock: ClusterLock) -> Callable[[Intent], float]:
    """How old an announcement is now, by the clock of the cluster: this worker's may be wrong."""
    began, now = time.monotonic(), lock.read_time()
    return lambda intent: (now - intent.at).total_seconds() + time.monotonic() - began


def _waiting(lock: ClusterLock, intents: Sequence[Intent], age: Callable[[Intent], float]) -> bool:
    young = [intent.id for intent in intents if may_still_come(age(intent))]
    return bool(young) and any(intent.id in young for intent in lock.read_open_intents())


def _again(lock: ClusterLock, requests: Requests, intent: Intent) -> set[Any]:
    return {name for later in lock.read_intents_since(intent) for name in requests.announced(later)}


def _take_back(requests: Requests, intent: Intent, names: Collection[Any]) -> frozenset[Any]:
    if not names:
        return frozenset()
    log.warning("Run %s asked late for %s. It is taken back.", intent.run, some(sorted(map(str, names))))
    return requests.take_back(names)
