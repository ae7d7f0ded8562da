"""`kafka-rebalance check` and `explain`: the steps of the Dag in this process, without Airflow, and their words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals
from kafka_rebalance.documents.snapshot import SnapshotTaken, read_settings
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.pages.approver_facts import TIERED, brief, less_even_words, recommendation_words, tiered_words
from kafka_rebalance.pages.candidate_report import CandidateReport
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import about, format_bytes, format_count, format_factor
from kafka_rebalance.planning import planner
from kafka_rebalance.rebalance.report import read_report, render_report
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment, StartedRun, StepInputs

# Snapshot, plan and report of one cluster by the steps of the Dag, in this process and without Airflow.


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What was found, and the folder that holds the same files as a run's."""

    folder: Path
    proposals: Proposals
    report: RunReport


def look_at(
    connection: ClusterConnection,
    out: Path,
    params: Mapping[str, Any],
    progress: Callable[[str], None],
    policy: bytes | None = None,
) -> FirstLook:
    """Reads and plans. `asked` are params of `kafka_rebalance`. Calls `progress` with a line at each step.

    `policy` is the content of a policy file: with it the plan is the one that a run of the Dag makes of the same
    cluster. Nothing is written to the cluster. Raises RebalanceError.
    """
    told: dict[str, Any] = {}
    run = StartedRun(REBALANCE_DAG, f"look__{clock.utc_now():%Y-%m-%dT%H-%M-%S}")
    deployment = deployment_without_airflow(connection, out)
    policy_file = deployment.policies_folder / f"{connection.connection_id}.yaml"
    if policy is None:
        policy_file.unlink(missing_ok=True)  # of an earlier look
    else:
        policy_file.parent.mkdir(parents=True, exist_ok=True)
        policy_file.write_bytes(policy)
    inputs = StepInputs(run, deployment, told.__setitem__)
    progress("reading the cluster")
    take_snapshot(inputs, {**params, "kafka_conn_id": connection.connection_id})
    folder = Path(told["run_folder"])
    settings = read_settings(folder)
    planner.run(folder / json_files.SNAPSHOT_FOLDER, folder, settings, progress)
    progress("writing the report")
    render_report(inputs, str(folder))
    return FirstLook(folder, PROPOSALS_FILE.read(folder), read_report(folder))


# Where steps run that no Airflow runs: a folder, one connection, and no other runs.


class NoAirflow:
    """Other runs, of which there are none here."""

    def state(self, dag_id: str, run_id: str) -> AirflowState:
        return AirflowState.UNKNOWN

    def is_active(self, dag_id: str, run_id: str) -> bool:
        return False

    def task_states(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> Mapping[str, str] | None:
        return {}

    def told_decision(self, dag_id: str, run_id: str) -> object:
        return None

    def is_paused(self, dag_id: str) -> bool | None:
        return None


def deployment_without_airflow(connection: ClusterConnection, out: Path) -> Deployment:
    """All files below `out`, and this connection under any id.

    Nothing is ever written to the cluster: it counts as frozen. A policy below `out` is only planned with.
    """
    return Deployment(
        runs_root=out,
        open_folder=Path,
        address="",
        policies_folder=out / "policies",
        plans_folder=out / "plans",
        read_connection=lambda _: connection,
        has_connection=lambda _: True,
        frozen_text=lambda: "true",
        other_runs=NoAirflow(),
    )


# The words of `kafka-rebalance check` and `explain`, for a terminal.


_GAP = "  "
_DEFAULT = Policy(())


def check_lines(report: RunReport) -> tuple[str, ...]:
    """What is wrong with the cluster, what is recommended, and the candidates."""
    tiers = () if report.taken.tiered is None else (f"{TIERED}: {tiered_words(report.taken.tiered, str)}",)
    return (_cluster(report.taken), *tiers, *brief(report).why, *recommendation_words(report), "", *_candidates(report))


def explain_lines(report: RunReport, name: str) -> tuple[str, ...]:
    """What this candidate does to the cluster, beside the others."""
    (candidate,) = (candidate for candidate in report.candidates if candidate.name == name)
    lines = [_cluster(report.taken), f"{candidate.title}: {candidate.status}. {candidate.note}".rstrip()]
    lines += [bound] if (bound := report.bound_of(candidate)) else []
    lines += [warning] if (warning := less_even_words(candidate)) else []
    return (*lines, "", *_spreads(candidate), "", *_candidates(report))


def lines_of_terms(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes this plan another one than that of a run of `kafka_rebalance`, and what to do about it."""
    rate = format_bytes(settings["throttle_bytes_per_second"] or 0)
    history = (
        "A run also uses what the ledger knows of earlier days: rates, growth, the last proposal. With the same bytes "
        "and leaders, and without a ledger, its plan is this one."
    )
    if settings.get("policy_digest") is not None:
        return (f"Planned with the policy given, at {rate} a second of each broker, as a run plans. {history}",)
    return (
        f"Planned without a policy, at {rate} a second of each broker. A run keeps the policy of its cluster: at most "
        f"{share_in_words(_DEFAULT.max_bytes_share)} of the cluster's bytes by default, its topics, pins, pools and "
        "brokers, and its highest throttle. So a run may recommend another plan. Plan as it does with --policy FILE.",
        history,
    )


def _cluster(taken: SnapshotTaken) -> str:
    return (
        f"Cluster {taken.cluster_id}: {format_count(taken.brokers, 'broker', 'brokers')}, "
        f"{format_count(taken.partitions, 'partition', 'partitions')}, {format_bytes(taken.cluster_bytes)}"
    )


def _spreads(candidate: CandidateReport) -> list[str]:
    rows = [
        (metric.noun, format_factor(before.max_over_mean), format_factor(after.max_over_mean))
        for metric, before, after in candidate.spreads
        if before is not None and after is not None
    ]
    return _aligned(("highest broker against its share", "before", "after"), rows)


def _candidates(report: RunReport) -> list[str]:
    rows = [
        (
            f"{candidate.name}{' *' if candidate.name == report.recommended else ''}",
            format_bytes(candidate.moved_bytes),
            format_bytes(candidate.moved_bytes_bound),
            format_count(candidate.partitions),
            format_count(candidate.leader_changes),
            "unknown" if candidate.planned_seconds is None else about(candidate.planned_seconds),
            candidate.status,
        )
        for candidate in report.candidates
    ]
    heads = ("candidate (* recommended)", "copies", "least", "partitions", "new leaders", "takes", "status")
    return _aligned(heads, rows)


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [_GAP.join(map(str.ljust, row, widths)).rstrip() for row in (heads, *rows)]
