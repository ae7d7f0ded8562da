"""The worst single losses of a plan: computed by `worst_case`, kept in proposals.json, told by the report."""

from __future__ import annotations

from dataclasses import dataclass


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
