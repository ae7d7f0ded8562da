"""One file of a day's many, so that a crash at any point loses no row and counts none twice. Without Spark.

First the new file is written beside the others, read back and counted; only then are the others removed, and of those
only what still holds the very bytes that were merged. How readers take what they find meanwhile:
`documents.ledger_files`.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_rebalance.documents.ledger_files import SOURCE_FILE, compacted_name, compacted_number, files_that_count
from kafka_rebalance.documents.storage import Folder, write_whole
from kafka_rebalance.errors import ArtifactError

# <table>/cluster=<connection>/day=<date>/<file>, below the ledger
_FILE = re.compile(r"([^/]+/cluster=[^/]+/day=(\d{4}-\d{2}-\d{2}))/([^/]+\.parquet)")


class LedgerFile(Folder, Protocol):
    """A file of the ledger that can be taken away."""

    def unlink(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of a day's files."""

    content: bytes  # of the new file; empty: the day stays as it is
    rows: int
    sources: Mapping[str, str]  # {file: SHA-256 of what was merged}, all of which the new file replaces
    skipped: tuple[str, ...]  # files that stay as they are, and why


def closed_days(names: Iterable[str], before: date) -> dict[str, list[str]]:
    """{`<table>/cluster=…/day=…`: its files} of the days before that one which have more than one file."""
    days: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        found = _FILE.fullmatch(name)
        if found is not None and found[2] < before.isoformat() and not found[3].startswith(("_", ".")):
            days[found[1]].append(found[3])
    return {day: files for day, files in days.items() if len(files) > 1}


def merge(files: Mapping[str, bytes]) -> Merged:
    """The content of a day's files as that of one. What cannot be read, or is of no ledger, stays as it is."""
    tables: dict[str, pa.Table] = {}
    skipped = []
    for name in files_that_count(files):
        try:
            tables[name] = _read(files[name], name)
        except (OSError, ValueError, pa.ArrowException) as wrong:
            skipped.append(f"{name}: {wrong}")
            if compacted_number(name) is not None:  # what comes after it must have its rows
                return Merged(b"", 0, {}, tuple(skipped))
    older = [name for name in files if compacted_number(name) is not None and name not in tables]
    if len(tables) + len(older) < 2:
        return Merged(b"", 0, {}, tuple(skipped))
    own = pa.array([name for name in tables if compacted_number(name) is None], pa.string())
    for name, table in tables.items():
        if compacted_number(name) is not None:  # a run's own file counts, not what was merged of it before
            tables[name] = table.filter(pc.invert(pc.is_in(table[SOURCE_FILE], own)))
    try:
        whole = pa.concat_tables(tables.values(), promote_options="default")
    except (ValueError, TypeError, pa.ArrowException) as wrong:
        return Merged(b"", 0, {}, (*skipped, f"columns differ: {wrong}"))
    buffer = io.BytesIO()
    pq.write_table(whole.replace_schema_metadata(None), buffer, compression="zstd")
    sources = {name: digest_of_file(files[name]) for name in (*tables, *older)}
    return Merged(buffer.getvalue(), len(whole), sources, tuple(skipped))


def publish(folder: Folder, merged: Merged) -> list[str]:
    """Writes the day's new file, reads it back, and removes what is in it; returns what stays, written again since.

    Raises ArtifactError where it does not read as it was written: then nothing is removed. And OSError, StorageError.
    """
    number = 1 + max((compacted_number(name) or 0 for name in merged.sources), default=0)
    name = compacted_name(number)
    _write_new(folder / name, merged.content)
    found = (folder / name).read_bytes()
    if found != merged.content or pq.read_metadata(io.BytesIO(found)).num_rows != merged.rows:
        raise ArtifactError(
            f"{folder / name} does not read as it was written. Nothing was removed. Look at the storage."
        )
    stays = []
    for source, digest in merged.sources.items():
        file: LedgerFile = folder / source  # type: ignore[assignment]
        try:
            same = digest_of_file(file.read_bytes()) == digest
        except FileNotFoundError:
            continue
        if same:
            file.unlink()
        else:
            stays.append(source)
    return stays


def digest_of_file(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(content: bytes, name: str) -> pa.Table:
    """A file's rows, each with the file that it is from. ValueError for one that is of no ledger."""
    table = pq.read_table(io.BytesIO(content))
    if "observed_at" not in table.column_names or table["observed_at"].null_count:
        raise ValueError("a row without observed_at")
    if compacted_number(name) is None:
        return table.append_column(SOURCE_FILE, pa.array([name] * len(table), pa.string()))
    if SOURCE_FILE not in table.column_names:
        raise ValueError(f"no column {SOURCE_FILE}")
    return table


def _write_new(file: Folder, content: bytes) -> None:
    if isinstance(file, Path):
        write_whole(file, content)
    else:
        file.write_new(content)  # type: ignore[attr-defined]
