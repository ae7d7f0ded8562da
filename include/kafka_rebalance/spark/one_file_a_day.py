"""Makes one file of all files of a day. A crash at any point loses no row and counts none twice. Without Spark.

The job writes the new file beside the others, reads it back and counts it. Only then it removes the others, and only
those that still hold the bytes that it merged. `documents.ledger_files` says how readers treat both meanwhile.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_rebalance.documents.ledger_files import SOURCE_FILE, compacted_name, compacted_number, files_that_count
from kafka_rebalance.documents.storage import FolderOfRuns, read_bytes, remove, write_whole
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.planning.tables.parquet_files import parquet_bytes, parquet_table

# <table>/cluster=<connection>/day=<date>/<file>, below the ledger
_FILE = re.compile(r"([^/]+/cluster=[^/]+/day=(\d{4}-\d{2}-\d{2}))/([^/]+\.parquet)")


@dataclass(frozen=True, slots=True)
class Merged:
    content: bytes  # of the new file; empty: the day does not change
    rows: int
    sources: Mapping[str, str]  # {file that the new one replaces: SHA-256 of the merged bytes}
    skipped: tuple[str, ...]  # files that do not change, and why


def closed_days(names: Iterable[str], before: date) -> dict[str, list[str]]:
    """{`<table>/cluster=…/day=…`: its files} of the days before `before` that have more than one file."""
    days: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        file = _FILE.fullmatch(name)
        if file is not None and file[2] < before.isoformat() and not file[3].startswith(("_", ".")):
            days[file[1]].append(file[3])
    return {day: files for day, files in days.items() if len(files) > 1}


def merge(files: Mapping[str, bytes]) -> Merged:
    """The files of a day as one. A file that cannot be read, or is no file of a ledger, does not change."""
    tables: dict[str, pa.Table] = {}
    skipped = []
    for name in files_that_count(files):
        try:
            tables[name] = _read(files[name], name)
        except (ArtifactError, ValueError) as wrong:
            skipped.append(f"{name}: {wrong}")
            if compacted_number(name) is not None:  # the next compacted file must have its rows
                return Merged(b"", 0, {}, tuple(skipped))
    older = [name for name in files if compacted_number(name) is not None and name not in tables]
    if len(tables) + len(older) < 2:
        return Merged(b"", 0, {}, tuple(skipped))
    own = pa.array([name for name in tables if compacted_number(name) is None], pa.string())
    for name, table in tables.items():
        if compacted_number(name) is not None:  # a run's own file counts, not an earlier copy of its rows
            tables[name] = table.filter(pc.invert(pc.is_in(table[SOURCE_FILE], own)))
    try:
        whole = pa.concat_tables(tables.values(), promote_options="default")
    except (ValueError, TypeError, pa.ArrowException) as wrong:
        return Merged(b"", 0, {}, (*skipped, f"columns differ: {wrong}"))
    content = parquet_bytes(whole.replace_schema_metadata(None), page_checksums=True)
    sources = {name: _digest(files[name]) for name in (*tables, *older)}
    return Merged(content, len(whole), sources, tuple(skipped))


def publish(folder: FolderOfRuns, merged: Merged) -> list[str]:
    """Writes the day's new file, reads it back, and removes its sources. Returns those that somebody wrote again.

    Raises ArtifactError, and removes nothing, if it does not read as written. Raises FileNotFoundError, StorageError.
    """
    file = folder / compacted_name(1 + max((compacted_number(name) or 0 for name in merged.sources), default=0))
    write_whole(file, merged.content)
    content = read_bytes(file)
    if content != merged.content or pq.read_metadata(io.BytesIO(content)).num_rows != merged.rows:
        raise ArtifactError(f"{file} does not read as it was written. No file was removed. Check the storage.")
    stays = []
    for name, digest in merged.sources.items():
        source = folder / name
        try:
            if _digest(read_bytes(source)) == digest:
                remove(source)
            else:
                stays.append(name)
        except FileNotFoundError:
            continue
    return stays


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(content: bytes, name: str) -> pa.Table:
    """A file's rows, each with the name of its file. Raises ValueError if it is no file of a ledger."""
    table = parquet_table(content, "it")
    if "observed_at" not in table.column_names or table["observed_at"].null_count:
        raise ValueError("a row without observed_at")
    if compacted_number(name) is None:
        return table.append_column(SOURCE_FILE, pa.array([name] * len(table), pa.string()))
    if SOURCE_FILE not in table.column_names:
        raise ValueError(f"no column {SOURCE_FILE}")
    return table
