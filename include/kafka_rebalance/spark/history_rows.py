"""Spark aggregates the ledger's samples of one cluster to one row a partition: the table `history`.

Some files give no sample: they are not Parquet, not readable from here, or have other columns. The job leaves them out
and names them, because one bad file must not stop a repair. One task aggregates all samples of a partition, so the
number of executors, files and Spark partitions changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_rebalance.documents.ledger_files import SOURCE_FILE
from kafka_rebalance.errors import ReadError
from kafka_rebalance.planning.problem.bytes_in_history import MIN_INTERVALS
from kafka_rebalance.planning.tables.history_table import HISTORY_SCHEMA
from kafka_rebalance.planning.tables.sample_aggregates import DAYS, aggregated
from kafka_rebalance.spark.job_driver import said_by
from kafka_rebalance.spark.job_folders import PARQUET, job_folder, parquet_files, url_of
from kafka_rebalance.spark.ledger import counting, is_compacted, rows_that_count

_COLUMNS = """observed_at timestamp, topic string, partition int, size_bytes long, end_offset long, start_offset long,
    topic_czxid long, source_file string"""
_DAY = re.compile(r"day=(\d{4}-\d{2}-\d{2})/.+")


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows in the columns of HISTORY_SCHEMA, in any order, and the files that they come from."""

    rows: pa.Table
    files: int  # that gave samples; a compacted file counts once for each of its sources
    unreadable: tuple[str, ...]  # names of the other files, below the folder


def read_metrics(spark: SparkSession, place: str, existing: pa.Table) -> Samples:
    """The samples below `ledger/metrics/cluster=…`, a path or URL that the driver and the executors can read.

    `existing` are the partitions of the snapshot, in the columns of EXISTING_SCHEMA. Too few files say nothing, and
    then Spark does not read them. Raises ReadError if the folder cannot be read.
    """
    try:
        listed, foreign = newest_days(parquet_files(job_folder(place, spark)), DAYS)
        files = counting(listed)
        if len(files) <= MIN_INTERVALS and not any(map(is_compacted, files)):
            return Samples(HISTORY_SCHEMA.empty_table(), len(files), tuple(foreign))
        url = url_of(place)
        found = _read(spark, sorted({f"{url}/{name.partition('/')[0]}" for name in files}))
        samples = rows_that_count(found, sql.regexp_extract(sql.input_file_name(), r"(day=[^/]+/[^/]+)$", 1), listed)
        rows = _aggregated_on_spark(samples, existing)
        # Other tables' files have our columns as nulls.
        sound = samples.where(
            "observed_at IS NOT NULL AND topic IS NOT NULL AND partition IS NOT NULL AND size_bytes >= 0"
        )
        sound = sound.select(sql.input_file_name().alias("file"), SOURCE_FILE).distinct().collect()
        told = {_name(row["file"]) for row in sound}
        snapshots = {(_name(row["file"]).partition("/")[0], row[SOURCE_FILE] or row["file"]) for row in sound}
    except (OSError, Py4JJavaError, PySparkException) as failed:
        raise ReadError(
            f"The ledger's samples below {place} cannot be read ({said_by(failed)}). Nothing was planned. Give the "
            "Spark driver and its executors access to that folder, or plan without --metrics."
        ) from None
    silent = [name for name in files if name not in told]
    return Samples(rows, len(snapshots), tuple(sorted([*foreign, *silent])))


def newest_days(names: Iterable[str], days: int) -> tuple[list[str], list[str]]:
    """(the files of the `days` days up to the newest one, the files without a day), both sorted."""
    of_days: dict[str, date] = {}
    foreign = []
    for name in sorted(names):
        found = _DAY.fullmatch(name)
        try:
            of_days[name] = date.fromisoformat(found[1] if found else "")
        except ValueError:
            foreign.append(name)
    oldest = max(of_days.values(), default=date.max) - timedelta(days=days - 1)
    return [name for name, day in of_days.items() if day >= oldest], foreign


def _aggregated_on_spark(samples: DataFrame, existing: pa.Table) -> pa.Table:
    """What `aggregated` makes of all samples: each task has every sample of its partitions."""
    shared = samples.sparkSession.sparkContext.broadcast(existing)

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            yield from aggregated(pa.Table.from_batches(found), shared.value).to_batches()

    columns = samples.drop(SOURCE_FILE).repartition("topic", "partition")
    return columns.mapInArrow(of_task, from_arrow_schema(HISTORY_SCHEMA)).toArrow()


def _read(spark: SparkSession, folders: Sequence[str]) -> DataFrame:
    """The Parquet files in these folders, by our columns, without the files that cannot be read."""
    reader = spark.read.schema(_COLUMNS).options(
        recursiveFileLookup=True, pathGlobFilter=f"*{PARQUET}", ignoreCorruptFiles=True, ignoreMissingFiles=True
    )
    return reader.parquet(*folders)


def _name(url: str) -> str:
    """A file's name below the folder, as in `parquet_files`."""
    return f"day={unquote(url).rpartition('/day=')[2]}"
