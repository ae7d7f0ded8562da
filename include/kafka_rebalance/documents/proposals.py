"""proposals.json: the candidates of a run, the recommended one, and what is wrong with the cluster.

All figures are in bytes and seconds. Older versions, or infeasible candidates, lack the keys that have a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, TypeAlias, TypedDict

from kafka_rebalance.documents.json_files import PAGE, PROPOSALS, REJECTION, JsonFile, Time, omitted
from kafka_rebalance.kafka.znode_limits import CONTROLLER_BYTES_PER_BATCH
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.candidate import Metric

# Why a partition moves: kinds with figures, and their text in the table of moves.
#
# The planner writes the text. Code that counts moves by their kind gets the words of a kind from here.


_MANY_TIMES = 99.995  # times its share: of a broker that should have almost nothing
_ROOM = "makes room for what other moves bring"


class ReasonKind(Enum):
    """Why the plan has the move; a move may have several reasons."""

    REPLACES = auto()  # `other` takes the place of `broker`
    EMPTIES = auto()
    ENTERS_POOL = auto()  # `broker` is not in the pool of the `topic`
    FACTOR = auto()  # `factors` are those before and after
    SPREADS_RACKS = auto()
    EVENS = auto()  # `broker` gives to `other` in the `metric` in which they are furthest apart
    TAKES_OFF = auto()  # from a broker that the job should empty
    DEMOTES = auto()  # from a broker that should lead nothing
    SPREADS_TOPIC = auto()  # `broker` leads `amount` partitions beyond its even share of the topic
    MAKES_ROOM = auto()
    MAKES_UP_FOR_LEADERS = auto()
    MAY_NOT_RECEIVE = auto()  # `other` has less than the broker that receives; `shares` are theirs, its own last
    ELECTS = auto()  # `broker` in place of `other`
    GIVEN = auto()
    AS_KAFKA = auto()
    LOG_DIR_FAILED = auto()  # that of `broker` with this replica


@dataclass(frozen=True, slots=True)
class MoveReason:
    """One reason, with the figures that its kind has."""

    kind: ReasonKind
    broker: int = -1
    other: int = -1
    metric: Metric = Metric.DISK
    shares: tuple[float, float] = (0.0, 0.0)  # the loads of `broker` and `other`, over their shares
    amount: float = 0.0  # how much of the metric goes; of SPREADS_TOPIC partitions
    factors: tuple[int, int] = (0, 0)
    topic: str = ""


_TEXTS = {
    ReasonKind.REPLACES: "broker {other} takes the place of broker {broker}",
    ReasonKind.EMPTIES: "empties broker {broker}",
    ReasonKind.LOG_DIR_FAILED: "its log dir on broker {broker} is offline",
    ReasonKind.ENTERS_POOL: "broker {broker} is not in the pool of {topic}",
    ReasonKind.FACTOR: "replication factor {before} to {after}",
    ReasonKind.SPREADS_RACKS: "spreads the replicas over more racks",
    ReasonKind.EVENS: "broker {broker} has {has} of its share of {noun}, broker {other} {other_has}: {amount}",
    ReasonKind.TAKES_OFF: "takes {noun} off broker {broker}, which is to be emptied",
    ReasonKind.DEMOTES: "takes {noun} off broker {broker}, which is to lead nothing",
    ReasonKind.SPREADS_TOPIC: "broker {broker} leads {count} of the topic's partitions too many",
    ReasonKind.MAKES_ROOM: "makes room on broker {broker} for what other moves bring there",
    ReasonKind.MAKES_UP_FOR_LEADERS: "makes up for leaders that other moves give to broker {broker}",
    ReasonKind.MAY_NOT_RECEIVE: "broker {other} has less of its share of {noun} ({other_has}), but may not receive",
    ReasonKind.ELECTS: "elects the preferred leader, broker {broker}, in place of broker {other}",
    ReasonKind.GIVEN: "given by the requester",
    ReasonKind.AS_KAFKA: "as Kafka's own tool would place it",
}
_EVENS_HAS = _TEXTS[ReasonKind.EVENS].partition("{has}")[2].partition("{other}")[0]

# (words in the text of a kind, the name for all moves of this kind); the first that fits counts
REASON_GROUPS = (
    (_TEXTS[ReasonKind.SPREADS_TOPIC].partition("{count}")[2], "spreads leaders of topics"),
    (_TEXTS[ReasonKind.MAKES_UP_FOR_LEADERS].partition("{broker}")[0], _ROOM),
    (_TEXTS[ReasonKind.MAKES_ROOM].partition("{broker}")[0], _ROOM),
    *((_EVENS_HAS.format(noun=metric.noun), f"evens out {metric.noun}") for metric in Metric),
)


def encode_reasons(reasons: Iterable[MoveReason]) -> str:
    return "; ".join(map(_text, reasons))


def _text(reason: MoveReason) -> str:
    figures = {"broker": reason.broker, "other": reason.other, "noun": reason.metric.noun}
    figures["topic"] = reason.topic
    figures["count"] = round(reason.amount)
    if reason.kind == ReasonKind.FACTOR:
        figures |= {"before": reason.factors[0], "after": reason.factors[1]}
    if reason.kind in (ReasonKind.EVENS, ReasonKind.MAY_NOT_RECEIVE):
        has, other_has = map(multiple_in_words, reason.shares)
        figures |= {"has": has, "other_has": other_has, "amount": _amount(reason)}
    return _TEXTS[reason.kind].format(**figures)


def _amount(reason: MoveReason) -> str:
    if reason.metric.is_count:
        return f"1 {reason.metric.noun[:-1]} goes"
    return f"{bytes_in_words(reason.amount)}{'' if reason.metric == Metric.DISK else ' a second'} go"


def multiple_in_words(multiple: float) -> str:
    """A load over its share."""
    return share_in_words(multiple) if multiple < _MANY_TIMES else "many times"


# What a plan's moves do to one broker, and what racks keep from being even: figures, and their words in proposals.json.


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """The moves that take from one broker, or those that bring to it, and its load before and after the whole plan."""

    broker: int
    gains: bool  # False: they take from it
    moves: int
    bytes: int  # that they delete there or bring
    metric: Metric
    before: float
    after: float
    whole: float  # both loads are told as parts of it: its share, or its disk; 0: as they are
    of_disk: bool = False


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Moves that take from one broker or bring to it, in a sentence."""

    text: str
    moves: int
    bytes: int  # that they delete there or bring


