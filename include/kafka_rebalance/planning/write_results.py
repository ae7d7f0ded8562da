"""The files that planning writes into the run's folder, for the command line and for the Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kafka_rebalance.documents.candidate_figures import Scores
from kafka_rebalance.documents.json_files import plain
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals, ProposedCandidate
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.evenness.diagnosis import outlook
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.ranking import ranking
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.tables.parquet_files import write_rows, write_table
from kafka_rebalance.planning.tables.result_tables import (
    CANDIDATES_SCHEMA,
    LOADS_SCHEMA,
    SCORES_SCHEMA,
    disk_table,
    moves_of,
)


def write_results(folder: Folder, problem: Problem, plans: Sequence[DescribedCandidate]) -> None:
    """Writes all files of planning except its timings. The same plans give the same bytes."""
    best = recommend(problem.settings, plans)
    write_table(folder / "moves", moves_of((plan.candidate.name, plan.candidate.moves) for plan in plans))
    write_rows(folder / "scores", [row for plan in plans for row in _score_rows(plan)], SCORES_SCHEMA)
    write_rows(folder / "candidates", [_candidate_row(problem, plan.candidate) for plan in plans], CANDIDATES_SCHEMA)
    write_rows(folder / "loads", [row for plan in plans for row in _load_rows(problem, plan)], LOADS_SCHEMA)
    used = [(plan.candidate.name, plan.disks) for plan in plans if plan.disks is not None]
    parts = [(name, (disks.batch, disks.broker, disks.peak_bytes, disks.after_bytes)) for name, disks in used]
    write_table(folder / "disk", disk_table(parts))
    proposals = Proposals(
        problem.snapshot_digest,
        problem.settings.to_mapping(),
        best.candidate,
        tuple(map(_proposal, plans)),
        tuple(ranking(plans, best.candidate)),
        best,
        outlook(problem),
        problem.history,
    )
    PROPOSALS_FILE.write(folder, proposals)


def _score_rows(plan: DescribedCandidate) -> list[dict[str, Any]]:
    phases = (("before", plan.scores_before), ("after", plan.scores_after))
    return [
        {"candidate": plan.candidate.name, "phase": phase, "metric": metric, **plain(score)}
        for phase, by_metric in phases
        for metric, score in by_metric.items()
    ]


def _candidate_row(problem: Problem, candidate: Candidate) -> dict[str, Any]:
    settings = problem.settings
    own = {"candidate": candidate.name, "status": candidate.status, "note": candidate.note, "digest": candidate.digest}
    return {**own, "job": settings.job, "tolerance": settings.tolerance, "seed": settings.seed, **candidate.summary}


def _load_rows(problem: Problem, plan: DescribedCandidate) -> list[dict[str, Any]]:
    rows = []
    networks = [[None if np.isnan(one) else one for one in pair] for pair in problem.networks.tolist()]
    for phase, loads, out in zip(
        ("before", "after"), (plan.loads_before, plan.loads_after), plan.bytes_out, strict=True
    ):
        for number, broker in enumerate(problem.brokers.tolist()):
            replicas, disk, bytes_in, leaders, sent = loads[number].tolist()
            capacity = problem.disk_capacity[number]
            row = {
                "candidate": plan.candidate.name,
                "phase": phase,
                "broker": broker,
                "rack": problem.racks[number],
                "replicas": int(replicas),
                "leaders": int(leaders),
                "size_bytes": int(disk),
                "bytes_in_per_second": None if problem.bytes_in is None else bytes_in,
                "leader_bytes_out_per_second": sent if "leader_bytes_out" in plan.scores_before else None,
                "disk_capacity_bytes": None if np.isnan(capacity) else int(capacity),
                "bytes_out_per_second": None if out is None else float(out[number]),
                "nic_in_bytes_per_second": networks[number][0],
                "nic_out_bytes_per_second": networks[number][1],
            }
            rows.append(row)
    return rows


def _proposal(plan: DescribedCandidate) -> ProposedCandidate:
    candidate = plan.candidate
    figures: dict[str, Any] = {**candidate.summary, **plan.consequences}
    return ProposedCandidate(
        candidate.name,
        candidate.digest,
        candidate.status,
        note=candidate.note,
        less_even=plan.less_even(),
        rack_limits=plan.rack_limits,
        groups=plan.groups,
        scores=Scores(plan.scores_before, plan.scores_after),
        **figures,
    )
