"""The report of a run, the files beside it, and the ledger's rows of its candidates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import is_there, make_folder, write_whole
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.pages.csv_files import brokers_csv, brokers_file, moves_file
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance import last_rejection
from kafka_rebalance.rebalance.plan_tables import read_move_table, read_tables, write_page_tables
from kafka_rebalance.rebalance.read_report import read_report
from kafka_rebalance.run import ledger_rows, write_estimate
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.kafka_json_files import reassignment_files
from kafka_rebalance.run.run_folder import RunFolder, open_own_folder
from kafka_rebalance.segments import snapshot_audit
from kafka_rebalance.throttle import run_rates

log = logging.getLogger(__name__)


def render_report(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    folder = open_own_folder(inputs.deployment, run_folder, inputs.run)
    write_reassignments(folder)
    proposals = json_files.read_json(folder, json_files.PROPOSALS)
    written = json_files.read_json(folder, json_files.SNAPSHOT)
    deployment, run_id, connection_id = inputs.deployment, inputs.run.run_id, written["connection_id"]
    if not is_there(folder / json_files.BATCHES):  # else people have approved these, and the run goes on with them
        found_by_plan = run_rates.measured(folder)
        snapshot_audit.write_audit(folder, found_by_plan.written)
        write_estimate.write_estimate(deployment, folder, connection_id, run_id, clock.utc_now())
        last_rejection.write_rejection(deployment, folder, connection_id, run_id, clock.utc_now())
        offered = [c["name"] for c in proposals["candidates"] if c["status"] in OFFERED]
        connection, policy = deployment.read_connection(connection_id), deployment.read_policy(connection_id)
        run_rates.write_rates(folder, offered, connection, policy, found_by_plan)
    write_report(folder)
    write_tables(folder)
    rows = [_plan_row(candidate, proposals, run_id) for candidate in proposals["candidates"]]
    observed_at = datetime.fromisoformat(written["observed_at"])
    ledger_rows.append(deployment, "plans", connection_id, run_id, observed_at, rows)
    return {
        "recommended": proposals["recommended"],
        "candidates": {
            c["name"]: {"moved_bytes": c["moved_bytes"], "digest": c["digest"][:8], "status": c["status"]}
            for c in proposals["candidates"]
        },
    }


_COPIED = (
    "digest",
    "status",
    "moved_bytes",
    "moved_bytes_bound",
    "moved_replicas",
    "leader_changes",
    "makespan_seconds",
)


def _plan_row(candidate: Mapping[str, Any], proposals: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    disk = {phase: candidate["scores"][phase].get("disk", {}).get("max_over_mean") for phase in ("before", "after")}
    return {
        **{key: candidate.get(key) for key in _COPIED},
        "run_id": run_id,
        "candidate": candidate["name"],
        "recommended": candidate["name"] == proposals["recommended"],
        "disk_max_over_mean_before": disk["before"],
        "disk_max_over_mean_after": disk["after"],
    }


def write_report(folder: RunFolder) -> None:
    write_whole(folder / json_files.REPORT, render_file(read_report(folder)).encode())


def write_last_report(folder: RunFolder) -> None:
    """`report.html` of a run that ends here. An error is only logged, because the file is for people."""
    try:
        write_report(folder)
    except (RebalanceError, OSError) as failed:
        log.warning("%s could not be written again: %s", folder / json_files.REPORT, failed)


def write_tables(folder: RunFolder) -> None:
    proposals = json_files.read_json(folder, json_files.PROPOSALS)
    for name in (candidate["name"] for candidate in proposals["candidates"]):
        brokers, moves = read_tables(folder, proposals, name).brokers, read_move_table(folder, proposals, name)
        write_whole(folder / brokers_file(name), brokers_csv(brokers).encode())
        write_whole(folder / moves_file(name), "".join(moves.csv()).encode())
    write_page_tables(folder, proposals)


def write_reassignments(folder: RunFolder) -> None:
    """Every candidate with moves, and its way back, as files for kafka-reassign-partitions."""
    make_folder(folder / json_files.REASSIGNMENTS)
    for candidate in json_files.read_json(folder, json_files.PROPOSALS)["candidates"]:
        name = candidate["name"]
        for file, content in reassignment_files(name, read_candidate(folder, name).moves).items():
            write_whole(folder / json_files.REASSIGNMENTS / file, content)