def group_in_words(change: BrokerChange) -> MoveGroup:
    """`183 moves take broker 12 from 91 % to 78 % of its disk`"""
    verb = ("bring" if change.gains else "take") + ("s" if change.moves == 1 else "")
    moves = f"{change.moves:,} {'move' if change.moves == 1 else 'moves'} {verb}"
    noun, is_disk = change.metric.noun, change.metric is Metric.DISK
    if change.after == 0:
        text = f"{moves} {bytes_in_words(change.before) if is_disk else noun} off broker {change.broker}: empty"
    else:
        loads, of_what = (change.before, change.after), ""
        if change.whole > 0:
            before, after = (multiple_in_words(load / change.whole) for load in loads)
            of_what = " of its disk" if change.of_disk else f" of its share of {noun}"
        else:
            before, after = (bytes_in_words(load) if is_disk else f"{load:,.0f}" for load in loads)
        text = f"{moves} broker {change.broker} from {before} to {after}{of_what}"
    return MoveGroup(text, change.moves, change.bytes)


@dataclass(frozen=True, slots=True)
class RackLimit:
    """A rack whose brokers must carry more, or less, than an even share."""

    rack: str
    brokers: int  # of it, that stay
    staying: int  # brokers of all racks
    metric: Metric
    carried: float  # of an even share: the least if above 1, else the most


def rack_limit_in_words(limit: RackLimit) -> str:
    most = "at least" if limit.carried > 1 else "at most"
    return (
        f"rack {limit.rack} has {limit.brokers} of {limit.staying} brokers: "
        f"they carry {most} {limit.carried:.3f} of an even share of {limit.metric.noun}"
    )


# The parts of one candidate in proposals.json: scores, what stays behind, timetable, worst case and others.


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
class RackTraffic:
    """Bytes a second that go from one rack to another while nobody copies.

    The racks of clients are unknown. They count as spread over racks as the brokers are.
    """

    replication: int  # from leaders to followers
    producers: int
    consumers: int | None  # that fetch from the leader; None: unknown what they read
    nearest_consumers: int | None  # the same, if all fetched from the nearest replica (KIP-392)


@dataclass(frozen=True, slots=True)
class BetweenRacks:
    """What goes between racks: while the plan copies, and in a second before and after it.

    A copy comes from the leader. So it stays within a rack if the leader's own replica moves there.
    """

    copied_by_chance: int  # bytes, if the plan took any replicas of the brokers that lose some
    leaders_copied: int  # partitions whose leader's own replica moves
    before: RackTraffic | None  # None: it is unknown what producers write
    after: RackTraffic | None


@dataclass(frozen=True, slots=True)
class CutPlan:
    """The plan if it stopped after these bytes. `off`: how far the furthest broker is off its fair share."""

    bytes: int
    off: float


# The log dirs that may become fullest while a plan runs, on brokers that have several.


