"""What one run's page says, as values: built from the documents of the run's folder, without reading anything.

Documents are those of `documents.json_files`; one that is not written yet is None, and the report says what is missing.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kafka_rebalance.documents.json_files import (
    DECISION,
    ESTIMATE,
    LEFT_OUT,
    PROPOSALS,
    RATES,
    REJECTION,
    SEGMENTS,
    SNAPSHOT,
    VERIFICATION,
)
from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.documents.proposals.recommendation import Beside, Recommendation, Why
from kafka_rebalance.documents.rejection import read_rejection
from kafka_rebalance.documents.segments import segment_report
from kafka_rebalance.execution.check.automatic_elections import AutomaticElections
from kafka_rebalance.execution.time_window import Window
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.report.candidate.broker_loads import BrokerChange
from kafka_rebalance.report.candidate.candidate_report import (
    METRICS,
    CandidateReport,
    DiskCourse,
    GroupReport,
    Score,
    read_further_runs,
    read_less_even,
)
from kafka_rebalance.report.candidate.client_cost import read_costs
from kafka_rebalance.report.candidate.fullest_log_dirs import read_log_dirs
from kafka_rebalance.report.candidate.limits_used import limit_uses
from kafka_rebalance.report.candidate.page_tables import NO_TABLES, CandidateTables
from kafka_rebalance.report.candidate.risk import read_stakes
from kafka_rebalance.report.candidate.stays_behind import read_stays_behind
from kafka_rebalance.report.candidate.timetable import read_timetable
from kafka_rebalance.report.run.bytes_in_source import history_line
from kafka_rebalance.report.run.diagnosis import read_outlook
from kafka_rebalance.report.run.how_far import read_execution
from kafka_rebalance.report.run.past_runs import read_estimate
from kafka_rebalance.report.run.run_report import (
    CheckReport,
    ControllerReport,
    Deciding,
    Decision,
    LeftOutMove,
    Queue,
    RunReport,
    Verification,
)
from kafka_rebalance.report.run_state import run_facts

_QUEUES = {"reassignments": "reassignments", "elections": "preferred elections", "deletions": "topic deletions"}


def read_recommendation(plan: Document) -> Recommendation | None:
    """Of proposals.json; None where another version made it, which says nothing or has other reasons."""
    part = plan.optional_part("recommendation")
    if part is None or part.text("why") not in tuple(Why):
        return None
    furthest = part.optional_part("furthest")
    return Recommendation(
        part.optional_text("candidate"),
        Why(part.text("why")),
        part.number("tolerance"),
        (furthest.number("before"), furthest.number("after")) if furthest else None,
        part.count("undone"),
        part.count("rack_violations"),
        _beside(part.optional_part("cheaper")),
        _beside(part.optional_part("more_even")),
    )


def _beside(part: Document | None) -> Beside | None:
    if part is None:
        return None
    return Beside(part.text("candidate"), part.count("bytes"), part.number("furthest"))


def read_deciding(
    snapshot: Document,
    plan: Document | None,
    rates: Mapping[str, object] | None,
    rejection: Mapping[str, object] | None,
) -> Deciding:
    """Raises ArtifactError for a missing or wrong value."""
    window = snapshot.optional_part("window")
    elections = snapshot.optional_part("automatic_elections")
    return Deciding(
        outlook=read_outlook(plan) if plan is not None else None,
        window=Window(window.optional_time("not_before"), window.optional_time("finish_by")) if window else Window(),
        costs=read_costs(Document.of(RATES, rates)) if rates is not None else {},
        rejection=read_rejection(Document.of(REJECTION, rejection)) if rejection is not None else None,
        automatic_elections=_automatic_elections(elections) if elections else None,
    )


def _automatic_elections(part: Document) -> AutomaticElections:
    seconds = part.content.get("check_seconds")
    known = None if seconds is None else part.count("check_seconds")
    return AutomaticElections(tuple(int(broker) for broker in part.texts("brokers")), known)


def build_report(
    snapshot: Mapping[str, object],
    *,
    proposals: Mapping[str, object] | None = None,
    segments: Mapping[str, object] | None = None,
    decision: Mapping[str, object] | None = None,
    throttle: Mapping[str, object] | None = None,
    batches: Mapping[str, object] | None = None,
    progress: Mapping[str, object] | None = None,
    control: Mapping[str, object] | None = None,
    cancelled: Mapping[str, object] | None = None,
    verification: Mapping[str, object] | None = None,
    left_out: Mapping[str, object] | None = None,
    estimate: Mapping[str, object] | None = None,
    rates: Mapping[str, object] | None = None,
    rejection: Mapping[str, object] | None = None,
    tables: Mapping[str, CandidateTables] | None = None,
) -> RunReport:
    """The report of the documents; `tables` is by candidate.

    Raises ArtifactError for a document with a missing or wrong value, naming file and key.
    """
    document = Document.of(SNAPSHOT, snapshot)
    settings = Settings.from_mapping(document.part("settings").content)
    policy_part = document.optional_part("policy")
    policy = Policy.from_mapping(policy_part.content, policy_part.where) if policy_part else None
    plan = Document.of(PROPOSALS, proposals) if proposals is not None else None
    account = plan.optional_part("history") if plan else None
    candidates = (
        tuple(_candidate(part, (tables or {}).get(part.text("name"), NO_TABLES)) for part in plan.parts("candidates"))
        if plan
        else ()
    )
    answer = _decision(Document.of(DECISION, decision)) if decision is not None else None
    checks = _verification(Document.of(VERIFICATION, verification)) if verification is not None else None
    report = RunReport(
        connection_id=document.text("connection_id"),
        cluster_id=document.text("cluster_id"),
        dag_id=document.text("dag_id"),
        run_id=document.text("run_id"),
        observed_at=document.time("observed_at"),
        requested_by=document.optional_text("requested_by"),
        reason=document.text("reason", "").strip(),
        brokers=document.count("brokers"),
        partitions=document.count("partitions"),
        cluster_bytes=document.count("cluster_bytes"),
        controller=_controller(document.optional_part("controller")),
        settings=settings,
        policy=policy,
        limits=(),
        candidates=candidates,
        recommended=plan.optional_text("recommended") if plan else None,
        ranking=plan.texts("ranking") if plan else (),
        recommendation=read_recommendation(plan) if plan else None,
        segments=segment_report(Document.of(SEGMENTS, segments)) if segments is not None else None,
        decision=answer,
        execution=read_execution(
            batches=batches, progress=progress, throttle=throttle, control=control, cancelled=cancelled
        ),
        verification=checks,
        history=history_line(account, document.time("observed_at")) if account is not None else None,
        problems=_contradictions(candidates, answer),
        facts=run_facts(
            snapshot=snapshot,
            proposals=proposals,
            segments=segments,
            decision=decision,
            batches=batches,
            verification=verification,
        ),
        left_out=_left_out(Document.of(LEFT_OUT, left_out)) if left_out is not None else (),
        estimate=read_estimate(Document.of(ESTIMATE, estimate)) if estimate is not None else None,
        deciding=read_deciding(document, plan, rates, rejection),
    )
    return _with_limits(_at_its_throttle(report))


def _at_its_throttle(report: RunReport) -> RunReport:
    """With every time as long as it is at the throttle that was approved or found, not the one planned with."""
    asked = report.settings.throttle_bytes_per_second

    def paced(candidate: CandidateReport) -> CandidateReport:
        throttle = report.throttle_of(candidate)
        if not asked or not throttle or throttle == asked:
            return candidate
        slower, stakes = asked / throttle, candidate.stakes
        if stakes is not None and stakes.back_seconds is not None:
            stakes = dataclasses.replace(stakes, back_seconds=stakes.back_seconds * slower)
        planned, bound = candidate.makespan_seconds, candidate.makespan_bound_seconds
        return dataclasses.replace(
            candidate,
            makespan_seconds=None if planned is None else planned * slower,
            makespan_bound_seconds=None if bound is None else bound * slower,
            stakes=stakes,
        )

    return dataclasses.replace(report, candidates=tuple(map(paced, report.candidates)))


def _with_limits(report: RunReport) -> RunReport:
    focus = report.focus
    if focus is None:
        return report
    limits = limit_uses(
        report.policy,
        report.settings,
        moved_bytes=focus.moved_bytes,
        moved_replicas=focus.moved_replicas,
        leader_changes=focus.leader_changes,
        partitions_in_a_batch=focus.most_partitions_in_a_batch,
        leader_changes_in_a_batch=focus.most_leader_changes_in_a_batch,
        controller_bytes=focus.controller_bytes,
        throttle_bytes_per_second=report.throttle_of(focus),
    )
    return dataclasses.replace(report, limits=limits)


def _controller(part: Document | None) -> ControllerReport | None:
    if part is None or "epochs_read" not in part.content:
        return None
    queued = part.part("queued")
    queues = [(what, queued.part(key)) for key, what in _QUEUES.items()]
    first, second = part.counts("epochs_read", 2)
    return ControllerReport(
        broker=part.count("broker"),
        host=part.optional_text("host"),
        since=part.optional_time("since"),
        epoch=part.count("epoch"),
        kraft_epoch=part.count("kraft_epoch"),
        epochs_read=(first, second),
        queues=tuple(Queue(what, queue.count("count"), queue.texts("first")) for what, queue in queues),
    )


def _contradictions(candidates: Sequence[CandidateReport], decision: Decision | None) -> tuple[str, ...]:
    """An approval of something that is not among the candidates must not look like an approval of one of them."""
    if decision is None or not decision.is_approval:
        return ()
    if any((candidate.name, candidate.digest) == (decision.choice, decision.digest) for candidate in candidates):
        return ()
    return (
        f"{DECISION} is for {decision.choice} with digest {decision.digest[:8]}, which is not a candidate of this run. "
        "Nothing of another digest is executed. Start a new Dag run.",
    )


def _candidate(part: Document, tables: CandidateTables) -> CandidateReport:
    brokers, moves = tables.brokers, tables.moves
    return CandidateReport(
        name=part.text("name"),
        digest=part.text("digest"),
        status=part.text("status"),
        note=part.text("note", ""),
        moved_bytes=part.count("moved_bytes"),
        moved_bytes_bound=part.optional_count("moved_bytes_bound"),
        cross_rack_bytes=part.optional_count("cross_rack_bytes"),
        moved_replicas=part.count("moved_replicas"),
        leader_changes=part.count("leader_changes"),
        rack_violations=part.optional_count("rack_violations"),
        crowded_replicas=(part.optional_count("crowded_replicas_before"), part.optional_count("crowded_replicas")),
        batches=part.count("batches"),
        makespan_seconds=part.optional_number("makespan_seconds"),
        makespan_bound_seconds=part.optional_number("makespan_bound_seconds"),
        peak_disk_fraction=part.optional_number("peak_disk_fraction"),
        controller_bytes=part.optional_count("controller_bytes"),
        scores=_scores(part.part("scores")),
        brokers=brokers,
        partitions=moves.partitions,
        largest_moves=moves.largest,
        most_partitions_in_a_batch=moves.most_partitions_in_a_batch,
        most_leader_changes_in_a_batch=moves.most_leader_changes_in_a_batch,
        groups=tuple(
            GroupReport(group.text("text"), group.count("bytes"))
            for group in (part.parts("groups") if "groups" in part.content else ())
        ),
        rack_limits=part.texts("rack_limits") if "rack_limits" in part.content else (),
        fullest_disks=_disk_courses(part.text("name"), tables.disks, brokers),
        stakes=read_stakes(part),
        log_dirs=read_log_dirs(part),
        timetable=read_timetable(part),
        further_runs=read_further_runs(part),
        less_even=read_less_even(part),
        stays_behind=read_stays_behind(part),
    )


def _disk_courses(
    candidate: str, rows: Sequence[Mapping[str, object]], brokers: Sequence[BrokerChange]
) -> tuple[DiskCourse, ...]:
    """Rows of the table `disk` of one candidate by broker, in the order in which the brokers come."""
    capacities = {broker.broker: broker.disk_capacity_bytes for broker in brokers}
    steps: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, row in enumerate(rows):
        document = Document.of(f"disk of {candidate}, row {number}", row)
        step = (document.count("batch"), document.count("peak_bytes"), document.count("after_bytes"))
        steps[document.count("broker")].append(step)
    return tuple(DiskCourse(broker, capacities.get(broker), tuple(sorted(found))) for broker, found in steps.items())


def _scores(part: Document) -> tuple[Score, ...]:
    before, after = part.part("before"), part.part("after")
    return tuple(
        Score(metric, _range(before.optional_part(metric)), _range(after.optional_part(metric)))
        for metric in METRICS
        if metric in before.content or metric in after.content
    )


def _range(part: Document | None) -> tuple[float | None, float | None]:
    if part is None:
        return None, None
    return part.optional_number("min_over_mean"), part.optional_number("max_over_mean")


def _decision(document: Document) -> Decision:
    who = document.optional_part("approved_by")
    return Decision(
        choice=document.optional_text("choice"),
        digest=document.optional_text("digest") or "",
        by=None if who is None else (who.optional_text("name") or who.optional_text("id")),
        at=document.optional_time("approved_at"),
        note=(document.optional_text("note") or "").strip(),
        throttle_bytes_per_second=document.optional_number("throttle_bytes_per_second"),
    )


def _left_out(document: Document) -> tuple[LeftOutMove, ...]:
    return tuple(
        LeftOutMove(
            f"{part.text('topic')}-{part.count('partition')}",
            part.ids("before"),
            part.ids("after"),
            part.count("bytes"),
            part.texts("why"),
            part.time("at"),
        )
        for part in document.parts("partitions")
    )


def _verification(document: Document) -> Verification:
    checks = tuple(
        CheckReport(
            part.text("name"),
            part.text("subject"),
            part.text("expectation"),
            part.text("finding"),
            part.flag("passed"),
            part.flag("passed") and part.text("severity", "error") == "warning",
        )
        for part in document.parts("checks")
    )
    at = document.optional_time("verified_at")
    in_order = tuple(sorted(checks, key=lambda check: (check.passed, not check.warns)))
    return Verification(document.flag("passed"), at, in_order, document.content.get("again") is True)
