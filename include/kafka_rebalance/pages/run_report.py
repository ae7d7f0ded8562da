"""The values behind one run's page. Units: bytes, seconds, bytes per second. None is unknown."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from kafka_rebalance.documents.json_files import DECISION, SNAPSHOT, JsonFile
from kafka_rebalance.documents.progress import (
    BATCHES_FILE,
    DONE,
    PROGRESS_FILE,
    BatchNote,
    BatchNotes,
    Happening,
    Progress,
    Stopped,
    WindowPause,
)
from kafka_rebalance.documents.proposals import (
    PROPOSALS_FILE,
    REJECTION_FILE,
    Diagnosis,
    DiskRow,
    HistoryUsed,
    LastAnswer,
    MetricsServerUsed,
    Proposals,
    ProposedCandidate,
    ReadByGroups,
    Recommendation,
    Rejection,
    Why,
    WorstHour,
)
from kafka_rebalance.documents.rate_steps import RATE_STEPS_FILE, RateSteps
from kafka_rebalance.documents.segments import SEGMENTS_FILE, SegmentReport
from kafka_rebalance.documents.snapshot import (
    SNAPSHOT_FILE,
    SnapshotTaken,
)
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.documents.throttle_lease import THROTTLE_FILE, ThrottleLease
from kafka_rebalance.model.amounts_in_words import bound_in_words
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.recurring_window import DAYS
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.moves.eta import ASSUMED, MIN_SECONDS, EtaRange, eta_range, paused_seconds, with_controller
from kafka_rebalance.moves.windows import Window
from kafka_rebalance.pages.candidate_report import CandidateReport, DiskCourse, LimitUse, limit_uses
from kafka_rebalance.pages.run_state import RunFacts, RunState, run_facts, run_state
from kafka_rebalance.pages.tables import NO_TABLES, BrokerChange, CandidateTables
from kafka_rebalance.pages.units import format_bytes, format_count, format_duration, format_range, format_share
from kafka_rebalance.run.approval_rules import DECISION_FILE, Decision, on_buttons
from kafka_rebalance.run.approved_plan import LEFT_OUT_FILE, LeftOut, LeftOutMoves
from kafka_rebalance.run.check_result import VERIFICATION_FILE, Verification, checks_in_order
from kafka_rebalance.run.ledger import ESTIMATE_FILE, Estimate
from kafka_rebalance.run.stop_and_cancel_requests import CANCELLED_FILE, CONTROL_FILE, Cancelled, Control
from kafka_rebalance.throttle.rates import RATES_FILE, CandidateRates, Rates, range_from

_MONTH_SECONDS = 30 * 86_400  # of a price


@dataclass(frozen=True, slots=True)
class RunReport:
    """All that the page and the approval request say about one run.

    A field with a default may be missing: its task has not run yet, or an older version made the run.
    """

    taken: SnapshotTaken
    reason: str
    settings: Settings
    policy: Policy | None
    candidates: tuple[CandidateReport, ...]
    recommended: str | None
    ranking: tuple[str, ...]  # candidates, in the order in which they are offered; empty if the plan has none
    recommendation: Recommendation | None  # None: the plan does not say why
    segments: SegmentReport | None
    decision: Decision | None
    execution: Execution
    verification: Verification | None
    history: str | None  # the source of bytes in, in words; None: planned without the ledger's samples
    bytes_out: str | None  # and of what consumers read; None: not measured
    problems: tuple[str, ...]  # contradictions between the files of the run, in words
    facts: RunFacts
    left_out: tuple[LeftOut, ...] = ()
    estimate: Estimate | None = None
    outlook: Diagnosis | None = None
    window: Window = field(default_factory=Window)
    costs: Mapping[str, CandidateRates] = field(default_factory=dict)  # by candidate
    rejection: Rejection | None = None

    @property
    def focus(self) -> CandidateReport | None:
        """The candidate that the page is about: the approved one, else the recommended one, else the first."""
        by_name = {candidate.name: candidate for candidate in reversed(self.candidates)}
        chosen = by_name.get(self.decision.choice or "") if self.decision else None
        return chosen or by_name.get(self.recommended or "") or next(iter(self.candidates), None)

    @property
    def best(self) -> CandidateReport | None:
        """The recommended candidate."""
        return next((candidate for candidate in self.candidates if candidate.name == self.recommended), None)

    @property
    def approved_at(self) -> datetime | None:
        return self.decision.approved_at if self.decision is not None else None

    @property
    def ratios(self) -> tuple[float, ...]:
        """How much longer than planned earlier runs of the cluster took."""
        return self.estimate.ratios if self.estimate is not None else ()

    @property
    def limits(self) -> tuple[LimitUse, ...]:
        """Of the candidate in focus."""
        focus = self.focus
        return () if focus is None else limit_uses(self.policy, self.settings, focus, self.throttle_of(focus))

    def bound_of(self, candidate: CandidateReport) -> str:
        """The bytes of the candidate beside the bound, in words."""
        is_even = candidate.status == "ok" and candidate.name in ("balanced", "optimal")
        tolerance = self.settings.tolerance if is_even else None
        return bound_in_words(candidate.moved_bytes, candidate.moved_bytes_bound, tolerance)

    def price_between_racks(self, candidate: CandidateReport) -> str | None:
        """What its copies between racks cost, in the currency of the policy; None if a figure is unknown."""
        return self._price(candidate.cross_rack_bytes)

    def monthly_prices_between_racks(self, candidate: CandidateReport) -> tuple[str, str] | None:
        """(today, after the plan) what goes between racks in 30 days costs, if consumers fetch from leaders.

        None if a figure is unknown. What consumers read counts only if it is known.
        """
        racks = candidate.between_racks
        if racks is None or racks.before is None or racks.after is None:
            return None
        prices = [
            self._price(_MONTH_SECONDS * (traffic.replication + traffic.producers + (traffic.consumers or 0)))
            for traffic in (racks.before, racks.after)
        ]
        return None if None in prices else (prices[0] or "", prices[1] or "")

    def _price(self, bytes_between_racks: int | None) -> str | None:
        price = None if self.policy is None else self.policy.price_per_gb_between_racks
        if price is None or bytes_between_racks is None:
            return None
        return f"{bytes_between_racks / 1e9 * price:,.2f}"

    def throttle_of(self, candidate: CandidateReport) -> float | None:
        """Bytes per second and broker: as approved, else as found for this candidate, else as requested."""
        if self.decision is not None and self.decision.throttle_bytes_per_second is not None:
            return self.decision.throttle_bytes_per_second
        cost = self.costs.get(candidate.name)
        auto = cost.auto_bytes_per_second if cost is not None else None
        return auto if auto is not None else self.settings.throttle_bytes_per_second

    def lowest_throttle_of(self, candidate: CandidateReport) -> float | None:
        """Of a range: as approved, else as the run would ask for; None: one rate."""
        highest, decision = self.throttle_of(candidate), self.decision
        if decision is not None and decision.throttle_bytes_per_second is not None:
            return decision.throttle_from_bytes_per_second
        return range_from(self.settings.throttle_from_bytes_per_second, self.costs.get(candidate.name), highest)

    def slowest_seconds(self, candidate: CandidateReport) -> float | None:
        """The plan's time if every broker stayed at the lowest rate of a range; None: one rate, or no time is known."""
        lowest, highest = self.lowest_throttle_of(candidate), self.throttle_of(candidate)
        if lowest is None or candidate.makespan_seconds is None or not highest:
            return None
        return with_controller(candidate.makespan_seconds * highest / lowest, candidate.batches)

    def planned_seconds(self, candidate: CandidateReport, bytes_per_second: float | None) -> float | None:
        """The plan's time at another throttle of one broker than `throttle_of`; None if it is not known."""
        copying = self._copying_seconds(candidate, bytes_per_second)
        return None if copying is None else with_controller(copying, candidate.batches)

    def seconds_left(self, candidate: CandidateReport, bytes_per_second: float | None) -> float | None:
        """The part of `planned_seconds` that the remaining bytes and batches take."""
        copying, progress = self._copying_seconds(candidate, bytes_per_second), self.execution.progress
        if copying is None or progress is None or progress.batches_left is None:
            return self.planned_seconds(candidate, bytes_per_second)
        return with_controller(copying * progress.share_left, progress.batches_left)

    def _copying_seconds(self, candidate: CandidateReport, bytes_per_second: float | None) -> float | None:
        planned = self.throttle_of(candidate)
        if candidate.makespan_seconds is None or planned is None or not bytes_per_second:
            return candidate.makespan_seconds
        return candidate.makespan_seconds * planned / bytes_per_second

    def takes(self, candidate: CandidateReport) -> EtaRange | None:
        """How long the plan takes here, by earlier runs; None if the plan has no time."""
        seconds = candidate.planned_seconds
        if seconds is None:
            return None
        if seconds < MIN_SECONDS:  # too short for a range that says anything
            return EtaRange(seconds, seconds, 0)
        return eta_range(seconds, self.ratios)

    def finishes_in(self, candidate: CandidateReport) -> str:
        """How long the plan takes here, by earlier runs: `38–52 min, from 12 runs here`; empty if nobody can say."""
        seconds, takes = candidate.planned_seconds, self.takes(candidate)
        if self.estimate is None or takes is None or seconds is None or seconds < MIN_SECONDS:
            return ""
        between, runs = format_range(takes.low, takes.high), format_count(takes.runs, "run", "runs")
        if takes.is_measured:
            return f"{between}, from {runs} here"
        few = f"{runs} here {'is' if takes.runs == 1 else 'are'} too few to tell"
        return f"{between}, assumed at {ASSUMED[0]}–{ASSUMED[1]} times the plan: {few}"

    @property
    def state(self) -> RunState:
        return run_state(self.facts)

    def in_airflow(self, *, is_active: bool, has_open_request: bool | None = None) -> RunReport:
        """The report with what Airflow says of the run."""
        facts = dataclasses.replace(self.facts, is_active=is_active, has_open_request=has_open_request)
        return dataclasses.replace(self, facts=facts)

    @property
    def stopped(self) -> tuple[str, ...]:
        """Candidates that are not offered: with today's segment settings, a copy could not catch up."""
        return self.segments.stopped if self.segments else ()

    @property
    def aside(self) -> tuple[str, ...]:
        """Candidates that a person may approve, but that have no button in the request."""
        names = [c.name for c in self.candidates if c.status in OFFERED and c.name not in self.stopped]
        offered = on_buttons(names, self.ranking or (self.recommended or "",))
        return tuple(name for name in names if name not in offered)


