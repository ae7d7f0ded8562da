"""What pages and requests say of one candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.documents.proposals.stays_behind import StaysBehind
from kafka_rebalance.execution.eta import with_controller
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.metrics import Metric
from kafka_rebalance.report.candidate.broker_loads import BrokerChange
from kafka_rebalance.report.candidate.fullest_log_dirs import LogDirPeaks
from kafka_rebalance.report.candidate.risk import Stakes
from kafka_rebalance.report.candidate.timetable import Timetable

# In the order of the page.
METRICS = (Metric.DISK, Metric.BYTES_IN, Metric.LEADER_BYTES_OUT, Metric.LEADERS, Metric.REPLICAS)
TITLES = {  # of the candidates; any other name is its own
    "leaders_only": "Leaders only",
    "light": "Light",
    "balanced": "Balanced",
    "optimal": "Optimal",
    "as_kafka": "As Kafka's tool",
    "given": "Given",
}


@dataclass(frozen=True, slots=True)
class Score:
    """Lowest and highest broker as multiples of the fair share; 1.0 and 1.0 is even. None where unknown."""

    metric: str
    before: tuple[float | None, float | None]
    after: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class GroupReport:
    """Moves that take from one broker or bring to it, in a sentence."""

    text: str
    bytes: int


@dataclass(frozen=True, slots=True)
class DiskCourse:
    """One disk while the batches run: (batch, bytes at its peak, bytes after it), batch 0 is before the first."""

    broker: int
    capacity_bytes: int | None
    steps: tuple[tuple[int, int, int], ...]

    @property
    def fullest(self) -> tuple[int, int]:
        """(bytes at the highest peak, the first batch that has it)"""
        batch, peak, _ = max(self.steps, key=lambda step: (step[1], -step[0]))
        return peak, batch


@dataclass(frozen=True, slots=True)
class FurtherRuns:
    """An estimate of what it takes, beyond this run, until the cluster is within the tolerance."""

    runs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LessEven:
    """The metric in which a plan ends less even than the cluster is: (lowest, highest) broker before and after."""

    metric: str
    before: tuple[float, float]
    after: tuple[float, float]


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """One candidate: what `proposals.json` says of it, its brokers, and its largest moves by bytes to copy."""

    name: str
    digest: str
    status: str
    note: str
    moved_bytes: int
    moved_bytes_bound: int | None
    cross_rack_bytes: int | None
    moved_replicas: int
    leader_changes: int
    rack_violations: int | None
    crowded_replicas: tuple[int | None, int | None]  # before and after: of a topic, beyond its even spread and one
    batches: int
    makespan_seconds: float | None  # copying alone, at the throttle that was approved, or found for it
    makespan_bound_seconds: float | None  # likewise; no plan copies for less
    peak_disk_fraction: float | None
    controller_bytes: int | None  # of znodes that the controller rewrites for one batch, at most
    scores: tuple[Score, ...]
    brokers: tuple[BrokerChange, ...]
    partitions: int  # that change
    largest_moves: tuple[Move, ...]
    most_partitions_in_a_batch: int
    most_leader_changes_in_a_batch: int
    groups: tuple[GroupReport, ...]  # the moves by broker
    rack_limits: tuple[str, ...]  # how even the racks let brokers be
    fullest_disks: tuple[DiskCourse, ...]
    stakes: Stakes | None = None  # None: the plan is of a version that did not look at this
    log_dirs: LogDirPeaks = field(default_factory=LogDirPeaks)
    timetable: Timetable = field(default_factory=Timetable)
    further_runs: FurtherRuns | None = None  # None: `max_bytes` did not stop it short of the tolerance
    less_even: LessEven | None = None
    stays_behind: tuple[StaysBehind, ...] = ()  # on brokers that are to be emptied

    @property
    def planned_seconds(self) -> float | None:
        """From the first request to the last end, with what the controller needs for each batch."""
        return self.seconds_of(1.0, self.batches)

    def seconds_of(self, share: float, batches: int) -> float | None:
        """How long so many batches take that do this share of the copying."""
        return None if self.makespan_seconds is None else with_controller(share * self.makespan_seconds, batches)

    @property
    def least_seconds(self) -> float | None:
        """Below which no plan of as many batches stays."""
        bound = self.makespan_bound_seconds
        return None if bound is None else with_controller(bound, self.batches)

    @property
    def gain(self) -> tuple[str, float, float] | None:
        """(metric, highest broker before, and after) of the metric in which that comes down most; None: of none.

        Of equals it is the first: the disk.
        """
        known = [(score.metric, score.before[1], score.after[1]) for score in self.scores]
        falls = [(metric, before, after) for metric, before, after in known if before and after]
        metric, before, after = max(falls, key=lambda fall: round(fall[1] - fall[2], 2), default=("", 0.0, 0.0))
        return (metric, before, after) if before - after >= 0.005 else None

    @property
    def title(self) -> str:
        """The name in plain words."""
        note = self.note.lower()
        proven = self.name == "optimal" and "proven" in note and "not proven" not in note
        return TITLES.get(self.name, self.name) + (" (fewest bytes, proven to a thousandth)" if proven else "")


def off_share(candidate: CandidateReport) -> float | None:
    """How far the furthest broker is from its fair share in the end, as a share of it; None where it is not known."""
    return furthest_off([score.after for score in candidate.scores])


def furthest_off(ranges: Sequence[tuple[float | None, float | None]]) -> float | None:
    known = [max(1 - low, high - 1) for low, high in ranges if low is not None and high is not None]
    return max(known) if known and len(known) == len(ranges) else None


def read_further_runs(part: Document) -> FurtherRuns | None:
    """Of a candidate in proposals.json; None where no limit on bytes stopped it."""
    found = part.optional_part("further_runs")
    return None if found is None else FurtherRuns(found.count("runs"), found.count("bytes"))


def read_less_even(part: Document) -> LessEven | None:
    """Of a candidate in proposals.json; None where it ends as even as the cluster is, or that is not known."""
    found = part.optional_part("less_even")
    if found is None:
        return None
    before, after = (found.part(phase) for phase in ("before", "after"))
    return LessEven(
        found.text("metric"),
        (before.number("lowest"), before.number("highest")),
        (after.number("lowest"), after.number("highest")),
    )
