"""What the files of a run say so far, for its page, its approval request and report.html."""

from __future__ import annotations

from kafka_rebalance.documents import json_files
from kafka_rebalance.pages.from_documents import build_report
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.rebalance.plan_tables import read_page_tables, read_tables
from kafka_rebalance.run.kafka_json_files import plan_file, reassignment_files, rollback_file
from kafka_rebalance.run.run_folder import RunFolder

_LATER = (  # files without `.json`, each of which may not be there yet
    "segments", "decision", "throttle", "batches", "progress", "control", "cancelled", "verification", "left_out",
    "estimate", "rates", "rejection",
)  # fmt: skip


def read_report(folder: RunFolder, *, for_page: bool = False) -> RunReport:
    """For a page, the plan's tables come from `page.json`: browsers reload pages every few seconds."""
    proposals = json_files.read_json_if_there(folder, json_files.PROPOSALS)
    names = [candidate["name"] for candidate in proposals["candidates"]] if proposals else []
    read = read_page_tables if for_page else read_tables
    return build_report(
        snapshot=json_files.read_json(folder, json_files.SNAPSHOT),
        proposals=proposals,
        tables={name: read(folder, proposals or {}, name) for name in names},
        **{name: json_files.read_json_if_there(folder, f"{name}.json") for name in _LATER},
    )


def read_reassignment(folder: RunFolder, file: str) -> bytes | None:
    """What `write_reassignments` wrote under that name; None if it wrote no such file.

    It is made again from the moves, which must still give the candidate's digest, because somebody may have changed the
    file.
    """
    proposals = json_files.read_json_if_there(folder, json_files.PROPOSALS) or {"candidates": ()}
    for name in (candidate["name"] for candidate in proposals["candidates"]):
        if file in (plan_file(name), rollback_file(name)):
            return reassignment_files(name, read_candidate(folder, name).moves).get(file)
    return None
