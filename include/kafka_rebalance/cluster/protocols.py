"""What the steps read of a cluster and write to it, whichever way it is reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from kafka_rebalance.kafka.topics import KafkasOwn
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.cluster_view import AnyView, BatchView, ClusterView, SettledController
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.lock_owner import Copies, Fence, Intent, LeaseRecord, LockOwner
from kafka_rebalance.model.partition import PartitionState, TopicAssignment, TopicPartition
from kafka_rebalance.model.topic_change import Created, Deletion, TopicChange

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stopped:
    """`taken_back`: partitions, or replicas between log dirs as (broker, partition)."""

    fence: Fence
    taken_back: frozenset[Any] = frozenset()


class OpenCluster(Protocol):
    """One open connection. Every method raises ReadError if it cannot read: that is never "nothing there"."""

    @property
    def lock(self) -> ClusterLock: ...

    @property
    def topics(self) -> TopicWriter: ...

    @property
    def late_seconds(self) -> float:
        """How long a worker that stands still may yet write a config under a fence that has risen.

        With ZooKeeper that is never: each write and the check of the fence are one transaction.
        """

    def check_controller_stable(self, pause: Callable[[], None]) -> SettledController:
        """The controller, read twice with `pause` between. Raises ClusterNotReadyError if none is settled."""

    def read_view(
        self,
        topics: Collection[str] | None = None,
        *,
        known: Mapping[TopicPartition, PartitionState | None] | None = None,
    ) -> ClusterView:
        """The cluster now, with all topics or those named; a topic that does not exist is absent.

        The states of partitions in `known` may come from there, if to read them costs more.
        """

    def read_view_again(
        self, topics: Collection[str], earlier: ClusterView, partitions: Collection[TopicPartition]
    ) -> ClusterView:
        """As `read_view`. Of the partitions, these are read, and all whose move has ended since `earlier`.

        Others may come from `earlier`, if to read them costs more: with ZooKeeper their states, otherwise their lists
        too. Whether they are in motion is always read.
        """

    def read_batch_view(self, partitions: Collection[TopicPartition]) -> BatchView:
        """These partitions now, for following a batch; one that does not exist is absent."""

    def has_request(self) -> bool:
        """Whether replicas are being reassigned, whoever asked for it. It costs one small read."""

    def check_same_cluster(self, view: ClusterView) -> None:
        """Raises ConnectionSettingsError if two settings of the connection lead to two clusters."""

    def check_is_whole(self, view: ClusterView) -> None:
        """Raises ReadError if a view of all topics lacks some."""

    def read_missing_rights(self, view: ClusterView) -> tuple[Finding, ...]:
        """What a rebalance of this cluster has to write and this connection may not. Nothing is written."""

    def read_assignments(self) -> dict[str, TopicAssignment]:
        """The replica lists of all topics."""

    def read_moving(self, besides: Collection[str]) -> Collection[TopicPartition]:
        """Partitions of all topics but these that somebody reassigns."""

    def read_kafkas_own(self, view: ClusterView) -> KafkasOwn:
        """Which topics of the view hold the state of Kafka itself. Where no broker answers, their names tell it."""

    def read_movers(
        self, partitions: Collection[TopicPartition], *, besides: LockOwner | None = None
    ) -> Mapping[TopicPartition, str]:
        """The run that has asked for the move of each of these, with its Airflow, as far as the cluster tells.

        `besides`: a run that is not named. With ZooKeeper nobody can tell.
        """

    def read_topic_names(self) -> frozenset[str]: ...

    def read_topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """The configs that are set on each topic, without defaults."""

    def read_broker_configs(self, brokers: Collection[int]) -> dict[int, dict[str, str]]:
        """The dynamic configs of each broker, and as broker -1 those of all brokers."""

    def read_away(self, brokers: Collection[int]) -> frozenset[int]:
        """Those of them whose configs nobody can read or change now. With ZooKeeper that is none."""

    def read_copies_within(self, brokers: Collection[int]) -> dict[int, frozenset[TopicPartition]]:
        """The replicas on their way between two log dirs of a broker, for each of these brokers that has any."""

    def read_all_configs(self) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
        """The configs that are set, by `brokers/N` and `topics/T`, and names of brokers that are none."""

    def read_orphaned_configs(self) -> dict[str, int]:
        """Topics that do not exist and have a config, with the zxid of its last change. Kafka itself keeps none."""

    def delete_orphaned_config(self, topic: str, changed: int) -> None:
        """Deletes such a config unless it has changed since."""

    def request_moves(
        self, batch: Batch, approved_digest: str, registered: Collection[int], *, view: AnyView, fence: Fence
    ) -> Mapping[TopicPartition, str]:
        """Requests the batch's moves. `registered` are the live brokers, `view` is what the caller decided on.

        Returns {partition: Kafka's words} of those that it has refused at once; it carries out the others.

        The request raises the fence. Raises ApprovalError if the batch is not of the approved candidate. Raises
        WriteError if its shape or a target broker forbids it, if another reassignment runs, or if the outcome stays
        unknown.
        """

    def stop_requests(self) -> Stopped:
        """Raises the fence, and waits until no request can come any more that was announced before. What comes
        meanwhile is taken back, and its throttle has to stay until then.

        Everybody who raises the fence to stop something does this, and looks at the cluster afterwards. What was under
        way before is left alone. The wait is over at once unless a worker is about to ask at this moment, or has died
        while it asked: then it takes 40 s (`execution.announced`). With ZooKeeper only copies between log dirs are
        waited for: the request of a move and the check of the fence are one transaction there. Raises LockLostError if
        others keep raising the fence.
        """

    def request_copies(
        self,
        owner: LockOwner,
        broker: int,
        targets: Mapping[TopicPartition, str],
        send: Callable[[float], T],
        *,
        fence: Fence,
    ) -> tuple[Fence, T]:
        """Announces copies between log dirs of this broker, sends their request by `send`, and looks at the fence
        again. Returns (the fence that this raises, what `send` gives).

        `send` gets the time of `time.monotonic` after which nothing may be sent. Raises LockLostError if the fence has
        risen: then nothing was sent, or what came of it was taken back.
        """

    def take_back_late_requests(
        self, owner: LockOwner, own: Mapping[TopicPartition, tuple[int, ...]]
    ) -> frozenset[TopicPartition]:
        """Cancels what others who held the cluster before have requested since; returns it.

        `own`: the targets that this run has requested itself, which stay. What an earlier worker of this run has
        announced and may yet ask for is waited for. With ZooKeeper nobody can be late: the request and the check of the
        fence are one transaction. It does nothing unless this run holds the cluster.
        """

    def take_back_late_copies(self) -> frozenset[tuple[int, TopicPartition]]:
        """Cancels copies between log dirs, by (broker, partition), that were announced and came when nobody waited for
        them any more; returns them. It removes announcements of which nothing can come. It does nothing while a run
        holds the cluster.
        """

    def elect_leaders(self, partitions: Collection[TopicPartition], view: AnyView, *, fence: Fence) -> None:
        """Requests the election of these partitions' preferred leaders. Raises WriteError."""

    def can_cancel(self) -> bool:
        """Whether Kafka takes requests to cancel single moves."""

    def cancel_moves(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Cancels exactly these, and returns those that were being reassigned. Raises WriteError, ReadError."""

    def merge_configs(
        self,
        changes: Mapping[str, Mapping[str, str | None]],
        *,
        decided_on: Mapping[str, Mapping[str, str]],
        fence: Fence,
    ) -> None:
        """Sets throttle keys of each `brokers/N` and `topics/T`, and keeps all others. None removes a key.

        `decided_on` are the configs on which the caller decided. Raises ConfigChangedError if somebody has changed one
        of the keys since, LockLostError if the fence has risen, WriteError for a change that the encoder or Kafka
        refuses. Some of the others may have been written then.
        """


class ClusterLock(Protocol):
    """One run at a time moves a cluster's partitions. The lock outlives the worker that took it.

    The fence rises whenever somebody takes the cluster, is about to make a request or makes it, changes a lease, or
    begins to put a throttle back. A worker that was frozen while another went on writes nothing under its old fence.
    Writes raise WriteError if their outcome stays unknown.
    """

    @property
    def place(self) -> str:
        """Where the lock is, as people name it: the topic or the znode."""

    def read(self) -> LockOwner | None:
        """Who holds the cluster. Raises CorruptZnodeError if what is there does not tell."""

    def begin_anew(self) -> bool:
        """Makes the lock free where nobody can tell who holds it; False, and nothing is written, if it can be read.

        Only for a person who says that no run of this cluster goes on. It raises the fence.
        """

    def make_ready(self, leaving: Collection[int]) -> bool:
        """Makes what the lock needs in the cluster, on no broker that leaves; returns whether it has made something.

        A snapshot must have that, and it must not be on a broker that a run empties. With ZooKeeper the lock needs
        nothing. Raises ClusterNotReadyError, WriteError.
        """

    def acquire(self, owner: LockOwner) -> Fence:
        """Takes the cluster. The run that holds it may take it again. Raises LockHeldError naming the holder."""

    def raise_held(self, owner: LockOwner) -> Fence:
        """A new fence. Raises LockHeldError unless this run holds the cluster with the digest that was approved."""

    def read_own_fence(self, owner: LockOwner) -> Fence:
        """The fence as it stands. Raises LockHeldError if another run holds the cluster."""

    def read_fence(self) -> Fence:
        """The fence as it stands, for somebody who does not hold the cluster; empty if nobody ever did."""

    def raise_fence(self) -> Fence:
        """A new fence: nobody can finish a write that was begun before."""

    def read_time_of_fence(self) -> datetime:
        """When the fence was raised last, by the cluster's own clock."""

    def read_time(self) -> datetime:
        """Now, by the cluster's own clock, which dates the announcements."""

    def open_intent(
        self,
        owner: LockOwner,
        fence: Fence,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        batch: int,
        copies: Copies | None = None,
    ) -> tuple[Fence, str]:
        """Announces a request with exactly these targets, or these copies between log dirs. Returns (the fence that
        this raises, the announcement's id).

        Raises LockLostError, and writes nothing, if the fence has risen or the run does not hold the cluster.
        """

    def end_intent(self, name: str, *, fence: Fence | None = None) -> bool:
        """Notes that nothing of this announcement is outstanding. It does not raise the fence.

        False, and it stays open, if the fence has risen since.
        """

    def read_open_intents(self) -> list[Intent]:
        """Announcements without an end, the earliest first."""

    def read_intents_since(self, intent: Intent) -> list[Intent]:
        """What was announced after this one. With ZooKeeper only what has no end yet: there only copies between log
        dirs are announced, and a worker asks anew for what another takes back.
        """

    def release(self, owner: LockOwner, *, fence: Fence | None = None) -> bool:
        """Gives the cluster back; False if nobody held it.

        Raises LockHeldError if another run holds it, LockLostError if this run took it again since `fence` was read.
        """

    def read_lease(self) -> LeaseRecord | None:
        """The record of the throttle's lease. Raises CorruptZnodeError for a damaged one."""

    def write_lease(self, record: LeaseRecord, *, run: str, fence: Fence) -> None:
        """Makes this the cluster's record unless there is a later one. `run` is for people who look at it.

        Raises LockLostError, and writes nothing, if the fence has risen.
        """

    def delete_lease(self) -> None:
        """Deletes a record, also a damaged one."""


class TopicWriter(Protocol):
    """Carries out an approved change of one topic.

    `registered` are the live brokers. Nothing is done to another topic of the name. Each method may be called again
    after it failed. Raises KafkaRuleError if Kafka refuses the change, StaleProposalError if the topic is another one,
    WriteError or ReadError if the outcome is unknown.
    """

    def check_accepted(self, change: TopicChange) -> None:
        """Raises KafkaRuleError if Kafka would refuse the change. It writes nothing."""

    def create(self, change: TopicChange, registered: Collection[int]) -> Created:
        """With exactly the assignment and the configs of the change."""

    def expand(self, change: TopicChange, registered: Collection[int], fence: Fence) -> None:
        """Adds exactly the new partitions of the change."""

    def set_configs(self, change: TopicChange) -> None:
        """Other keys stay."""

    def delete(self, change: TopicChange, fence: Fence) -> Outcome: ...

    def read_deletion(self, change: TopicChange) -> Deletion:
        """What is left of the topic, but not of a new one of its name."""
