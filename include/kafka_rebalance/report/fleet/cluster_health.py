"""The overview of the fleet: values and words for each cluster, out of the folders' documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kafka_rebalance.documents.controller import Queue
from kafka_rebalance.documents.json_files import Time, decode
from kafka_rebalance.report.fleet.trend import Trend
from kafka_rebalance.report.run_state import RunState, Tone

NIGHTS = 30  # of the ledger, in the small pictures
CHECK_OVERDUE = timedelta(hours=36)  # it comes every night
JANITOR_OVERDUE = timedelta(minutes=15)  # it comes every minute, and has ten for a look
FINDINGS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Link:
    """`inside` is one of our pages; the others are Airflow's."""

    words: str
    url: str
    inside: bool = False


@dataclass(frozen=True, slots=True)
class NightlyCheck:
    """What the newest nightly check found."""

    at: datetime
    text: str
    past_limit: bool
    segment_errors: int
    segment_warnings: int
    findings: tuple[str, ...]
    controller: str
    is_whole: bool = True  # False: brokers or partitions were left out, as the text says

    @property
    def sentence(self) -> str:
        return f"{self.text[:1].upper()}{self.text[1:]}."


@dataclass(frozen=True, slots=True)
class CheckRun:
    """Airflow's newest run of the check's task for this cluster."""

    state: str | None
    at: datetime | None
    link: Link


@dataclass(frozen=True, slots=True)
class Run:
    """One rebalance: our own state of it beside Airflow's."""

    at: datetime | None
    state: RunState
    airflow_state: str
    link: Link
    problem: str = ""  # why our state cannot be told

    @property
    def tone(self) -> Tone:
        return Tone.BAD if self.problem else self.state.tone

    @property
    def words(self) -> str:
        return self.problem or self.state.word

    @property
    def contradiction(self) -> str:
        """What Airflow says where it is not what the run's files say."""
        not_verified = (RunState.NOT_AS_APPROVED, RunState.NOT_IN_SYNC, RunState.BROKEN_OFF)
        if self.state in not_verified and self.airflow_state == "success":
            return "Airflow has the run as success, by hand or by a cleared task. What counts is the verification."
        if self.state is RunState.VERIFIED and self.airflow_state == "failed":
            return "Airflow has the run as failed, but the cluster is as approved. The failed task's log says why."
        if self.state is RunState.EXECUTING and self.airflow_state == "queued":
            return "Airflow has not started the run's next task."
        return ""


@dataclass(frozen=True, slots=True)
class Approval:
    subject: str
    at: datetime | None
    people: tuple[str, ...]
    link: Link


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds the throttle; or why its lease cannot be read."""

    run: str
    bytes_per_second: int | None
    taken_at: datetime | None
    handed_over_at: datetime | None
    link: Link | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that the janitor found. `id` is what its Dag's `clean` takes."""

    text: str
    remedy: str
    id: str
    can_be_cleaned: bool


