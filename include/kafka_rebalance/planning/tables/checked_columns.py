"""Columns of an input table as arrays, checked where they come in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints

LARGEST_ID = 2**31 - 1  # ids of brokers and partitions are 32-bit integers in Kafka's protocol
LARGEST_AMOUNT = 2**53  # up to here a double holds every integer: nothing that is measured comes near it


_LOG_DIR = pa.struct([("path", pa.string()), ("total_bytes", pa.int64()), ("usable_bytes", pa.int64())])


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """One log directory of a broker; None: not reported."""

    path: str
    total_bytes: int | None
    usable_bytes: int | None


class Columns:
    """The columns of one input table as arrays, each checked for its type. Errors name the table and the column."""

    def __init__(self, table: pa.Table, where: str) -> None:
        self.table, self.where = table, where

    def _error(self, what: str) -> ArtifactError:
        return ArtifactError(f"{self.where}: {what}. Nothing was planned. docs/tables.md lists the columns.")

    def _column(self, name: str, *, required: bool) -> pa.ChunkedArray | None:
        found = self.table.column_names.count(name)
        if found > 1:
            raise self._error(f"column {name} is there {found} times, and only one of them can be meant")
        if found:
            return self.table.column(name)
        if required:
            raise self._error(f"column {name} is missing, there are {', '.join(self.table.column_names)}")
        return None

    def _cast(self, column: pa.ChunkedArray, name: str, wanted: pa.DataType) -> pa.ChunkedArray:
        try:
            return column.cast(wanted)
        except pa.ArrowException as wrong:
            raise self._error(f"column {name} is {column.type}, not {wanted} ({wrong})") from wrong

    def _read(self, column: pa.ChunkedArray | pa.Array, name: str) -> list[Any]:
        """[row] The values; Parquet's readers do not look whether text is UTF-8."""
        try:
            values: list[Any] = column.to_pylist()
        except UnicodeDecodeError as wrong:
            raise self._error(f"column {name} holds text that is not UTF-8 ({wrong})") from wrong
        return values

    def integers(self, name: str) -> Ints:
        """A required column of ids without nulls."""
        column = self._column(name, required=True)
        assert column is not None
        if not pa.types.is_integer(column.type):
            raise self._error(f"column {name} is {column.type}, not an integer")
        if column.null_count:
            raise self._error(f"column {name} has {column.null_count} nulls")
        values: Ints = _values(self._cast(column, name, pa.int64()))
        self._check_ids(values, name, "below 0")
        return values

    def _check_ids(self, values: Ints, name: str, below: str) -> None:
        if (values < 0).any():
            raise self._error(f"column {name} holds {int(values.min())}, which is {below}")
        if (values > LARGEST_ID).any():
            raise self._error(
                f"column {name} holds {int(values.max())}, which is above Kafka's largest id {LARGEST_ID}"
            )

    def names(self, name: str) -> tuple[tuple[str, ...], Ints]:
        """(the distinct names in order, [row] index into them) of a required text column."""
        column = self._column(name, required=True)
        assert column is not None
        texts = self._cast(column, name, pa.string())
        if not (
            pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or _is_dictionary(column.type)
        ):
            raise self._error(f"column {name} is {column.type}, not text")
        if texts.null_count:
            raise self._error(f"column {name} has {texts.null_count} nulls")
        distinct = pc.unique(texts)
        distinct = distinct.take(pc.sort_indices(distinct))
        index: Ints = _values(pc.index_in(texts, distinct)).astype(np.int64)
        return tuple(self._read(distinct, name)), index

    def lists(self, name: str) -> Ints:
        """[row, position] A required column of lists of integers, -1 past the end of each."""
        column = self._column(name, required=True)
        assert column is not None
        if column.null_count:
            raise self._error(f"column {name} has {column.null_count} nulls")
        return self._padded(column, name)

    def optional_lists(self, name: str) -> Ints:
        """[row, position] Like `lists`, of a column that may be missing or null: nothing but -1 is an empty list."""
        column = self._column(name, required=False)
        if column is None or pa.types.is_null(column.type):
            return np.full((self.table.num_rows, 1), -1, dtype=np.int64)
        return self._padded(column, name)

    def _padded(self, column: pa.ChunkedArray, name: str) -> Ints:
        """[row, position] The lists, -1 past the end of each; a null is an empty list."""
        kind = column.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
            raise self._error(f"column {name} is {kind}, not a list of integers")
        if not pa.types.is_integer(kind.value_type):
            raise self._error(f"column {name} is {kind}, not a list of integers")
        chunks = self._cast(column, name, pa.large_list(pa.int64())).combine_chunks()
        lists = chunks.chunk(0) if isinstance(chunks, pa.ChunkedArray) else chunks
        if lists.flatten().null_count:
            raise self._error(f"column {name} has nulls within its lists")
        values = _values(lists.flatten())
        self._check_ids(values, name, "no broker id")
        return _spread(lists, values)

    def optional_text_lists(self, name: str) -> tuple[tuple[str, ...], Ints]:
        """(the distinct texts, [row, position] index into them) of a column of lists that may be missing or null.

        -1 is a null, and what is past the end of a list.
        """
        column = self._column(name, required=False)
        if column is None or pa.types.is_null(column.type):
            return (), np.full((self.table.num_rows, 1), -1, dtype=np.int64)
        chunks = self._cast(column, name, pa.large_list(pa.string())).combine_chunks()
        lists = chunks.chunk(0) if isinstance(chunks, pa.ChunkedArray) else chunks
        texts = lists.flatten()
        distinct = pc.unique(texts.drop_null())
        return tuple(self._read(distinct, name)), _spread(lists, _values(pc.index_in(texts, distinct), -1))

    def amounts(self, name: str, *, required: bool = False) -> tuple[Floats, Bools]:
        """(values with 0 where unknown, [row] whether known) of a column of numbers from 0 on; NaN is unknown."""
        column = self._column(name, required=required)
        if column is None:
            return np.zeros(self.table.num_rows), np.zeros(self.table.num_rows, dtype=bool)
        if pa.types.is_null(column.type):
            column = column.cast(pa.float64())
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise self._error(f"column {name} is {column.type}, not a number")
        values: Floats = _values(column.cast(pa.float64(), safe=False), np.nan).copy()
        known = ~np.isnan(values)
        values[~known] = 0.0
        if (values < 0).any():
            raise self._error(f"column {name} holds {values.min():g}, which is below 0")
        if (values > LARGEST_AMOUNT).any():
            raise self._error(f"column {name} holds {values.max():g}, which is more than any cluster has")
        return values, known

    def optional_ids(self, name: str) -> Ints:
        """[row] An optional column of broker ids; -1 where it is null, or below 0 as Kafka's "nobody"."""
        column = self._column(name, required=False)
        if column is None or pa.types.is_null(column.type):
            return np.full(self.table.num_rows, -1, dtype=np.int64)
        if not pa.types.is_integer(column.type):
            raise self._error(f"column {name} is {column.type}, not an integer")
        values: Ints = np.maximum(_values(self._cast(column, name, pa.int64()), -1), -1)
        self._check_ids(np.maximum(values, 0), name, "below 0")
        return values

    def flags(self, name: str) -> Bools:
        """[row] An optional column of booleans; null is False."""
        column = self._column(name, required=False)
        if column is None:
            return np.zeros(self.table.num_rows, dtype=bool)
        flags: Bools = _values(self._cast(column, name, pa.bool_()).cast(pa.int8()), 0).astype(bool)
        return flags

    def texts(self, name: str, allowed: Collection[str] | None = None) -> list[str | None]:
        """[row] An optional column of text, each value one of `allowed` or null."""
        column = self._column(name, required=False)
        if column is None:
            return [None] * self.table.num_rows
        found: list[str | None] = self._read(self._cast(column, name, pa.string()), name)
        wrong = sorted({text for text in found if text is not None and allowed is not None and text not in allowed})
        if wrong:
            raise self._error(
                f"column {name} holds {', '.join(map(repr, wrong))}, allowed are {', '.join(allowed or ())}"
            )
        return found

    def log_dirs(self) -> list[tuple[LogDirRow, ...]]:
        """[row] The optional column `log_dirs`, sorted by path."""
        column = self._column("log_dirs", required=False)
        if column is None or pa.types.is_null(column.type):
            return [()] * self.table.num_rows
        found = self._read(self._cast(column, "log_dirs", pa.list_(_LOG_DIR)), "log_dirs")
        rows = [
            tuple(sorted((LogDirRow(**one) for one in row or () if one), key=lambda d: d.path or "")) for row in found
        ]
        for one in (one for row in rows for one in row):
            for amount in (one.total_bytes, one.usable_bytes):
                if amount is not None and not 0 <= amount <= LARGEST_AMOUNT:
                    raise self._error(f"column log_dirs holds {amount} bytes for {one.path}, which no directory has")
        return rows

    def check_keys(self, *keys: Ints) -> None:
        """Refuses two rows of one key."""
        stacked = np.stack(keys, axis=1)
        distinct, counts = np.unique(stacked, axis=0, return_counts=True)
        if len(distinct) == len(stacked):
            return
        first = distinct[counts > 1][0]
        row = self.table.slice(int(np.flatnonzero((stacked == first).all(axis=1))[0]), 1).to_pylist()[0]
        name = f"broker {row['broker']}" if "broker" in row else f"{row['topic']}-{row['partition']}"
        raise self._error(f"{int((counts > 1).sum())} keys have more than one row, first {name}")


def _spread(lists: pa.LargeListArray, values: Ints) -> Ints:
    """[row, position] The values of all lists in their rows, -1 past the end of each."""
    lengths = _values(pc.list_value_length(lists), 0).astype(np.int64)
    result = np.full((len(lengths), max(1, int(lengths.max(initial=0)))), -1, dtype=np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    result[rows, np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = values
    return result


def _values(column: pa.ChunkedArray | pa.Array, null: float | None = None) -> np.ndarray:  # type: ignore[type-arg]
    """Numbers as one array. `to_numpy`, as any scalar, would import pandas, which takes longer than many a plan."""
    if column.null_count:
        column = pc.fill_null(column, null)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    whole = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    values: np.ndarray = np.from_dlpack(whole)  # type: ignore[type-arg]
    return values


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type))
