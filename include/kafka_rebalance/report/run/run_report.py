"""The values one run's page is made of. Bytes, seconds and bytes per second throughout; None is unknown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kafka_rebalance.documents.controller import ControllerFound
from kafka_rebalance.documents.decision import Decision
from kafka_rebalance.documents.estimate import Estimate
from kafka_rebalance.documents.left_out import LeftOut
from kafka_rebalance.documents.proposals.diagnosis import Diagnosis
from kafka_rebalance.documents.proposals.rates import CandidateRates
from kafka_rebalance.documents.proposals.recommendation import Recommendation
from kafka_rebalance.documents.rejection import Rejection
from kafka_rebalance.documents.segments import SegmentReport
from kafka_rebalance.documents.snapshot import AutomaticElections
from kafka_rebalance.documents.verification import Verification
from kafka_rebalance.execution.approval_rules import OFFERED, on_buttons
from kafka_rebalance.execution.eta import with_controller
from kafka_rebalance.execution.time_window import Window
from kafka_rebalance.model.amounts_in_words import bound_in_words
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.report.candidate.candidate_report import CandidateReport
from kafka_rebalance.report.candidate.limits_used import LimitUse
from kafka_rebalance.report.run.how_far import Execution
from kafka_rebalance.report.run.past_runs import finishes_in
from kafka_rebalance.report.run_state import RunFacts, RunState, run_state


@dataclass(frozen=True, slots=True)
class Deciding:
    """None and nothing: a version made the run that did not write it, or it is not written yet."""

    outlook: Diagnosis | None = None
    window: Window = field(default_factory=Window)
    costs: Mapping[str, CandidateRates] = field(default_factory=dict)  # by candidate
    rejection: Rejection | None = None
    automatic_elections: AutomaticElections | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything the page and the approval request say about one run."""

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
    controller: ControllerFound | None  # None: the run is of a version that did not note it
    settings: Settings
    policy: Policy | None
    limits: tuple[LimitUse, ...]  # of the candidate in focus
    candidates: tuple[CandidateReport, ...]
    recommended: str | None
    ranking: tuple[str, ...]  # candidates, in the order in which they are offered; empty where the plan does not say
    recommendation: Recommendation | None  # None: the plan does not say why
    segments: SegmentReport | None  # None: the audit is not written yet
    decision: Decision | None
    execution: Execution
    verification: Verification | None
    history: str | None  # where bytes in come from, in words; None: planned without the ledger's samples
    problems: tuple[str, ...]  # what contradicts itself in the folder, in words
    facts: RunFacts  # by which the state is told
    left_out: tuple[LeftOut, ...] = ()
    estimate: Estimate | None = None  # None: the run is of a version that made none
    deciding: Deciding = field(default_factory=Deciding)

    @property
    def is_planned(self) -> bool:
        return bool(self.candidates)

    @property
    def focus(self) -> CandidateReport | None:
        """The candidate the page is about: the approved one, else the recommended one, else the first."""
        chosen = self.decision.choice if self.decision else None
        for name in (chosen, self.recommended):
            for candidate in self.candidates:
                if candidate.name == name:
                    return candidate
        return self.candidates[0] if self.candidates else None

    def bound_of(self, candidate: CandidateReport) -> str:
        """What the candidate copies beside what no plan stays below, in words."""
        is_even = candidate.status == "ok" and candidate.name in ("balanced", "optimal")
        tolerance = self.settings.tolerance if is_even else None
        return bound_in_words(candidate.moved_bytes, candidate.moved_bytes_bound, tolerance)

    def throttle_of(self, candidate: CandidateReport) -> float | None:
        """Bytes a second and broker: as approved, else as found for this candidate, else as asked for."""
        if self.decision is not None and self.decision.throttle_bytes_per_second is not None:
            return self.decision.throttle_bytes_per_second
        cost = self.deciding.costs.get(candidate.name)
        auto = cost.auto_bytes_per_second if cost is not None else None
        return auto if auto is not None else self.settings.throttle_bytes_per_second

    def planned_seconds(self, candidate: CandidateReport, bytes_per_second: float | None) -> float | None:
        """The plan's time at another throttle of one broker than `throttle_of`; None where it is not known."""
        copying = self._copying_seconds(candidate, bytes_per_second)
        return None if copying is None else with_controller(copying, candidate.batches)

    def seconds_left(self, candidate: CandidateReport, bytes_per_second: float | None) -> float | None:
        """Of `planned_seconds`, what is left of the bytes and of the batches."""
        copying, progress = self._copying_seconds(candidate, bytes_per_second), self.execution.progress
        if copying is None or progress is None or progress.batches_left is None:
            return self.planned_seconds(candidate, bytes_per_second)
        return with_controller(copying * progress.share_left, progress.batches_left)

    def _copying_seconds(self, candidate: CandidateReport, bytes_per_second: float | None) -> float | None:
        planned = self.throttle_of(candidate)
        if candidate.makespan_seconds is None or planned is None or not bytes_per_second:
            return candidate.makespan_seconds
        return candidate.makespan_seconds * planned / bytes_per_second

    def finishes_in(self, candidate: CandidateReport) -> str:
        """The range of time in which such a plan ends here, in words; empty where nothing can be said."""
        return finishes_in(self.estimate, candidate.planned_seconds) if self.estimate else ""

    @property
    def state(self) -> RunState:
        """Where the run stands, by its files and what is known of Airflow."""
        return run_state(self.facts)

    def in_airflow(self, *, is_active: bool, has_open_request: bool | None = None) -> RunReport:
        """With what Airflow says of the run."""
        facts = dataclasses.replace(self.facts, is_active=is_active, has_open_request=has_open_request)
        return dataclasses.replace(self, facts=facts)

    @property
    def stopped(self) -> tuple[str, ...]:
        """Candidates that are not offered: with today's segment settings a copy could not follow."""
        return self.segments.stopped if self.segments else ()

    @property
    def aside(self) -> tuple[str, ...]:
        """Candidates that could be approved, and that the request has no button for."""
        names = [c.name for c in self.candidates if c.status in OFFERED and c.name not in self.stopped]
        offered = on_buttons(names, self.ranking or (self.recommended or "",))
        return tuple(name for name in names if name not in offered)
