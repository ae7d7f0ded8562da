"""Reads and writes Parquet files of a folder, with an error for each file that cannot be read."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_rebalance.documents.storage import Folder, make_folder, read_bytes, write_whole
from kafka_rebalance.errors import ArtifactError

PART = "part-0.parquet"
# By where a file is damaged, reading it ends in one of these.
_OF_DAMAGE = (pa.ArrowException, OSError, ValueError, LookupError, ArithmeticError, NotImplementedError)
_AGAIN = "Let the task that wrote it write it again."


def read_parquet(folder: Folder, name: str) -> bytes:
    """Raises ArtifactError if there is no such file, StorageError if the storage fails."""
    try:
        return read_bytes(folder / name)
    except FileNotFoundError as missing:
        raise ArtifactError(f"{folder / name} cannot be read ({missing}).") from missing


def parquet_table(content: bytes, where: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table of a file, or these columns of it. Raises ArtifactError, which names `where`, if the file is damaged.

    The caller has read the bytes, so storage has no part in it. All values can be told to Python.
    """
    try:
        # `read_table` would import pandas, which takes longer than many plans.
        table = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True).read(columns=columns)
        _check_times(table)
    except _OF_DAMAGE as wrong:
        raise ArtifactError(f"{where} is not a Parquet file, or is damaged ({_said(wrong)}). {_AGAIN}") from wrong
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)  # the reader looks neither at UTF-8 nor at the offsets of lists
        except pa.ArrowException as wrong:
            what = f"column {name} holds text that is not UTF-8, or is damaged"
            raise ArtifactError(f"{where}: {what} ({_said(wrong)}). {_AGAIN}") from wrong
    return table


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())  # Arrow's texts have several lines


def _check_times(table: pa.Table) -> None:
    """Raises ArithmeticError or LookupError for a time beyond Python's years, or in a zone that does not exist."""
    times = [column for column in table.columns if pa.types.is_timestamp(column.type)]
    if times:
        import pyarrow.compute as pc  # 9 MB, which the follower of a batch does not need

        for column in times:
            pc.min_max(column).as_py()


def give_memory_back() -> None:
    """Gives back what Arrow keeps of tables that are gone: several times their size, which nothing else can use."""
    pa.default_memory_pool().release_unused()


def in_columns(
    table: pa.Table, schema: pa.Schema, where: str, optional: Collection[str] = (), never_null: Collection[str] = ()
) -> pa.Table:
    """The table in the schema's columns and types; `optional` ones may be missing. Raises ArtifactError.

    Columns of `never_null`, and those that the schema does not let be null, have no null, also not in their lists.
    """
    known = [field for field in schema if field.name in table.column_names or field.name not in optional]
    try:
        found = table.select([field.name for field in known]).cast(pa.schema(known).remove_metadata())
        for field in known:
            if (field.name in never_null or not field.nullable) and _has_null(found.column(field.name)):
                raise ValueError(f"{field.name} has a null")
    except (pa.ArrowException, ValueError, LookupError) as wrong:
        raise ArtifactError(f"{where} has not the columns that this version reads ({wrong}). {_AGAIN}") from wrong
    return found


def _has_null(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count) or any(
        chunk.flatten().null_count for chunk in column.chunks if pa.types.is_list(chunk.type)
    )


def read_rows(folder: Folder, name: str, schema: pa.Schema, columns: Sequence[str]) -> list[dict[str, Any]]:
    """These columns of each row; null where the file lacks a column that may be null.

    Raises ArtifactError as `read_parquet`, `parquet_table` and `in_columns`.
    """
    return rows_of(read_parquet(folder, name), f"{folder / name}", schema, columns)


def rows_of(content: bytes, where: str, schema: pa.Schema, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The same of a file's bytes. `where` names the file in errors."""
    fields = [schema.field(column) for column in columns]
    table = parquet_table(content, where, columns)
    for field in fields:
        if field.nullable and field.name not in table.column_names:
            table = table.append_column(field.name, pa.nulls(len(table), field.type))
    rows: list[dict[str, Any]] = in_columns(table, pa.schema(fields), where).to_pylist()
    return rows


def parquet_bytes(table: pa.Table, *, page_checksums: bool = False) -> bytes:
    """`page_checksums`: a reader notices every changed bit. Files whose digest is kept elsewhere do not need them."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=page_checksums)
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
