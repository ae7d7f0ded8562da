"""A cluster without ZooKeeper: everything is read and written through Kafka's Admin API.

No request of that API can be made conditional on the fence of the lock. So each request to move replicas is announced
in the log of the lock first, under the fence (see `admin.cluster_lock`), and goes out within seconds or not at all.
Whoever takes the cluster afterwards knows what a worker that stood still may yet ask for, and takes it back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

from kafka_rebalance.admin import cluster_view, configs, log_dirs, missing_rights, reassignments
from kafka_rebalance.admin.cluster_lock import TopicLock
from kafka_rebalance.admin.cluster_view import read_live, read_moves, read_topic_names
from kafka_rebalance.admin.log_dirs import read_log_dirs
from kafka_rebalance.admin.quorum import check_quorum_stable
from kafka_rebalance.admin.topic_writes import AdminApiTopics
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.cluster import announced_requests
from kafka_rebalance.cluster.protocols import Stopped
from kafka_rebalance.errors import (
    ApprovalError,
    LockLostError,
    ReadError,
    RebalanceError,
    StaleProposalError,
    WriteDeniedError,
    WriteError,
)
from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.model.candidate import Batch, Move
from kafka_rebalance.model.cluster_view import AnyView, BatchView, ClusterView, SettledController, entity_of
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import Finding, listed, some
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import PartitionState, TopicAssignment, TopicPartition
from kafka_rebalance.moves.announcement_age import LATE_SECONDS, SEND_SECONDS

log = logging.getLogger(__name__)

LOOK_ATTEMPTS = 3
T = TypeVar("T")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _naming_all_rights(
    write: Callable[Concatenate[AdminApiCluster, _P], _R],
) -> Callable[Concatenate[AdminApiCluster, _P], _R]:
    """A write that the user may not make names all rights that miss."""

    @wraps(write)
    def call(self: AdminApiCluster, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return write(self, *args, **kwargs)
        except WriteDeniedError as denied:
            raise missing_rights.with_all_missing(self._wire, denied) from denied

    return call


class AdminApiCluster:
    """See `OpenCluster`."""

    def __init__(self, kafka: KafkaConnection, wire: Wire, lock: TopicLock) -> None:
        self._kafka = kafka
        self._wire = wire
        self._lock = lock
        self._moves = announced_requests.Moves(wire)
        self._copies = announced_requests.CopiesWithin(kafka, self._live)

    @property
    def lock(self) -> TopicLock:
        return self._lock

    @property
    def topics(self) -> AdminApiTopics:
        return AdminApiTopics(self._wire, self._bound)

    def read_kafkas_own(self, view: ClusterView) -> KafkasOwn:
        return KafkasOwn(view.internal)

    @property
    def late_seconds(self) -> float:
        return LATE_SECONDS

    def check_controller_stable(self, pause: Callable[[], None]) -> SettledController:
        return check_quorum_stable(self._wire, pause)

    def read_view(
        self,
        topics: Collection[str] | None = None,
        *,
        known: Mapping[TopicPartition, PartitionState | None] | None = None,
    ) -> ClusterView:
        return cluster_view.read_view(self._wire, topics)

    def read_view_again(
        self, topics: Collection[str], earlier: ClusterView, partitions: Collection[TopicPartition]
    ) -> ClusterView:
        return cluster_view.read_view_again(self._wire, topics, earlier, partitions)

    def read_batch_view(self, partitions: Collection[TopicPartition]) -> BatchView:
        return cluster_view.read_batch_view(self._wire, partitions)

    def has_request(self) -> bool:
        return bool(read_moves(self._wire))

    def check_same_cluster(self, view: ClusterView) -> None:
        """Bootstrap servers are the only address."""

    def check_is_whole(self, view: ClusterView) -> None:
        """Brokers leave out topics that the user may not describe, without an error. Their log dirs have all."""
        held = read_log_dirs(self._kafka, sorted(view.brokers), of_the_rest=True).replicas
        hidden = sorted({tp.topic for tp in held} - {tp.topic for tp in view.partitions})
        if hidden:
            raise ReadError(
                f"The brokers hold {len(hidden)} topics that they do not list for this user, first "
                f"{listed(hidden[:5])}. A plan without them would be for a smaller cluster. Grant "
                "the Kafka user Describe on all topics; if somebody is creating or deleting topics now, try again."
            )

    def read_missing_rights(self, view: ClusterView) -> tuple[Finding, ...]:
        return missing_rights.read_missing_rights(self._wire, {tp.topic for tp in view.partitions})

    def read_assignments(self) -> dict[str, TopicAssignment]:
        lists: dict[str, dict[int, tuple[int, ...]]] = {}
        for tp, partition in self.read_view().partitions.items():
            lists.setdefault(tp.topic, {})[tp.partition] = partition.replicas
        return {topic: TopicAssignment(partitions) for topic, partitions in lists.items()}

    def read_moving(self, besides: Collection[str]) -> Collection[TopicPartition]:
        return [tp for tp in read_moves(self._wire) if tp.topic not in besides]

    def read_movers(
        self, partitions: Collection[TopicPartition], *, besides: LockOwner | None = None
    ) -> Mapping[TopicPartition, str]:
        """By the newest announcements in the log of the lock. It names nobody if they cannot be read."""
        movers: dict[TopicPartition, str] = {}
        with suppress(ReadError):
            now = reassignments.read_targets(self._wire)
            for intent in self._lock.read_newest_intents():
                run = LockOwner(intent.run, "-", intent.owner)
                for tp, after in intent.targets.items():
                    if tp in partitions and now.get(tp) == after:
                        movers[tp] = run.name
                        if besides is not None and besides.is_same_run(run):
                            del movers[tp]
        return movers

    def read_topic_names(self) -> frozenset[str]:
        return read_topic_names(self._wire)

    def read_topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        return configs.read_topic_configs(self._wire, topics)

    def read_broker_configs(self, brokers: Collection[int]) -> dict[int, dict[str, str]]:
        return configs.read_broker_configs(self._wire, brokers)

    def read_away(self, brokers: Collection[int]) -> frozenset[int]:
        return frozenset(brokers) - self._live()

    def read_copies_within(self, brokers: Collection[int]) -> dict[int, frozenset[TopicPartition]]:
        return log_dirs.read_copies_within(self._kafka, brokers)

    def read_all_configs(self) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
        topics = self.read_topic_configs(self.read_topic_names())
        brokers = self.read_broker_configs(sorted(self._live()))
        return {
            **{f"topics/{topic}": values for topic, values in topics.items()},
            **{entity_of(broker): values for broker, values in brokers.items() if broker >= 0},
        }, ()

    def read_orphaned_configs(self) -> dict[str, int]:
        """Kafka deletes a topic together with its config."""
        return {}

    def delete_orphaned_config(self, topic: str, changed: int) -> None: ...

    @_naming_all_rights
    def request_moves(
        self, batch: Batch, approved_digest: str, registered: Collection[int], *, view: AnyView, fence: Fence
    ) -> Mapping[TopicPartition, str]:
        if not approved_digest or batch.candidate_digest != approved_digest:
            raise ApprovalError(
                f"Batch {batch.number} belongs to candidate {batch.candidate_digest[:12]}, but {approved_digest[:12]} "
                "was approved. Start a new Dag run and approve what it proposes."
            )
        targets = {move.topic_partition: move.after for move in batch.moves}
        if len(targets) < len(batch.moves):
            raise WriteError(f"Batch {batch.number} names a partition twice. Start a new Dag run.")
        reassignments.check_targets(targets, registered)  # all of them, before the first is requested
        holder = self._lock.read()
        if holder is None:
            raise LockLostError(
                f"Nobody holds the cluster, so batch {batch.number} was not requested. Clear this task."
            )
        refused: dict[TopicPartition, str] = {}
        for start in range(0, len(batch.moves), reassignments.MOST_AT_ONCE):
            some_moves = batch.moves[start : start + reassignments.MOST_AT_ONCE]
            try:
                fence, said = self._request(holder, batch.number, some_moves, registered, fence)
            except RebalanceError:
                if start:
                    self._take_back_made_again(list(targets)[:start], view)
                raise
            refused |= said
        # Once for the batch: a broker tells a topic's id when it has taken up what was requested, half a second later.
        self._take_back_made_again(list(targets), view)
        if refused:
            named = ", ".join(f"{tp} ({why})" for tp, why in sorted(refused.items())[:10])
            log.error("Kafka refused %d of %d partitions: %s", len(refused), len(targets), named)
        return refused

    def _request(
        self, holder: LockOwner, batch: int, some_moves: Sequence[Move], registered: Collection[int], fence: Fence
    ) -> tuple[Fence, dict[TopicPartition, str]]:
        """(the fence that the request has raised, what Kafka refused)"""
        targets = {move.topic_partition: move.after for move in some_moves}
        return announced_requests.send(
            self._lock,
            self._moves,
            fence,
            f"Batch {batch}",
            lambda now: self._lock.open_intent(holder, now, targets, batch),
            lambda until: reassignments.request_moves(
                self._wire,
                targets,
                registered=registered,
                not_later_than=until,
                who_moves=partial(self.read_movers, besides=holder),
                keeps_factors=all(len(move.before) == len(move.after) for move in some_moves),
            ),
        )

    def _take_back_made_again(self, asked: Collection[TopicPartition], view: AnyView) -> None:
        """Takes back moves of topics that somebody has deleted and made again since the view. A request names no id.

        Raises StaleProposalError naming them.
        """
        ids = cluster_view.read_topic_ids(self._wire, asked)
        seen = {tp.topic: one.topic_id for tp, one in view.partitions.items()}
        others = {
            topic: now
            for topic, now in sorted(ids.items())
            if None not in (now, seen.get(topic)) and now != seen[topic]
        }
        if not others:
            return
        wrong = [tp for tp in asked if tp.topic in others]
        back = reassignments.cancel_moves(self._wire, wrong)
        ended = sorted(set(wrong) - back)
        named = ", ".join(f"{topic} (topic id {now}, approved {seen[topic]})" for topic, now in others.items())
        raise StaleProposalError(
            f"Topics were deleted and made again between the check and the request: {named}. Their moves were taken "
            f"back ({len(back)} of {len(wrong)} partitions)"
            + (f"; {some(ended)} had ended by then, or could not begin" if ended else "")
            + ". What else was requested goes on. Start a new Dag run."
        )

    @_naming_all_rights
    def request_copies(
        self,
        owner: LockOwner,
        broker: int,
        targets: Mapping[TopicPartition, str],
        send: Callable[[float], T],
        *,
        fence: Fence,
    ) -> tuple[Fence, T]:
        return announced_requests.send_copies(self._lock, self._copies, owner, broker, targets, send, fence)

    def take_back_late_requests(
        self, owner: LockOwner, own: Mapping[TopicPartition, tuple[int, ...]]
    ) -> frozenset[TopicPartition]:
        """An announced request whose end is not in the log may have come, or may yet come."""
        holder = self._lock.read()
        if holder is None or not holder.is_same_run(owner):
            return frozenset()
        earlier, others = announced_requests.of_others(self._lock, owner)
        announced_requests.wait_for(self._lock, earlier)
        return announced_requests.take_back_late(self._lock, self._moves, others, own)

    def take_back_late_copies(self) -> frozenset[tuple[int, TopicPartition]]:
        return announced_requests.take_back_unheld(self._lock, self._copies)

    def stop_requests(self) -> Stopped:
        return Stopped(*announced_requests.stop(self._lock, [self._moves, self._copies]))

    @_naming_all_rights
    def elect_leaders(self, partitions: Collection[TopicPartition], view: AnyView, *, fence: Fence) -> None:
        missing = sorted(tp for tp in partitions if tp not in view.partitions)
        moving = sorted(set(partitions) & view.moving)
        for wrong, why in ((missing, "does not exist"), (moving, "is being reassigned")):
            if wrong:
                raise WriteError(f"{wrong[0]} {why}. No election was requested.")
        bound = partial(self._bound, fence, "No further leader was elected")
        refused = reassignments.elect_leaders(self._wire, partitions, bound=bound)
        for tp, why in sorted(refused.items())[:10]:
            log.warning("%s: Kafka did not elect its preferred leader (%s)", tp, why)

    def can_cancel(self) -> bool:
        return True

    @_naming_all_rights
    def cancel_moves(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        return reassignments.cancel_moves(self._wire, partitions)

    @_naming_all_rights
    def merge_configs(
        self,
        changes: Mapping[str, Mapping[str, str | None]],
        *,
        decided_on: Mapping[str, Mapping[str, str]],
        fence: Fence,
    ) -> None:
        if not changes:
            return

        bound = partial(self._bound, fence, "No further throttle was written")
        configs.merge_configs(self._wire, changes, decided_on=decided_on, registered=self._live(), bound=bound)

    def _bound(self, fence: Fence, consequence: str) -> float:
        """The time of `time.monotonic` until which something may be sent that was decided on under this fence."""
        # The time runs from before the look at the fence. If the log was slow, little of it is left.
        for attempts_left in reversed(range(LOOK_ATTEMPTS)):
            until = time.monotonic() + SEND_SECONDS
            self._check_fence(fence, consequence)
            if not attempts_left or time.monotonic() < until - SEND_SECONDS / 2:
                break
        return until

    def _check_fence(self, fence: Fence, consequence: str) -> None:
        if fence.generation and self._lock.read_fence() != fence:
            raise LockLostError(
                f"{consequence}: another worker has taken the cluster, requested moves or put throttles back since "
                "this one began. Clear this task if the run is to go on."
            )

    def _live(self) -> frozenset[int]:
        return read_live(self._wire)
