"""How each cluster is: one word, the reasons for it, what to open, and which cluster comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum, auto

from kafka_rebalance.documents.disks import FullestLogDir
from kafka_rebalance.documents.proposals import FullestDisk
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.pages.cluster_facts import Cluster, Link
from kafka_rebalance.pages.nightly_check import days_in_words, where
from kafka_rebalance.pages.run_state import RunState, Tone
from kafka_rebalance.pages.units import format_count, format_duration, format_share

CHECK_OVERDUE = timedelta(hours=36)  # it runs every night
# From the request to the verified end, a rebalance may take a week. A month is the time to order brokers.
FULL_SOON_DAYS, FULL_LATER_DAYS = 7.0, 30.0
FULL_SHARE = 0.95
NEARLY_FULL_SHARE = 1 - Settings().disk_headroom  # by default, no plan fills a disk beyond this


class Health(StrEnum):
    """One word, the most urgent first. The values are CSS classes too."""

    UNKNOWN = auto()  # how the cluster is now cannot be read
    ACT = auto()
    ANSWER = auto()  # a request waits for a person
    WATCH = auto()
    OK = auto()


class Why(StrEnum):
    UNREAD = auto()
    LEASE_UNREAD = auto()
    RUN_UNREAD = auto()
    JANITOR_ALERT = auto()
    RUN_NOT_FOLLOWED = auto()
    RUN_ENDED_BADLY = auto()
    DISK_FULL = auto()
    RUN_HELD_UP = auto()
    CHECK_FAILED = auto()
    JANITOR_OVERDUE = auto()
    SEGMENT_ERRORS = auto()
    REQUEST_OPEN = auto()
    DISK_FILLS_UP = auto()
    PAST_LIMIT = auto()
    RUN_NEEDS_A_LOOK = auto()
    CHECK_OVERDUE = auto()
    PARTLY_MEASURED = auto()
    HISTORY_UNREAD = auto()
    JANITOR_FINDING = auto()
    FROZEN = auto()
    NOT_CHECKED = auto()
    NOT_LOOKED_AFTER = auto()


# The order of urgency: a cluster is as urgent as the first of its reasons here.
_BY_HEALTH = {
    Health.UNKNOWN: (Why.UNREAD, Why.LEASE_UNREAD, Why.RUN_UNREAD),
    Health.ACT: (
        Why.JANITOR_ALERT,
        Why.RUN_NOT_FOLLOWED,
        Why.RUN_ENDED_BADLY,
        Why.DISK_FULL,
        Why.RUN_HELD_UP,
        Why.CHECK_FAILED,
        Why.JANITOR_OVERDUE,
        Why.SEGMENT_ERRORS,
    ),
    Health.ANSWER: (Why.REQUEST_OPEN,),
    Health.WATCH: (
        Why.DISK_FILLS_UP,
        Why.PAST_LIMIT,
        Why.RUN_NEEDS_A_LOOK,
        Why.CHECK_OVERDUE,
        Why.PARTLY_MEASURED,
        Why.HISTORY_UNREAD,
        Why.JANITOR_FINDING,
        Why.FROZEN,
        Why.NOT_CHECKED,
        Why.NOT_LOOKED_AFTER,
    ),
}
_HEALTH = {why: health for health, whys in _BY_HEALTH.items() for why in whys}
_URGENCY = list(_HEALTH)


@dataclass(frozen=True, slots=True)
class Reason:
    """`link` is where to act on it. Of two clusters with the same reason, the one with less `left` is more urgent."""

    why: Why
    words: str
    link: Link | None = None
    left: float = 0.0

    @property
    def health(self) -> Health:
        return _HEALTH[self.why]

    @property
    def urgency(self) -> tuple[int, float]:
        """Less is more urgent."""
        return _URGENCY.index(self.why), self.left


@dataclass(frozen=True, slots=True)
class Places:
    """Airflow's pages of what one may have to open."""

    check: Link
    janitor: Link
    rebalance: Link
    plan_only: Link  # the same Dag, for a cluster that nobody may write to
    freeze: Link
    connections: Link
    variables: Link


