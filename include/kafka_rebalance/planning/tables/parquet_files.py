"""Parquet in and out of a folder, and what is said of a file that cannot be read."""

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
    """Raises ArtifactError where the file is not there, StorageError where storage does not tell."""
    try:
        return read_bytes(folder / name)
    except FileNotFoundError as missing:
        raise ArtifactError(f"{folder / name} cannot be read ({missing}). Nothing was planned.") from missing


def parquet_table(content: bytes, where: str) -> pa.Table:
    """Raises ArtifactError, which names the file (`where`), if its bytes are not Parquet."""
    try:
        # `read_table` would import pandas, as in `checked_columns`.
        return pq.ParquetFile(io.BytesIO(content)).read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as wrong:  # what damaged footers, pages and names raise
        said = " ".join(str(wrong).split())  # Arrow's own texts have several lines
        raise ArtifactError(f"{where} is not a Parquet file ({said}). Nothing was planned.") from wrong


def parquet_bytes(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def write_table(folder: Folder, table: pa.Table) -> None:
    """Writes it as the one part of the folder, which is made where the storage has folders."""
    make_folder(folder)
    write_whole(folder / PART, parquet_bytes(table))


def write_rows(folder: Folder, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
    """Writes them as the one part of the folder."""
    write_table(folder, pa.Table.from_pylist(rows, schema=schema))
