"""The report of one run, built from the documents of its folder. Nothing is read here.

The documents are those of `documents.json_files`. A document that is not written yet is None.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kafka_rebalance.documents.controller import ControllerFound
from kafka_rebalance.documents.json_files import DECISION, SNAPSHOT, JsonFile, T, decode
from kafka_rebalance.documents.page_tables import DiskRow
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals, ProposedCandidate
from kafka_rebalance.documents.recommendation import Why
from kafka_rebalance.documents.rejection import REJECTION_FILE
from kafka_rebalance.documents.segments import SEGMENTS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, AskedWindow
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.moves.time_window import Window, read_window
from kafka_rebalance.pages.broker_loads import BrokerChange
from kafka_rebalance.pages.bytes_in_source import bytes_out_line, history_line
from kafka_rebalance.pages.candidate_report import CandidateReport, DiskCourse
from kafka_rebalance.pages.how_far import Document, read_execution
from kafka_rebalance.pages.page_tables import NO_TABLES, CandidateTables
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.run_state import run_facts
from kafka_rebalance.run.check_result import checks_in_order
from kafka_rebalance.run.decision import DECISION_FILE, Decision
from kafka_rebalance.run.estimate import ESTIMATE_FILE
from kafka_rebalance.run.left_out import LEFT_OUT_FILE
from kafka_rebalance.run.verification import VERIFICATION_FILE
from kafka_rebalance.throttle.rates import RATES_FILE

_NO_PLAN = Proposals("", {}, None, ())


def build_report(
    snapshot: Document,
    *,
    proposals: Document | None = None,
    segments: Document | None = None,
    decision: Document | None = None,
    throttle: Document | None = None,
    batches: Document | None = None,
    progress: Document | None = None,
    control: Document | None = None,
    cancelled: Document | None = None,
    verification: Document | None = None,
    left_out: Document | None = None,
    estimate: Document | None = None,
    rates: Document | None = None,
    rejection: Document | None = None,
    tables: Mapping[str, CandidateTables] | None = None,
) -> RunReport:
    """`tables` is by candidate. Raises ArtifactError for a missing or wrong value, naming file and key."""
    taken = SNAPSHOT_FILE.decode(snapshot)
    plan = _decoded(PROPOSALS_FILE, proposals) or _NO_PLAN
    candidates = tuple(_candidate(one, (tables or {}).get(one.name, NO_TABLES)) for one in plan.candidates)
    answer, checks = _decoded(DECISION_FILE, decision), _decoded(VERIFICATION_FILE, verification)
    found, left, rejected = (
        _decoded(RATES_FILE, rates),
        _decoded(LEFT_OUT_FILE, left_out),
        _decoded(REJECTION_FILE, rejection),
    )
    controller = taken.controller or {}
    is_explained = plan.recommendation is not None and plan.recommendation.why is not Why.UNKNOWN
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
        settings=Settings.from_mapping(taken.settings),
        policy=Policy.from_mapping(taken.policy, f"{SNAPSHOT}: policy") if taken.policy else None,
        candidates=candidates,
        recommended=plan.recommended,
        ranking=plan.ranking,
        recommendation=plan.recommendation if is_explained else None,
        segments=_decoded(SEGMENTS_FILE, segments),
        decision=answer,
        execution=read_execution(
            batches=batches, progress=progress, throttle=throttle, control=control, cancelled=cancelled
        ),
        verification=dataclasses.replace(checks, checks=checks_in_order(checks.checks)) if checks else None,
        history=history_line(plan.history, taken.observed_at) if plan.history is not None else None,
        bytes_out=bytes_out_line(plan.history.groups) if plan.history and plan.history.groups else None,
        problems=_contradictions(candidates, answer),
        facts=run_facts(
            snapshot=snapshot,
            proposals=proposals,
            segments=segments,
            decision=decision,
            batches=batches,
            verification=verification,
        ),
        left_out=left.partitions if left else (),
        estimate=_decoded(ESTIMATE_FILE, estimate),
        outlook=plan.outlook,
        missing_rights=taken.missing_rights,
        window=_window(taken.window) if taken.window else Window(),
        costs=found.candidates if found else {},
        rejection=rejected.rejected if rejected else None,
        automatic_elections=taken.automatic_elections,
        kept_away=taken.kept_away,
        last_proposal=taken.last_proposal,
        other_policies=taken.other_policies,
        tiered=taken.tiered,
        cordon=taken.cordon,
    )
    return _at_its_throttle(report)


def _window(asked: AskedWindow) -> Window:
    recurring = read_window({"recurring": asked.recurring}).recurring
    return Window(asked.not_before, asked.finish_by, recurring)


def _decoded(file: JsonFile[T], document: Document | None) -> T | None:
    return None if document is None else file.decode(document)


def _at_its_throttle(report: RunReport) -> RunReport:
    """The report with all times at the throttle that was approved or found, instead of the planned one."""
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


def _contradictions(candidates: Sequence[CandidateReport], decision: Decision | None) -> tuple[str, ...]:
    """An approval of something else must not look like the approval of a candidate."""
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
    """In the order of the rows."""
    capacities = {broker.broker: broker.disk_capacity_bytes for broker in brokers}
    steps: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for row in rows:
        steps[row.broker].append((row.batch, row.peak_bytes, row.after_bytes))
    return tuple(DiskCourse(broker, capacities.get(broker), tuple(sorted(found))) for broker, found in steps.items())
