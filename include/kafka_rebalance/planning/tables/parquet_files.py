"""Reads and writes Parquet files of a folder, with an error for each file that cannot be read."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_rebalance.documents.storage import Folder, make_folder, read_bytes, write_whole
from kafka_rebalance.errors import ArtifactError

PART = "part-0.parquet"


def read_parquet(folder: Folder, name: str) -> bytes:
    """Raises ArtifactError if there is no such file, StorageError if the storage fails."""
    try:
        return read_bytes(folder / name)
    except FileNotFoundError as missing:
        raise ArtifactError(f"{folder / name} cannot be read ({missing}). Nothing was planned.") from missing


def parquet_table(content: bytes, where: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table of a file, or these columns of it. Raises ArtifactError, which names `where`, if it is not Parquet."""
    try:
        # `read_table` would import pandas, which takes longer than many plans.
        return pq.ParquetFile(io.BytesIO(content)).read(columns=columns)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as wrong:  # from damaged footers, pages and names
        said = " ".join(str(wrong).split())  # Arrow's texts have several lines
        raise ArtifactError(f"{where} is not a Parquet file ({said}). Nothing was planned.") from wrong


def give_memory_back() -> None:
    """Gives back what Arrow keeps of tables that are gone: several times their size, which nothing else can use."""
    pa.default_memory_pool().release_unused()


def read_rows(folder: Folder, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """These columns of each row. Errors as in `read_parquet` and `parquet_table`."""
    rows: list[dict[str, Any]] = parquet_table(read_parquet(folder, name), f"{folder / name}", columns).to_pylist()
    return rows


def parquet_bytes(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def write_table(folder: Folder, table: pa.Table) -> bytes:
    """Writes the table as the only file of the folder, and returns the file's bytes. Makes the folder if needed."""
    make_folder(folder)
    content = parquet_bytes(table)
    write_whole(folder / PART, content)
    return content


def write_rows(folder: Folder, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
    """Writes the rows as the only file of the folder."""
    write_table(folder, pa.Table.from_pylist(rows, schema=schema))
