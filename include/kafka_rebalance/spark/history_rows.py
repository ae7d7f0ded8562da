"""The ledger's samples of one cluster, aggregated by Spark to one row a partition: the table `history`.

Files that give no sample (not Parquet, not readable from here, other columns) are left out, counted and named: one bad
file must not keep a cluster from being repaired. Sums are of integers and percentiles are exact, so that the number of
executors, files and partitions changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from kafka_rebalance.documents.ledger_files import SOURCE_FILE, compacted_number
from kafka_rebalance.errors import ReadError
from kafka_rebalance.planning.problem.bytes_in_history import MIN_INTERVALS
from kafka_rebalance.planning.tables.history_table import HISTORY_SCHEMA
from kafka_rebalance.planning.tables.sample_aggregates import DAYS, PERCENTILE
from kafka_rebalance.spark.job_driver import said_by
from kafka_rebalance.spark.job_folders import PARQUET, job_folder, parquet_files, url_of
from kafka_rebalance.spark.ledger import counting, rows_that_count

_COLUMNS = """observed_at timestamp, topic string, partition int, size_bytes long, end_offset long, start_offset long,
    topic_czxid long, source_file string"""
_KEY = ("topic", "partition")
_DAY = re.compile(r"day=(\d{4}-\d{2}-\d{2})/.+")


@dataclass(frozen=True, slots=True)
class Samples:
    """What a ledger has: rows in the columns of HISTORY_SCHEMA, in any order, and the files they are from."""

    rows: pa.Table
    files: int  # that gave samples, one a snapshot, also where compaction made one of several
    unreadable: tuple[str, ...]  # names of the others, below the folder


def read_metrics(spark: SparkSession, place: str, existing: pa.Table) -> Samples:
    """The samples below `ledger/metrics/cluster=…`, a path or a URL that driver and executors see.

    `existing` are the partitions that the snapshot has, in the columns of EXISTING_SCHEMA. Where there are too few
    samples to tell anything, Spark has no work. Raises ReadError where the folder cannot be read.
    """
    try:
        listed, foreign = newest_days(parquet_files(job_folder(place, spark)), DAYS)
        files = counting(listed)
        are_single = all(compacted_number(name.rpartition("/")[2]) is None for name in files)
        if are_single and len(files) <= MIN_INTERVALS:
            return Samples(HISTORY_SCHEMA.empty_table(), len(files), tuple(foreign))
        url = url_of(place)
        found = _read(spark, sorted({f"{url}/{name.partition('/')[0]}" for name in files}))
        samples = rows_that_count(found, sql.regexp_extract(sql.input_file_name(), r"(day=[^/]+/[^/]+)$", 1), listed)
        rows = aggregate(samples, spark.createDataFrame(existing)).toArrow()
        sound = _sound(samples).select(_file(), SOURCE_FILE).distinct().collect()
        told = {_name(row["file"]) for row in sound}
        snapshots = {(_name(row["file"]).partition("/")[0], row[SOURCE_FILE] or row["file"]) for row in sound}
    except (OSError, Py4JJavaError, PySparkException) as failed:
        raise ReadError(
            f"The ledger's samples below {place} cannot be read ({said_by(failed)}). Nothing was planned. Let the "
            "Spark driver and its executors read that folder, or plan without --metrics."
        ) from None
    silent = [name for name in files if name not in told]
    return Samples(rows, len(snapshots), tuple(sorted([*foreign, *silent])))


def newest_days(names: Iterable[str], days: int) -> tuple[list[str], list[str]]:
    """(the files of the last `days` days up to the newest there is, the files that are of no day), both sorted."""
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


def aggregate(samples: DataFrame, existing: DataFrame) -> DataFrame:
    """HISTORY_SCHEMA's columns of the samples of the partitions that exist.

    An interval is what lies between two samples of one topic (of one creation, where that is known) with offsets that
    did not fall. Its bytes in are the records appended, times the bytes a record of what the partition holds at its
    end: size / (end offset - first offset). Compaction and deleted records make that too little, never too much.
    """
    in_time = Window.partitionBy(*_KEY).orderBy("observed_at", "end_offset", "start_offset", "size_bytes")
    same_topic = sql.col("sampled_czxid").isNull() | sql.col("topic_czxid").isNull()
    same_topic |= sql.col("sampled_czxid") == sql.col("topic_czxid")
    timed = (
        _sound(samples)
        .withColumnRenamed("topic_czxid", "sampled_czxid")
        .join(existing, on=list(_KEY), how="inner")
        .where(same_topic)
        .select(
            *_KEY,
            "observed_at",
            "size_bytes",
            "lifetime_ms",
            _microseconds("observed_at").alias("at"),
            sql.max(_microseconds("observed_at")).over(Window.partitionBy(*_KEY)).alias("last"),
            (_microseconds("observed_at") - sql.lag(_microseconds("observed_at")).over(in_time)).alias("microseconds"),
            (sql.col("end_offset") - sql.lag("end_offset").over(in_time)).alias("records"),
            (sql.col("end_offset") - sql.col("start_offset")).alias("held_records"),
        )
        # Two samples of one time are one.
        .where(sql.col("microseconds").isNull() | (sql.col("microseconds") > 0))
    )
    appended = sql.when(sql.col("records") == 0, 0).when(
        (sql.col("records") > 0) & (sql.col("held_records") > 0),
        sql.round(sql.col("records") * sql.try_divide(sql.col("size_bytes"), sql.col("held_records"))).cast("long"),
    )
    measured = timed.withColumn("appended_bytes", appended).select(
        *_KEY,
        "observed_at",
        "size_bytes",
        "lifetime_ms",
        "at",
        "last",
        "appended_bytes",
        sql.when(sql.col("appended_bytes").isNotNull(), sql.col("microseconds")).alias("microseconds"),
    )
    return measured.groupBy(*_KEY).agg(*_figures()).select(*HISTORY_SCHEMA.names)


def _figures() -> Sequence[Column]:
    """What one partition's samples amount to. A long interval counts for more than a short one."""
    seconds = sql.col("microseconds") / 1e6
    weight = sql.greatest(sql.lit(1), sql.round(seconds)).cast("long")
    rate = sql.try_divide(sql.col("appended_bytes"), seconds)
    oldest_counted = sql.col("last") - sql.col("lifetime_ms") * 1000
    is_young = sql.col("at") > oldest_counted
    # Known where the samples reach back as far, and no interval since is without figures.
    reaches_back = sql.min(sql.col("at") - oldest_counted) <= 0
    gaps = sql.count_if(is_young & sql.col("appended_bytes").isNull())
    return (
        sql.count("*").alias("samples"),
        sql.min("observed_at").alias("first_at"),
        sql.max("observed_at").alias("last_at"),
        sql.min_by("size_bytes", "at").alias("first_size_bytes"),
        sql.max_by("size_bytes", "at").alias("last_size_bytes"),
        (sql.sum("size_bytes") / sql.count("*")).alias("mean_size_bytes"),
        sql.percentile("size_bytes", PERCENTILE).alias("p95_size_bytes"),
        sql.count("appended_bytes").alias("intervals"),
        sql.coalesce(sql.sum("microseconds") / 1e6, sql.lit(0.0)).alias("measured_seconds"),
        sql.try_divide(sql.sum("appended_bytes"), sql.sum("microseconds") / 1e6).alias("mean_bytes_in_per_second"),
        sql.percentile(rate, PERCENTILE, weight).alias("p95_bytes_in_per_second"),
        sql.max("lifetime_ms").alias("lifetime_ms"),
        sql.when(
            reaches_back & (gaps == 0), sql.coalesce(sql.sum(sql.when(is_young, sql.col("appended_bytes"))), sql.lit(0))
        ).alias("lifetime_bytes"),
    )


def _read(spark: SparkSession, folders: Sequence[str]) -> DataFrame:
    """The Parquet files in these folders, by our columns; what cannot be read is missing, and looked for later."""
    reader = spark.read.schema(_COLUMNS).options(
        recursiveFileLookup=True, pathGlobFilter=f"*{PARQUET}", ignoreCorruptFiles=True, ignoreMissingFiles=True
    )
    return reader.parquet(*folders)


def _sound(samples: DataFrame) -> DataFrame:
    """Rows that are samples: other tables' files have our columns as nulls."""
    return samples.where("observed_at IS NOT NULL AND topic IS NOT NULL AND partition IS NOT NULL AND size_bytes >= 0")


def _file() -> Column:
    return sql.input_file_name().alias("file")


def _microseconds(name: str) -> Column:
    return sql.unix_micros(name)


def _name(url: str) -> str:
    """A file's name below the folder, as `parquet_files` has it."""
    return f"day={unquote(url).rpartition('/day=')[2]}"
