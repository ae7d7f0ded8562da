"""Why a candidate is recommended, or why none is; what the next candidates offer, and what remains undone."""

from __future__ import annotations

from kafka_rebalance.documents.proposals import NOT_ESTIMATED, Recommendation, Why
from kafka_rebalance.model.candidate import noun_of
from kafka_rebalance.pages.candidate_report import TITLES, CandidateReport, off_share
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import format_bytes, format_count, format_factor, format_share
from kafka_rebalance.run.approval_rules import BUTTONS

_NOBODY = {
    Why.NOTHING_CHANGES: "none of the planner's own candidates changes anything",
    Why.WITHIN_ALREADY: "the job is already done, and the brokers are within the tolerance",
    Why.NOT_POSSIBLE: "the job cannot be done. The notes of the candidates say why",
    Why.FAILED: "planning failed, so it is unknown whether the job can be done. The notes of the candidates have the "
    "errors",
    Why.NOTHING_NEARER: "no candidate brings the cluster nearer to what was asked for",
    Why.GIVEN_IS_LESS_EVEN: "the planner's own candidates change nothing, and the given plan ends less even than the "
    "cluster is now",
    Why.GIVEN_FALLS_SHORT: "the planner's own candidates change nothing, and the given plan does not do the job",
}
_UNDONE = {  # by job: the words for one thing that remains undone, and for several
    "drain": ("replica stays on brokers to be emptied", "replicas stay on brokers to be emptied"),
    "replace": ("replica stays on replaced brokers", "replicas stay on replaced brokers"),
    "replication_factor": ("partition keeps another factor", "partitions keep another factor"),
    "relieve": ("disk stays above relieve_above", "disks stay above relieve_above"),
}

NEARLY_AS_EVEN = 0.005  # of a share: rounding hides a smaller difference


def why_aside(report: RunReport) -> dict[str, str]:
    """{candidate without a button: how it differs from the recommended one, and how to get a button}"""
    best = report.best
    rest = f"No button in the request, which has room for {BUTTONS}: name it in candidates to have one."
    found = {}
    for one in report.candidates:
        if one.name in report.aside:
            said = _differences(one, best) if best is not None else []
            found[one.name] = f"Against {best.name}: {', '.join(said)}. {rest}" if best and said else rest
    return found


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


def recommendation_words(report: RunReport) -> tuple[str, ...]:
    """Which candidate to take and why, then what the next ones offer; empty without a plan."""
    found, chosen = report.recommendation, report.best
    if chosen is None:
        return (f"Nothing is recommended: {_NOBODY[found.why]}.",) if found is not None and found.why in _NOBODY else ()
    gain = _gain(chosen)
    if found is None:
        return (f"{chosen.title} is recommended" + (f": {gain}." if gain else "."),)
    said = [f"{chosen.title} is recommended: {_because(found, chosen)}."]
    said += [f"{gain[0].upper()}{gain[1:]}."] if gain else []
    job, violations = report.settings.job, found.rack_violations
    if found.undone and job in _UNDONE:
        said.append(f"{format_count(found.undone, *_UNDONE[job])}.")
    if violations:
        said.append(f"{format_count(violations, 'partition still breaks', 'partitions still break')} the rack rule.")
    for kind, other in (("cheaper", found.cheaper), ("more even", found.more_even)):
        if other is not None:
            said.append(
                f"{TITLES.get(other.candidate, other.candidate)} is the next {kind} one: it copies "
                f"{format_bytes(other.bytes)} and leaves the worst broker {format_share(other.furthest)} off its share."
            )
    return tuple(said)


def _because(found: Recommendation, chosen: CandidateReport) -> str:
    asked, copies = format_share(found.tolerance), format_bytes(chosen.moved_bytes)
    before, after = (found.furthest.before, found.furthest.after) if found.furthest else (0.0, 0.0)
    if found.why is Why.CHEAPEST:
        within = f"within {asked}" + (" or one replica" if after > found.tolerance + 5e-4 else "")
        return f"of the candidates that do the job {within}, it copies the fewest bytes"
    if found.why is Why.FEWEST_BYTES:
        return (
            "the run prefers the fewest bytes (prefer), and of the candidates that do the job it copies the fewest. It "
            f"leaves the worst broker {format_share(after)} off its share; the tolerance is {asked}"
        )
    if found.why is Why.NEAREST:
        return (
            f"no candidate does the job within {asked}, and this one comes nearest. For {copies} copied, the worst "
            f"broker goes from {format_share(before)} to {format_share(after)} off its share"
        )
    return "the planner's own candidates change nothing, and it ends as even as the cluster is now"


def _gain(chosen: CandidateReport) -> str:
    """How far the load of the highest broker falls, for the resource where it falls most."""
    if chosen.gain is None:  # no load falls, as when a broker is emptied or racks are repaired
        return ""
    metric, before, after = chosen.gain
    return (
        f"for {format_bytes(chosen.moved_bytes)} copied, the highest broker goes from {before:.2f} to {after:.2f} of "
        f"its share of {noun_of(metric)}"
    )


def further_runs_words(report: RunReport, candidate: CandidateReport) -> str:
    """How many more runs with the same limit reach the tolerance; empty if none is needed."""
    more, limit = candidate.further_runs, report.settings.max_bytes
    if more is None or more == NOT_ESTIMATED or limit is None:
        return ""
    runs = format_count(more.runs, "more run", "more runs")
    return (
        f"max_bytes ({format_bytes(limit)}) stops this run short. About {runs} of that size are needed to be within "
        f"{format_share(report.settings.tolerance)}: at least {format_bytes(more.bytes)} are left to copy."
    )


def less_even_words(candidate: CandidateReport) -> str:
    """The warning for a plan that ends less even than the cluster is now; empty for others."""
    worse = candidate.less_even
    if worse is None:
        return ""
    before, after = (
        f"{format_factor(low)}–{format_factor(high)}"
        for low, high in ((worse.before.lowest, worse.before.highest), (worse.after.lowest, worse.after.highest))
    )
    name = noun_of(worse.metric)
    return f"This plan ends less even than the cluster is now: {name} {before} of the fair share become {after}."
