"""What one run's page says, as values: built from the documents of the run's folder, without reading anything.

Documents are those of `documents.json_files`; one that is not written yet is None, and the report says what is missing.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kafka_rebalance.documents.controller import ControllerFound
from kafka_rebalance.documents.decision import DECISION_FILE, Decision
from kafka_rebalance.documents.estimate import ESTIMATE_FILE
from kafka_rebalance.documents.json_files import DECISION, SNAPSHOT, decode
from kafka_rebalance.documents.left_out import LEFT_OUT_FILE
from kafka_rebalance.documents.proposals.page_tables import DiskRow
from kafka_rebalance.documents.proposals.proposals import PROPOSALS_FILE, ProposedCandidate
from kafka_rebalance.documents.proposals.rates import RATES_FILE
from kafka_rebalance.documents.proposals.recommendation import Why
from kafka_rebalance.documents.rejection import REJECTION_FILE
from kafka_rebalance.documents.segments import SEGMENTS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.documents.verification import VERIFICATION_FILE
from kafka_rebalance.execution.time_window import Window
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.report.candidate.broker_loads import BrokerChange
from kafka_rebalance.report.candidate.candidate_report import (
    CandidateReport,
    DiskCourse,
)
from kafka_rebalance.report.candidate.limits_used import limit_uses
from kafka_rebalance.report.candidate.page_tables import NO_TABLES, CandidateTables
from kafka_rebalance.report.run.bytes_in_source import history_line
from kafka_rebalance.report.run.how_far import read_execution
from kafka_rebalance.report.run.run_report import Deciding, RunReport
from kafka_rebalance.report.run_state import run_facts
from kafka_rebalance.verification.check_result import checks_in_order


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
    taken = SNAPSHOT_FILE.decode(snapshot)
    settings = Settings.from_mapping(taken.settings)
    policy = Policy.from_mapping(taken.policy, f"{SNAPSHOT}: policy") if taken.policy else None
    plan = PROPOSALS_FILE.decode(proposals) if proposals is not None else None
    planned = plan.candidates if plan else ()
    candidates = tuple(_candidate(one, (tables or {}).get(one.name, NO_TABLES)) for one in planned)
    account = plan.history if plan else None
    recommendation = plan.recommendation if plan else None
    answer = DECISION_FILE.decode(decision) if decision is not None else None
    controller = taken.controller or {}
    checks = VERIFICATION_FILE.decode(verification) if verification is not None else None
    if checks is not None:
        checks = dataclasses.replace(checks, checks=checks_in_order(checks.checks))
    report = RunReport(
        connection_id=taken.connection_id,
        cluster_id=taken.cluster_id,
        dag_id=taken.dag_id,
        run_id=taken.run_id,
        observed_at=taken.observed_at,
        requested_by=taken.requested_by,
        reason=taken.reason.strip(),
        brokers=taken.brokers,
        partitions=taken.partitions,
        cluster_bytes=taken.cluster_bytes,
        controller=decode(ControllerFound, controller, f"{SNAPSHOT}: controller")
        if "epochs_read" in controller
        else None,
        settings=settings,
        policy=policy,
        limits=(),
        candidates=candidates,
        recommended=plan.recommended if plan else None,
        ranking=plan.ranking if plan else (),
        recommendation=None if recommendation is None or recommendation.why is Why.UNKNOWN else recommendation,
        segments=SEGMENTS_FILE.decode(segments) if segments is not None else None,
        decision=answer,
        execution=read_execution(
            batches=batches, progress=progress, throttle=throttle, control=control, cancelled=cancelled
        ),
        verification=checks,
        history=history_line(account, taken.observed_at) if account is not None else None,
        problems=_contradictions(candidates, answer),
        facts=run_facts(
            snapshot=snapshot,
            proposals=proposals,
            segments=segments,
            decision=decision,
            batches=batches,
            verification=verification,
        ),
        left_out=LEFT_OUT_FILE.decode(left_out).partitions if left_out is not None else (),
        estimate=ESTIMATE_FILE.decode(estimate) if estimate is not None else None,
        deciding=Deciding(
            outlook=plan.outlook if plan is not None else None,
            window=Window(taken.window.not_before, taken.window.finish_by) if taken.window else Window(),
            costs=RATES_FILE.decode(rates).candidates if rates is not None else {},
            rejection=REJECTION_FILE.decode(rejection).rejected if rejection is not None else None,
            automatic_elections=taken.automatic_elections,
        ),
    )
    return _with_limits(_at_its_throttle(report))


def _at_its_throttle(report: RunReport) -> RunReport:
    """With every time as long as it is at the throttle that was approved or found, not the one planned with."""
    asked = report.settings.throttle_bytes_per_second

    def paced(candidate: CandidateReport) -> CandidateReport:
        throttle = report.throttle_of(candidate)
        if not asked or not throttle or throttle == asked:
            return candidate
        slower, back = asked / throttle, candidate.way_back
        if back is not None and back.seconds is not None:
            back = dataclasses.replace(back, seconds=back.seconds * slower)
        planned, bound = candidate.makespan_seconds, candidate.makespan_bound_seconds
        return dataclasses.replace(
            candidate,
            makespan_seconds=None if planned is None else planned * slower,
            makespan_bound_seconds=None if bound is None else bound * slower,
            way_back=back,
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


def _contradictions(candidates: Sequence[CandidateReport], decision: Decision | None) -> tuple[str, ...]:
    """An approval of something that is not among the candidates must not look like an approval of one of them."""
    if decision is None or decision.digest is None or not decision.is_approval:
        return ()
    if any((candidate.name, candidate.digest) == (decision.choice, decision.digest) for candidate in candidates):
        return ()
    return (
        f"{DECISION} is for {decision.choice} with digest {decision.digest[:8]}, which is not a candidate of this run. "
        "Nothing of another digest is executed. Start a new Dag run.",
    )


def _candidate(planned: ProposedCandidate, tables: CandidateTables) -> CandidateReport:
    brokers, moves = tables.brokers, tables.moves
    return CandidateReport(
        **{one.name: getattr(planned, one.name) for one in dataclasses.fields(planned)},
        brokers=brokers,
        partitions=moves.partitions,
        largest_moves=moves.largest,
        most_partitions_in_a_batch=moves.most_partitions_in_a_batch,
        most_leader_changes_in_a_batch=moves.most_leader_changes_in_a_batch,
        fullest_disks=_disk_courses(tables.disks, brokers),
    )


def _disk_courses(rows: Sequence[DiskRow], brokers: Sequence[BrokerChange]) -> tuple[DiskCourse, ...]:
    """In the order in which the brokers come."""
    capacities = {broker.broker: broker.disk_capacity_bytes for broker in brokers}
    steps: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for row in rows:
        steps[row.broker].append((row.batch, row.peak_bytes, row.after_bytes))
    return tuple(DiskCourse(broker, capacities.get(broker), tuple(sorted(found))) for broker, found in steps.items())
