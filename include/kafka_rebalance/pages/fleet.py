"""The clusters' page: how each cluster is, why, and which comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum, auto

from kafka_rebalance.documents.janitor_report import JanitorReport
from kafka_rebalance.documents.json_files import VERDICT, JsonFile
from kafka_rebalance.documents.proposals import FullestDisk
from kafka_rebalance.documents.snapshot import FullestLogDir
from kafka_rebalance.documents.verdict import Verdict
from kafka_rebalance.model.candidate import Metric, noun_of
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.pages.run_state import ACTIVE_STATES, RunState, Tone
from kafka_rebalance.pages.shell import ANSWER_SECONDS, rendered
from kafka_rebalance.pages.units import format_count, format_duration, format_share

# The clusters' page.


REQUESTS = "requests"  # below the clusters' page: a tag that changes when somebody asks for or gives an approval


def render_overview(overview: Overview, *, static_url: str, overview_url: str, requests_tag: str) -> str:
    """The clusters' page. Its script asks below `overview_url` whether `requests_tag` has changed."""
    return rendered(
        "fleet/overview.html",
        static_url,
        overview=overview,
        title="Kafka balance",
        overview_url=overview_url,
        requests_url=f"{overview_url}/{REQUESTS}",
        requests_tag=requests_tag,
        refresh_seconds=ANSWER_SECONDS,
    )


# What the clusters' page knows of one cluster, from folders, ledger, leases and Airflow's database.


JANITOR_OVERDUE = timedelta(minutes=15)  # it runs every minute, and one look may take ten


@dataclass(frozen=True, slots=True)
class Link:
    """`inside`: to one of our pages, not to one of Airflow's."""

    words: str
    url: str
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """What cannot be read, in a few words, and the whole error."""

    what: str
    error: str


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The newest run of the check's task in Airflow."""

    state: str | None
    at: datetime | None
    link: Link

    @property
    def has_failed(self) -> bool:
        return self.state in ("failed", "upstream_failed")


@dataclass(frozen=True, slots=True)
class Moving:
    """How far a run is that moves partitions, by the notes of its follower."""

    seen_at: datetime
    partitions_done: int
    partitions_total: int
    bytes_copied: int
    bytes_total: int
    rest: str = ""  # the time left, in words; empty if nobody knows
    is_followed: bool = True  # False: nobody has noted anything for a minute
    findings: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()

    @property
    def share_done(self) -> float:
        """Of the bytes; of the partitions if nothing is copied."""
        done, total = self.bytes_copied, self.bytes_total
        if not total:
            done, total = self.partitions_done, self.partitions_total
        return min(1.0, done / total) if total else 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """One rebalance: its state by the run's files, and by Airflow."""

    at: datetime | None
    state: RunState
    airflow_state: str
    link: Link
    problem: str = ""  # why its files do not tell a state
    ended_at: datetime | None = None  # in Airflow
    moving: Moving | None = None

    @property
    def is_active(self) -> bool:
        return self.airflow_state in ACTIVE_STATES

    @property
    def tone(self) -> Tone:
        return Tone.BAD if self.problem else self.state.tone

    @property
    def words(self) -> str:
        return self.problem or self.state.word

    @property
    def contradiction(self) -> str:
        """A sentence if Airflow's state contradicts that of the run's files; else empty."""
        not_verified = (RunState.NOT_AS_APPROVED, RunState.NOT_IN_SYNC, RunState.BROKEN_OFF)
        if self.state in not_verified and self.airflow_state == "success":
            return (
                "Airflow has the run as success, by hand or by a cleared task. Only the verification counts, and it "
                "has not passed."
            )
        if self.state is RunState.VERIFIED and self.airflow_state == "failed":
            return "Airflow has the run as failed, but the cluster is as approved. The failed task's log says why."
        if self.state is RunState.EXECUTING and self.airflow_state == "queued":
            return "Airflow has not started the run's next task."
        return ""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    subject: str
    at: datetime | None
    people: tuple[str, ...]
    link: Link


