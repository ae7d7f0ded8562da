"""The text of the approval request that a person reads in Airflow's Required Actions, or in a chat message.

Airflow renders the body as markdown (GFM) after Jinja. Every text from the cluster or from a person is put into a code
span, in which nothing is markup: GFM turns even an escaped `www.` into a link, and a topic may have such a name.
"""

from __future__ import annotations

from kafka_rebalance.pages.approver_facts import (
    TIERED,
    WINDOW,
    Brief,
    brief,
    cordon_words,
    kept_away_words,
    other_policies_words,
    since_last_words,
    tiered_words,
)
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.key_figures import KeyFigures, key_figures
from kafka_rebalance.pages.markdown import asked_by, code, format_ids, one_line, sentence, table
from kafka_rebalance.pages.risk import way_back_words
from kafka_rebalance.pages.risks import RISKS_SHOWN, Risk, risks
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import Named, format_bytes, format_count, format_job, format_rate, format_time
from kafka_rebalance.pages.why_recommended import recommendation_words
from kafka_rebalance.run.approval_rules import BUTTONS

BODY_BYTES = 4096
MOVES_SHOWN = 5
LINES = 11  # and the link
_SUBJECT_CHARACTERS = 200


def approval_subject(report: RunReport) -> str:
    """One line of plain text: which cluster, how much, how long, what for, and which candidate is recommended."""
    focus, words = report.focus, "no candidate to approve"
    if focus is not None:
        moves = format_count(focus.partitions, "move", "moves")
        figures = key_figures(report, focus)
        is_best = focus.name == report.recommended
        best = f"Recommended: {focus.name} · {focus.digest[:8]}" if is_best else "Nothing is recommended"
        does = f"{figures.copies.value} to copy" if focus.moved_bytes else f"{moves}, nothing to copy"
        gain = f", highest broker {figures.evenness.value}" if focus.gain is not None else ""
        words = f"{format_job(report.settings.job)}? {does} in {figures.takes.value}{gain}. {best}"
    return one_line(f"Kafka {report.connection_id}: {words}", _SUBJECT_CHARACTERS)


def approval_body(report: RunReport, *, link: str = "", picture: str = "") -> str:
    """Markdown of at most 4 KiB: twelve lines at most, the candidates, and the largest moves.

    `link` and `picture` are the percent-encoded addresses of the report and of its picture of the brokers.
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
    where = (
        f"**Cluster** {code(report.connection_id, 120)}, {format_count(report.brokers, 'broker', 'brokers')}, "
        f"{format_bytes(report.cluster_bytes)}, as of {format_time(report.observed_at)}"
    )
    if report.bytes_out is not None:
        where += f". Bytes out: {report.bytes_out}"
    if report.policy is None:
        where += ". **No policy file**: this cluster is read-only. Nothing here can be executed."
    lines = [where, asked_by(report.requested_by, report.reason)]
    if focus is None:
        return _listed([*lines, "There is no candidate to approve."])
    known, figures = risks(report, focus, lambda name: code(name, 60)), key_figures(report, focus)
    said = brief(report, lambda name: code(name, 60))
    lines += _why(said)
    lines += [sentence(said, 320) for said in recommendation_words(report)[:1]]
    lines += _does(report, focus, figures, lambda name: code(name, 60))
    window = [f"**Window** {text}" for name, text in said.verdict if name == WINDOW]
    lines += [*window, *_may_go_wrong(known, RISKS_SHOWN - len(window))]
    lines += [f"**Way back** {way_back_words(focus)}, by the Dag {code('kafka_rebalance_cancel', 40)}"]
    parts = [_listed(lines), _candidates(report), *_moves(focus, moves_shown)]
    if picture and focus.brokers:
        parts.append(f"![Bytes on disk of each broker, before and after {focus.title}]({picture})")
    return "\n\n".join(parts)


def _listed(lines: list[str]) -> str:
    assert len(lines) <= LINES, "a request is read in a minute"
    return "\n".join(f"- {line}" for line in lines)


def _why(said: Brief) -> list[str]:
    """The worst figure, and what comes of it."""
    lines = [f"**Why** {said.why[0]}"] if said.why else []
    return [*lines, f"**If nothing is done** {said.otherwise[0]}"] if said.otherwise else lines


def _does(report: RunReport, focus: CandidateReport, figures: KeyFigures, named: Named) -> list[str]:
    copies = f"copies {figures.copies.value} ({figures.copies.note})" if focus.moved_bytes else "copies nothing"
    leaders = format_count(focus.leader_changes, "leader change", "leader changes")
    does = f"**Does** {copies}, {leaders}. Highest broker {figures.evenness.value} {figures.evenness.note}"
    does += f". {kept_away_words(report.kept_away)}" if report.kept_away is not None else ""
    does += f". {other_policies_words(report.other_policies)}" if report.other_policies else ""
    does += f". {TIERED}: {tiered_words(report.tiered, named)}" if report.tiered is not None else ""
    does += f". {cordon_words(report.cordon, named)}" if report.cordon is not None else ""
    since = since_last_words(report.last_proposal, focus, named)
    does += f". {since[0].upper()}{since[1:]}" if since else ""
    throttle = report.throttle_of(focus)
    rate = f" at {format_rate(throttle)} a broker" if throttle is not None and focus.moved_bytes else ""
    ends = f"**Ends** in {figures.takes.value}{rate}, {figures.takes.word} ({figures.takes.note})"
    disk = figures.fullest_disk
    note = f" ({disk.note})" if disk.note else ""
    return [does, f"{ends}. Fullest disk meanwhile {disk.value}{note}"]


def _may_go_wrong(known: tuple[Risk, ...], shown: int) -> list[str]:
    if not known:
        return ["**Can go wrong** by what the snapshot shows, nothing gets worse, and nothing stays undone"]
    lines = [f"**Can go wrong** {risk.text} **{risk.remedy}**" for risk in known[:shown]]
    more = len(known) - shown
    return [*lines[:-1], f"{lines[-1]} And {format_count(more, 'more', 'more')} in the report."] if more > 0 else lines


def _candidates(report: RunReport) -> str:
    heads = ("Candidate", "#Copies", "#Takes", "#Fullest disk", "#Highest broker", "#If a broker fails", "Status")
    rows = []
    for candidate in report.candidates:
        figures = key_figures(report, candidate)
        mark = " (recommended)" if candidate.name == report.recommended else ""
        note = f": {sentence(candidate.note, 80)}" if candidate.note else ""
        note += ", **not offered**" if candidate.name in report.stopped else ""
        note += ", **less even than now**" if candidate.less_even is not None else ""
        rows.append(
            (
                f"{code(f'{candidate.name} · {candidate.digest[:8]}', 60)}{mark}",
                *(figure.value for figure in figures),
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