# The report of one run, built from the files of its folder.


_NO_PLAN = Proposals("", {}, None, ())


def build_report(files: RunFiles, tables: Mapping[str, CandidateTables] = MappingProxyType({})) -> RunReport:
    """`tables` is by candidate. Raises ArtifactError for tables that contradict each other, SettingsError."""
    taken, plan, checks = files.snapshot, files.proposals or _NO_PLAN, files.verification
    candidates = tuple(_candidate(candidate, tables.get(candidate.name, NO_TABLES)) for candidate in plan.candidates)
    is_explained = plan.recommendation is not None and plan.recommendation.why is not Why.UNKNOWN
    report = RunReport(
        taken=taken,
        reason=taken.reason.strip(),
        settings=taken.asked,
        policy=Policy.from_mapping(taken.policy, f"{SNAPSHOT}: policy") if taken.policy else None,
        candidates=candidates,
        recommended=plan.recommended,
        ranking=plan.ranking,
        recommendation=plan.recommendation if is_explained else None,
        segments=files.segments,
        decision=files.decision,
        execution=_execution(files),
        verification=dataclasses.replace(checks, checks=checks_in_order(checks.checks)) if checks else None,
        history=history_line(plan.history, taken.observed_at) if plan.history is not None else None,
        bytes_out=bytes_out_line(plan.history.groups) if plan.history and plan.history.groups else None,
        problems=_contradictions(candidates, files.decision),
        facts=run_facts(
            snapshot=taken,
            proposals=files.proposals,
            segments=files.segments,
            decision=files.decision,
            batches=files.batches,
            verification=checks,
        ),
        left_out=files.left_out.partitions if files.left_out else (),
        estimate=files.estimate,
        outlook=plan.outlook,
        window=Window.of(taken.window),
        costs=files.rates.candidates if files.rates else {},
        rejection=files.rejection.rejected if files.rejection else None,
    )
    return _at_its_throttle(report)