@dataclass(frozen=True, slots=True)
class Row:
    """One cluster of the table. `reasons` has the most urgent first; none: the cluster is well."""

    cluster: Cluster
    reasons: tuple[Reason, ...]

    @property
    def health(self) -> Health:
        return self.reasons[0].health if self.reasons else Health.OK

    @property
    def words(self) -> str:
        return self.reasons[0].words if self.reasons else "Balanced, nothing to do"


@dataclass(frozen=True, slots=True)
class Overview:
    """The page. `problems` say why there is no list of clusters, or what else concerns all of them."""

    now: datetime
    rows: tuple[Row, ...]
    places: Places
    problems: tuple[str, ...] = ()
    all_frozen: bool = False

    @property
    def counts(self) -> tuple[tuple[int, Health], ...]:
        """Clusters of each health, the most urgent first."""
        found = [row.health for row in self.rows]
        return tuple((found.count(health), health) for health in Health if health in found)


def rows_of(clusters: Sequence[Cluster], places: Places) -> tuple[Row, ...]:
    """The most urgent first. Clusters of the same urgency stay in their order."""
    rows = [Row(cluster, reasons_of(cluster, places)) for cluster in clusters]
    return tuple(sorted(rows, key=lambda row: row.reasons[0].urgency if row.reasons else (len(_URGENCY), 0.0)))


def reasons_of(cluster: Cluster, places: Places) -> tuple[Reason, ...]:
    """The most urgent first."""
    found = [
        *_of_storage(cluster),
        *_of_runs(cluster),
        *_of_check(cluster, places),
        *_of_disks(cluster, places),
        *_of_janitor(cluster, places),
    ]
    if cluster.is_frozen:
        found.append(Reason(Why.FROZEN, "Frozen: no rebalance writes", places.freeze))
    return tuple(sorted(found, key=lambda reason: reason.urgency))


def _of_storage(cluster: Cluster) -> Iterator[Reason]:
    if cluster.problems:
        yield Reason(Why.UNREAD, cluster.problems[0].what)
    if cluster.lease is not None and cluster.lease.problem:
        yield Reason(Why.LEASE_UNREAD, "Its throttle lease cannot be read")
    if cluster.gaps:
        yield Reason(Why.HISTORY_UNREAD, "Some of its earlier checks cannot be read")


def _of_runs(cluster: Cluster) -> Iterator[Reason]:
    last = cluster.runs[0] if cluster.runs else None
    if last is not None and last.problem:
        yield Reason(Why.RUN_UNREAD, "Its last run cannot be read", last.link)
    elif last is not None and last.tone is Tone.BAD:
        yield Reason(Why.RUN_ENDED_BADLY, _sentence(last.state.word), last.link)
    elif last is not None and last.tone is Tone.ATTENTION and last.state is not RunState.WAITING:
        yield Reason(Why.RUN_NEEDS_A_LOOK, _sentence(last.state.word), last.link)
    for run in cluster.runs:
        moving = run.moving
        if moving is not None and not moving.is_followed:
            silent = format_duration((cluster.now - moving.seen_at).total_seconds())
            yield Reason(Why.RUN_NOT_FOLLOWED, f"Nobody has followed its run for {silent}", run.link)
        elif moving is not None and (held_up := [*moving.waits_for, *moving.findings]):
            yield Reason(Why.RUN_HELD_UP, held_up[0], run.link)
    asked = min((one.at.timestamp() for one in cluster.approvals if one.at is not None), default=0.0)
    if cluster.approvals:
        first = cluster.approvals[0]
        yield Reason(Why.REQUEST_OPEN, first.subject, first.link, asked)
    elif last is not None and last.state is RunState.WAITING and not last.problem:
        yield Reason(Why.REQUEST_OPEN, "Waits for approval", last.link)


