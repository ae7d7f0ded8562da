"""Reads and writes Parquet files of a folder, with an error for each file that cannot be read."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_rebalance.documents.storage import Folder, make_folder, read_bytes, write_whole
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.finding import listed
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints

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


# Columns of an input table as arrays. Each column is checked when it is read.


LARGEST_ID = 2**31 - 1  # ids of brokers and partitions are 32-bit integers in Kafka's protocol
LARGEST_AMOUNT = 2**53  # a double holds every integer up to here; no measured amount comes near it
_LOG_DIR = pa.struct([("path", pa.string()), ("total_bytes", pa.int64()), ("usable_bytes", pa.int64())])


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """One log directory of a broker; None: not reported."""

    path: str
    total_bytes: int | None
    usable_bytes: int | None
    online: bool = True
    cordoned: bool = False


class Columns:
    """The columns of one input table as arrays, each checked for its type. Errors name the table and the column."""

    def __init__(self, table: pa.Table, where: str) -> None:
        self.table, self.where = table, where

    def _error(self, what: str) -> ArtifactError:
        return ArtifactError(f"{self.where}: {what}. Nothing was planned. docs/tables.md lists the columns.")

    def _column(self, name: str, kind: pa.DataType, *, required: bool = False) -> pa.ChunkedArray:
        """The column; nulls of type `kind` if it holds only nulls of no type, or is optional and missing."""
        found = self.table.column_names.count(name)
        if found > 1:
            raise self._error(f"there are {found} columns {name}, only one is allowed")
        if required and not found:
            raise self._error(f"column {name} is missing, there are {', '.join(self.table.column_names)}")
        if found and not pa.types.is_null(self.table.column(name).type):
            return self.table.column(name)
        return pa.chunked_array([pa.nulls(self.table.num_rows, kind)])

    def _without_nulls(self, name: str, kind: pa.DataType) -> pa.ChunkedArray:
        """A required column. Raises ArtifactError if it has a null."""
        column = self._column(name, kind, required=True)
        if column.null_count:
            raise self._error(f"column {name} has {column.null_count} nulls")
        return column

    def _wrong_type(self, column: pa.ChunkedArray, name: str, wanted: str) -> ArtifactError:
        return self._error(f"column {name} is {column.type}, not {wanted}")

    def _cast(self, column: pa.ChunkedArray, name: str, wanted: pa.DataType) -> pa.ChunkedArray:
        try:
            return column.cast(wanted)
        except pa.ArrowException as wrong:
            raise self._wrong_type(column, name, f"{wanted} ({wrong})") from wrong

    def _read(self, column: pa.ChunkedArray | pa.Array, name: str) -> list[Any]:
        """[row] The values. Parquet readers do not check that text is UTF-8."""
        try:
            values: list[Any] = column.to_pylist()
        except UnicodeDecodeError as wrong:
            raise self._error(f"column {name} holds text that is not UTF-8 ({wrong})") from wrong
        return values

    def _check_ids(self, values: Ints, name: str, below: str) -> None:
        if (values < 0).any():
            raise self._error(f"column {name} holds {values.min()}, which is {below}")
        if (values > LARGEST_ID).any():
            raise self._error(f"column {name} holds {values.max()}, which is above Kafka's largest id {LARGEST_ID}")

    def integers(self, name: str) -> Ints:
        """A required column of ids without nulls."""
        self._without_nulls(name, pa.int64())
        values: Ints = _values(self.optional_integers(name))
        self._check_ids(values, name, "below 0")
        return values

    def optional_ids(self, name: str) -> Ints:
        """[row] An optional column of broker ids; -1 for null and for ids below 0, which Kafka writes for "nobody"."""
        values: Ints = np.maximum(_values(self.optional_integers(name), -1), -1)
        self._check_ids(np.maximum(values, 0), name, "below 0")
        return values

    def optional_integers(self, name: str) -> pa.Array:
        """[row] An optional column of integers, which may be null."""
        column = self._column(name, pa.int64())
        if not pa.types.is_integer(column.type):
            raise self._wrong_type(column, name, "an integer")
        return one_array(self._cast(column, name, pa.int64()))

    def times(self, name: str) -> Ints:
        """[row] A required column of timestamps without nulls, in microseconds."""
        column = self._without_nulls(name, pa.timestamp("us"))
        if not pa.types.is_timestamp(column.type):
            raise self._wrong_type(column, name, "a timestamp")
        values: Ints = _values(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))
        return values

    def names(self, name: str) -> tuple[tuple[str, ...], Ints]:
        """(the distinct names in order, [row] index into them) of a required text column."""
        column = self._without_nulls(name, pa.string())
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise self._wrong_type(column, name, "text")
        texts = self._cast(column, name, pa.string())
        distinct = pc.unique(texts)
        distinct = distinct.take(pc.sort_indices(distinct))
        index: Ints = _values(pc.index_in(texts, distinct)).astype(np.int64)
        return tuple(self._read(distinct, name)), index

    def lists(self, name: str) -> Ints:
        """[row, position] A required column of lists of integers, -1 past the end of each."""
        return self._padded(self._without_nulls(name, pa.list_(pa.int64())), name)

    def optional_lists(self, name: str) -> Ints:
        """[row, position] Like `lists`, of an optional column. A null is an empty list."""
        return self._padded(self._column(name, pa.list_(pa.int64())), name)

    def _padded(self, column: pa.ChunkedArray, name: str) -> Ints:
        kind = column.type
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        if not is_list or not pa.types.is_integer(kind.value_type):
            raise self._wrong_type(column, name, "a list of integers")
        lists = one_array(self._cast(column, name, pa.large_list(pa.int64())))
        if lists.flatten().null_count:
            raise self._error(f"column {name} has nulls within its lists")
        values = _values(lists.flatten())
        self._check_ids(values, name, "no broker id")
        return _spread(lists, values)

    def optional_text_lists(self, name: str) -> tuple[tuple[str, ...], Ints]:
        """(the distinct texts, [row, position] index into them) of an optional column of lists.

        -1 is a null, or past the end of a list.
        """
        kind = pa.large_list(pa.string())
        lists = one_array(self._cast(self._column(name, kind), name, kind))
        texts = lists.flatten()
        distinct = pc.unique(texts.drop_null())
        return tuple(self._read(distinct, name)), _spread(lists, _values(pc.index_in(texts, distinct), -1))

    def amounts(self, name: str, *, required: bool = False) -> tuple[Floats, Bools]:
        """(values, 0 if unknown; [row] whether known) of a column of numbers from 0 on. NaN is unknown."""
        column = self._column(name, pa.float64(), required=required)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise self._wrong_type(column, name, "a number")
        values: Floats = _values(column.cast(pa.float64(), safe=False), np.nan).copy()
        known = ~np.isnan(values)
        values[~known] = 0.0
        if (values < 0).any():
            raise self._error(f"column {name} holds {values.min():g}, which is below 0")
        if (values > LARGEST_AMOUNT).any():
            raise self._error(f"column {name} holds {values.max():g}, which is more than any cluster has")
        return values, known

    def flags(self, name: str) -> Bools:
        """[row] An optional column of booleans; null is False."""
        column = self._cast(self._column(name, pa.bool_()), name, pa.bool_())
        flags: Bools = _values(column.cast(pa.int8()), 0).astype(bool)
        return flags

    def texts(self, name: str, allowed: Collection[str] | None = None) -> list[str | None]:
        """[row] An optional column of text, each value one of `allowed` or null."""
        found: list[str | None] = self._read(self._cast(self._column(name, pa.string()), name, pa.string()), name)
        wrong = sorted({text for text in found if text is not None and allowed is not None and text not in allowed})
        if wrong:
            raise self._error(f"column {name} holds {listed(map(repr, wrong))}, allowed are {listed(allowed or ())}")
        return found

    def all_known(self, name: str) -> bool:
        """Whether an optional column of text has a value in every row. An empty text is a value."""
        return not self._cast(self._column(name, pa.string()), name, pa.string()).null_count

    def log_dirs(self) -> list[tuple[LogDirRow, ...]]:
        """[row] The optional column `log_dirs`, sorted by path."""
        kind = pa.list_(_LOG_DIR)
        found = self._read(self._cast(self._column("log_dirs", kind), "log_dirs", kind), "log_dirs")
        offline, cordoned = self._paths("offline_log_dirs"), self._paths("cordoned_log_dirs")
        rows = []
        for number, row in enumerate(found):
            dirs = [LogDirRow(**one) for one in row or () if one]
            # If a broker tells the sizes of some, those without a size are offline, as earlier snapshots have them.
            sized = any(one.total_bytes is not None for one in dirs)
            states = (
                replace(
                    one,
                    online=one.path not in offline[number] and (one.total_bytes is not None or not sized),
                    cordoned=one.path in cordoned[number],
                )
                for one in dirs
            )
            rows.append(tuple(sorted(states, key=lambda d: d.path or "")))
        for one in (one for row in rows for one in row):
            for amount in (one.total_bytes, one.usable_bytes):
                if amount is not None and not 0 <= amount <= LARGEST_AMOUNT:
                    raise self._error(f"column log_dirs holds {amount} bytes for {one.path}, which is impossible")
        return rows

    def _paths(self, name: str) -> list[frozenset[str]]:
        """[row] An optional column of lists of paths. A null is an empty list."""
        kind = pa.list_(pa.string())
        found = self._read(self._cast(self._column(name, kind), name, kind), name)
        return [frozenset(path for path in row or () if path) for row in found]

    def check_keys(self, *keys: Ints) -> None:
        """Raises ArtifactError if two rows have the same key."""
        stacked = np.stack(keys, axis=1)
        _, first_rows, counts = np.unique(stacked, axis=0, return_index=True, return_counts=True)
        repeated = first_rows[counts > 1]
        if not len(repeated):
            return
        row = self.table.slice(int(repeated[0]), 1).to_pylist()[0]
        name = f"broker {row['broker']}" if "broker" in row else f"{row['topic']}-{row['partition']}"
        raise self._error(f"{len(repeated)} keys have more than one row, first {name}")


def _spread(lists: pa.LargeListArray, values: Ints) -> Ints:
    """[row, position] The values of all lists in their rows, -1 past the end of each."""
    lengths = _values(pc.list_value_length(lists), 0).astype(np.int64)
    result = np.full((len(lengths), max(1, int(lengths.max(initial=0)))), -1, dtype=np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    result[rows, np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = values
    return result


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array, even if it has several chunks, or none."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _values(column: pa.ChunkedArray | pa.Array, null: float | None = None) -> np.ndarray:  # type: ignore[type-arg]
    """Numbers as one array, with `null` in place of nulls. Without `null` there must be none.

    `to_numpy` and scalars, as of `fill_null`, would import pandas, which takes longer than many plans.
    """
    whole = one_array(column)
    if null is None or not whole.null_count:
        values: np.ndarray = np.from_dlpack(whole)  # type: ignore[type-arg]
        return values
    known = np.from_dlpack(whole.is_valid().cast(pa.int8())).astype(bool)
    anything = pa.Array.from_buffers(whole.type, len(whole), [None, whole.buffers()[1]], offset=whole.offset)
    return np.where(known, np.from_dlpack(anything), null)