def _at_its_throttle(report: RunReport) -> RunReport:
    """The report with all times at the throttle that was approved or found, instead of the planned one."""
    planned_at = report.settings.throttle_bytes_per_second

    def paced(candidate: CandidateReport) -> CandidateReport:
        throttle = report.throttle_of(candidate)
        if not planned_at or not throttle or throttle == planned_at:
            return candidate
        slower, back = planned_at / throttle, candidate.way_back
        if back is not None and back.seconds is not None:
            back = dataclasses.replace(back, seconds=back.seconds * slower)
        planned, bound = candidate.makespan_seconds, candidate.makespan_bound_seconds
        return dataclasses.replace(
            candidate,
            makespan_seconds=None if planned is None else planned * slower,
            makespan_bound_seconds=None if bound is None else bound * slower,
            way_back=back,
        )

    return dataclasses.replace(report, candidates=tuple(map(paced, report.candidates)))


def _contradictions(candidates: Sequence[CandidateReport], decision: Decision | None) -> tuple[str, ...]:
    """An approval of something else must not look like the approval of a candidate."""
    if decision is None or decision.digest is None or not decision.is_approval:
        return ()
    if any((candidate.name, candidate.digest) == (decision.choice, decision.digest) for candidate in candidates):
        return ()
    return (
        f"{DECISION} is for {decision.choice} with digest {decision.digest[:8]}, which is not a candidate of this run. "
        "Nothing of another digest is executed. Start a new Dag run.",
    )


