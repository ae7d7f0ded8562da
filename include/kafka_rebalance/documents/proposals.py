"""proposals.json: the candidates of a run, the recommended one, and what is wrong with the cluster.

All figures are in bytes and seconds. Older versions, or infeasible candidates, lack the keys that have a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_rebalance.documents.candidate_figures import (
    BrokerLoss,
    CutPlan,
    FurtherRuns,
    HeldUp,
    LeftWaiting,
    LessEven,
    MoveGroup,
    Scores,
    SinceLast,
    StaysBehind,
    Timetable,
    WayBack,
    WorstCase,
)
from kafka_rebalance.documents.json_files import PROPOSALS, JsonFile, Time, omitted
from kafka_rebalance.documents.peaks_of_log_dirs import LogDirPeaks
from kafka_rebalance.documents.recommendation import Recommendation
from kafka_rebalance.kafka.znode_limits import CONTROLLER_BYTES_PER_BATCH

NOT_ESTIMATED = FurtherRuns(0, 0)


@dataclass(frozen=True, slots=True)
class ProposedCandidate:
    """One candidate without its moves and tables."""

    name: str
    digest: str
    status: str
    moved_bytes: int
    moved_replicas: int
    leader_changes: int
    batches: int
    scores: Scores
    note: str = ""
    moved_bytes_bound: int | None = None
    cross_rack_bytes: int | None = None
    rack_violations: int | None = None
    crowded_replicas_before: int | None = None  # replicas of a topic beyond its even share plus one
    crowded_replicas: int | None = None
    excess_leaders_before: int | None = None  # partitions that brokers lead beyond their even share of a topic
    excess_leaders: int | None = None
    makespan_seconds: float | None = None  # copying alone, at the throttle
    makespan_bound_seconds: float | None = None  # likewise; no plan needs less
    peak_disk_fraction: float | None = None
    controller_bytes: int | None = None  # what one batch costs the controller, at most
    copies_at_once: int | None = None  # that one broker sends or receives in one batch, at most
    less_even: LessEven | None = None
    rack_limits: tuple[str, ...] = ()  # how even the brokers can be within these racks
    groups: tuple[MoveGroup, ...] = ()
    worst_case: WorstCase | None = omitted()
    broker_loss: BrokerLoss | None = omitted()
    way_back: WayBack | None = omitted()
    held_up: HeldUp | None = omitted()
    log_dirs: LogDirPeaks | None = omitted()
    timetable: Timetable | None = omitted()
    further_runs: FurtherRuns | None = omitted(NOT_ESTIMATED)  # None: no limit on bytes keeps it outside the tolerance
    stays_behind: tuple[StaysBehind, ...] | None = omitted()
    left_waiting: tuple[LeftWaiting, ...] = omitted(())
    since_last: SinceLast | None = omitted()  # None: the last proposal did not have this candidate, or there was none
    evenness_by_bytes: tuple[CutPlan, ...] = omitted(())  # of `balanced`, from now to the whole plan
    controller_bytes_allowed: int = omitted(CONTROLLER_BYTES_PER_BATCH)  # older runs, and controllers below 2.8
    is_proven: bool = omitted(False)  # that no plan of its kind copies 0.1 % fewer bytes


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """A broker's load as a multiple of its share; None: it has a load, but its share is zero."""

    broker: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Off:
    """How many brokers are outside the band, in one metric."""

    metric: str
    above: int
    below: int
    highest: BrokerShare
    lowest: BrokerShare


@dataclass(frozen=True, slots=True)
class FullestDisk:
    broker: int
    used_bytes: int
    capacity_bytes: int

    @property
    def used_share(self) -> float:
        return self.used_bytes / self.capacity_bytes


@dataclass(frozen=True, slots=True)
class FirstFull:
    """The disk that is full first, if its partitions keep growing as before."""

    broker: int
    days: float
    growth_bytes_per_day: int


@dataclass(frozen=True, slots=True)
class FurtherBrokers:
    """How many brokers have to be added, so that no evenly used disk is fuller than this share after so many days."""

    capacity_bytes: int  # the disk of each
    share: float
    days: tuple[int, ...]
    brokers: tuple[int, ...]  # for each of the days
    pool: str | None = omitted()  # that needs them; None: the cluster has no pools


