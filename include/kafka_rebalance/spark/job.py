"""`spark-submit job.py --snapshot DIR --out DIR [--settings FILE.json] [--metrics DIR]`: one Spark task per candidate.

The driver reads and checks the tables, broadcasts them as arrays, and writes the results. The files are the same, byte
for byte, as those of `python -m kafka_rebalance.planning`. Executors compute the candidates, which share nothing. They
also aggregate the ledger's samples to one row a partition, in a file that the command can read, too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

try:
    import kafka_rebalance  # noqa: F401
except ImportError:  # submitted by hand, without py_files
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_rebalance.documents.ledger_files import SOURCE_FILE
from kafka_rebalance.documents.storage import Folder, files_below, read_bytes
from kafka_rebalance.errors import ArtifactError, ReadError, StorageError
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.settings import OPTIMAL
from kafka_rebalance.planning.candidates import (
    Search,
    attempted,
    chosen,
    described,
    propose,
    searched,
    searches_of,
)
from kafka_rebalance.planning.command_line import argument_parser, folder_at, read_file, read_settings, say
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.planner import (
    Lap,
    Stopwatch,
    check_samples_given,
    finish,
    offered,
    prepare,
    problem_in_words,
)
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.problem.bytes_per_partition import MIN_INTERVALS, TopicRates, describe_history
from kafka_rebalance.planning.search.frame import FoundLists
from kafka_rebalance.planning.tables.history import (
    DAYS,
    HISTORY,
    HISTORY_SCHEMA,
    HOURLY,
    HOURLY_SCHEMA,
    SAMPLES_SCHEMA,
    aggregated,
    existing_partitions,
    hour_totals,
    planned_with,
    read_topic_rates,
    worst_hour,
    write_history,
)
from kafka_rebalance.planning.tables.parquet_files import parquet_table
from kafka_rebalance.spark.job_driver import add_folder_checks, open_session, own_folder, run_job, said_by
from kafka_rebalance.spark.ledger import PARQUET, counting, is_compacted, rows_that_count

T = TypeVar("T")
R = TypeVar("R")


def main(arguments: Sequence[str] | None = None) -> int:
    """0: the tables are written. 2: an input cannot be used, and the error's text is on stderr."""
    parser = argument_parser("job.py")
    add_folder_checks(parser)
    parser.add_argument("--metrics", help="the ledger's folder of this cluster's samples, ledger/metrics/cluster=…")
    options = parser.parse_args(arguments)
    if options.metrics is not None and options.history is not None:
        parser.error("--metrics and --history both give the history: use one of them")
    return run_job(lambda scratch: _plan(options, scratch))


def _plan(options: argparse.Namespace, scratch: Path) -> None:
    """Reads, proposes on Spark, writes. It opens the session only after all checks that need none."""
    watch = Stopwatch()
    settings = read_settings(options.settings)
    snapshot = folder_at(options.snapshot)
    check_samples_given(settings, snapshot, options.metrics is not None or options.history is not None)
    out = own_folder(options)
    problem = prepare(snapshot, settings)
    history = read_file(options.history) if options.history is not None else None
    watch.lap("read")
    say(problem_in_words(problem))
    spark = None
    if options.metrics is not None:
        metrics = folder_at(options.metrics)
        spark = open_session(scratch, metrics)
        watch.lap("session")
        samples = read_metrics(spark, metrics, existing_partitions(problem, snapshot), read_topic_rates(snapshot))
        history = write_history(out, samples.rows, samples.files, samples.unreadable)
        watch.lap("history")
    problem = planned_with(problem, snapshot, history, options.history or HISTORY)
    if problem.rates.history is not None:
        say(describe_history(problem))
    names = offered(problem)
    with ThreadPoolExecutor(1) as driver:
        # Only the driver has the solver. It computes without the interpreter's lock while the session opens.
        exact = {
            name: driver.submit(attempted, problem, name, partial(propose, problem, name))
            for name in names
            if name == OPTIMAL
        }
        spark = spark or open_session(scratch)
        if options.metrics is None:
            watch.lap("session")
        searched = iter(propose_on(spark, problem, [name for name in names if name not in exact], watch))
        plans = [exact[name].result() if name in exact else next(searched) for name in names]
    watch.lap("propose")
    finish(out, problem, plans, watch, say)


