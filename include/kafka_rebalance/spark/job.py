"""`spark-submit job.py --snapshot DIR --out DIR [--settings FILE.json] [--metrics DIR]`: one Spark task per candidate.

The driver reads and checks the tables, broadcasts them as arrays, and writes the results. The files are the same, byte
for byte, as those of `python -m kafka_rebalance.planning`. Executors compute the candidates, which share nothing. They
also aggregate the ledger's samples to one row a partition, in a file that the command can read, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

try:
    import kafka_rebalance  # noqa: F401
except ImportError:  # submitted by hand, without py_files
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

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
from kafka_rebalance.planning.problem.bytes_in_history import describe_history
from kafka_rebalance.planning.search.frame import FoundLists
from kafka_rebalance.planning.tables.history import (
    HISTORY,
    existing_partitions,
    planned_with,
    read_topic_rates,
    write_history,
)
from kafka_rebalance.spark.history_rows import read_metrics
from kafka_rebalance.spark.job_driver import add_folder_checks, open_session, own_folder, run_job

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
        found = read_metrics(spark, metrics, existing_partitions(problem, snapshot), read_topic_rates(snapshot))
        history = write_history(out, found.rows, found.files, found.unreadable)
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
        found = attempted(shared.value, task[0], partial(searched, shared.value, *task))
        return found, clock.lap("search")

    def describe_best(task: tuple[str, FoundLists | DescribedCandidate]) -> tuple[DescribedCandidate, Lap]:
        clock = Stopwatch()
        return attempted(shared.value, task[0], partial(described, shared.value, *task)), clock.lap("outcome")

    def proposed(name: str) -> DescribedCandidate:
        searches, laps = [], []
        for found, lap in _each(context, attempt, [(name, search) for search in searches_of(problem, name)]):
            searches.append(found)
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


if __name__ == "__main__":
    sys.exit(main())
