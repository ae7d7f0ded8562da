"""The values that pages and requests show of one candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_rebalance.documents.candidate_figures import Score
from kafka_rebalance.documents.proposals import ProposedCandidate
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.metrics import Metric
from kafka_rebalance.model.settings import OPTIMAL
from kafka_rebalance.moves.eta import with_controller
from kafka_rebalance.pages.broker_loads import BrokerChange
from kafka_rebalance.pages.units import format_share

# In the order of the page.
METRICS = (Metric.DISK, Metric.BYTES_IN, Metric.LEADER_BYTES_OUT, Metric.LEADERS, Metric.REPLICAS)
TITLES = {  # of candidates; any other name is its own title
    "leaders_only": "Leaders only",
    "light": "Light",
    "balanced": "Balanced",
    "optimal": "Optimal",
    "as_kafka": "As Kafka's tool",
    "given": "Given",
}


@dataclass(frozen=True, slots=True)
class DiskCourse:
    """One disk while the batches run. `steps`: (batch, peak bytes, bytes after it); batch 0 is before the first."""

    broker: int
    capacity_bytes: int | None
    steps: tuple[tuple[int, int, int], ...]

    @property
    def fullest(self) -> tuple[int, int]:
        """(bytes at the highest peak, the first batch that has it)"""
        batch, peak, _ = max(self.steps, key=lambda step: (step[1], -step[0]))
        return peak, batch


@dataclass(frozen=True, slots=True)
class CandidateReport(ProposedCandidate):
    """One candidate of `proposals.json`, with its brokers and its largest moves by bytes to copy.

    All seconds are at the throttle that was approved, or found for this candidate.
    """

    brokers: tuple[BrokerChange, ...] = ()
    partitions: int = 0  # that change
    largest_moves: tuple[Move, ...] = ()
    most_partitions_in_a_batch: int = 0
    most_leader_changes_in_a_batch: int = 0
    fullest_disks: tuple[DiskCourse, ...] = ()

    @property
    def spreads(self) -> tuple[tuple[Metric, Score | None, Score | None], ...]:
        """(metric, before, after) of each known metric, in the order of the page."""
        before, after = self.scores.before, self.scores.after
        found = ((metric, before.get(metric), after.get(metric)) for metric in METRICS)
        return tuple(one for one in found if one[1:] != (None, None))

    @property
    def planned_seconds(self) -> float | None:
        """From the first request to the end of the last batch, with the controller's time for each batch."""
        return self.seconds_of(1.0, self.batches)

    def seconds_of(self, share: float, batches: int) -> float | None:
        """The time of `batches` batches that do this share of the copying."""
        return None if self.makespan_seconds is None else with_controller(share * self.makespan_seconds, batches)

    @property
    def batch_seconds(self) -> tuple[float, ...]:
        """Of each batch by the plan. Batches that the timetable does not list share the rest. Empty: not known."""
        if self.makespan_seconds is None or not self.batches:
            return ()
        listed = [slot.lasts for slot in self.timetable.batches] if self.timetable else []
        others = self.batches - len(listed)
        shares = [*listed, *[max(0.0, 1 - sum(listed)) / others for _ in range(others)]]
        return tuple(with_controller(share * self.makespan_seconds, 1) for share in shares)

    @property
    def least_seconds(self) -> float | None:
        """No plan with as many batches takes less."""
        bound = self.makespan_bound_seconds
        return None if bound is None else with_controller(bound, self.batches)

    @property
    def gain(self) -> tuple[str, float, float] | None:
        """(metric, highest broker before, and after) of the metric where it falls most, the first of equals.

        None if it falls nowhere.
        """
        falls = [
            (metric, before.max_over_mean, after.max_over_mean)
            for metric, before, after in self.spreads
            if before and after and before.max_over_mean and after.max_over_mean
        ]
        metric, high, low = max(falls, key=lambda fall: round(fall[1] - fall[2], 2), default=("", 0.0, 0.0))
        return (metric, high, low) if high - low >= 0.005 else None

    @property
    def fullest_sized_disk(self) -> DiskCourse | None:
        """The first of the fullest disks whose capacity is known."""
        return next((disk for disk in self.fullest_disks if disk.capacity_bytes), None)

    @property
    def above_least(self) -> float | None:
        """How far its bytes are above the least possible, as a share of that; None without bytes or without a bound."""
        if not self.moved_bytes or not self.moved_bytes_bound:
            return None
        return max(0.0, self.moved_bytes / self.moved_bytes_bound - 1)

    @property
    def title(self) -> str:
        """A claim only where it is proven: of the candidate `optimal`, that no plan as near copies fewer bytes."""
        if self.is_proven:
            return f"{TITLES.get(self.name, self.name)} (proven: no plan as near copies a thousandth less)"
        title = TITLES.get(self.name, self.name)
        return f"{title} (best found, not proven)" if self.name == OPTIMAL and self.moved_bytes else title


def above_least_words(candidate: CandidateReport) -> str:
    """`the least possible`, or `within 3 % of the least possible`; empty if nobody knows."""
    above = candidate.above_least
    if above is None:
        return ""
    up = max(0.01, -(-round(above * 1e6) // 10_000) / 100)  # the next whole percent
    return "the least possible" if above <= 0 else f"within {format_share(up)} of the least possible"


def off_share(candidate: CandidateReport) -> float | None:
    """How far the furthest broker ends from its fair share, as a share of it; None is unknown."""
    return furthest_off([after for _, _, after in candidate.spreads])


def furthest_off(scores: Sequence[Score | None]) -> float | None:
    known = [max(1 - score.min_over_mean, score.max_over_mean - 1) for score in scores if score is not None]
    return max(known) if known and len(known) == len(scores) else None
