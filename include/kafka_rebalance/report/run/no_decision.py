"""Why a run has no decision, in words: none is asked for, none is there yet, or it ended without one."""

from __future__ import annotations

from kafka_rebalance.execution.approval_rules import OFFERED
from kafka_rebalance.report.candidate.candidate_report import CandidateReport
from kafka_rebalance.report.run.run_report import RunReport


def undecided(report: RunReport, *, is_active: bool) -> str:
    """Of a run without a decision. One that is not active is over for Airflow."""
    if report.state == "read-only":
        return "Nothing can be decided: this cluster is read-only."
    if report.state == "stopped":
        return "Nothing is to be decided, so no request is made: with today's segment settings no copy could end."
    if report.is_planned and not any(map(_is_offered, report.candidates)):
        return "Nothing is to be decided, so no request is made: no candidate moves anything."
    if not is_active:
        return "It ended without a decision. An answer that did not count is in the log of the task approve."
    if not report.is_planned:
        return "Nothing can be decided before the plan is made."
    return (
        "Nobody has decided yet. The request comes, or is, under Browse, Required Actions, and on the task approve of "
        "this run."
    )


def _is_offered(candidate: CandidateReport) -> bool:
    moves = candidate.moved_replicas or candidate.leader_changes or candidate.batches
    return candidate.status in OFFERED and bool(moves)