@dataclass(frozen=True, slots=True)
class Janitor:
    """The janitor's last report."""

    looked_at: Time | None = None
    alerts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    findings: tuple[Leftover, ...] = ()
    lock: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything the overview says of one cluster."""

    connection_id: str
    now: datetime
    check: NightlyCheck | None = None
    check_run: CheckRun | None = None
    trends: tuple[Trend, ...] = ()
    runs: tuple[Run, ...] = ()
    approvals: tuple[Approval, ...] = ()
    lease: Lease | None = None
    janitor: Janitor | None = None
    is_frozen: bool = False
    problems: tuple[str, ...] = ()  # what could not be read, in words

    @property
    def check_failed(self) -> bool:
        """Whether Airflow's newest check of this cluster failed, or is the last one too long ago."""
        return self.check_run is not None and self.check_run.state in ("failed", "upstream_failed")

    @property
    def check_overdue(self) -> bool:
        return self.check is not None and self.now - self.check.at > CHECK_OVERDUE

    @property
    def janitor_overdue(self) -> bool:
        """Whether the janitor has stopped looking: then nobody tells of copies that nobody follows."""
        looked = self.janitor.looked_at if self.janitor is not None else None
        return looked is not None and self.now - looked > JANITOR_OVERDUE

    @property
    def _bad(self) -> list[str]:
        said = []
        if self.problems:
            said.append("not everything could be read")
        if self.janitor is not None and self.janitor.alerts:
            said.append("the janitor needs somebody")
        if self.janitor_overdue:
            said.append("the janitor does not look after it any more")
        if self.lease is not None and self.lease.problem:
            said.append("its throttle lease cannot be read")
        if self.check_failed:
            said.append("the last check failed")
        if self.runs and self.runs[0].tone is Tone.BAD:
            said.append(self.runs[0].words if not self.runs[0].problem else "its last run cannot be read")
        if self.check is not None and self.check.segment_errors:
            said.append("errors in segment settings")
        return said

    @property
    def _attention(self) -> list[str]:
        said = []
        if self.approvals:
            said.append(RunState.WAITING.word)
        if self.is_frozen:
            said.append("frozen")
        if self.check is None and not self.problems:
            said.append("not checked yet")
        elif self.check_overdue:
            said.append("the last check is long ago")
        if self.check is not None and self.check.past_limit:
            said.append("past its limit")
        if self.check is not None and not self.check.is_whole:
            said.append("not everything was measured")
        if self.runs and self.runs[0].tone is Tone.ATTENTION and self.runs[0].words not in said:
            said.append(self.runs[0].words)
        if self.janitor is None and not self.problems:
            said.append("the janitor has not looked yet")
        elif self.janitor is not None and (self.janitor.findings or self.janitor.warnings):
            said.append("the janitor found something")
        return said

    @property
    def tone(self) -> Tone:
        return Tone.BAD if self._bad else Tone.ATTENTION if self._attention else Tone.GOOD

    @property
    def health(self) -> str:
        """In a few words, what is worst first."""
        said = "; ".join([*self._bad, *self._attention]) or "balanced, nothing to do"
        return said[0].upper() + said[1:]


@dataclass(frozen=True, slots=True)
class Overview:
    """The page. `problem` says why there is no list of clusters, or what else holds for all of them."""

    now: datetime
    clusters: tuple[Cluster, ...]
    problems: tuple[str, ...] = ()
    freeze_link: Link | None = None
    all_frozen: bool = False

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many clusters there are of each tone, worst first."""
        words = {Tone.BAD: "for somebody to act on", Tone.ATTENTION: "to look at", Tone.GOOD: "fine"}
        tones = [cluster.tone for cluster in self.clusters]
        return tuple((words[tone], tones.count(tone)) for tone in words if tone in tones)


def worst_first(clusters: Sequence[Cluster]) -> tuple[Cluster, ...]:
    """By health, then in the Variable's order."""
    return tuple(sorted(clusters, key=lambda cluster: tuple(Tone).index(cluster.tone)))


@dataclass(frozen=True, slots=True)
class _Finding:
    severity: str
    text: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class _Segments:
    findings: tuple[_Finding, ...]


@dataclass(frozen=True, slots=True)
class _Controller:
    broker: int
    host: str | None = None
    since: Time | None = None
    queued: Mapping[str, Queue] = field(default_factory=dict)

    def __str__(self) -> str:
        waiting = sum(queue.count for queue in self.queued.values())
        return (
            f"broker {self.broker}"
            + (f" ({self.host})" if self.host else "")
            + (f", {waiting} requests queued" if waiting else "")
            + (f", since {self.since:%Y-%m-%d %H:%M} UTC" if self.since else "")
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a page reads of verdict.json."""

    observed_at: Time
    text: str
    imbalance: float
    limit: float
    rack_violations: int
    segment_errors: int | None = None
    segment_warnings: int | None = None
    segments: _Segments | None = None
    controller: _Controller | None = None
    is_whole: bool = True


def read_check(verdict: Mapping[str, object]) -> NightlyCheck:
    """verdict.json. Raises ArtifactError naming the key that cannot be used."""
    found = decode(_Verdict, verdict, "verdict.json")
    findings = found.segments.findings if found.segments is not None else ()
    return NightlyCheck(
        at=found.observed_at,
        text=found.text,
        past_limit=found.imbalance > found.limit or found.rack_violations > 0,
        segment_errors=found.segment_errors or 0,
        segment_warnings=found.segment_warnings or 0,
        findings=tuple(f"{one.severity.capitalize()}: {one.words or one.text}" for one in findings[:FINDINGS_SHOWN]),
        controller=str(found.controller or "none was elected"),
        is_whole=found.is_whole,
    )


def read_janitor(report: Mapping[str, object]) -> Janitor | None:
    """The janitor's report; None where it is empty."""
    return decode(Janitor, report, "the janitor's report") if report else None
