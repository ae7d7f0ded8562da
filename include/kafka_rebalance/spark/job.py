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
from pathlib import Path
from typing import TypeVar

try:
    import kafka_rebalance  # noqa: F401
except ImportError:  # submitted by hand, without py_files
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.settings import OPTIMAL
from kafka_rebalance.planning.candidates import Search, chosen, described, propose, searched, searches_of
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
from kafka_rebalance.planning.tables.history_table import HISTORY, existing_partitions, planned_with, write_history
from kafka_rebalance.planning.tables.topic_rates import read_topic_rates
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
    if problem.history is not None:
        say(describe_history(problem))
    names = offered(problem)
    with ThreadPoolExecutor(1) as driver:
        # Only the driver has the solver. It computes without the interpreter's lock while the session opens.
        exact = {name: driver.submit(propose, problem, name) for name in names if name == OPTIMAL}
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

    Raises the error of the first candidate that has one, as planning without Spark does.
    """
    if not names:
        return ()
    context = spark.sparkContext
    shared = context.broadcast(problem)

    def attempt(task: tuple[str, Search]) -> tuple[FoundLists | DescribedCandidate | RebalanceError, Lap]:
        # Returned, because a raised exception would come back as a Java error with a stack.
        clock = Stopwatch()
        try:
            found: FoundLists | DescribedCandidate | RebalanceError = searched(shared.value, *task)
        except RebalanceError as wrong:
            found = wrong
        return found, clock.lap("search")

    def describe_best(task: tuple[str, FoundLists | DescribedCandidate]) -> tuple[DescribedCandidate, Lap]:
        clock = Stopwatch()
        return described(shared.value, *task), clock.lap("outcome")

    def proposed(name: str) -> DescribedCandidate:
        searches, laps = [], []
        for found, lap in _each(context, attempt, [(name, search) for search in searches_of(problem, name)]):
            if isinstance(found, RebalanceError):
                raise found
            searches.append(found)
            laps.append(lap)
        clock = Stopwatch()
        best = chosen(problem, name, searches)
        laps.append(clock.lap("search"))
        ((plan, outcome),) = _each(context, describe_best, [(name, best)])
        watch.note(name, Lap(*(round(sum(column), 3) for column in zip(*laps, strict=True))), outcome)
        return plan

    with ThreadPoolExecutor(len(names)) as driver:
        # The last candidate usually has the longest search. Spark starts tasks in the order in which they come.
        running = {name: driver.submit(proposed, name) for name in reversed(names)}
        return tuple(running[name].result() for name in names)


def _each(context: SparkContext, work: Callable[[T], R], inputs: Sequence[T]) -> list[R]:
    """The result of `work` for each input, each in its own task. Several threads may call it at once."""
    results: list[R] = context.parallelize(list(inputs), len(inputs)).map(work).collect()
    return results


if __name__ == "__main__":
    sys.exit(main())
