"""The request of a rebalance: a person approves one of its best candidates, or rejects all."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals
from kafka_rebalance.documents.segments import SEGMENTS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.documents.storage import is_there
from kafka_rebalance.errors import ApprovalError, ArtifactError, RebalanceError
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.candidate import OFFERED, Status
from kafka_rebalance.model.finding import Finding
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import GIVE_BACK
from kafka_rebalance.pages.approver_facts import (
    TIERED,
    WINDOW,
    Brief,
    brief,
    recommendation_words,
    snapshot_facts,
)
from kafka_rebalance.pages.candidate_report import CandidateReport, way_back_words
from kafka_rebalance.pages.first_screen import KeyFigures, key_figures
from kafka_rebalance.pages.markdown import asked_by, code, format_ids, one_line, sentence, table
from kafka_rebalance.pages.risks import RISKS_SHOWN, Risk, risks
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import (
    Named,
    format_bytes,
    format_count,
    format_duration,
    format_job,
    format_rate,
    format_time,
)
from kafka_rebalance.rebalance.give_back import answer_of_demote
from kafka_rebalance.rebalance.report import read_report, write_last_report
from kafka_rebalance.run.approval_request import Approval, Offer, RunLinks
from kafka_rebalance.run.approval_rules import BUTTONS, DECISION_FILE, REJECT, Answer, Decision, Question, on_buttons
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.running_rebalance import held_digest
from kafka_rebalance.throttle.rates import CandidateRates, range_from
from kafka_rebalance.throttle.run_rates import read_rates

log = logging.getLogger(__name__)


class CandidateApproval(Approval):
    """The approver may change the throttle within the policy's range."""

    behind = ("hold_throttle", "reassign", "release_throttle", "elect_leaders", "verify", "check_verified", "record")
    shown = (
        *(json_files.SNAPSHOT, json_files.SETTINGS, json_files.PROPOSALS, json_files.SEGMENTS),
        *(json_files.RATES, json_files.ESTIMATE, json_files.REJECTION),
        f"{json_files.SNAPSHOT_FOLDER}/{json_files.CONFIGS}",
    )

    def offer(self, folder: RunFolder) -> Offer:
        proposals, proposals_digest = PROPOSALS_FILE.read_with_digest(folder)
        snapshot, snapshot_digest = SNAPSHOT_FILE.read_with_digest(folder)
        stopped = stopped_candidates(folder, proposals_digest)
        digests = offered_digests(proposals, stopped)
        moving = any(
            candidate.moved_replicas or candidate.leader_changes or candidate.batches
            for candidate in proposals.candidates
            if candidate.name in digests
        )
        failed = {
            candidate.name: candidate.note for candidate in proposals.candidates if candidate.status == Status.FAILED
        }
        nothing = None if moving or stopped or failed else "No candidate moves anything. Nothing was written."
        return Offer(
            connection_id=snapshot.connection_id,
            policy_digest=snapshot.policy_digest,
            digests={name: digests[name] for name in on_buttons(digests, proposals.ranking)},
            source_digest=proposals_digest,
            request_digest=snapshot_digest,
            asked_by=snapshot.asked_by,
            cluster_id=snapshot.cluster_id,
            nothing=nothing,
            refused=None if moving or not (stopped or failed) else _refusal(stopped, failed),
            read_only=_read_only(snapshot.connection_id, snapshot.missing_rights),
        )

    def texts(self, folder: RunFolder, links: RunLinks) -> tuple[str, str]:
        report = read_report(folder)
        return approval_subject(report), approval_body(report, link=links.page, picture=links.picture)

    def questions(self, folder: RunFolder, offer: Offer, policy: Policy) -> tuple[Question, ...]:
        found = read_rates(folder)
        rates = [found[name] for name in offer.digests if name in found]
        viable = min((rate.least_bytes_per_second for rate in rates), default=1)
        why = next((f" Automatic: {rate.why}." for rate in rates if rate.why is not None), "")
        most = policy.max_throttle_bytes_per_second
        least = min(most, max(policy.min_throttle_bytes_per_second, viable))
        throttle = Question(
            "throttle_bytes_per_second",
            "Throttle (bytes/s per broker)",
            f"What one broker may send, and may receive, for this rebalance: {least} to {most} bytes/s "
            f"({bytes_in_words(least)}/s to {bytes_in_words(most)}/s).{why}{_range_words(folder, rates)}",
            number=_planned_throttle(folder, rates),
            least=least,
            most=most,
        )
        return (throttle,)

    def details(self, folder: RunFolder, choice: str, answer: Answer) -> Mapping[str, Any]:
        found = read_rates(folder).get(choice)
        rate = answer.throttle_bytes_per_second or _planned_throttle(folder, [found] if found else [])
        if choice != REJECT and found is not None and rate < found.least_bytes_per_second:
            raise ApprovalError(
                f"The answer does not count: at a throttle of {rate} bytes/s the copies of {choice} never end. They "
                f"need {found.least_bytes_per_second} bytes/s: {found.reason}. "
                "Start a new Dag run and approve a higher rate."
            )
        lowest = SNAPSHOT_FILE.read(folder).asked.throttle_from_bytes_per_second
        return {
            "snapshot_digest": PROPOSALS_FILE.read(folder).snapshot_digest,
            "throttle_bytes_per_second": rate,
            "throttle_from_bytes_per_second": None if choice == REJECT else range_from(lowest, found, rate),
        }

    def given_before(self, inputs: StepInputs, folder: RunFolder, offer: Offer, policy: Policy) -> Answer | None:
        """The approval of a demote may count for giving leadership back."""
        back = SNAPSHOT_FILE.read(folder).gives_back
        return None if back is None else answer_of_demote(inputs, folder, back, offer.digests, policy)

    def begun(self, inputs: StepInputs, folder: RunFolder) -> tuple[Decision, str] | None:
        """The decision again, if batches were started and the cluster's lock says that this run executes it."""
        if not is_there(folder / json_files.BATCHES):
            return None
        held, why = None, ""
        try:
            decision, digest = DECISION_FILE.read_with_digest(folder)
            connection = inputs.deployment.read_connection(SNAPSHOT_FILE.read(folder).connection_id)
            held = held_digest(inputs, connection)
        except RebalanceError as unreadable:
            why = f" {unreadable}"
        if held is None or held != decision.digest:
            raise ApprovalError(
                f"Nobody can be asked again: batches of this plan were already started.{why} Start a new Dag run."
            )
        log.warning("Nobody is asked again: batches of the approved plan %s were already started", held[:8])
        return decision, digest

    def end(self, folder: RunFolder) -> None:
        write_last_report(folder)