@dataclass(frozen=True, slots=True)
class Leaving:
    """The brokers that the job should empty, and what they hold. A job of leaders alone only takes leadership away."""

    brokers: tuple[int, ...]
    replicas: int
    bytes: int
    leaders: int | None = omitted()  # partitions that they lead


@dataclass(frozen=True, slots=True)
class Strays:
    """Replicas outside the pool of their topic, and the brokers that hold them."""

    replicas: int
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is uneven in the snapshot, and what the cluster will come to. None: unknown, or there is none."""

    tolerance: float
    off: tuple[Off, ...]  # one for each known metric
    rack_violations: int
    fullest_disk: FullestDisk | None
    first_full: FirstFull | None
    leaving: Leaving | None
    further_brokers: FurtherBrokers | None = omitted()
    strays: Strays | None = omitted()
    further_brokers_of_pools: tuple[FurtherBrokers, ...] = omitted(())


@dataclass(frozen=True, slots=True)
class RatesFrom:
    """How many partitions have their bytes in from the ledger, from the snapshot, or by an estimate from others.

    `MetricsServerUsed` counts those of a metrics server.
    """

    history: int
    snapshot: int
    topic: int
    cluster: int


@dataclass(frozen=True, slots=True)
class WorstHour:
    """The hour whose bytes in a plan with `even_at_worst_hour` uses, and how much it rests on.

    `weeks` and `samples` are the least of any partition and hour of the week.
    """

    hour: int | None  # of the week in UTC, 0 from Monday 00:00; None: samples do not tell, so the percentile is used
    weeks: float
    samples: int


@dataclass(frozen=True, slots=True)
class ReadByGroups:
    """How much of the bytes out to consumers is measured, by what groups commit. The rest counts as read once."""

    partitions: int
    unread: int  # of these partitions: no group has gone forward in them
    share_of_bytes_in: float  # that these partitions receive


@dataclass(frozen=True, slots=True)
class RatesLeftOut:
    """What a metrics server gave and no plan can use."""

    without_topic: int = 0  # series without the label `topic`, the most of any one answer
    unknown_topics: int = 0  # topics that the cluster does not have, the most of any one answer
    unknown_first: tuple[str, ...] = ()
    no_rate_topics: int = 0  # topics with points that are no rate, as NaN: these points do not count
    no_rate_first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricsServerUsed:
    """How much the rates of a metrics server cover, and over which time."""

    digest: str  # of the file of its rates
    problem: str | None  # why the server could not be read; it may hold the server's own words
    days: float
    first_at: Time | None  # None: it gave no rate
    last_at: Time | None
    topics: int
    short_topics: int  # with rates for too short a time: they do not count
    partitions: int  # of these topics
    share_of_partitions: float
    share_of_bytes: float
    left_out: RatesLeftOut


@dataclass(frozen=True, slots=True)
class HistoryUsed:
    """How much the ledger's samples cover, how old they are, and what was estimated."""

    digest: str  # of the aggregate's file
    days: float
    samples: int
    first_at: Time | None  # None: there is no sample
    last_at: Time | None
    growth_bytes_per_day: int
    unreadable_files: int
    unreadable_first: tuple[str, ...]
    partitions: RatesFrom
    share_of_partitions: float  # that are measured
    share_of_bytes: float
    estimated_topics: int
    estimated_first: tuple[Mapping[str, str | int], ...]  # topic, partitions, and the source
    at_least: int  # compacted partitions, which may receive more
    expiring_partitions: int
    expiring_bytes: int
    worst_hour: WorstHour | None = omitted()  # None: the plan did not ask for it
    groups: ReadByGroups | None = omitted()  # None: nothing is measured, or the snapshot tells bytes out
    metrics_server: MetricsServerUsed | None = omitted()  # None: the connection names none


@dataclass(frozen=True, slots=True)
class Proposals:
    snapshot_digest: str
    settings: Mapping[str, Any]  # in the form that is part of each digest
    recommended: str | None
    candidates: tuple[ProposedCandidate, ...]
    ranking: tuple[str, ...] = ()  # candidates, in the order in which people see them
    recommendation: Recommendation | None = None
    outlook: Diagnosis | None = None
    history: HistoryUsed | None = omitted()  # None: the plan did not use the ledger's samples


PROPOSALS_FILE = JsonFile(PROPOSALS, Proposals)
