"""Ten recorded runs, planned and reported again in this process, without Airflow and without a cluster.

All that these tests touch of the product is imported here.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.pages.page import render_file
from kafka_rebalance.pages.plots import Plot
from kafka_rebalance.pages.run_report import build_report
from kafka_rebalance.pages.tables import CandidateTables
from kafka_rebalance.planning.planner import run as plan
from kafka_rebalance.planning.tables.history import HISTORY_SCHEMA, write_history
from kafka_rebalance.planning.tables.read_problem import write_snapshot
from kafka_rebalance.planning.tables.result_tables import (
    read_candidate,
    read_disk_peaks,
    read_fullest_disks,
    read_loads,
)
from support.documents.built_report import files_of, summary_of
from support.golden.figures import figures_of_page
from support.golden.records import OWN_TABLES, document_text, given, lines_of, recorded

SNAPSHOT, PLAN, RUN, REPORT, DIGESTS = "snapshot.txt", "plan.txt", "run.txt", "report.txt", "digests.txt"  # bundles
HISTORY = "history/part-0.parquet"
TABLES = ("moves", "scores", "candidates", "loads", "disk")
BEFORE_APPROVAL = ("segments", "estimate", "rates", "rejection")  # of what a report is made of, what planning leaves
AFTER_APPROVAL = ("decision", "throttle", "batches", "progress", "control", "verification", "left_out")
APPROVAL, MIDWAY, END = "approval", "midway", "end"  # stages at which a report is kept; documents midway by that name


def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are compared by what their pictures say in words: to draw them takes most of a page's time."""
    monkeypatch.setattr(Plot, "source", "")


def table_text(table: pa.Table) -> str:
    """Columns with their types, then one row a line."""
    return lines_of([[[f.name, str(f.type)] for f in table.schema], *_rows(table)])


def _rows(table: pa.Table) -> Iterator[list[Any]]:
    for row in table.to_pylist():
        yield [value.isoformat() if hasattr(value, "isoformat") else value for value in row.values()]


def table_rows(text: str) -> list[dict[str, Any]]:
    """The rows of `table_text`, as they were."""
    columns, *rows = map(json.loads, text.splitlines())
    return [dict(zip((name for name, _ in columns), row, strict=True)) for row in rows]


def parquet_text(content: bytes) -> str:
    return table_text(pq.ParquetFile(io.BytesIO(content)).read())


def planned(run: str, folder: Path) -> dict[str, Any]:
    """Plans what the run's snapshot holds, into the folder; the snapshot's tables are made of the record's rows.

    Returns the settings.
    """
    tables, settings = _asked(run)
    (folder / "snapshot").mkdir()
    write_snapshot(folder / "snapshot", tables["brokers"], tables["partitions"])
    history = given_history(run, folder)
    plan(folder / "snapshot", folder, Settings.from_mapping(settings), history=history)
    return settings


def _asked(run: str) -> tuple[Mapping[str, list[dict[str, Any]]], dict[str, Any]]:
    """The rows of the snapshot's tables, and the settings."""
    start = given(run)
    if run == OWN_TABLES:
        return start["tables"], start["settings"]
    snapshot = recorded(run, SNAPSHOT)
    tables = {name: table_rows(snapshot[f"snapshot/{name}.parquet"]) for name in ("brokers", "partitions")}
    return tables, json.loads(snapshot["settings.json"])


def given_history(run: str, folder: Path) -> bytes | None:
    """What a Spark job made of the ledger's samples, where the run starts from such; in the folder, too."""
    found = given(run).get("history")
    if found is None:
        return None
    times = [index for index, column in enumerate(HISTORY_SCHEMA) if pa.types.is_timestamp(column.type)]
    columns = [list(column) for column in zip(*found["rows"], strict=True)]
    columns += [[None] * len(columns[0])] * (len(HISTORY_SCHEMA) - len(columns))  # that came later
    table = pa.table(
        [
            pa.array(column, pa.string()).cast(each.type) if index in times else pa.array(column, each.type)
            for index, (column, each) in enumerate(zip(columns, HISTORY_SCHEMA, strict=True))
        ],
        schema=HISTORY_SCHEMA,
    )
    return write_history(folder, table, found["files"], found["unreadable"])


