"""The ledger's tables in Spark, for notebooks and other questions about many clusters and days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from kafka_rebalance.documents.ledger_files import SOURCE_FILE, compacted_number, files_that_count

PARQUET = ".parquet"
_BELOW = r"(cluster=[^/]+/day=[^/]+/[^/]+)$"


def read_ledger(spark: SparkSession, runs: str, table: str) -> DataFrame:
    """The rows of a table below `runs_url`, of all clusters, each row once, with the columns `cluster` and `day`.

    `runs` is a path or a URL that Spark opens, such as `s3a://`. Spark leaves out files that it cannot read
    (`ignoreCorruptFiles`). Raises PySparkException if the folder cannot be listed.
    """
    place = f"{runs.rstrip('/')}/ledger/{table}"
    url = place if "://" in place else f"file://{Path(place).absolute()}"
    below = spark.read.format("binaryFile").options(recursiveFileLookup=True, pathGlobFilter=f"*{PARQUET}").load(url)
    names = sorted(unquote(file).rpartition(f"/ledger/{table}/")[2] for file in below.inputFiles())
    reader = spark.read.options(basePath=url, mergeSchema=True, ignoreCorruptFiles=True, ignoreMissingFiles=True)
    rows = reader.parquet(*(f"{url}/{name}" for name in counting(names)))
    file = sql.regexp_extract(sql.col("_metadata.file_path"), _BELOW, 1)
    return rows_that_count(rows, file, names).drop(SOURCE_FILE)


def counting(names: Iterable[str]) -> list[str]:
    """The files of a table that count, day by day."""
    days: dict[str, list[str]] = defaultdict(list)
    for path in names:
        day, _, name = path.rpartition("/")
        days[day].append(name)
    return [f"{day}/{name}" if day else name for day, files in days.items() for name in files_that_count(files)]


def is_compacted(name: str) -> bool:
    """Whether this file of a table was made of several by compaction."""
    return compacted_number(name.rpartition("/")[2]) is not None


def rows_that_count(rows: DataFrame, file: Column, names: Iterable[str]) -> DataFrame:
    """The rows, without those of a compacted file that are also in a newer one or in a run's own file.

    `names` are all files of the table. `file` is the file of a row, with the same form of name.
    """
    listed = set(names)
    outdated = sorted(listed - set(counting(listed)))
    if outdated:
        rows = rows.where(~file.isin(outdated))
    compacted = {name.rpartition("/")[0] for name in filter(is_compacted, listed)}
    own = sorted(name for name in listed if name.rpartition("/")[0] in compacted and not is_compacted(name))
    if own and SOURCE_FILE in rows.columns:
        source = sql.concat(sql.regexp_extract(file, r"^(.*/)", 1), sql.col(SOURCE_FILE))
        rows = rows.where(sql.col(SOURCE_FILE).isNull() | ~source.isin(own))
    return rows
