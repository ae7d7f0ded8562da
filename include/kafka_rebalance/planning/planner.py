"""Plans a snapshot: reads and checks the tables, proposes every candidate, writes the results.

The Spark job takes the same steps, but its executors propose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kafka_rebalance.documents.json_files import TIMINGS, write_json
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.amounts_in_words import bound_in_words
from kafka_rebalance.model.settings import OPTIMAL, Settings
from kafka_rebalance.planning.candidates import attempted, check_some_stand, chosen, described, searched, searches_of
from kafka_rebalance.planning.describe.described_candidate import DescribedCandidate
from kafka_rebalance.planning.describe.sharper_bound import with_sharper_bounds
from kafka_rebalance.planning.given_plan import check_plan
from kafka_rebalance.planning.impossible_requests import check_problem
from kafka_rebalance.planning.problem.arrays import Problem
from kafka_rebalance.planning.problem.bytes_in_history import describe_history
from kafka_rebalance.planning.rules.goals import candidate_names
from kafka_rebalance.planning.search.by_solver.optimal import applies
from kafka_rebalance.planning.search.frame import FoundLists
from kafka_rebalance.planning.tables.history_table import HISTORY, planned_with
from kafka_rebalance.planning.tables.parquet_files import give_memory_back
from kafka_rebalance.planning.tables.read_problem import read_problem
from kafka_rebalance.planning.tables.topic_rates import read_topic_rates
from kafka_rebalance.planning.write_results import write_results


def prepare(snapshot_folder: Folder, settings: Settings) -> Problem:
    """The snapshot as a problem that has passed every check.

    Raises ArtifactError and PlanningError; for a plan in the settings also SettingsError and KafkaRuleError.
    """
    problem = read_problem(snapshot_folder, settings)
    give_memory_back()
    check_problem(problem)
    check_plan(problem)
    return problem


def check_samples_given(settings: Settings, snapshot_folder: Folder, given: bool) -> None:
    """Raises SettingsError if the settings ask for rates by hour, and there is nothing that may have them."""
    if settings.even_at_worst_hour and not given and read_topic_rates(snapshot_folder) is None:
        raise SettingsError(
            "even_at_worst_hour needs the ledger's samples or a metrics server, and this plan was given neither. "
            "Nothing was planned. Give --metrics (on Spark) or --history, or leave the setting out."
        )


def offered(problem: Problem) -> tuple[str, ...]:
    """The candidates to compute for this cluster: `optimal` only if it applies, or if the settings ask for no other."""
    names = candidate_names(problem.settings)
    return names if names == (OPTIMAL,) or applies(problem) else tuple(name for name in names if name != OPTIMAL)


class Lap(NamedTuple):
    seconds: float
    cpu_seconds: float


class Stopwatch:
    """Seconds of each step, and CPU seconds of this process, for timings.json."""

    def __init__(self) -> None:
        self.seconds: dict[str, float | dict[str, float]] = {}
        self.cpu_seconds: dict[str, float | dict[str, float]] = {}
        self._began = time.perf_counter(), time.process_time()

    def lap(self, step: str) -> Lap:
        """Ends the step that began with the last lap. Returns what it took."""
        began, self._began = self._began, (time.perf_counter(), time.process_time())
        lap = Lap(*(round(now - then, 3) for now, then in zip(self._began, began, strict=True)))
        self.note(step, lap)
        return lap

    def note(self, step: str, lap: Lap, outcome: Lap | None = None) -> None:
        """What a step took; with `outcome` that of a candidate's search, and of what comes after."""
        if outcome is None:
            self.seconds[step], self.cpu_seconds[step] = lap
        else:
            self.seconds[step] = {"search": lap.seconds, "outcome": outcome.seconds}
            self.cpu_seconds[step] = {"search": lap.cpu_seconds, "outcome": outcome.cpu_seconds}


def run(
    snapshot_folder: Folder,
    out_folder: Folder,
    settings: Settings,
    progress: Callable[[str], None] = lambda line: None,
    history: bytes | None = None,
) -> tuple[DescribedCandidate, ...]:
    """Plans every candidate in this process, and writes the tables. Calls `progress` with a line at every step.

    `history` is the content of a Spark job's `history/part-0.parquet`.
    """
    watch = Stopwatch()
    check_samples_given(settings, snapshot_folder, history is not None)
    problem = prepare(snapshot_folder, settings)
    progress(problem_in_words(problem))
    problem = planned_with(problem, snapshot_folder, history, HISTORY)
    if problem.history is not None:
        progress(describe_history(problem))
    watch.lap("read")
    plans = []
    for name in offered(problem):
        found = attempted(problem, name, partial(_found, problem, name))
        searching = watch.lap(name)
        plans.append(attempted(problem, name, partial(described, problem, name, found)))
        watch.note(name, searching, watch.lap(name))
        progress(f"candidate {name} is planned")
    return finish(out_folder, problem, plans, watch, progress)


def _found(problem: Problem, name: str) -> FoundLists | DescribedCandidate:
    searches = searches_of(problem, name)
    return chosen(problem, name, [attempted(problem, name, partial(searched, problem, name, one)) for one in searches])


def finish(
    out_folder: Folder,
    problem: Problem,
    found: Sequence[DescribedCandidate],
    watch: Stopwatch,
    progress: Callable[[str], None],
) -> tuple[DescribedCandidate, ...]:
    """Tells the plans and writes tables, proposals and timings. Returns the plans as told, with sharper bounds.

    Raises PlanningError if all candidates have failed.
    """
    check_some_stand(found)
    plans = with_sharper_bounds(problem, found)
    watch.lap("bounds")
    for plan in plans:
        progress(describe_plan(plan))
    write_results(out_folder, problem, plans)
    watch.lap("write")
    # Outside every digest.
    write_json(out_folder, TIMINGS, {"seconds": watch.seconds, "cpu_seconds": watch.cpu_seconds})
    return plans


def problem_in_words(problem: Problem) -> str:
    """One line on the job and the cluster."""
    replicas = int((problem.replicas >= 0).sum())
    return (
        f"job {problem.settings.job}: {len(problem.partition):,} partitions of {len(problem.topics):,} topics, "
        f"{replicas:,} replicas on {len(problem.brokers):,} brokers"
    )


def describe_plan(plan: DescribedCandidate) -> str:
    """One line on one candidate."""
    figures = plan.candidate.summary
    bound = bound_in_words(figures["moved_bytes"] or 0, figures["moved_bytes_bound"])
    said = f"{len(plan.candidate.moves):,} moves, {figures['moved_bytes']:,} bytes in {figures['batches']} batches"
    said += f"; {bound}" if bound else ""
    return f"{plan.candidate.name}: {plan.candidate.status}, {said}. {plan.candidate.note}".rstrip()
