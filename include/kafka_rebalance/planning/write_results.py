"""Everything that planning leaves in the run's folder. The same writer serves the command line and the Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kafka_rebalance.documents.json_files import TIMINGS, plain, write_json
from kafka_rebalance.documents.proposals.candidate_figures import Scores
from kafka_rebalance.documents.proposals.proposals import PROPOSALS_FILE, Proposals, ProposedCandidate
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.evenness.diagnosis import outlook
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.problem.loads import METRICS
from kafka_rebalance.planning.ranking import ranking
from kafka_rebalance.planning.recommendation import recommend
from kafka_rebalance.planning.tables.parquet_files import write_rows, write_table
from kafka_rebalance.planning.tables.result_tables import (
    CANDIDATES_SCHEMA,
    LOADS_SCHEMA,
    MOVES_SCHEMA,
    SCORES_SCHEMA,
    disk_table,
    move_row,
)


def write_results(folder: Folder, problem: Problem, plans: Sequence[DescribedCandidate]) -> None:
    """Everything that planning leaves in the run's folder, but its timings. Same plans, same bytes."""
    best = recommend(problem.settings, plans)
    moves = [move_row(plan.candidate.name, move) for plan in plans for move in plan.candidate.moves]
    score_rows = [row for plan in plans for row in _score_rows(plan)]
    wide = [_candidate_row(problem, plan.candidate) for plan in plans]
    loads = [row for plan in plans for row in _load_rows(problem, plan)]
    for name, rows, schema in (
        ("moves", moves, MOVES_SCHEMA),
        ("scores", score_rows, SCORES_SCHEMA),
        ("candidates", wide, CANDIDATES_SCHEMA),
        ("loads", loads, LOADS_SCHEMA),
    ):
        write_rows(folder / name, rows, schema)
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


def write_timings(folder: Folder, seconds: Mapping[str, Any]) -> None:
    """How long each part took; outside every digest."""
    write_json(folder, TIMINGS, {"seconds": dict(seconds)})


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
            load = dict(zip(METRICS, loads[number].tolist(), strict=True))
            capacity = problem.disk_capacity[number]
            row = {
                "candidate": plan.candidate.name,
                "phase": phase,
                "broker": broker,
                "rack": problem.racks[number],
                "replicas": int(load["replicas"]),
                "leaders": int(load["leaders"]),
                "size_bytes": int(load["disk"]),
                "bytes_in_per_second": None if problem.bytes_in is None else load["bytes_in"],
                "leader_bytes_out_per_second": load["leader_bytes_out"]
                if "leader_bytes_out" in plan.scores_before
                else None,
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
