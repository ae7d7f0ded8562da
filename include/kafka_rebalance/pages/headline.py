"""Where a run stands, in the one sentence that a reader sees first."""

from __future__ import annotations

from kafka_rebalance.model.candidate import Status
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.run_state import RunState
from kafka_rebalance.pages.units import format_count, format_time


def headline(report: RunReport) -> str:
    """The sentence of the state, or a nearer one where the files of the run tell more."""
    state, focus, pause = report.state, report.focus, report.execution.pause
    if state.is_approved_only and report.decision is not None:
        return f"{state.sentence} ({report.decision.choice})"
    if state is RunState.EXECUTING and pause is not None and pause.until is not None:
        return f"Approved and started; pauses until {format_time(pause.until)}"
    failed = [one.name for one in report.candidates if one.status == Status.FAILED]
    if state is RunState.NOTHING_TO_MOVE and failed:
        return f"Planning of {', '.join(failed)} failed, and no other candidate moves anything"
    if state is RunState.NOTHING_TO_MOVE and all(one.status == Status.INFEASIBLE for one in report.candidates):
        return "Not possible: no candidate does the job within its limits"
    left = report.verification.not_moved if report.verification is not None else None
    if state is RunState.NOT_AS_APPROVED and focus is not None and left is not None and left.partitions:
        moves = format_count(focus.partitions, "approved move", "approved moves")
        were = "was" if len(left.partitions) == 1 else "were"
        return f"Stopped: {format_count(len(left.partitions))} of {moves} {were} not made"
    return state.sentence
