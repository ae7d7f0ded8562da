"""Snapshot, plan and report of one cluster by the steps of the Dag, in this process and without Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.command.without_airflow import deployment_without_airflow
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Proposals
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.planning import planner
from kafka_rebalance.rebalance.read_report import read_report
from kafka_rebalance.rebalance.render_report import render_report
from kafka_rebalance.rebalance.take_snapshot import take_snapshot
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import StartedRun, StepInputs


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What was found, and the folder that holds the same files as a run's."""

    folder: Path
    proposals: Proposals
    report: RunReport


def look_at(
    connection: ClusterConnection,
    out: Path,
    asked: Mapping[str, Any],
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
    take_snapshot(inputs, {**asked, "kafka_conn_id": connection.connection_id})
    folder = Path(told["run_folder"])
    settings = Settings.from_mapping(json_files.read_json(folder, json_files.SETTINGS))
    planner.run(folder / json_files.SNAPSHOT_FOLDER, folder, settings, progress)
    progress("writing the report")
    render_report(inputs, str(folder))
    return FirstLook(folder, PROPOSALS_FILE.read(folder), read_report(folder))
