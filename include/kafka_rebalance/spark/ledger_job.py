"""`spark-submit ledger_job.py --ledger DIR [--before DATE]`: makes one file of each past day of a table and cluster.

Executors read and merge, with a task for each day. The driver writes, checks and removes (`one_file_a_day`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path

try:
    import kafka_rebalance  # noqa: F401
except ImportError:  # submitted by hand, without py_files
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_rebalance.errors import ReadError, RunFolderError, StorageError
from kafka_rebalance.planning.command_line import say
from kafka_rebalance.spark.job_driver import open_session, run_job, said_by
from kafka_rebalance.spark.job_folders import job_folder, parquet_files, url_of
from kafka_rebalance.spark.one_file_a_day import Merged, closed_days, merge, publish

_MERGED = pa.schema(
    [
        ("day", pa.string()),
        ("content", pa.binary()),
        ("rows", pa.int64()),
        ("sources", pa.map_(pa.string(), pa.string())),
        ("skipped", pa.list_(pa.string())),
    ]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all days are done. 2: something cannot be read or written, and the error's text is on stderr."""
    parser = argparse.ArgumentParser(prog="ledger_job.py", description="Makes one file of all files of a day.")
    parser.add_argument("--ledger", required=True, help="the folder or URL ledger, below runs_url")
    parser.add_argument(
        "--before", type=date.fromisoformat, help="only days before this one; by default before today, UTC"
    )
    options = parser.parse_args(arguments)
    return run_job(lambda scratch: _compact(options.ledger, options.before or datetime.now(UTC).date(), scratch))


def _compact(place: str, before: date, scratch: Path) -> None:
    spark = open_session(scratch) if "://" in place else None
    try:
        ledger = job_folder(place, spark)
        days = closed_days(parquet_files(ledger), before)
        if not days:
            say("no past day has more than one file")
            return
        failed = []
        for day, merged in merged_on(spark or open_session(scratch), place, days):
            for why in merged.skipped:
                say(f"{day}: not merged: {why}")
            if not merged.content:
                continue
            try:
                stays = publish(ledger / day, merged)
            except (OSError, StorageError) as wrong:
                failed.append(f"{day} ({wrong})")
                continue
            say(
                f"{day}: {len(merged.sources)} files, {merged.rows:,} rows"
                + "".join(f"; {name} stays" for name in stays)
            )
    except (OSError, Py4JJavaError, PySparkException) as wrong:
        raise ReadError(
            f"The ledger below {place} cannot be read ({said_by(wrong)}). No row was lost. Give the Spark driver and "
            "its executors access to that folder."
        ) from None
    if failed:
        raise RunFolderError(
            f"{len(failed)} days could not be written, first {failed[0]}. No row was lost: the old files of these days "
            "are still there. Run the job again once the storage can be written."
        )


def merged_on(spark: SparkSession, place: str, days: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Merged]]:
    """The merged files of each day. Each day is a task."""
    spark.conf.set("spark.sql.shuffle.partitions", min(len(days), 200))
    files = [f"{url_of(place)}/{day}/{name}" for day, names in days.items() for name in names]
    read = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(files)
    below = r"([^/]+/cluster=[^/]+/day=[^/]+)/([^/]+)$"
    named = read.select(
        sql.regexp_extract("path", below, 1).alias("day"), sql.regexp_extract("path", below, 2).alias("name"), "content"
    )
    for row in named.groupBy("day").applyInArrow(_merge_group, from_arrow_schema(_MERGED)).toLocalIterator():
        yield row["day"], Merged(bytes(row["content"]), row["rows"], dict(row["sources"]), tuple(row["skipped"]))


def _merge_group(group: pa.Table) -> pa.Table:
    """[day, name, content] of one day as one row of _MERGED."""
    merged = merge(dict(zip(group["name"].to_pylist(), group["content"].to_pylist(), strict=True)))
    row = {"day": group["day"][0].as_py(), **asdict(merged), "sources": list(merged.sources.items())}
    return pa.Table.from_pylist([row], schema=_MERGED)


if __name__ == "__main__":
    sys.exit(main())
