"""Reads a run's folder into the report, and writes the self-contained page beside it."""

from __future__ import annotations

import logging

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.storage import make_folder, write_whole
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.report.candidate.csv_files import brokers_csv, brokers_file, moves_file
from kafka_rebalance.report.candidate.kafka_json_files import plan_file, reassignment_files, rollback_file
from kafka_rebalance.report.page import render_file
from kafka_rebalance.report.requests.rebalance import approval_body, approval_subject
from kafka_rebalance.report.run.from_documents import build_report
from kafka_rebalance.report.run.run_report import RunReport
from kafka_rebalance.workflow.pages.plan_tables import read_move_table, read_page_tables, read_tables, write_page_tables
from kafka_rebalance.workflow.run.folder import RunFolder

log = logging.getLogger(__name__)


def read_report(folder: RunFolder, *, for_page: bool = False) -> RunReport:
    """What is there so far: later documents are None until their task has run.

    For a page, the plan's tables are as `page.json` has them: a page is asked for every few seconds.
    """
    proposals = json_files.read_json_if_there(folder, json_files.PROPOSALS)
    names = [candidate["name"] for candidate in proposals["candidates"]] if proposals else []
    read = read_page_tables if for_page else read_tables
    return build_report(
        snapshot=json_files.read_json(folder, json_files.SNAPSHOT),
        proposals=proposals,
        segments=json_files.read_json_if_there(folder, json_files.SEGMENTS),
        tables={name: read(folder, proposals or {}, name) for name in names},
        decision=json_files.read_json_if_there(folder, json_files.DECISION),
        throttle=json_files.read_json_if_there(folder, json_files.THROTTLE),
        batches=json_files.read_json_if_there(folder, json_files.BATCHES),
        progress=json_files.read_json_if_there(folder, json_files.PROGRESS),
        control=json_files.read_json_if_there(folder, json_files.CONTROL),
        cancelled=json_files.read_json_if_there(folder, json_files.CANCELLED),
        verification=json_files.read_json_if_there(folder, json_files.VERIFICATION),
        left_out=json_files.read_json_if_there(folder, json_files.LEFT_OUT),
        estimate=json_files.read_json_if_there(folder, json_files.ESTIMATE),
        rates=json_files.read_json_if_there(folder, json_files.RATES),
        rejection=json_files.read_json_if_there(folder, json_files.REJECTION),
    )


def write_report(folder: RunFolder) -> None:
    """`report.html`: opens without Airflow."""
    write_whole(folder / json_files.REPORT, render_file(read_report(folder)).encode())


def write_last_report(folder: RunFolder) -> None:
    """`report.html` of a run that ends here. It is for people: where it cannot be written the end stays the same."""
    try:
        write_report(folder)
    except (RebalanceError, OSError) as failed:
        log.warning("%s stays as it was: %s", folder / json_files.REPORT, failed)


def write_tables(folder: RunFolder) -> None:
    """Of every candidate all moves and all brokers as CSV beside `report.html`, and what the run's page says of it."""
    proposals = json_files.read_json(folder, json_files.PROPOSALS)
    for name in (candidate["name"] for candidate in proposals["candidates"]):
        brokers, moves = read_tables(folder, proposals, name).brokers, read_move_table(folder, proposals, name)
        write_whole(folder / brokers_file(name), brokers_csv(brokers).encode())
        write_whole(folder / moves_file(name), "".join(moves.csv()).encode())
    write_page_tables(folder, proposals)


def write_reassignments(folder: RunFolder) -> None:
    """Every candidate that moves something, and its way back, as files for kafka-reassign-partitions."""
    make_folder(folder / json_files.REASSIGNMENTS)
    for candidate in json_files.read_json(folder, json_files.PROPOSALS)["candidates"]:
        name = candidate["name"]
        for file, content in reassignment_files(name, read_candidate(folder, name).moves).items():
            write_whole(folder / json_files.REASSIGNMENTS / file, content)


def read_reassignment(folder: RunFolder, file: str) -> bytes | None:
    """What `write_reassignments` wrote under that name, None where it wrote no such file.

    Made again from the moves, which must still give the candidate's digest: a file that somebody has changed would be
    a plan that nobody has seen.
    """
    proposals = json_files.read_json_if_there(folder, json_files.PROPOSALS) or {"candidates": ()}
    for name in (candidate["name"] for candidate in proposals["candidates"]):
        if file in (plan_file(name), rollback_file(name)):
            return reassignment_files(name, read_candidate(folder, name).moves).get(file)
    return None


def approval_texts(folder: RunFolder, link: str, picture: str) -> tuple[str, str]:
    """Subject and markdown body of the approval request, with the addresses of the run's page and of its picture."""
    report = read_report(folder)
    return approval_subject(report), approval_body(report, link=link, picture=picture)
