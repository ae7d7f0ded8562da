"""Why a candidate that could be approved has no button in the request: what it is better and worse in."""

from __future__ import annotations

from kafka_rebalance.execution.approval_rules import BUTTONS
from kafka_rebalance.report.plots.bytes_against_evenness import off_share
from kafka_rebalance.report.run.run_report import CandidateReport, RunReport
from kafka_rebalance.report.units import format_bytes, format_count, format_share

NEARLY_AS_EVEN = 0.005  # of a share: less is no difference on paper


def why_aside(report: RunReport) -> dict[str, str]:
    """{candidate: sentence}, against the recommended one; nothing where every candidate has a button."""
    best = next((one for one in report.candidates if one.name == report.recommended), None)
    return {one.name: _why(one, best) for one in report.candidates if one.name in report.aside}


def _why(one: CandidateReport, best: CandidateReport | None) -> str:
    rest = f"No button in the request, which has room for {BUTTONS}: name it in candidates to have one."
    said = _differences(one, best) if best is not None else []
    if not said or best is None:
        return rest
    return f"Against {best.name}: {', '.join(said)}. {rest}"


def _differences(one: CandidateReport, best: CandidateReport) -> list[str]:
    said = []
    more = one.moved_bytes - best.moved_bytes
    if more:
        said.append(f"copies {format_bytes(abs(more))} {'more' if more > 0 else 'less'}")
    ours, theirs = off_share(one), off_share(best)
    if ours is not None and theirs is not None and abs(ours - theirs) >= NEARLY_AS_EVEN:
        said.append(
            f"{'less' if ours > theirs else 'more'} even (furthest broker {format_share(ours)} off its share, "
            f"not {format_share(theirs)})"
        )
    leaders = one.leader_changes - best.leader_changes
    if leaders:
        count = format_count(abs(leaders), "leader change", "leader changes")
        said.append(f"{count} {'more' if leaders > 0 else 'fewer'}")
    return said