def propose_on(
    spark: SparkSession, problem: Problem, names: Sequence[str], watch: Stopwatch
) -> tuple[DescribedCandidate, ...]:
    """The candidates, in the order of `names`: a task for each search, then one to describe the best.

    In between the driver chooses the best, because only the driver has the solver (`chosen`). No candidate waits for
    another: one is described while the next is searched.

    What one candidate raises is the end of that candidate alone (`attempted`), on an executor as on the driver. If all
    fail, and Spark itself has failed for one of them, its error is raised.
    """
    if not names:
        return ()
    context = spark.sparkContext
    shared = context.broadcast(problem)
    of_spark: list[Exception] = []

    def attempt(task: tuple[str, Search]) -> tuple[FoundLists | DescribedCandidate, Lap]:
        # Caught there, because a raised exception would come back as a Java error with a stack.
        clock = Stopwatch()
        lists = attempted(shared.value, task[0], partial(searched, shared.value, *task))
        return lists, clock.lap("search")

    def describe_best(task: tuple[str, FoundLists | DescribedCandidate]) -> tuple[DescribedCandidate, Lap]:
        clock = Stopwatch()
        return attempted(shared.value, task[0], partial(described, shared.value, *task)), clock.lap("outcome")

    def proposed(name: str) -> DescribedCandidate:
        searches, laps = [], []
        for lists, lap in _each(context, attempt, [(name, search) for search in searches_of(problem, name)]):
            searches.append(lists)
            laps.append(lap)
        clock = Stopwatch()
        best = attempted(problem, name, partial(chosen, problem, name, searches))
        laps.append(clock.lap("search"))
        ((plan, outcome),) = _each(context, describe_best, [(name, best)])
        watch.note(name, Lap(*(round(sum(column), 3) for column in zip(*laps, strict=True))), outcome)
        return plan

    def by_spark(name: str) -> DescribedCandidate:
        try:
            return proposed(name)
        except (Py4JError, PySparkException) as error:  # as of an executor without memory for this candidate
            of_spark.append(error)
            raise

    with ThreadPoolExecutor(len(names)) as driver:
        # The last candidate usually has the longest search. Spark starts tasks in the order in which they come.
        running = {name: driver.submit(attempted, problem, name, partial(by_spark, name)) for name in reversed(names)}
        plans = tuple(running[name].result() for name in names)
    if of_spark and all(plan.candidate.status == Status.FAILED for plan in plans):
        raise of_spark[0]
    return plans


def _each(context: SparkContext, work: Callable[[T], R], inputs: Sequence[T]) -> list[R]:
    """The result of `work` for each input, each in its own task. Several threads may call it at once."""
    results: list[R] = context.parallelize(list(inputs), len(inputs)).map(work).collect()
    return results


# The ledger's samples of one cluster, aggregated to one row a partition: the table `history`.
#
# Some files give no sample: they are not Parquet, not readable from here, or have other columns. The job leaves them
# out and names them, because one bad file must not stop a repair. One task aggregates all samples of a partition, so
# the number of executors, files and Spark partitions changes nothing.


