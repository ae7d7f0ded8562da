"""The parts of one candidate in proposals.json: scores, what stays behind, timetable, worst case and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict


@dataclass(frozen=True, slots=True)
class Score:
    """One metric of the brokers that stay, as multiples of each broker's share. 1, 1, 0 is even."""

    max_over_mean: float
    min_over_mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class Scores:
    before: Mapping[str, Score]  # by metric
    after: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class Range:
    """The lowest and the highest broker, as multiples of their share."""

    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class LessEven:
    """The metric in which the plan makes the cluster less even, and most so."""

    metric: str
    before: Range
    after: Range


@dataclass(frozen=True, slots=True)
class FurtherRuns:
    """An estimate of the runs and bytes after this run, until the cluster is within the tolerance."""

    runs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SinceLast:
    """How many lists are as the last proposal had them, or changed, new, and dropped since. Elections do not count.

    What has been made since, or is no longer possible as the partition lies elsewhere now, counts for neither.
    """

    same: int
    changed: int
    new: int
    dropped: int


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Moves that take from one broker or bring to it, in a sentence."""

    text: str
    moves: int
    bytes: int  # that they delete there or bring


@dataclass(frozen=True, slots=True)
class WayBack:
    """What the way back takes, in the same batches. `seconds`: of copying alone; None without a throttle."""

    bytes: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class HeldUpTopic:
    """A topic that people can neither expand nor delete while its batches run."""

    topic: str
    partitions: int
    first_batch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class HeldUp:
    """How many such topics there are. `internal`: Kafka's own among them. `listed`: those with most moves."""

    topics: int
    internal: tuple[str, ...]
    listed: tuple[HeldUpTopic, ...]


class Reason(StrEnum):
    """Why replicas stay on a broker that the job should empty."""

    NOT_SELECTED = "not_selected"  # `topics_in` and `topics_out` of the run, or of the policy, keep the topic out
    INTERNAL = "internal"  # a topic of Kafka's own, and `internal_topics` is not ticked
    PINNED = "pinned"  # `pinned_topics`
    ONLY_REORDERED = "only_reordered"  # the candidate changes no list's brokers
    NOT_MOVED = "not_moved"  # the candidate could have moved it, and does not


@dataclass(frozen=True, slots=True)
class StaysBehind:
    """Replicas on one broker that stay for one reason."""

    broker: int
    reason: Reason
    replicas: int
    size_bytes: int
    topics: tuple[str, ...]  # the first by name
    topic_count: int


@dataclass(frozen=True, slots=True)
class LeftWaiting:
    """Partitions that nobody can copy unless these brokers, which are to be emptied, come back."""

    brokers: tuple[int, ...]
    being_deleted: bool  # their topics, whose deletion waits for the brokers; else they have no leader
    named: tuple[str, ...]  # the first partitions, or topics that are being deleted
    count: int  # of those


# One broker: bytes, the first and last batch in which it works, and [slot] shares of the throttle that it uses.
# `busy`: the share of the time that it needs at the throttle. (A field of a dataclass cannot have the name `in`.)
BrokerLane = TypedDict(
    "BrokerLane",
    {
        "broker": int,
        "received_bytes": int,
        "sent_bytes": int,
        "first_batch": int,
        "last_batch": int,
        "busy": float,
        "in": tuple[float, ...],
        "out": tuple[float, ...],
    },
)


@dataclass(frozen=True, slots=True)
class BatchSlot:
    """One batch, from `begins` on for `lasts`. `busiest` is None if it copies nothing."""

    number: int
    partitions: int
    bytes: int
    begins: float
    lasts: float
    busiest: int | None


@dataclass(frozen=True, slots=True)
class Timetable:
    """When each broker receives and sends, and when each batch begins. Times are shares of the whole.

    It has the brokers with most to do and the first batches; the counts are of all.
    """

    broker_count: int
    brokers: tuple[BrokerLane, ...]
    batch_count: int
    batches: tuple[BatchSlot, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """The broker or rack whose loss would hurt most at one moment."""

    batch: int  # while this one runs; 0: while none does
    lost: int | str  # a broker's id, or a rack
    partitions: int
    topics: tuple[str, ...]  # the first ones; topics with most of these partitions come first
    topic_count: int


@dataclass(frozen=True, slots=True)
class Course:
    """The worst loss today, while the batches run, and after them. `during` is None if there are no batches."""

    today: Loss
    during: Loss | None
    after: Loss

    @property
    def worst(self) -> Loss:
        """The worst loss until the plan has run."""
        return self.during or self.today

    @property
    def is_worse(self) -> bool:
        """Whether a loss while the plan runs costs more than one today."""
        return self.worst.partitions > self.today.partitions

    @property
    def ends_worse(self) -> bool:
        """Whether a loss after the plan costs more than one today."""
        return self.after.partitions > self.today.partitions


@dataclass(frozen=True, slots=True)
class WorstCase:
    """`broker`: partitions with fewer replicas in sync than min.insync.replicas, so that acks=all fails.

    `rack`: partitions with no replica in sync at all. A value is None if it cannot be known, because no
    min.insync.replicas is known, or because there are not two racks.
    """

    broker: Course | None
    rack: Course | None
    min_insync_unknown: int  # partitions
    under_now: int  # partitions below min.insync.replicas with every broker up
    under_after: int | None = None  # and once the plan has run; None: an older version did not count them


@dataclass(frozen=True, slots=True)
class NetworkAfterLoss:
    """The broker that sends most for its share once `lost` is gone and others lead its partitions.

    `over_share` is a multiple of its share of all that is sent. `network_bytes_per_second` is None if it is unknown.
    """

    lost: int
    broker: int
    over_share: float
    bytes_per_second: int
    network_bytes_per_second: int | None

    @property
    def used_share(self) -> float | None:
        """The share of its network that it uses."""
        whole = self.network_bytes_per_second
        return self.bytes_per_second / whole if whole else None


@dataclass(frozen=True, slots=True)
class DiskAfterLoss:
    """The disk that is fullest once the replicas of `lost` have been copied anew to the rest of its rack."""

    lost: int
    broker: int
    used_bytes: int
    capacity_bytes: int

    @property
    def used_share(self) -> float:
        return self.used_bytes / self.capacity_bytes


@dataclass(frozen=True, slots=True)
class AfterLoss:
    """The worst loss of one broker for each resource; None if it cannot be known, or if no other takes over."""

    network: NetworkAfterLoss | None
    disk: DiskAfterLoss | None


@dataclass(frozen=True, slots=True)
class BrokerLoss:
    """What the loss of one broker does to the others: today, and after the plan."""

    before: AfterLoss
    after: AfterLoss


@dataclass(frozen=True, slots=True)
class CutPlan:
    """The plan if it stopped after these bytes. `off`: how far the furthest broker is off its fair share."""

    bytes: int
    off: float