@dataclass(frozen=True, slots=True)
class Lease:
    """Which run holds the throttle, or why nobody can read its lease."""

    run: str
    bytes_per_second: int | None
    taken_at: datetime | None
    handed_over_at: datetime | None
    link: Link | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the page says of one cluster."""

    connection_id: str
    now: datetime
    check: NightlyCheck | None = None
    check_run: CheckRun | None = None
    skew: Trend | None = None  # of the worst resource
    trends: tuple[Trend, ...] = ()
    runs: tuple[Run, ...] = ()  # the newest first
    approvals: tuple[OpenRequest, ...] = ()
    lease: Lease | None = None
    janitor: JanitorReport | None = None
    is_frozen: bool = False
    problems: tuple[Unread, ...] = ()  # of how it is now
    gaps: tuple[str, ...] = ()  # what cannot be read of its earlier checks

    @property
    def check_failed(self) -> bool:
        return self.check_run is not None and self.check_run.has_failed

    @property
    def janitor_overdue(self) -> bool:
        """Whether the janitor has stopped looking. Then nobody reports copies that no run follows."""
        looked = self.janitor.looked_at if self.janitor is not None else None
        return looked is not None and self.now - looked > JANITOR_OVERDUE

    @property
    def open_run(self) -> Run | None:
        """The newest run that goes on, or waits for a person."""
        return next((run for run in self.runs if run.is_active), None)

    @property
    def running(self) -> Run | None:
        """The newest run that goes on and waits for nobody."""
        waits = (RunState.WAITING, RunState.PLANNED)
        return next((run for run in self.runs if run.is_active and run.state not in waits), None)

    @property
    def ended(self) -> Run | None:
        """The newest run that is over."""
        return next((run for run in self.runs if not run.is_active), None)


# How each cluster is: one word, the reasons for it, what to open, and which cluster comes first.


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
        healths = [row.health for row in self.rows]
        return tuple((healths.count(health), health) for health in Health if health in healths)


def rows_of(clusters: Sequence[Cluster], places: Places) -> tuple[Row, ...]:
    """The most urgent first. Clusters of the same urgency stay in their order."""
    rows = [Row(cluster, reasons_of(cluster, places)) for cluster in clusters]
    return tuple(sorted(rows, key=lambda row: row.reasons[0].urgency if row.reasons else (len(_URGENCY), 0.0)))


def reasons_of(cluster: Cluster, places: Places) -> tuple[Reason, ...]:
    """The most urgent first."""
    reasons = [
        *_of_storage(cluster),
        *_of_runs(cluster),
        *_of_check(cluster, places),
        *_of_disks(cluster, places),
        *_of_janitor(cluster, places),
    ]
    if cluster.is_frozen:
        reasons.append(Reason(Why.FROZEN, "Frozen: no rebalance writes", places.freeze))
    return tuple(sorted(reasons, key=lambda reason: reason.urgency))


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
    asked_at = min((request.at.timestamp() for request in cluster.approvals if request.at is not None), default=0.0)
    if cluster.approvals:
        first = cluster.approvals[0]
        yield Reason(Why.REQUEST_OPEN, first.subject, first.link, asked_at)
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
    if check.is_past_limit and cluster.running is None:
        words = format_count(check.rack_violations, "rack violation", "rack violations")
        if check.imbalance > check.limit:
            words = check.skew_words
        elif not check.rack_violations and check.outside_pools:
            words = format_count(check.outside_pools, "replica outside its pool", "replicas outside their pools")
        is_said_why = check.not_proposed is not None and cluster.open_run is None  # to start one by hand may not help
        remedy = None if is_said_why else _remedy(cluster, places)
        yield Reason(Why.PAST_LIMIT, words, remedy, check.limit - check.imbalance)
    if cluster.now - check.observed_at > CHECK_OVERDUE:
        age = format_duration((cluster.now - check.observed_at).total_seconds())
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
        yield Reason(why, f"The disk of broker {first.broker} is full in {_days_in_words(days)}", remedy, days)
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
    if findings := len(janitor.findings) + len(janitor.warnings):
        words = f"The janitor has {format_count(findings, 'finding', 'findings')}"
        yield Reason(Why.JANITOR_FINDING, words, places.janitor)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


# What the newest nightly check found.


FINDINGS_SHOWN = 5
_LONG_DAYS = 365.0


@dataclass(frozen=True, slots=True)
class NightlyCheck(Verdict):
    """What verdict.json says, and how the page says it."""

    @property
    def is_past_limit(self) -> bool:
        """By its figures alone, which every version has written."""
        return self.imbalance > self.limit or self.rack_violations > 0 or self.outside_pools > 0

    @property
    def findings(self) -> tuple[str, ...]:
        first = self.segments.findings[:FINDINGS_SHOWN] if self.segments is not None else ()
        return tuple(f"{finding.severity.capitalize()}: {finding.words}" for finding in first)

    @property
    def read_only_words(self) -> str:
        """Why runs of this cluster end with a report, and what changes that; empty if they may write."""
        if not self.has_policy:
            return "no policy file says who may approve. Runs plan and report. To change that, add a policy file"
        if not self.has_rights:
            return "the connection lacks rights. Runs plan and report, and name the rights that are missing"
        return ""

    @property
    def controller_words(self) -> str:
        controller = self.controller
        if controller is None:
            return "none was elected"
        queued = controller.queued
        waiting = sum(queue.count for queue in (queued.reassignments, queued.elections, queued.deletions))
        return (
            f"broker {controller.broker}"
            + (f" ({controller.host})" if controller.host else "")
            + (f", {waiting} requests queued" if waiting else "")
            + (f", since {controller.since:%Y-%m-%d %H:%M} UTC" if controller.since else "")
        )

    @property
    def sentence(self) -> str:
        return f"{self.text[:1].upper()}{self.text[1:]}."

    @property
    def skew_words(self) -> str:
        """`Bytes on disk 31 % off their share, limit 20 %`."""
        what = noun_of(self.resource or "loads").capitalize()
        return f"{what} {format_share(self.imbalance)} off their share, limit {format_share(self.limit)}"

    @property
    def fullest_words(self) -> str:
        """`91 %, broker 4`, or `97 %, /data2 of broker 4`."""
        worst = self.disks.worst if self.disks is not None else None
        return "unknown" if worst is None else f"{format_share(worst.used_share)}, {where(worst)}"

    @property
    def until_full_words(self) -> str:
        """`broker 4 is full in 12 d`; empty if no disk is known."""
        worst = self.disks.worst if self.disks is not None else None
        if self.disks is None or worst is None:
            return ""
        first = self.disks.first_full
        if first is None:
            return "no disk fills up" if self.disks.growth_is_known else "growth unknown"
        if first.days > _LONG_DAYS:
            return "not full within a year"
        who = "" if first.broker == worst.broker else f"broker {first.broker} is "
        return f"{who}full in {_days_in_words(first.days)}"


CHECK_FILE = JsonFile(VERDICT, NightlyCheck)


def where(full: FullestDisk | FullestLogDir) -> str:
    return f"{full.path} of broker {full.broker}" if isinstance(full, FullestLogDir) else f"broker {full.broker}"


def _days_in_words(days: float) -> str:
    """`12 d`; below two days with hours: `1 d 4 h`."""
    return f"{format_count(days)} d" if days >= 2 else format_duration(days * 86_400)


# How far the worst broker was off its share of each resource, night by night.


NIGHTS = 30  # days of the ledger in the small plots
METRICS = (Metric.DISK, Metric.REPLICAS, Metric.LEADERS, Metric.BYTES_IN, Metric.LEADER_BYTES_OUT)
WORST = "imbalance"  # of all resources, as the ledger's column is called


@dataclass(frozen=True, slots=True)
class Trend:
    """One resource over the checks of NIGHTS days until `until`, oldest first.

    `skew`: how far the worst broker is off its share.
    """

    resource: str
    at: tuple[datetime, ...]
    skew: tuple[float, ...]
    limit: float
    until: datetime

    @property
    def title(self) -> str:
        return "Worst resource" if self.resource == WORST else noun_of(self.resource).capitalize()

    @property
    def is_past(self) -> bool:
        return self.skew[-1] > self.limit

    @property
    def _top(self) -> float:
        return max(*self.skew, self.limit) * 1.1 or 1.0

    def _height(self, value: float) -> float:
        return round(28 - 26 * value / self._top, 1)

    def _across(self, moment: datetime) -> float:
        share = 1 - (self.until - moment) / timedelta(days=NIGHTS)
        return round(2 + 116 * min(1.0, max(0.0, share)), 1)

    @property
    def points(self) -> str:
        """The points of an SVG polyline in a box of 120 by 30. Its width is the same NIGHTS days for all clusters."""
        checks = zip(self.at, self.skew, strict=True)
        return " ".join(f"{self._across(moment)},{self._height(value)}" for moment, value in checks)

    @property
    def last_point(self) -> tuple[float, float]:
        return self._across(self.at[-1]), self._height(self.skew[-1])

    @property
    def limit_height(self) -> float:
        return self._height(self.limit)


def trends(observations: Sequence[tuple[datetime, str, float, float]], until: datetime) -> tuple[Trend, ...]:
    """From (time, resource, skew, limit) in any order: one for each resource, in the order of METRICS, WORST first."""
    by_resource: dict[str, list[tuple[datetime, float, float]]] = {}
    for at, resource, skew, limit in observations:
        by_resource.setdefault(resource, []).append((at, skew, limit))
    known = [WORST, *METRICS]
    known += sorted(set(by_resource) - set(known))
    return tuple(
        Trend(name, tuple(at for at, _, _ in rows), tuple(skew for _, skew, _ in rows), rows[-1][2], until)
        for name in known
        if (rows := sorted(by_resource.get(name, ())))
    )
