"""What executors give to a plan: `make bench-executors` writes it into docs/evidence/planning_time.md.

One process plans each cluster, so that each part of a search has CPU seconds of its own. Then spark-submit plans some
of the clusters on a Spark standalone cluster of this machine, with one executor and with two. What more executors give
is computed from the CPU seconds of the tasks.
"""

from __future__ import annotations

import argparse
import heapq
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from bench.clusters import SCENARIOS, SIZES, write_cluster
from bench.pages import write_section
from bench.planner import ONE_THREAD
from bench.spark.standalone_cluster import StandaloneCluster
from bench.spark.whole_job import through_spark
from bench.spark.whole_steps import Clock
from kafka_rebalance.documents.json_files import TIMINGS, read_json
from kafka_rebalance.local_cluster.machine.java import find_java, java_home
from kafka_rebalance.model.settings import BALANCED, Settings
from kafka_rebalance.planning import candidates
from kafka_rebalance.planning.planner import offered, prepare
from kafka_rebalance.planning.search import greedy, trials

SECTION = "bench-executors"
SEED = 1
THROUGH_SPARK = ("M", "L")
EXECUTORS = (1, 2, 4, 8)
MEASURED = (1, 2)  # executors, as many as the machine has cores

GREEDY, POLISH, SOLVER, LEADERS, REST, DESCRIPTION = "greedy", "polish", "solver", "leaders", "rest", "description"
# The part of the search, the module that calls, and the functions that it calls for that part alone.
PARTS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    (POLISH, trials, ("polish", "take_back", "rebuilt", "settle")),
    (SOLVER, candidates, ("cheaper_lists",)),
    (LEADERS, candidates, ("_led",)),
)
ALONE = (POLISH, SOLVER, LEADERS, REST, DESCRIPTION)  # the parts that no group of brokers has for itself


@dataclass(frozen=True, slots=True)
class Cluster:
    """`M:add`, or with other racks than its size has `L:add:3`."""

    size: str
    scenario: str
    racks: int

    @classmethod
    def named(cls, name: str) -> Cluster:
        """Raises ArgumentTypeError for what is no cluster."""
        found = re.fullmatch(rf"({'|'.join(SIZES)}):({'|'.join(SCENARIOS)})(?::([1-9]\d*))?", name)
        if found is None:
            raise argparse.ArgumentTypeError(f"{name} is no cluster. Give one as in L:add or L:add:3.")
        size, scenario, racks = found.groups()
        return cls(size, scenario, int(racks or SIZES[size].racks))

    def __str__(self) -> str:
        return f"{self.size} {self.scenario}, {self.racks} racks"


@dataclass(frozen=True, slots=True)
class Parts:
    """CPU seconds of one candidate: its search by part, and its description."""

    spent: Mapping[str, float]
    groups: Sequence[float]  # of the greedy, for each group of brokers that exchange no replicas with others

    @property
    def search(self) -> float:
        return sum(self.spent.values()) + sum(self.groups) - self.spent[DESCRIPTION]

    @property
    def task_seconds(self) -> tuple[float, float]:
        return self.search, self.spent[DESCRIPTION]

    @property
    def saved_by_groups(self) -> float:
        """Seconds that are saved if each group has an executor, and that costs nothing."""
        return sum(self.groups) - max(self.groups, default=0.0)


def parts_of(snapshot: Path, settings: Settings) -> dict[str, Parts]:
    """The parts of every candidate, in the order in which they are offered."""
    problem = prepare(snapshot, settings)
    found = {}
    for name in offered(problem):
        clock = Clock()
        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(greedy, "_greedy", _by_group(clock, greedy._greedy)))
            for part, module, functions in PARTS:
                for function in functions:
                    timed = clock.timed(part, getattr(module, function))
                    patches.enter_context(mock.patch.object(module, function, timed))
            with clock.step(REST):
                searches = [candidates.searched(problem, name, one) for one in candidates.searches_of(problem, name)]
                best = candidates.chosen(problem, name, searches)
        with clock.step(DESCRIPTION):
            candidates.described(problem, name, best)
        groups = [seconds for step, seconds in clock.spent.items() if step.startswith(GREEDY)]
        parts = {part: clock.spent.get(part, 0.0) for part in ALONE}
        found[name] = Parts(parts, groups)
    return found


def _by_group(clock: Clock, function: Callable[..., None]) -> Callable[..., None]:
    """The greedy of one group, timed as that group's. Groups differ in their receivers."""

    def run(placement: Any, bands: Any, givers: Any, receivers: Any, *rest: Any) -> None:
        with clock.step(f"{GREEDY} {receivers[:1]}"):
            function(placement, bands, givers, receivers, *rest)

    return run