def _of_check(cluster: Cluster, places: Places) -> Iterator[Reason]:
    check = cluster.check
    log = cluster.check_run.link if cluster.check_run is not None else places.check
    if cluster.check_failed:
        yield Reason(Why.CHECK_FAILED, "The last check failed", log)
    if check is None:
        if not cluster.problems:
            yield Reason(Why.NOT_CHECKED, "Not checked yet", places.check)
        return
    if check.segment_errors:
        errors = format_count(check.segment_errors, "error", "errors")
        yield Reason(Why.SEGMENT_ERRORS, f"{errors} in segment settings", log, -check.segment_errors)
    if check.past_limit and cluster.running is None:
        words = format_count(check.rack_violations, "rack violation", "rack violations")
        if check.imbalance > check.limit:
            words = check.skew_words
        elif not check.rack_violations and check.outside_pools:
            words = format_count(check.outside_pools, "replica outside its pool", "replicas outside their pools")
        is_said_why = check.proposes_nothing and cluster.open_run is None  # to start one by hand may not help
        remedy = None if is_said_why else _remedy(cluster, places)
        yield Reason(Why.PAST_LIMIT, words, remedy, check.limit - check.imbalance)
    if cluster.now - check.at > CHECK_OVERDUE:
        age = format_duration((cluster.now - check.at).total_seconds())
        yield Reason(Why.CHECK_OVERDUE, f"Not checked for {age}", places.check)
    if not check.is_whole:
        yield Reason(Why.PARTLY_MEASURED, "Not everything was measured", log)


def _of_disks(cluster: Cluster, places: Places) -> Iterator[Reason]:
    """One reason, of the disk that is full first, or else of the fullest one."""
    disks, remedy = cluster.check.disks if cluster.check is not None else None, _remedy(cluster, places)
    if disks is None:
        return
    fullest, first = disks.worst, disks.first_full
    share, days = fullest.used_share if fullest is not None else 0.0, first.days if first is not None else float("inf")
    if fullest is not None and share >= FULL_SHARE:
        yield Reason(Why.DISK_FULL, _full(fullest), remedy, min(days, FULL_SOON_DAYS))
    elif first is not None and days <= FULL_LATER_DAYS:
        why = Why.DISK_FULL if days <= FULL_SOON_DAYS else Why.DISK_FILLS_UP
        yield Reason(why, f"The disk of broker {first.broker} is full in {days_in_words(days)}", remedy, days)
    elif fullest is not None and share > NEARLY_FULL_SHARE:
        yield Reason(Why.DISK_FILLS_UP, _full(fullest), remedy, FULL_LATER_DAYS)


def _remedy(cluster: Cluster, places: Places) -> Link:
    """The run that is to make the cluster even, or where to start one."""
    if cluster.open_run is not None:
        return cluster.open_run.link
    is_read_only = cluster.check is not None and bool(cluster.check.read_only_words)
    return places.plan_only if is_read_only else places.rebalance


def _full(full: FullestDisk | FullestLogDir) -> str:
    what = "" if isinstance(full, FullestLogDir) else "The disk of "
    return f"{what}{where(full)} is {format_share(full.used_share)} full"


def _of_janitor(cluster: Cluster, places: Places) -> Iterator[Reason]:
    janitor = cluster.janitor
    if janitor is None:
        if not cluster.problems:
            yield Reason(Why.NOT_LOOKED_AFTER, "The janitor has not looked yet", places.janitor)
        return
    if janitor.alerts:
        yield Reason(Why.JANITOR_ALERT, janitor.alerts[0], places.janitor)
    if cluster.janitor_overdue:
        yield Reason(Why.JANITOR_OVERDUE, "The janitor has stopped looking after it", places.janitor)
    if found := len(janitor.findings) + len(janitor.warnings):
        words = f"The janitor has {format_count(found, 'finding', 'findings')}"
        yield Reason(Why.JANITOR_FINDING, words, places.janitor)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
