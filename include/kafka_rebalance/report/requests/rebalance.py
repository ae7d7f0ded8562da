"""The text of the approval request that a person reads in Airflow's Required Actions, or in a chat message.

Airflow renders the body as markdown (GFM) after Jinja. Every text from the cluster or from a person is put into a code
span, in which nothing is markup: GFM turns even an escaped `www.` into a link, and a topic may have such a name.
"""

from __future__ import annotations

from kafka_rebalance.documents.controller import ControllerFound
from kafka_rebalance.documents.rejection import Rejection
from kafka_rebalance.documents.segments import SegmentFinding
from kafka_rebalance.execution.approval_rules import BUTTONS
from kafka_rebalance.report.candidate.candidate_report import CandidateReport
from kafka_rebalance.report.candidate.fullest_log_dirs import fullest_words
from kafka_rebalance.report.candidate.risk import way_back_words
from kafka_rebalance.report.requests.markdown import asked_by, code, format_ids, one_line, sentence, table
from kafka_rebalance.report.run.approver_facts import KAFKA_ELECTS, STAYS_BEHIND, Brief, brief
from kafka_rebalance.report.run.run_report import RunReport
from kafka_rebalance.report.run.why_recommended import further_runs_words, less_even_words, recommendation_words
from kafka_rebalance.report.units import (
    about,
    format_bytes,
    format_count,
    format_duration,
    format_factor,
    format_job,
    format_share,
    format_time,
)

BODY_BYTES = 8192
MOVES_SHOWN = 15
FINDINGS_SHOWN = 5
GROUPS_SHOWN = 6
_SUBJECT_CHARACTERS = 200


def approval_subject(report: RunReport) -> str:
    """One line of plain text: which cluster, how much, what is recommended."""
    focus, words = report.focus, "no candidate to approve"
    if focus is not None:
        is_best = focus.name == report.recommended
        best = f"Recommended: {focus.name} · {focus.digest[:8]}" if is_best else "Nothing is recommended"
        words = (
            f"{format_job(report.settings.job)}? {format_count(focus.partitions, 'partition', 'partitions')}, "
            f"{format_bytes(focus.moved_bytes) if focus.moved_bytes else 'nothing'} to copy. {best}"
        )
    return one_line(f"Kafka {report.connection_id}: {words}", _SUBJECT_CHARACTERS)


def approval_body(report: RunReport, *, link: str = "", picture: str = "") -> str:
    """Markdown of at most 8 KiB: why, the verdict, what can go wrong, candidates, limits, the largest moves, digest.

    `link` and `picture` are the percent-encoded addresses of the report and of its first picture.
    """
    focus = report.focus
    last = [f"**Digest** of {code(focus.name, 40)}: {code(focus.digest, 80)}"] if focus is not None else []
    last += [f"[Open the full report]({link})"] if link else []
    end = "".join(f"\n\n{part}" for part in last)  # in every body, however long it is
    room = BODY_BYTES - len(end.encode())
    for shown in range(MOVES_SHOWN, -1, -1):
        body = _body(report, shown, picture)
        if len(body.encode()) <= room:
            return body + end
    rest = "\n\nThe rest is on the run's tab Rebalance."
    cut = body.encode()[: room - len(rest.encode())].decode(errors="ignore")
    return cut[: cut.rindex("\n")].rstrip() + rest + end  # whole lines only, so that no code span stays open


def _body(report: RunReport, moves_shown: int, picture: str) -> str:
    focus = report.focus
    parts = [
        f"**Cluster** {code(report.connection_id, 120)} · {code(report.cluster_id, 60)} · "
        f"{format_count(report.brokers, 'broker', 'brokers')}, "
        f"{format_count(report.partitions, 'partition', 'partitions')}, "
        f"{format_bytes(report.cluster_bytes)} · as of {format_time(report.observed_at)}",
        asked_by(report.requested_by, report.reason),
    ]
    if focus is None:
        parts.append("There is no candidate to approve.")
    else:
        said = brief(report, lambda name: code(name, 60))
        parts += [f"**Why** {' '.join(said.why)}"] if said.why else []
        parts += [f"**If nothing is done** {' '.join(said.otherwise)}"] if said.otherwise else []
        parts += [*_verdict(report, focus), *_stakes(focus, said), *_rejected(report.rejection)]
        parts += [_candidates(report), _limits(report)]
        if picture and focus.brokers:
            parts.append(f"![Bytes on disk of each broker, before and after {focus.title}]({picture})")
        parts += [*_scores(focus), *_racks_and_groups(focus), *_segments(report, focus)]
    if report.controller is not None:
        parts.append(_controller(report.controller))
    if report.history is not None:
        parts.append(f"**Bytes in** {report.history}")
    if focus is not None:
        parts += _moves(focus, moves_shown)
    return "\n\n".join(parts)


