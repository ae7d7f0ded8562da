"""The report of a run, the files beside it, and the ledger's rows of its candidates."""

from __future__ import annotations

import logging
from threading import Condition
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache, cached

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PAGE_FILE, PROPOSALS_FILE, PageTables, Proposals, ProposedCandidate
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.documents.storage import is_there, make_folder, write_whole
from kafka_rebalance.errors import ArtifactError, RebalanceError
from kafka_rebalance.kafka.reassignment_json import plan_file, reassignment_files, rollback_file
from kafka_rebalance.model.candidate import OFFERED, Metric
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.run_report import RunFiles, RunReport, build_report
from kafka_rebalance.pages.tables import CandidateTables, brokers_csv, brokers_file, moves_file
from kafka_rebalance.planning.tables.result_tables import (
    read_candidate,
    read_disk_peaks,
    read_fullest_disks,
    read_loads,
)
from kafka_rebalance.rebalance import earlier_proposals
from kafka_rebalance.run import ledger
from kafka_rebalance.run.inputs import StepInputs
from kafka_rebalance.run.read_in_time import Reads
from kafka_rebalance.run.run_folder import RunFolder, open_own_folder
from kafka_rebalance.segments import audit_io
from kafka_rebalance.throttle import run_rates

if TYPE_CHECKING:
    from kafka_rebalance.pages.tables import MoveTable

log = logging.getLogger(__name__)


