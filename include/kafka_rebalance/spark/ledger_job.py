"""`spark-submit ledger_job.py --ledger DIR [--before DATE]`: makes one file of each past day of a table and cluster.

Executors read and merge, with a task for each day. The driver writes, checks and removes (`one_file_a_day`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

try:
    import kafka_rebalance  # noqa: F401
except ImportError:  # submitted by hand, without py_files
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafka_rebalance import clock
from kafka_rebalance.documents.storage import FolderOfRuns, files_below, read_bytes
from kafka_rebalance.errors import ReadError, RunFolderError, StorageError
from kafka_rebalance.planning.command_line import folder_at, say
from kafka_rebalance.spark.job_driver import open_session, run_job, said_by
from kafka_rebalance.spark.one_file_a_day import Merged, closed_days, merge, publish

MOST_TASKS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all days are done. 2: something cannot be read or written, and the error's text is on stderr."""
    parser = argparse.ArgumentParser(prog="ledger_job.py", description="Makes one file of all files of a day.")
    parser.add_argument("--ledger", required=True, help="the folder or URL ledger, below runs_url")
    parser.add_argument(
        "--before", type=date.fromisoformat, help="only days before this one; by default before today, UTC"
    )
    options = parser.parse_args(arguments)
    return run_job(lambda scratch: _compact(options.ledger, options.before or clock.utc_now().date(), scratch))


def _compact(place: str, before: date, scratch: Path) -> None:
    try:
        ledger = folder_at(place)
        days = closed_days(files_below(ledger), before)
        if not days:
            say("no past day has more than one file")
            return
        failed = []
        for day, merged in merged_on(open_session(scratch, ledger), ledger, days):
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
    except (FileNotFoundError, StorageError, Py4JJavaError, PySparkException) as wrong:
        raise ReadError(
            f"The ledger below {place} cannot be read ({said_by(wrong)}). No row was lost. Give the Spark driver and "
            "its executors access to that folder."
        ) from None
    if failed:
        raise RunFolderError(
            f"{len(failed)} days could not be written, first {failed[0]}. No row was lost: the old files of these days "
            "are still there. Run the job again once the storage can be written."
        )


def merged_on(
    spark: SparkSession, ledger: FolderOfRuns, days: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Merged]]:
    """The merged files of each day. Each day is a task, which reads the day's files itself."""

    def merged(day: str) -> tuple[str, Merged]:
        try:
            return day, merge({name: read_bytes(ledger / day / name) for name in days[day]})
        except (FileNotFoundError, StorageError) as wrong:
            return day, Merged(b"", 0, {}, (str(wrong),))

    tasks = spark.sparkContext.parallelize(list(days), min(len(days), MOST_TASKS)).map(merged)
    yield from tasks.toLocalIterator(prefetchPartitions=True)


if __name__ == "__main__":
    sys.exit(main())
