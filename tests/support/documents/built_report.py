"""A run's report from rows and moves, as small tests have them, instead of the tables that the product has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.pages import run_report
from kafka_rebalance.pages.run_report import LATER_FILES, RunFiles, RunReport
from kafka_rebalance.pages.tables import LARGEST_MOVES, CandidateTables, MovesSummary
from support.documents import report_samples as samples

Rows = Iterable[Mapping[str, object]]


def planned(**documents: Any) -> RunReport:
    """Of the samples' plan with all its tables; a document that is given takes the place of the sample."""
    plan = {"snapshot": samples.snapshot(), "proposals": samples.proposals(), "loads": samples.loads()}
    plan |= {"moves": samples.all_moves(), "disks": samples.disks()}
    return build_report(**plan | documents)


def build_report(
    snapshot: Mapping[str, object],
    *,
    loads: Mapping[str, Rows] | None = None,
    moves: Mapping[str, Sequence[Move]] | None = None,
    disks: Mapping[str, Sequence[Mapping[str, object]]] | None = None,
    **documents: Any,
) -> RunReport:
    """By candidate: rows of the table `loads`, all moves, and rows of the table `disk`."""
    loads, moves, disks = loads or {}, moves or {}, disks or {}
    tables = {
        name: CandidateTables.of(name, loads.get(name, ()), summary_of(moves.get(name, ())), disks.get(name, ()))
        for name in (*loads, *moves, *disks)
    }
    return run_report.build_report(files_of(snapshot, **documents), tables)


def files_of(snapshot: Mapping[str, object], **documents: Mapping[str, object] | None) -> RunFiles:
    """What the documents say, as if they were read from files."""
    found = {name: LATER_FILES[name].decode(given) for name, given in documents.items() if given is not None}
    return RunFiles(SNAPSHOT_FILE.decode(snapshot), **found)


def summary_of(moves: Sequence[Move]) -> MovesSummary:
    """What `MoveTable.summary` counts in columns, counted move by move."""
    largest = sorted(moves, key=lambda move: (-move.bytes_to_copy, -move.size_bytes, move.topic_partition))
    return MovesSummary(
        len(moves),
        max(Counter(move.batch for move in moves).values(), default=0),
        max(Counter(move.batch for move in moves if move.changes_leader).values(), default=0),
        tuple(largest[:LARGEST_MOVES]),
    )
