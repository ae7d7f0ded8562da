"""The ledger: what runs measured, proposed, decided and reached, in Parquet tables by cluster and day below `runs_url`.

Each run adds files of its own and never rewrites another's, so any number of runs may write at once. When a day is
over, Spark merges its many files into one (`spark.ledger_job`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka_rebalance import clock
from kafka_rebalance.documents.ledger_files import SOURCE_FILE, files_that_count
from kafka_rebalance.documents.storage import make_folder, names_in, read_bytes, write_whole
from kafka_rebalance.errors import ArtifactError, NothingToDoError
from kafka_rebalance.planning.tables.parquet_files import parquet_bytes, parquet_table
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.inputs import SparkArguments, StepInputs
from kafka_rebalance.run.ledger_columns import TABLES
from kafka_rebalance.run.run_folder import RunFolder, check_submitted, file_name

log = logging.getLogger(__name__)

LEDGER = "ledger"
_DAY = "day="
_LISTINGS = 3  # of one day, while compaction removes its files


class Found(NamedTuple):
    """What a table holds about one cluster."""

    rows: list[dict[str, Any]]  # newest first, with the table's columns
    unreadable: tuple[str, ...]  # files that cannot be read and gave no row: `day=<date>/<file>`


class LedgerColumns(NamedTuple):
    """The same in Arrow, for tables with a row for each partition."""

    table: pa.Table  # in any order
    files: int  # that gave rows
    unreadable: tuple[str, ...]


def folder_of(deployment: Deployment, table: str, connection_id: str) -> RunFolder:
    """The folder of a cluster's rows in a table, with one folder for each day."""
    return deployment.runs_root / LEDGER / table / f"cluster={file_name(connection_id)}"


def append(
    deployment: Deployment,
    table: str,
    connection_id: str,
    run_id: str,
    observed_at: datetime,
    rows: Sequence[Mapping[str, Any]],
) -> RunFolder:
    """Adds one file of rows to a table; returns its path.

    `ledger/<table>/cluster=<connection>/day=<date>/<run>.parquet`: the path gives cluster and day.
    The same run replaces its own file, so a cleared task counts once.
    """
    folder = folder_of(deployment, table, connection_id) / f"{_DAY}{observed_at:%Y-%m-%d}"
    make_folder(folder)
    content = [{"observed_at": observed_at, **row} for row in rows]
    path = folder / f"{file_name(run_id)}.parquet"
    write_whole(path, parquet_bytes(pa.Table.from_pylist(content, schema=TABLES[table]), page_checksums=True))
    return path


def locate(inputs: StepInputs) -> None:
    """Tells the next task where the ledger is. NothingToDoError: there is no ledger."""
    place = inputs.deployment.runs_root / LEDGER
    if not names_in(place):
        raise NothingToDoError("There is no ledger yet")
    inputs.tell("ledger", str(place))


def check_located(inputs: StepInputs, submit: SparkArguments) -> None:
    """Raises RunFolderError unless the XCom gives Spark this ledger."""
    place = inputs.deployment.runs_root / LEDGER
    check_submitted(submit, list(submit.application_args) == ["--ledger", str(place)])


def read_columns(
    deployment: Deployment, table: str, connection_id: str, days: float, *, now: datetime | None = None
) -> LedgerColumns:
    """As `read`, without a Python object for each row."""
    oldest = (now or clock.utc_now()) - timedelta(days=days)
    folder, schema = folder_of(deployment, table, connection_id), TABLES[table]
    found: list[pa.Table] = []
    unreadable: list[str] = []
    for day in names_in(folder):
        if (date_of(day) or date.min) >= oldest.date():
            tables, broken = _tables_of_day(folder / day, schema)
            found += tables
            unreadable += [f"{day}/{name}" for name in broken]
    whole = pa.concat_tables([schema.empty_table(), *found])
    recent = whole.filter(pc.greater_equal(whole["observed_at"], pa.scalar(oldest, schema.field("observed_at").type)))
    return LedgerColumns(recent, len(found), tuple(unreadable))


def read(deployment: Deployment, table: str, connection_id: str, days: float, *, now: datetime | None = None) -> Found:
    """A cluster's rows of the last `days` days; none if nothing was written yet.

    A file that cannot be read is logged and named in the result. The other files are still read. Raises StorageError
    if a folder cannot be listed, because that does not mean "nothing there".
    """
    found = read_columns(deployment, table, connection_id, days, now=now)
    rows = sorted(found.table.to_pylist(), key=lambda row: row["observed_at"], reverse=True)
    return Found(rows, found.unreadable)


def _tables_of_day(folder: RunFolder, schema: pa.Schema) -> tuple[list[pa.Table], list[str]]:
    """The rows that count, by file, and the names of unreadable files. Compaction may remove files meanwhile."""
    for _ in range(_LISTINGS):
        names = [name for name in names_in(folder) if name.endswith(".parquet")]
        tables: list[pa.Table] = []
        unreadable, gone = [], False
        for name in files_that_count(names):
            try:
                tables.append(_rows_that_count(read_bytes(folder / name), name, names, schema))
            except FileNotFoundError:
                gone = True
                unreadable.append(name)
            except ArtifactError as wrong:  # or StorageError
                log.warning("%s cannot be read and is left out: %s", folder / name, wrong)
                unreadable.append(name)
        if not gone:
            break
    return tables, unreadable


def _rows_that_count(content: bytes, name: str, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """A file's rows in the schema's columns, null for missing ones. Raises ArtifactError.

    `names` are the day's files. A compacted file gives no row whose own file is still one of them.
    """
    table = parquet_table(content, name)
    try:
        columns = [
            table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
            for field in schema
        ]
        rows = pa.table(columns, schema=schema)
        if rows["observed_at"].null_count:
            raise ValueError("a row without observed_at")
        if SOURCE_FILE not in table.column_names:
            return rows
        beside = pc.is_in(table[SOURCE_FILE].cast(pa.string()), value_set=pa.array(names, pa.string()))
        return rows.filter(pc.invert(beside))
    except (ValueError, LookupError, pa.ArrowException) as wrong:  # LookupError: two columns of one name
        raise ArtifactError(f"{name} is no file of this table ({wrong}).") from wrong


def date_of(folder: str) -> date | None:
    try:
        return date.fromisoformat(folder.removeprefix(_DAY)) if folder.startswith(_DAY) else None
    except ValueError:
        return None