def _candidate(planned: ProposedCandidate, tables: CandidateTables) -> CandidateReport:
    brokers, moves = tables.brokers, tables.moves
    return CandidateReport(
        **{key.name: getattr(planned, key.name) for key in dataclasses.fields(planned)},
        brokers=brokers,
        partitions=moves.partitions,
        largest_moves=moves.largest,
        most_partitions_in_a_batch=moves.most_partitions_in_a_batch,
        most_leader_changes_in_a_batch=moves.most_leader_changes_in_a_batch,
        fullest_disks=_disk_courses(tables.disks, brokers),
    )


def _disk_courses(rows: Sequence[DiskRow], brokers: Sequence[BrokerChange]) -> tuple[DiskCourse, ...]:
    """In the order of the rows."""
    capacities = {broker.broker: broker.disk_capacity_bytes for broker in brokers}
    steps: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for row in rows:
        steps[row.broker].append((row.batch, row.peak_bytes, row.after_bytes))
    return tuple(DiskCourse(broker, capacities.get(broker), tuple(sorted(course))) for broker, course in steps.items())


# What a run's files say, and what of it is about moving partitions: batches, progress, throttle, people's requests.
#
# Units: bytes, seconds, bytes per second. None is unknown. A file of an older version has fewer keys.


LATER_FILES: Mapping[str, JsonFile[Any]] = {  # each of which may not be there yet
    "proposals": PROPOSALS_FILE,
    "segments": SEGMENTS_FILE,
    "decision": DECISION_FILE,
    "throttle": THROTTLE_FILE,
    "batches": BATCHES_FILE,
    "progress": PROGRESS_FILE,
    "rate_steps": RATE_STEPS_FILE,
    "control": CONTROL_FILE,
    "cancelled": CANCELLED_FILE,
    "verification": VERIFICATION_FILE,
    "left_out": LEFT_OUT_FILE,
    "estimate": ESTIMATE_FILE,
    "rates": RATES_FILE,
    "rejection": REJECTION_FILE,
}


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What the files of a run say so far. None: it is not written yet."""

    snapshot: SnapshotTaken
    proposals: Proposals | None = None
    segments: SegmentReport | None = None
    decision: Decision | None = None
    throttle: ThrottleLease | None = None
    batches: BatchNotes | None = None
    progress: Progress | None = None
    rate_steps: RateSteps | None = None
    control: Control | None = None
    cancelled: Cancelled | None = None
    verification: Verification | None = None
    left_out: LeftOutMoves | None = None
    estimate: Estimate | None = None
    rates: Rates | None = None
    rejection: LastAnswer | None = None

    @classmethod
    def read(cls, folder: Folder, names: Collection[str] = tuple(LATER_FILES)) -> RunFiles:
        """`names`: of the later files. Raises ArtifactError for a missing or wrong value, naming file and key."""
        return cls(SNAPSHOT_FILE.read(folder), **{name: LATER_FILES[name].read_if_there(folder) for name in names})


@dataclass(frozen=True, slots=True)
class Execution:
    """The run from its first batch on. `stop` says why the run requested no further batch."""

    batches: tuple[BatchNote, ...] = ()
    progress: Progress | None = None
    throttle: ThrottleLease | None = None
    rate_steps: RateSteps | None = None  # of a run with a range of rates
    stop: Stopped | None = None
    asked: tuple[Happening, ...] = ()  # what people asked of the run
    pauses: tuple[WindowPause, ...] = ()  # until a window opened

    @property
    def done(self) -> tuple[BatchNote, ...]:
        return tuple(batch for batch in self.batches if batch.state == DONE)

    @property
    def partitions_done(self) -> int:
        """Of the whole plan: as last noted, or by the batches in place, whichever is more."""
        return max(self.progress.partitions_done if self.progress else 0, sum(b.partitions for b in self.done))

    @property
    def bytes_copied(self) -> int:
        """Like `partitions_done`."""
        return max(self.progress.bytes_copied if self.progress else 0, sum(b.bytes for b in self.done))

    @property
    def unmeasured(self) -> tuple[BatchNote, ...]:
        """Batches in place that copied bytes, and of which only the planned size is known."""
        return tuple(batch for batch in self.done if batch.bytes and batch.measured is None)

    @property
    def arrived_bytes(self) -> int:
        """Batches in place count as measured, else as planned; a batch that has not ended counts as last noted."""
        ended = sum(batch.bytes if batch.measured is None else batch.measured for batch in self.done)
        if self.progress is None or self.progress.this_batch is None:
            return ended
        open_batch = self.progress.batch not in {batch.number for batch in self.done}
        return ended + (self.progress.this_batch.bytes_copied if open_batch else 0)

    @property
    def pause(self) -> WindowPause | None:
        """The one that has not ended."""
        return self.pauses[-1] if self.pauses and self.pauses[-1].ended_at is None and self.stop is None else None

    def working_seconds(self, until: datetime) -> float | None:
        """From the first request on, without the time in which the run waited for a window. None: nothing requested."""
        if self.began_at is None:
            return None
        pauses = [(pause.at, pause.ended_at) for pause in self.pauses]
        return (until - self.began_at).total_seconds() - paused_seconds(pauses, self.began_at, until)

    @property
    def began_at(self) -> datetime | None:
        """When the first batch was requested."""
        return min((batch.created_at for batch in self.batches if batch.created_at), default=None)

    @property
    def ended_at(self) -> datetime | None:
        """When the last batch that is in place had ended."""
        return max((batch.finished_at for batch in self.done if batch.finished_at), default=None)


def _execution(files: RunFiles) -> Execution:
    noted = files.batches or BatchNotes()
    return Execution(
        batches=noted.batches,
        progress=files.progress,
        throttle=files.throttle,
        rate_steps=files.rate_steps,
        stop=noted.stopped,
        pauses=noted.pauses or (),
        asked=_asked(files.control or Control(), files.cancelled or Cancelled()),
    )


def _asked(control: Control, kept: Cancelled) -> tuple[Happening, ...]:
    requests = (
        (control.stop_after_batch, "asked for no further batch"),
        (kept.cancelled or control.cancelled, "cancelled the run"),
    )
    return tuple(Happening(who.at, f"{who.by} {what}") for who, what in requests if who is not None)


# The sources of a plan's bytes in and out, each in one line: how much history, how old, and what was estimated.


def history_line(account: HistoryUsed, observed_at: datetime) -> str:
    """From `history` in proposals.json; `observed_at` is the time of the snapshot.

    It holds no name of the cluster, but what a metrics server says of itself.
    """
    given, server = account.partitions, account.metrics_server
    worst = account.worst_hour
    measure = "95th percentile" if worst is None or worst.hour is None else _hour(worst, worst.hour)
    samples = format_count(account.samples, "sample", "samples")
    if account.unreadable_files:
        files = format_count(account.unreadable_files, "file", "files")
        samples += f"; {files} of the ledger could not be read"
    parts = [] if server is None else list(_of_server(server, measure))
    if given.history:
        covered = _covered(account.share_of_partitions, account.share_of_bytes)
        if server is not None and server.partitions:
            measure = "from the ledger, the same"
        parts.append(f"{measure} of {account.days:.3g} days ({samples}{_age(account, observed_at)}) {covered}")
    elif server is None or not server.partitions:
        parts.append(f"too little history to say ({samples})")
    if worst is not None and worst.hour is None:
        who = "the samples do" if server is None or server.problem is not None else "samples and metrics server do"
        parts.append(f"{who} not show each hour of the week in two weeks, so no worst hour is known")
    for count, what in (
        (given.snapshot, "as in the snapshot"),
        (given.topic, "estimated from their topic"),
        (given.cluster, "estimated from the whole cluster"),
        (account.at_least, "of compacted topics may take more"),
    ):
        if count:
            parts.append(f"{format_count(count, 'partition', 'partitions')} {what}")
    if given.history:
        growth = account.growth_bytes_per_day
        parts.append(f"data {'shrinks' if growth < 0 else 'grows'} by {format_bytes(abs(growth))} a day")
    if account.expiring_bytes:
        parts.append(f"{format_bytes(account.expiring_bytes)} expire first, so the plan does not count them as staying")
    return "; ".join(parts)


def bytes_out_line(groups: ReadByGroups) -> str:
    """From `history.groups` in proposals.json."""
    words = f"measured for {format_share(groups.share_of_bytes_in)} of the bytes in, by what consumer groups commit"
    if groups.unread:
        count = "counts" if groups.unread == 1 else "count"
        unread = format_count(groups.unread, "partition", "partitions")
        words += f" ({unread} in which no group goes forward {count} as unread)"
    return words if groups.share_of_bytes_in == 1 else f"{words}; the rest counts as read once"


def _of_server(server: MetricsServerUsed, measure: str) -> Iterator[str]:
    left_out = server.left_out
    if server.problem is not None:
        yield f"the metrics server gives nothing: {server.problem.removesuffix('.')}"
    elif server.partitions:
        topics = format_count(server.topics, "topic", "topics")
        covered = _covered(server.share_of_partitions, server.share_of_bytes)
        yield f"{measure} of {server.days:.3g} days by the metrics server, of {topics}, {covered}"
    else:
        yield "the metrics server has no rate that counts"
    for count, what in (
        (server.short_topics, "of the metrics server known for too short a time"),
        (left_out.unknown_topics, "of the metrics server unknown to the cluster"),
        (left_out.no_rate_topics, "of the metrics server with points that are no rate"),
    ):
        if count:
            yield f"{format_count(count, 'topic', 'topics')} {what}"


def _covered(of_partitions: float, of_bytes: float) -> str:
    return f"for {format_share(of_partitions)} of the partitions, which hold {format_share(of_bytes)} of the bytes"


def _hour(worst: WorstHour, hour: int) -> str:
    day, of_day = divmod(hour, 24)
    return (
        f"mean of {DAYS[day]} {of_day:02}:00-{(of_day + 1) % 24:02}:00 UTC, the hour of the week with most bytes in "
        f"(each hour from at least {format_count(worst.samples, 'sample', 'samples')} in {worst.weeks:.3g} weeks),"
    )


def _age(account: HistoryUsed, observed_at: datetime) -> str:
    """How much older than the snapshot the newest sample is; empty below a minute."""
    newest = account.last_at
    seconds = (observed_at - newest).total_seconds() if newest is not None else 0.0
    return f", the newest {format_duration(seconds)} older than the snapshot" if seconds >= 60 else ""
