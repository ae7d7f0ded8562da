"""The values behind one run's page. Units: bytes, seconds, bytes per second. None is unknown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kafka_rebalance.documents.controller import ControllerFound
from kafka_rebalance.documents.proposals import Diagnosis
from kafka_rebalance.documents.recommendation import Recommendation
from kafka_rebalance.documents.rejection import Rejection
from kafka_rebalance.documents.segments import SegmentReport
from kafka_rebalance.documents.snapshot import AutomaticElections, Cordon, KeptAway, LastProposal, TieredTopics
from kafka_rebalance.model.amounts_in_words import bound_in_words
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.moves.eta import ASSUMED, MIN_SECONDS, EtaRange, eta_range, with_controller
from kafka_rebalance.moves.time_window import Window
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.how_far import Execution
from kafka_rebalance.pages.limits_used import LimitUse, limit_uses
from kafka_rebalance.pages.run_state import RunFacts, RunState, run_state
from kafka_rebalance.pages.units import format_count, format_range
from kafka_rebalance.run.approval_rules import on_buttons
from kafka_rebalance.run.decision import Decision
from kafka_rebalance.run.estimate import Estimate
from kafka_rebalance.run.left_out import LeftOut
from kafka_rebalance.run.verification import Verification
from kafka_rebalance.throttle.rates import CandidateRates


@dataclass(frozen=True, slots=True)
class RunReport:
    """All that the page and the approval request say about one run.

    A field with a default may be missing: its task has not run yet, or an older version made the run.
    """

    connection_id: str
    cluster_id: str
    dag_id: str
    run_id: str
    observed_at: datetime
    requested_by: str | None
    reason: str
    brokers: int
    partitions: int
    cluster_bytes: int
    controller: ControllerFound | None
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
    missing_rights: tuple[Finding, ...] = ()
    automatic_elections: AutomaticElections | None = None
    kept_away: KeptAway | None = None
    last_proposal: LastProposal | None = None
    other_policies: tuple[str, ...] = ()  # connections to the same cluster whose policies bind it too
    tiered: TieredTopics | None = None  # None: no topic is, or an older version made the snapshot
    cordon: Cordon | None = None

    @property
    def focus(self) -> CandidateReport | None:
        """The candidate that the page is about: the approved one, else the recommended one, else the first."""
        found = {candidate.name: candidate for candidate in reversed(self.candidates)}
        chosen = found.get(self.decision.choice or "") if self.decision else None
        return chosen or found.get(self.recommended or "") or next(iter(self.candidates), None)

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
        price = None if self.policy is None else self.policy.price_per_gb_between_racks
        if price is None or candidate.cross_rack_bytes is None:
            return None
        return f"{candidate.cross_rack_bytes / 1e9 * price:,.2f}"

    def throttle_of(self, candidate: CandidateReport) -> float | None:
        """Bytes per second and broker: as approved, else as found for this candidate, else as requested."""
        if self.decision is not None and self.decision.throttle_bytes_per_second is not None:
            return self.decision.throttle_bytes_per_second
        cost = self.costs.get(candidate.name)
        auto = cost.auto_bytes_per_second if cost is not None else None
        return auto if auto is not None else self.settings.throttle_bytes_per_second

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
        return eta_range(seconds, self.estimate.ratios if self.estimate is not None else ())

    def finishes_in(self, candidate: CandidateReport) -> str:
        """How long the plan takes here, by earlier runs: `38–52 min, from 12 runs here`; empty if nobody can say."""
        seconds, found = candidate.planned_seconds, self.takes(candidate)
        if self.estimate is None or found is None or seconds is None or seconds < MIN_SECONDS:
            return ""
        between, runs = format_range(found.low, found.high), format_count(found.runs, "run", "runs")
        if found.is_measured:
            return f"{between}, from {runs} here"
        few = f"{runs} here {'is' if found.runs == 1 else 'are'} too few to tell"
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