def seconds_on(tasks: Sequence[tuple[float, float]], executors: int) -> float:
    """Until all candidates are searched and described, if nothing else costs time.

    `tasks` are (search, description), in the order in which the driver starts the searches. An executor takes the task
    that has been ready longest.
    """
    free = [0.0] * executors
    ready = [(0.0, number, 0) for number in range(len(tasks))]
    while ready:
        since, number, step = heapq.heappop(ready)
        ends = max(since, heapq.heappop(free)) + tasks[number][step]
        heapq.heappush(free, ends)
        if step == 0:
            heapq.heappush(ready, (ends, number, 1))
    return max(free)


def measured(cluster: Cluster, folder: Path) -> list[float]:
    """Seconds from the first task to the last of spark-submit, with as many executors as `MEASURED` says."""
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    environment |= {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", **ONE_THREAD}
    environment["PATH"] = f"{find_java().parent}:{environment['PATH']}"
    seconds = []
    with StandaloneCluster(folder, environment, [[] for _ in range(max(MEASURED))]) as standalone:
        for executors in MEASURED:
            name = f"spark-{executors}"
            through_spark(
                cluster.size, folder, ("--master", standalone.url, "--conf", f"spark.cores.max={executors}"), name
            )
            seconds.append(read_json(folder / f"{cluster.size}-{name}", TIMINGS)["seconds"]["propose"])
    return seconds


def part_lines(found: Mapping[Cluster, Mapping[str, Parts]]) -> Iterator[str]:
    """A line for each cluster: the parts of `balanced`."""
    heads = ("greedy", "of it the longest rack", "polish", "solver", "leaders", "rest of the search", "description")
    yield ""
    yield f"| CPU s of `balanced` | {' | '.join(heads)} | racks apart save at most |"
    yield "|---|" + "---:|" * (len(heads) + 1)
    for cluster, candidates_parts in found.items():
        parts = candidates_parts[BALANCED]
        saved, longest, saves = parts.saved_by_groups, "–", "–"
        if len(parts.groups) > 1:
            longest, saves = f"{max(parts.groups):,.2f}", f"{saved:,.1f} ({saved / sum(parts.task_seconds):.0%})"
        others = (f"{one:,.2f}" if one else "–" for one in (parts.spent[part] for part in ALONE))
        cells = [f"{sum(parts.groups):,.2f}", longest, *others]
        yield f"| {cluster} | {' | '.join(cells)} | {saves} |"


def executor_lines(
    found: Mapping[Cluster, Mapping[str, Parts]], walls: Mapping[Cluster, Sequence[float]]
) -> Iterator[str]:
    """A line for each cluster: seconds for all candidates, with each number of executors."""
    yield ""
    heads = [*(f"computed, {count}" for count in EXECUTORS), *(f"measured, {count}" for count in MEASURED)]
    yield f"| s, by executors | longest candidate | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * (len(heads) + 1)
    for cluster, each in found.items():
        tasks = [parts.task_seconds for parts in reversed(list(each.values()))]  # as the driver starts them
        cells = [max(map(sum, tasks)), *(seconds_on(tasks, count) for count in EXECUTORS), *walls.get(cluster, ())]
        shown = [f"{one:,.1f}" for one in cells] + ["–"] * (len(heads) + 1 - len(cells))
        yield f"| {cluster} | {' | '.join(shown)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.executors", description=__doc__.splitlines()[0])
    parser.add_argument("clusters", nargs="+", type=Cluster.named, metavar="SIZE:SCENARIO[:RACKS]")
    parser.add_argument("--tolerance", type=float, help="plan within this; then nothing goes through Spark")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    os.environ.update(ONE_THREAD)
    settings = Settings() if asked.tolerance is None else Settings(tolerance=asked.tolerance)
    found: dict[Cluster, dict[str, Parts]] = {}
    walls: dict[Cluster, list[float]] = {}
    for cluster in asked.clusters:
        with tempfile.TemporaryDirectory() as scratch:
            write_cluster(Path(scratch) / cluster.size, cluster.size, cluster.scenario, SEED, racks=cluster.racks)
            found[cluster] = parts_of(Path(scratch) / cluster.size, settings)
            own_racks = cluster.racks == SIZES[cluster.size].racks
            if cluster.size in THROUGH_SPARK and own_racks and asked.tolerance is None:
                walls[cluster] = measured(cluster, Path(scratch))
        one = {cluster: found[cluster]}
        print(*part_lines(one), *executor_lines(one, walls), sep="\n", flush=True)
    lines = [*part_lines(found), *executor_lines(found, walls)]
    if asked.print_only:
        print(*lines, sep="\n")
    else:
        write_section(SECTION, lines)


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