@dataclass(frozen=True, slots=True)
class LogDirPeak:
    """One log dir at its fullest. `nine_of_ten_bytes` is not exceeded in nine of ten cases."""

    broker: int
    path: str
    total_bytes: int | None  # None: the broker does not tell (before Kafka 3.3)
    used_bytes: int
    expected_bytes: int
    nine_of_ten_bytes: int
    batch: int  # 0: before the first


@dataclass(frozen=True, slots=True)
class LogDirPeaks:
    """`listed`: the fullest log dirs, fullest first. `count`: all log dirs of brokers that receive replicas."""

    count: int = 0
    listed: tuple[LogDirPeak, ...] = ()


# Which candidate a proposal recommends, and why: kinds and figures, from which `report` makes sentences.


class Why(StrEnum):
    """Why a candidate is recommended, or why none is."""

    CHEAPEST = "cheapest_within_tolerance"
    FEWEST_BYTES = "fewest_bytes_preferred"
    JOB_ALONE = "job_alone"
    NEAREST = "nearest_to_tolerance"
    GIVEN_ALONE = "only_the_given_plan_changes_anything"
    NOTHING_CHANGES = "nothing_changes"
    WITHIN_ALREADY = "cluster_is_within_tolerance"
    NOT_POSSIBLE = "job_not_possible"
    FAILED = "candidates_failed"
    NOTHING_NEARER = "nothing_is_nearer"
    GIVEN_IS_LESS_EVEN = "given_plan_is_less_even"
    GIVEN_FALLS_SHORT = "given_plan_does_not_do_the_job"
    UNKNOWN = ""  # a reason of another version

    @classmethod
    def _missing_(cls, value: object) -> Why:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Furthest:
    """How far the worst broker is from its share, as a fraction of this share."""

    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Beside:
    """Another candidate: what it copies, and how far the worst broker then is from its share, as a fraction of it."""

    candidate: str
    bytes: int
    furthest: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`candidate` is None if none is recommended."""

    candidate: str | None
    why: Why
    tolerance: float
    furthest: Furthest | None = None
    undone: int = 0  # replicas, partitions or disks for which the job is not done
    rack_violations: int = 0
    cheaper: Beside | None = None  # the next one that copies fewer bytes
    more_even: Beside | None = None  # the next one with the worst broker nearer to its share


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
    leader_changes_bound: int | None = None  # no order of these lists within the tolerance changes fewer leaders
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
    between_racks: BetweenRacks | None = omitted()  # None: a rack is unknown, or there is one alone
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


# page.json: what the run's page shows of the plan's tables, so that it need not read them. Rows are lists.


# replicas, leaders, bytes, bytes a second in and out
LoadCells: TypeAlias = tuple[int, int, int, float | int | None, float | int | None]
# broker, rack, disk capacity, before, after, bytes at most, network in and out
BrokerCells: TypeAlias = tuple[
    int, str | None, int | None, LoadCells, LoadCells, int | None, float | int | None, float | int | None
]
# topic, partition, before, after, bytes, batch, reason, leader
MoveCells: TypeAlias = tuple[str, int, tuple[int, ...], tuple[int, ...], int, int, str, int]


@dataclass(frozen=True, slots=True)
class DiskRow:
    """A row of the table `disk`; batch 0 is the time before the first batch."""

    candidate: str
    batch: int
    broker: int
    peak_bytes: int
    after_bytes: int


@dataclass(frozen=True, slots=True)
class CandidatePage:
    name: str
    digest: str
    brokers: tuple[BrokerCells, ...]
    disks: tuple[DiskRow, ...]
    partitions: int
    most_partitions_in_a_batch: int
    most_leader_changes_in_a_batch: int
    largest_moves: tuple[MoveCells, ...]


@dataclass(frozen=True, slots=True)
class PageTables:
    candidates: tuple[CandidatePage, ...]


PAGE_FILE = JsonFile(PAGE, PageTables)


# rejection.json: the cluster's last rejected proposal beside this run's.


@dataclass(frozen=True, slots=True)
class Proposed:
    """The candidate that was or is recommended, its cluster, and how uneven the cluster is. None: unknown."""

    candidate: str
    bytes: int
    partitions: int | None
    highest: float | None  # the highest broker's multiple of its share of bytes on disk, before
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Who rejected which run, when and why. `then` is None if its folder is gone. `same_moves` is a share of `now`."""

    run_id: str
    by: str | None
    at: Time
    note: str | None
    then: Proposed | None
    now: Proposed
    same_moves: float | None

    @property
    def came(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.now.brokers) - set(self.then.brokers if self.then else self.now.brokers)))

    @property
    def went(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.then.brokers if self.then else ()) - set(self.now.brokers)))


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """None: there was no answer, or it was no rejection."""

    rejected: Rejection | None


REJECTION_FILE = JsonFile(REJECTION, LastAnswer)