def plan_entries(folder: Path) -> dict[str, str]:
    """What planning leaves, but how long it took."""
    tables = {
        name: parquet_text((folder / name).read_bytes()) for name in (f"{table}/part-0.parquet" for table in TABLES)
    }
    return {**tables, "proposals.json": document_text((folder / "proposals.json").read_text())}


def digest_entries(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the snapshot, the settings and every candidate; of its moves alone, too, without the words of a move.

    The others start from the bytes of Parquet, which a later Arrow writes otherwise; those of the moves never change.
    """
    proposals = json.loads((folder / "proposals.json").read_bytes())
    moves = pq.ParquetFile(io.BytesIO((folder / "moves/part-0.parquet").read_bytes())).read().to_pylist()
    found = {"snapshot": proposals["snapshot_digest"], "settings": digest_of(settings)}
    for name, digest in ((one["name"], one["digest"]) for one in proposals["candidates"]):
        own = [{key: move[key] for key in move if key != "reason"} for move in moves if move["candidate"] == name]
        found |= {name: digest, f"{name}: {len(own)} moves": hashlib.sha256(lines_of(own).encode()).hexdigest()}
    return {"digests": lines_of(list(found.items()))}


def report_of(run: str, stage: str, folder: Path) -> str:
    """report.html as it was at that stage, from the plan in the folder and the documents of the record."""
    before = {**recorded(run, SNAPSHOT), **recorded(run, PLAN)}
    after = {} if stage == APPROVAL else recorded(run, RUN)
    proposals = json.loads((folder / "proposals.json").read_bytes())
    place = f"{MIDWAY}/" if stage == MIDWAY else ""
    texts = {name: before[f"{name}.json"] for name in BEFORE_APPROVAL}
    texts |= {name: after[f"{place}{name}.json"] for name in AFTER_APPROVAL if f"{place}{name}.json" in after}
    report = build_report(
        files_of(
            json.loads(before["snapshot.json"]),
            proposals=proposals,
            **{name: json.loads(text) for name, text in texts.items()},
        ),
        {name: _tables(folder, name) for name in (candidate["name"] for candidate in proposals["candidates"])},
    )
    return render_file(report)


def _tables(folder: Path, name: str) -> CandidateTables:
    moves = read_candidate(folder, name).moves
    fullest, peaks = read_fullest_disks(folder, name), read_disk_peaks(folder, name)
    return CandidateTables.of(name, read_loads(folder, name), summary_of(moves), fullest, peaks)


def report_entries(run: str, pages: Mapping[str, str]) -> dict[str, str]:
    """The figures of report.html by stage, a section or a table a line; the first comes first.

    What a later stage shows as the first did names where it stands there.
    """
    names, known, found = names_of(given(run)), dict[str, str](), dict[str, str]()
    for stage, html in pages.items():
        lines = []
        for part in figures_of_page(html, names):
            figures = json.dumps(part.get("text") or part["rows"])
            where: dict[str, Any] = {key: part[key] for key in ("section", "table") if key in part}
            if not found:
                known.setdefault(figures, f"{stage}, {', '.join(map(str, where.values()))}")
            lines.append({**where, "as": known[figures]} if found and figures in known else part)
        found[stage] = lines_of(lines)
    return found


def names_of(start: Mapping[str, Any]) -> Sequence[str]:
    """What a page may name beside numbers: topics, racks, and who answers."""
    racks: Iterable[str | None] = (broker["rack"] for broker in start["brokers"].values())
    return sorted({*start["topics"], *filter(None, racks), "uma", "olive"})
