"""What proposals.json says of one candidate, in small parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict


@dataclass(frozen=True, slots=True)
class Score:
    """One metric over the brokers that stay, as multiples of the share each should carry. 1, 1, 0 is even."""

    max_over_mean: float
    min_over_mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class Scores:
    """By metric."""

    before: Mapping[str, Score]
    after: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class Range:
    """The lowest and the highest broker, as multiples of the fair share."""

    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class LessEven:
    """The metric in which a plan's end is most less even than the cluster is."""

    metric: str
    before: Range
    after: Range


@dataclass(frozen=True, slots=True)
class FurtherRuns:
    """An estimate of what it takes, beyond this run, until the cluster is within the tolerance."""

    runs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Moves that take from one broker, or bring to it, in a sentence."""

    text: str
    moves: int
    bytes: int  # that they delete there, or bring


@dataclass(frozen=True, slots=True)
class WayBack:
    """What going back from the end takes, in the same batches; seconds of copying alone, None without a throttle."""

    bytes: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class HeldUpTopic:
    """A topic that can be neither expanded nor deleted while its batches run."""

    topic: str
    partitions: int
    first_batch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class HeldUp:
    """How many such topics there are, those of them that are Kafka's own, and those with most moves."""

    topics: int
    internal: tuple[str, ...]
    listed: tuple[HeldUpTopic, ...]


class Reason(StrEnum):
    """Why replicas stay on a broker that is to be emptied."""

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


# One broker: bytes, the first and last batch in which it works, and [slot] shares of the throttle that it uses.
# `busy`: of the time, the share that it needs at the throttle. (`in` is no name of a dataclass's field.)
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
    """One batch, from `begins` on for `lasts`; `busiest` None: it copies nothing."""

    number: int
    partitions: int
    bytes: int
    begins: float
    lasts: float
    busiest: int | None


@dataclass(frozen=True, slots=True)
class Timetable:
    """The brokers with most to do, and the first batches, of so many."""

    broker_count: int
    brokers: tuple[BrokerLane, ...]
    batch_count: int
    batches: tuple[BatchSlot, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """The broker, or rack, whose loss would hurt most at one moment."""

    batch: int  # while this one runs; 0: while none does
    lost: int | str  # a broker's id, or a rack
    partitions: int
    topics: tuple[str, ...]  # the first, those with most of these partitions before the others
    topic_count: int


@dataclass(frozen=True, slots=True)
class Course:
    """The worst loss today, while the batches run, and after them; `during` None: there are no batches."""

    today: Loss
    during: Loss | None
    after: Loss
    batches_worse: int  # of how many batches the worst loss is worse than today's

    @property
    def worst(self) -> Loss:
        """Until it is over."""
        return self.during or self.today

    @property
    def is_worse(self) -> bool:
        """Whether a loss while it runs costs more than one today."""
        return self.worst.partitions > self.today.partitions

    @property
    def ends_worse(self) -> bool:
        """Whether a loss once it is over costs more than one today."""
        return self.after.partitions > self.today.partitions


@dataclass(frozen=True, slots=True)
class WorstCase:
    """By brokers: partitions that would have fewer replicas in sync than min.insync.replicas, so that acks=all fails.

    By racks: partitions that would have no replica in sync at all. None where nothing can be said: no
    min.insync.replicas is known, or there are not two racks.
    """

    broker: Course | None
    rack: Course | None
    min_insync_unknown: int  # partitions
    under_now: int  # partitions below min.insync.replicas with every broker up
    under_after: int | None = None  # and once the plan has run; None: of a version that did not count them
