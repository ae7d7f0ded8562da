"""The clusters' page: values and words for each cluster, from the documents of the runs' folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kafka_rebalance.documents.controller import Queue
from kafka_rebalance.documents.json_files import Time, decode
from kafka_rebalance.report.fleet.trend import Trend
from kafka_rebalance.report.run_state import RunState, Tone

NIGHTS = 30  # days of the ledger in the small plots
CHECK_OVERDUE = timedelta(hours=36)  # it runs every night
JANITOR_OVERDUE = timedelta(minutes=15)  # it runs every minute, and one look may take ten
FINDINGS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Link:
    """`inside`: to one of our pages, not to one of Airflow's."""

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
    is_whole: bool = True  # False: the check left out brokers or partitions, and the text names them

    @property
    def sentence(self) -> str:
        return f"{self.text[:1].upper()}{self.text[1:]}."


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The newest run of the check's task in Airflow."""

    state: str | None
    at: datetime | None
    link: Link


@dataclass(frozen=True, slots=True)
class Run:
    """One rebalance: its state by the run's files, and by Airflow."""

    at: datetime | None
    state: RunState
    airflow_state: str
    link: Link
    problem: str = ""  # why its files do not tell a state

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
class Leftover:
    """A finding of the janitor. `id` is the value for the parameter `clean` of its Dag."""

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
    """What the page says of one cluster."""

    connection_id: str
    now: datetime
    check: NightlyCheck | None = None
    check_run: CheckRun | None = None
    trends: tuple[Trend, ...] = ()
    runs: tuple[Run, ...] = ()
    approvals: tuple[OpenRequest, ...] = ()
    lease: Lease | None = None
    janitor: Janitor | None = None
    is_frozen: bool = False
    problems: tuple[str, ...] = ()  # what could not be read

    @property
    def check_failed(self) -> bool:
        return self.check_run is not None and self.check_run.state in ("failed", "upstream_failed")

    @property
    def janitor_overdue(self) -> bool:
        """Whether the janitor has stopped looking. Then nobody reports copies that no run follows."""
        looked = self.janitor.looked_at if self.janitor is not None else None
        return looked is not None and self.now - looked > JANITOR_OVERDUE

    @property
    def _bad(self) -> list[str]:
        last = self.runs[0] if self.runs and self.runs[0].tone is Tone.BAD else None
        found = {
            "not everything could be read": self.problems,
            "the janitor needs somebody to act": self.janitor is not None and self.janitor.alerts,
            "the janitor has stopped looking after it": self.janitor_overdue,
            "its throttle lease cannot be read": self.lease is not None and self.lease.problem,
            "the last check failed": self.check_failed,
            "its last run cannot be read": last is not None and last.problem,
            last.words if last is not None else "": last is not None and not last.problem,
            "errors in segment settings": self.check is not None and self.check.segment_errors,
        }
        return [words for words, holds in found.items() if holds]

    @property
    def _attention(self) -> list[str]:
        check, janitor, unread = self.check, self.janitor, bool(self.problems)
        last = self.runs[0] if self.runs and self.runs[0].tone is Tone.ATTENTION else None
        found = {
            RunState.WAITING.word: self.approvals,
            "frozen": self.is_frozen,
            "not checked yet": check is None and not unread,
            "the last check is too old": check is not None and self.now - check.at > CHECK_OVERDUE,
            "past its limit": check is not None and check.past_limit,
            "not everything was measured": check is not None and not check.is_whole,
            last.words if last is not None else "": last,
            "the janitor has not looked yet": janitor is None and not unread,
            "the janitor found something": janitor is not None and (janitor.findings or janitor.warnings),
        }
        return [words for words, holds in found.items() if holds]

    @property
    def tone(self) -> Tone:
        return Tone.BAD if self._bad else Tone.ATTENTION if self._attention else Tone.GOOD

    @property
    def health(self) -> str:
        """In a few words, the worst first."""
        said = "; ".join([*self._bad, *self._attention]) or "balanced, nothing to do"
        return said[0].upper() + said[1:]


@dataclass(frozen=True, slots=True)
class Overview:
    """The page. `problems` say why there is no list of clusters, or what else concerns all of them."""

    now: datetime
    clusters: tuple[Cluster, ...]
    problems: tuple[str, ...] = ()
    freeze_link: Link | None = None
    all_frozen: bool = False

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """(words, clusters) of each tone, the worst first."""
        words = {Tone.BAD: "to act on", Tone.ATTENTION: "to look at", Tone.GOOD: "fine"}
        tones = [cluster.tone for cluster in self.clusters]
        return tuple((words[tone], tones.count(tone)) for tone in words if tone in tones)


def worst_first(clusters: Sequence[Cluster]) -> tuple[Cluster, ...]:
    """The worst first; clusters of the same tone stay in their order."""
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
    """The part of verdict.json that the page shows."""

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
    """From verdict.json. Raises ArtifactError, naming the missing or wrong key."""
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
    return decode(Janitor, report, "the janitor's report") if report else None