def render_report(inputs: StepInputs, run_folder: str) -> dict[str, Any]:
    folder = open_own_folder(inputs.deployment, run_folder, inputs.run)
    write_reassignments(folder)
    proposals, snapshot = PROPOSALS_FILE.read(folder), SNAPSHOT_FILE.read(folder)
    deployment, run_id, connection_id = inputs.deployment, inputs.run.run_id, snapshot.connection_id
    if not is_there(folder / json_files.BATCHES):  # else people have approved these, and the run goes on with them
        found_by_plan = run_rates.measured(folder)
        audit_io.write_audit(folder, found_by_plan.written)
        ledger.write_estimate(deployment, folder, connection_id, run_id, clock.utc_now())
        earlier_proposals.write_rejection(deployment, folder, connection_id, run_id, clock.utc_now())
        offered = [candidate.name for candidate in proposals.candidates if candidate.status in OFFERED]
        connection, policy = deployment.read_connection(connection_id), deployment.read_policy(connection_id)
        run_rates.write_rates(folder, offered, connection, policy, found_by_plan)
    write_report(folder)
    write_tables(folder)
    rows = [_plan_row(candidate, proposals, run_id) for candidate in proposals.candidates]
    ledger.append(deployment, "plans", connection_id, run_id, snapshot.observed_at, rows)
    return {
        "recommended": proposals.recommended,
        "candidates": {
            candidate.name: {
                "moved_bytes": candidate.moved_bytes,
                "digest": candidate.digest[:8],
                "status": candidate.status,
            }
            for candidate in proposals.candidates
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


def _plan_row(candidate: ProposedCandidate, proposals: Proposals, run_id: str) -> dict[str, Any]:
    before, after = (scores.get(Metric.DISK) for scores in (candidate.scores.before, candidate.scores.after))
    return {
        **{key: getattr(candidate, key) for key in _COPIED},
        "run_id": run_id,
        "candidate": candidate.name,
        "recommended": candidate.name == proposals.recommended,
        "disk_max_over_mean_before": before and before.max_over_mean,
        "disk_max_over_mean_after": after and after.max_over_mean,
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
    proposals = PROPOSALS_FILE.read(folder)
    for name in (candidate.name for candidate in proposals.candidates):
        brokers, moves = read_tables(folder, proposals, name).brokers, read_move_table(folder, proposals, name)
        write_whole(folder / brokers_file(name), brokers_csv(brokers).encode())
        write_whole(folder / moves_file(name), "".join(moves.csv()).encode())
    _write_page_tables(folder, proposals)


def write_reassignments(folder: RunFolder) -> None:
    """Every candidate with moves, and its way back, as files for kafka-reassign-partitions."""
    make_folder(folder / json_files.REASSIGNMENTS)
    for name in (candidate.name for candidate in PROPOSALS_FILE.read(folder).candidates):
        for file, content in reassignment_files(name, read_candidate(folder, name).moves).items():
            write_whole(folder / json_files.REASSIGNMENTS / file, content)


# The tables of a run's plan for its pages: read once, checked against the candidate's digest, kept in bounded memory.
#
# A plan never changes, and its digest identifies it, so its tables can be kept. Browsers reload pages every few
# seconds, and a plan may have 150,000 moves.


MOVE_TABLES_BYTES = 256 * 1024**2
CANDIDATES_KEPT = 40  # each some hundred kB at 1,000 brokers

Key = tuple[str, str, str]  # folder, candidate, digest


def _key(folder: RunFolder, proposals: Proposals, name: str) -> Key:
    digest = next(candidate.digest for candidate in proposals.candidates if candidate.name == name)
    return str(folder), name, digest


_moves: LRUCache[Key, MoveTable] = LRUCache(
    MOVE_TABLES_BYTES,
    lambda table: min(table.size_bytes, MOVE_TABLES_BYTES),  # the one in use stays, however large
)
_ahead: Reads[None] = Reads()


@cached(LRUCache(CANDIDATES_KEPT), _key, condition=Condition())
def read_tables(folder: RunFolder, proposals: Proposals, name: str) -> CandidateTables:
    """What the run's page says of a candidate of `proposals.json`. Raises ArtifactError."""
    return CandidateTables.of(
        name,
        read_loads(folder, name),
        read_move_table(folder, proposals, name).summary(),
        read_fullest_disks(folder, name),
        read_disk_peaks(folder, name),
    )


def _write_page_tables(folder: RunFolder, proposals: Proposals) -> None:
    """`page.json`: the same of every candidate."""
    written = [
        read_tables(folder, proposals, candidate.name).for_file(candidate.name, candidate.digest)
        for candidate in proposals.candidates
    ]
    PAGE_FILE.write(folder, PageTables(tuple(written)))


@cached(LRUCache(CANDIDATES_KEPT), _key, condition=Condition())
def read_page_tables(folder: RunFolder, proposals: Proposals, name: str) -> CandidateTables:
    """As `read_tables`, for a page: from `page.json` if it is of this digest, to read no moves.

    An approval or an execution reads the moves themselves, because the digest is of the moves.
    """
    _, _, digest = _key(folder, proposals, name)
    try:
        for candidate in PAGE_FILE.read(folder).candidates:
            if (candidate.name, candidate.digest) == (name, digest):
                return CandidateTables.from_file(candidate)
    except ArtifactError as unusable:
        log.info("%s: reading the tables instead of page.json: %s", folder, unusable)
    return read_tables(folder, proposals, name)


@cached(_moves, _key, condition=Condition())
def read_move_table(folder: RunFolder, proposals: Proposals, name: str) -> MoveTable:
    """All its moves, to search in. Raises ArtifactError, also if they do not give the candidate's digest."""
    # Arrow's functions: 9 MB that a process that only imports this module does not need.
    from kafka_rebalance.pages.tables import MoveTable
    from kafka_rebalance.planning.tables.result_tables import read_moves

    return MoveTable(read_moves(folder, proposals, name))


def begin_to_read(folder: RunFolder, proposals: Proposals, name: str) -> None:
    """Reads the moves in a thread of its own, so that a search on the page need not wait."""
    key = _key(folder, proposals, name)
    if key not in _moves:  # an error is raised at the search
        _ahead.ask("/".join(key), lambda: read_move_table(folder, proposals, name).prepare())


# What the files of a run say so far, for its page, its approval request and report.html.


def read_report(folder: RunFolder, *, for_page: bool = False) -> RunReport:
    """For a page, the plan's tables come from `page.json`: browsers reload pages every few seconds."""
    files, read = RunFiles.read(folder), read_page_tables if for_page else read_tables
    plan = files.proposals
    tables = (
        {candidate.name: read(folder, plan, candidate.name) for candidate in plan.candidates}
        if plan is not None
        else {}
    )
    return build_report(files, tables)


def read_reassignment(folder: RunFolder, file: str) -> bytes | None:
    """What `write_reassignments` wrote under that name; None if it wrote no such file.

    It is made again from the moves, which must still give the candidate's digest, because somebody may have changed the
    file.
    """
    plan = PROPOSALS_FILE.read_if_there(folder)
    for name in (candidate.name for candidate in plan.candidates) if plan is not None else ():
        if file in (plan_file(name), rollback_file(name)):
            return reassignment_files(name, read_candidate(folder, name).moves).get(file)
    return None