def _stakes(focus: CandidateReport, said: Brief) -> list[str]:
    """The window, the worst case, what clients may feel, and the topics that the batches hold up."""
    facts = dict(said.verdict)
    lines = [f"**Window** {facts['Window']}"] if "Window" in facts else []
    lines += [f"**Worst case** {' '.join(said.worst)}"] if said.worst else []
    lines += [f"**{name}** {facts[name]}" for name in (STAYS_BEHIND, KAFKA_ELECTS) if name in facts]
    cost = [f"{name.lower()}: {text}" for name, text in said.cost]
    lines += [f"**Cost to clients** {' · '.join(cost)}"] if cost else []
    held_up = focus.held_up
    if held_up is not None and held_up.topics:
        internal = " and ".join(code(topic, 40) for topic in held_up.internal)
        lines.append(
            f"**Meanwhile** {format_count(held_up.topics, 'topic', 'topics')} can be neither expanded nor "
            f"deleted{f', among them {internal}' if internal else ''} · the way back from the end "
            f"{way_back_words(focus)}"
        )
    return lines


def _rejected(rejection: Rejection | None) -> list[str]:
    if rejection is None:
        return []
    who = code(rejection.by, 80) if rejection.by else "somebody"
    note = f": {code(rejection.note, 200)}" if rejection.note else ""
    changed = []
    if rejection.then is not None:
        then, now = rejection.then, rejection.now
        changed.append(f"{format_bytes(then.bytes)} to copy then, {format_bytes(now.bytes)} now")
        if then.highest is not None and now.highest is not None:
            high = f"{format_factor(then.highest)} → {format_factor(now.highest)}"
            changed.append(f"bytes on disk of the highest broker {high} of its share")
    changed += [f"broker {format_ids(rejection.came)} came"] if rejection.came else []
    changed += [f"broker {format_ids(rejection.went)} went"] if rejection.went else []
    if rejection.same_moves is not None:
        changed.append(f"{format_share(rejection.same_moves)} of the moves are the same")
    since = f" · since then: {', '.join(changed)}" if changed else ""
    return [f"**Rejected before** by {who} on {format_time(rejection.at)}{note}{since}"]


def _controller(controller: ControllerFound) -> str:
    where = f" on {code(controller.host, 120)}" if controller.host else ""
    meanwhile = f"{format_count(controller.elections, 'election', 'elections')} meanwhile"
    settled = meanwhile if controller.elections else "settled"
    waiting = (
        (controller.queued.reassignments, "reassignments"),
        (controller.queued.elections, "preferred elections"),
        (controller.queued.deletions, "topic deletions"),
    )
    queued = ", ".join(f"{format_count(queue.count)} {what}" for queue, what in waiting if queue.count)
    return (
        f"**Controller** broker {controller.broker}{where} since {format_time(controller.since)} · epoch "
        f"{controller.epoch}, {settled} · {queued or 'nothing'} queued"
    )


def _candidates(report: RunReport) -> str:
    heads = (
        "Candidate",
        "#Copies",
        "#Least possible",
        "#Partitions",
        "#Leader changes",
        "#Batches",
        "#About",
        "Status",
    )
    rows = []
    for candidate in report.candidates:
        mark = " (recommended)" if candidate.name == report.recommended else ""
        note = f": {sentence(candidate.note, 120)}" if candidate.note else ""
        note += ", **not offered**" if candidate.name in report.stopped else ""
        note += ", **less even than now**" if candidate.less_even is not None else ""
        rows.append(
            (
                f"{code(f'{candidate.name} · {candidate.digest[:8]}', 60)}{mark}",
                format_bytes(candidate.moved_bytes),
                format_bytes(candidate.moved_bytes_bound),
                format_count(candidate.partitions),
                format_count(candidate.leader_changes),
                format_count(candidate.batches),
                format_duration(candidate.planned_seconds),
                f"{code(candidate.status, 20)}{note}",
            )
        )
    found = table(heads, rows)
    if not report.aside:
        return found
    names = ", ".join(code(name, 40) for name in report.aside)
    return (
        f"{found}\n\nNo button for {names}: start a run that names it in `candidates`, with at most {BUTTONS} of them."
    )