def _planned_throttle(folder: RunFolder, rates: Sequence[CandidateRates]) -> int:
    """The automatic rate of the first of these candidates that has one, else the rate of the settings."""
    auto = next((rate.auto_bytes_per_second for rate in rates if rate.auto_bytes_per_second is not None), None)
    rate = auto or SNAPSHOT_FILE.read(folder).asked.throttle_bytes_per_second
    assert rate is not None  # the policy has one
    return rate


def _range_words(folder: RunFolder, rates: Sequence[CandidateRates]) -> str:
    lowest = range_from(
        SNAPSHOT_FILE.read(folder).asked.throttle_from_bytes_per_second,
        max(rates, key=lambda rate: rate.least_bytes_per_second, default=None),
        None,
    )
    if lowest is None:
        return ""
    return (
        f" It is the high end of a range: the run begins at {bytes_in_words(lowest)}/s and itself changes the rate of "
        "each broker. With a number up to that, the rate is fixed."
    )


def offered_digests(proposals: Proposals, stopped: Collection[str]) -> dict[str, str]:
    """{candidate: digest} of the candidates that a person may choose, the recommended one first."""
    offered = {
        candidate.name: candidate.digest
        for candidate in proposals.candidates
        if candidate.status in OFFERED and candidate.name not in stopped
    }
    return dict(sorted(offered.items(), key=lambda item: item[0] != proposals.recommended))


