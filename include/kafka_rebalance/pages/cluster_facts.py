"""What the clusters' page knows of one cluster, from folders, ledger, leases and Airflow's database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_rebalance.documents.json_files import Time
from kafka_rebalance.pages.nightly_check import NightlyCheck
from kafka_rebalance.pages.run_state import ACTIVE_STATES, RunState, Tone
from kafka_rebalance.pages.trend import Trend

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
    skew: Trend | None = None  # of the worst resource
    trends: tuple[Trend, ...] = ()
    runs: tuple[Run, ...] = ()  # the newest first
    approvals: tuple[OpenRequest, ...] = ()
    lease: Lease | None = None
    janitor: Janitor | None = None
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
        return next((one for one in self.runs if one.is_active), None)

    @property
    def running(self) -> Run | None:
        """The newest run that goes on and waits for nobody."""
        waits = (RunState.WAITING, RunState.PLANNED)
        return next((one for one in self.runs if one.is_active and one.state not in waits), None)

    @property
    def ended(self) -> Run | None:
        """The newest run that is over."""
        return next((one for one in self.runs if not one.is_active), None)