TASKS_A_CORE = 4
_FILE = "file"  # the name below the folder
_HOURS_ALONE = pa.schema([HOURLY_SCHEMA.field("topic"), HOURLY_SCHEMA.field(HOURLY)])
_TOTALS = pa.schema([("totals", pa.list_(pa.int64()))])  # [hour of the week]
_FOUND = pa.schema([*SAMPLES_SCHEMA, (SOURCE_FILE, pa.string()), (_FILE, pa.string())])
_DAY = re.compile(r"day=(\d{4}-\d{2}-\d{2})/.+")


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows for `write_history`, in any order, and the files that they come from."""

    rows: pa.Table
    files: int  # that gave samples; a compacted file counts once for each of its sources
    unreadable: tuple[str, ...]  # names of the other files, below the folder


def read_metrics(spark: SparkSession, folder: Folder, existing: pa.Table, server: TopicRates | None = None) -> Samples:
    """The samples below `ledger/metrics/cluster=…`, a folder that the driver and the executors can read.

    `existing` are the partitions of the snapshot, in the columns of EXISTING_SCHEMA. What a metrics server gave counts
    for the worst hour. Too few files say nothing, and
    then Spark does not read them. Raises ReadError if the folder cannot be read.
    """
    try:
        names = [name for name in files_below(folder) if name.endswith(PARQUET)]
        listed, foreign = newest_days(names, DAYS)
        files = counting(listed)
        if len(files) <= MIN_INTERVALS and not any(map(is_compacted, files)):
            return Samples(HISTORY_SCHEMA.empty_table(), len(files), tuple(foreign))
        records = _read_on_executors(spark, folder, files).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            samples = rows_that_count(records, sql.col(_FILE), listed)
            rows = _aggregated_on_spark(samples, existing, server)
            # Other tables' files have our columns as nulls.
            sound = samples.where(
                "observed_at IS NOT NULL AND topic IS NOT NULL AND partition IS NOT NULL AND size_bytes >= 0"
            )
            sources = sound.select(_FILE, SOURCE_FILE).distinct().collect()
        finally:
            records.unpersist()
    except (FileNotFoundError, StorageError, Py4JJavaError, PySparkException) as failed:
        raise ReadError(
            f"The ledger's samples below {folder} cannot be read ({said_by(failed)}). Nothing was planned. Give the "
            "Spark driver and its executors access to that folder, or plan without --metrics."
        ) from None
    told = {row[_FILE] for row in sources}
    snapshots = {(row[_FILE].partition("/")[0], row[SOURCE_FILE] or row[_FILE]) for row in sources}
    silent = [name for name in files if name not in told]
    return Samples(rows, len(snapshots), tuple(sorted([*foreign, *silent])))


def newest_days(names: Iterable[str], days: int) -> tuple[list[str], list[str]]:
    """(the files of the `days` days up to the newest one, the files without a day), both sorted."""
    of_days: dict[str, date] = {}
    foreign = []
    for name in sorted(names):
        day_of = _DAY.fullmatch(name)
        try:
            of_days[name] = date.fromisoformat(day_of[1] if day_of else "")
        except ValueError:
            foreign.append(name)
    oldest = max(of_days.values(), default=date.max) - timedelta(days=days - 1)
    return [name for name, day in of_days.items() if day >= oldest], foreign


def _aggregated_on_spark(samples: DataFrame, existing: pa.Table, server: TopicRates | None) -> pa.Table:
    """What `aggregated` makes of all samples, in their worst hour: each task has every sample of its partitions."""
    shared = samples.sparkSession.sparkContext.broadcast(existing)
    elsewhere, of_server = ((), None) if server is None else (server.topics_with_hours, server.hour_totals())

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        samples_of_task = list(batches)
        if samples_of_task:
            yield from aggregated(pa.Table.from_batches(samples_of_task), shared.value).to_batches()

    def totals(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_hour = hour_totals(pa.Table.from_batches(batches, _HOURS_ALONE), elsewhere)
        if by_hour is not None:
            yield pa.RecordBatch.from_pydict({"totals": [by_hour.tolist()]}, _TOTALS)

    columns = samples.drop(SOURCE_FILE, _FILE).repartition("topic", "partition")
    rows = columns.mapInArrow(of_task, from_arrow_schema(HOURLY_SCHEMA)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        by_task = rows.select(_HOURS_ALONE.names).mapInArrow(totals, from_arrow_schema(_TOTALS)).collect()
        totals_of_tasks = [np.array(row["totals"], dtype=np.int64) for row in by_task]
        hour = worst_hour(totals_of_tasks if of_server is None else [*totals_of_tasks, of_server])
        if hour is None:
            return rows.select(HISTORY_SCHEMA.names).toArrow()
        # The driver gets the rates of this hour alone.
        known = sql.col(HOURLY).isNotNull()
        in_hour = {
            "worst_hour": sql.when(known, sql.lit(hour)),
            "worst_hour_bytes_in_per_second": sql.element_at(HOURLY, hour + 1),
        }
        return rows.withColumns(in_hour).drop(HOURLY).toArrow()
    finally:
        rows.unpersist()


def _read_on_executors(spark: SparkSession, folder: Folder, files: Sequence[str]) -> DataFrame:
    """The rows of these files in the columns of _FOUND. A file that cannot be read gives none."""

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch["id"].to_pylist():
                yield from _rows_of(folder, files[number]).to_batches()

    tasks = min(len(files), TASKS_A_CORE * spark.sparkContext.defaultParallelism)
    return spark.range(0, len(files), 1, tasks).mapInArrow(read, from_arrow_schema(_FOUND))


def _rows_of(folder: Folder, name: str) -> pa.Table:
    try:
        table = parquet_table(read_bytes(folder / name), name)
        known = {
            field.name: table[field.name].cast(field.type)
            if field.name in table.column_names
            else pa.nulls(len(table), field.type)
            for field in _FOUND
        }
    except (FileNotFoundError, ArtifactError, pa.ArrowException):
        return _FOUND.empty_table()
    return pa.table({**known, _FILE: pa.array([name] * len(table), pa.string())}, schema=_FOUND)


if __name__ == "__main__":
    sys.exit(main())