def stopped_candidates(folder: RunFolder, proposals_digest: str) -> dict[str, list[str]]:
    """{candidate: why a copy of it could not follow}: nobody may approve these, whatever their status.

    Raises ArtifactError unless segments.json is there and of these proposals: a candidate without an audit is not
    offered.
    """
    audit = SEGMENTS_FILE.read(folder)
    if audit.source_digest != proposals_digest:
        raise ArtifactError(
            f"{folder / json_files.SEGMENTS} is not of these proposals. Clear render_report with what follows it."
        )
    return {name: [stop.words for stop in audit.candidates[name].stops] for name in audit.stopped}


def _read_only(connection_id: str, missing: Sequence[Finding]) -> str | None:
    if not missing:
        return None
    rights = " ".join(f"{right}." for right in missing)
    return (
        f"Read-only: the connection {connection_id!r} may not write what a rebalance needs, so nobody is asked. "
        f"{rights} Nothing was written. The report shows the plan. Then start a new Dag run."
    )


def _refusal(stopped: Mapping[str, Sequence[str]], failed: Mapping[str, str]) -> str:
    if not stopped:
        errors = " ".join(f"{name}: {note.removesuffix('.')}." for name, note in failed.items())
        return (
            f"Planning of {', '.join(failed)} failed, and no other candidate moves anything. So it is unknown whether "
            f"there is something to move. {errors} Report the error with this "
            "run's folder, or start a new Dag run with other settings."
        )
    reasons = list(dict.fromkeys(reason for found in stopped.values() for reason in found))
    more = f" And {len(reasons) - 3} more, see the run's report." if len(reasons) > 3 else ""
    return (
        f"No candidate can be approved ({', '.join(stopped)}): a new replica could not follow. {' '.join(reasons[:3])}"
        f"{more} Correct the settings and start a new Dag run."
    )


# The text of the approval request that a person reads in Airflow's Required Actions, or in a chat message.
#
# Airflow renders the body as markdown (GFM) after Jinja. Every text from the cluster or from a person is put into a
# code span, in which nothing is markup: GFM turns even an escaped `www.` into a link, and a topic may have such a
# name.


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
        job = GIVE_BACK if report.taken.gives_back is not None else report.settings.job
        is_best = focus.name == report.recommended
        best = f"Recommended: {focus.name} · {focus.digest[:8]}" if is_best else "Nothing is recommended"
        does = f"{figures.copies.value} to copy" if focus.moved_bytes else f"{moves}, nothing to copy"
        gain = f", highest broker {figures.evenness.value}" if focus.gain is not None else ""
        words = f"{format_job(job)}? {does} in {figures.takes.value}{gain}. {best}"
    return one_line(f"Kafka {report.taken.connection_id}: {words}", _SUBJECT_CHARACTERS)


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
    focus, taken = report.focus, report.taken
    where = (
        f"**Cluster** {code(taken.connection_id, 120)}, {format_count(taken.brokers, 'broker', 'brokers')}, "
        f"{format_bytes(taken.cluster_bytes)}, as of {format_time(taken.observed_at)}"
    )
    if report.bytes_out is not None:
        where += f". Bytes out: {report.bytes_out}"
    if report.policy is None:
        where += ". **No policy file**: this cluster is read-only. Nothing here can be executed."
    lines = [where, asked_by(taken.requested_by, report.reason)]
    if focus is None:
        return _listed([*lines, "There is no candidate to approve."])
    known, figures = risks(report, focus, lambda name: code(name, 60)), key_figures(report, focus)
    said = brief(report, lambda name: code(name, 60))
    lines += _why(said)
    lines += [sentence(word, 320) for word in recommendation_words(report)[:1]]
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
    for name, words in snapshot_facts(report.taken, focus, named):
        does += f". {name}: {words}" if name == TIERED else f". {words[0].upper()}{words[1:]}"
    throttle, slowest = report.throttle_of(focus), report.slowest_seconds(focus)
    rate = f" at {format_rate(throttle)} a broker" if throttle is not None and focus.moved_bytes else ""
    if rate and slowest is not None:
        lowest = format_rate(report.lowest_throttle_of(focus))
        rate += (
            f", up to {format_duration(slowest)} at {lowest}: the run itself chooses each broker's rate between them"
        )
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