def _verdict(report: RunReport, focus: CandidateReport) -> list[str]:
    """Why this candidate, its bytes beside the bound, time and disks."""
    lines = [" ".join(sentence(said, 320) for said in recommendation_words(report))]
    lines += [f"**Warning** {sentence(warning, 240)}"] if (warning := less_even_words(focus)) else []
    lines += [sentence(more, 320)] if (more := further_runs_words(report, focus)) else []
    said = [sentence(report.bound_of(focus), 160)] if report.bound_of(focus) else []
    if focus.planned_seconds is not None:
        least = None if focus.least_seconds is None else format_duration(focus.least_seconds)
        finishes = report.finishes_in(focus)
        said.append(
            f"takes {about(focus.planned_seconds)}"
            + (f" by the plan, finishes in {finishes}" if finishes else "")
            + (f", at least {least}" if least not in (None, format_duration(focus.planned_seconds)) else "")
        )
    if focus.peak_disk_fraction is not None:
        said.append(f"fullest disk meanwhile {format_share(focus.peak_disk_fraction)}")
    log_dir = fullest_words(focus.log_dirs, lambda path: code(path, 60))
    said += [f"fullest log dir meanwhile {log_dir}"] if log_dir else []
    if said:
        lines.append(f"**{focus.title}** " + " · ".join(said))
    return [line for line in lines if line]


def _racks_and_groups(focus: CandidateReport) -> list[str]:
    lines = [f"Racks: {sentence('; '.join(focus.rack_limits[:2]), 240)}"] if focus.rack_limits else []
    groups = [f"- {sentence(group.text, 160)}" for group in focus.groups[:GROUPS_SHOWN]]
    return [*lines, "\n".join(groups)] if groups else lines


def _scores(focus: CandidateReport) -> list[str]:
    found = [
        f"{metric.noun} {format_factor(before.max_over_mean)} → {format_factor(after.max_over_mean)}"
        for metric, before, after in focus.spreads
        if before is not None and after is not None
    ]
    if not found:
        return []
    now, later, crowded = focus.crowded_replicas_before, focus.crowded_replicas, ""
    if now is not None and later is not None:
        crowded = f" · replicas that crowd a broker with their topic: {format_count(now)} → {format_count(later)}"
    return [
        f"**Highest broker against its fair share** (1.00 is even), {code(focus.name, 40)}: {', '.join(found)}{crowded}"
    ]


def _limits(report: RunReport) -> str:
    if report.policy is None:
        return "**No policy file**: this cluster is read-only. Nothing here can be executed."
    return table(("Limit", "Allowed", "#Used"), [(use.name, use.allowed, use.used) for use in report.limits])


def _segments(report: RunReport, focus: CandidateReport) -> list[str]:
    """The counts; then what stops copies, the candidate's own findings, and those of the cluster."""
    segments = report.segments
    if segments is None:
        return []
    own = segments.candidates.get(focus.name)
    stops, changes = (own.stops, own.findings) if own else ((), ())
    what = [
        f"{format_count(segments.topics, 'topic', 'topics')} on "
        f"{format_count(segments.brokers, 'broker', 'brokers')}: {format_count(segments.errors, 'error', 'errors')}, "
        f"{format_count(segments.warnings, 'warning', 'warnings')}"
    ]
    if segments.stopped:
        names = ", ".join(code(name, 40) for name in segments.stopped)
        what.append(f"**not offered** for approval, because a new replica could not catch up: {names}")
    every = [*stops, *changes, *segments.findings]
    lines = [f"**Segment settings** · {' · '.join(what)}", *map(_finding, every[:FINDINGS_SHOWN])]
    lines += ["- the others are in the report"] if every[FINDINGS_SHOWN:] else []
    return ["\n".join(lines)]


def _finding(finding: SegmentFinding) -> str:
    more = f" and {finding.topic_count - 3} more" if finding.topic_count > 3 else ""
    where = [f"topic {', '.join(finding.topics[:3])}{more}"] if finding.topics else []
    where += [f"broker {format_ids(finding.brokers)}"] if finding.brokers else []
    return (
        f"- {finding.severity}, {code(', '.join(where) or 'all brokers', 160)}: {sentence(finding.text, 240)} "
        f"({code(finding.source, 160)}). {sentence(finding.remedy, 240)}"
    )


def _moves(focus: CandidateReport, shown: int) -> list[str]:
    moves = focus.largest_moves[:shown]
    if not moves:
        return []
    heads = ("Partition", "#Copies", "Replicas", "#Batch", "Reason")
    rows = [
        (
            code(str(move.topic_partition), 120),
            format_bytes(move.bytes_to_copy),
            f"{format_ids(move.before)} → {format_ids(move.after)}",
            move.batch,
            sentence(move.reason, 120) if move.reason else "",
        )
        for move in moves
    ]
    largest = f"**Largest {len(moves)} of {format_count(focus.partitions, 'move', 'moves')}**, {code(focus.name, 40)}"
    return [f"{largest}\n\n{table(heads, rows)}"]
