"""`python -m faults.soak`: runs rebalances one after the other on one cluster, each with a drawn fault.

All topics stay. At the end it reads again every record that was acknowledged in any of the rebalances. After each
rebalance it measures what has been left behind, and fails where that grows.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from faults.cases import KINDS, Case, Ending, Needs
from faults.clusters.fault_cluster import BROKERS, DISK_BYTES, FaultCluster
from faults.clusters.running_cluster import running
from faults.clusters.zookeeper_cluster import ZooKeeperFaultCluster
from faults.growth import Figure, Growth, growth_problems, held_by, held_figures
from faults.judge import Throttles, missing_records
from faults.one_case import Result, loses_its_topic, run_case
from faults.ours.environment import airflow
from faults.ours.processes import ROOT, Triggerer
from faults.report import growth_table, write_soak
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION, VERSIONS

REBALANCES = 50
TOPIC_BYTES = 30_000_000  # of the target's disk: every topic stays
ROUNDS = 3


def drawn(version: str, seed: int, count: int) -> tuple[Case, ...]:
    """Random faults with their moments. None is repeated before all were drawn."""
    every = [
        (fault, moment)
        for fault, kind in KINDS.items()
        if kind.needs in (Needs.ANY, Needs.ZOOKEEPER)
        for moment in kind.moments
    ]
    chance = random.Random(f"soak/{seed}")

    def endless() -> Iterator[Case]:
        time = 0
        while time := time + 1:
            yield from (Case(version, fault, moment, seed, time) for fault, moment in chance.sample(every, len(every)))

    return tuple(islice(endless(), count))


@dataclass(slots=True)
class Soak:
    """What a soak has found. `again` are one process's figures after each round of following all batches again."""

    results: list[Result] = field(default_factory=list)
    measured: list[tuple[Figure, ...]] = field(default_factory=list)  # after each rebalance
    again: list[tuple[Figure, ...]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)


def soak(cases: Sequence[Case], folder: Path, found: Soak) -> Iterator[Result]:
    """Each case's result when it ends, then two for all of them.

    After a case that failed, the next one runs only if the cluster is as before.
    """
    disk_bytes = DISK_BYTES + TOPIC_BYTES * len(cases)
    with (
        running(cases[0].version, folder / "cluster", disk_bytes=disk_bytes) as cluster,
        airflow(folder / "airflow", cluster) as environment,
    ):
        assert isinstance(cluster, ZooKeeperFaultCluster)
        journals: dict[str, Path] = {}
        triggerer, throttles = Triggerer(), cluster.throttles()
        growth = Growth(cluster, folder / "airflow" / "runs", triggerer)
        try:
            for case in cases:
                place = folder / case.topic
                result = run_case(cluster, environment, case, place, keep_topic=True, triggerer=triggerer)
                goes_on = result.passed or _is_whole(cluster, throttles)
                found.measured.append(growth.measure(case, place))
                result.problems += growth_problems(found.measured[-1])
                result.passed = not result.problems
                found.results.append(result)
                yield result
                if not goes_on:
                    break
                if not loses_its_topic(case):
                    journals[case.topic] = place / "acknowledged.txt"
        finally:
            triggerer.end()
        found.results += [_all_batches(triggerer, cases, folder, found), _all_records(cluster, journals, cases[0])]
        yield from found.results[-2:]


def _is_whole(cluster: FaultCluster, throttles: Throttles) -> bool:
    is_idle = cluster.reassignment() is None and not cluster.is_locked()
    return is_idle and cluster.registered() == set(BROKERS) and cluster.throttles() == throttles


def _all_batches(last: Triggerer, cases: Sequence[Case], folder: Path, found: Soak) -> Result:
    """Every batch of the rebalances again, which is over at once, in one process that nobody kills."""
    result = Result(f"{cases[0].version}/all batches again", cases[0].seed, state="followed")
    topics = {case.topic for case in cases if case.kind.ending is Ending.AS_APPROVED}
    again, outcome = Triggerer(), folder / "again.json"
    held: list[tuple[int, ...]] = []
    try:
        for _ in range(ROUNDS):
            for step, state, _outcome, *others in last.followed:
                if state["run_id"] in topics:
                    outcome.unlink(missing_ok=True)
                    ended = again.start((step, state, str(outcome), *others), outcome).wait()
                    if ended is None or ended["state"] != "done":
                        result.problems.append(f"{state['run_id']}: {(ended or {}).get('error', 'killed')}")
            if again.pid is not None:
                held.append(held_by(again.pid))
                found.again.append(tuple(held_figures("after all batches once more", held[-1], held[0])))
                result.problems += growth_problems(found.again[-1])
    finally:
        again.end()
    result.passed = not result.problems
    return result


def _all_records(cluster: FaultCluster, journals: dict[str, Path], first: Case) -> Result:
    result = Result(f"{first.version}/all records again", first.seed, state="read")
    for topic, journal in journals.items():
        acknowledged, lost = missing_records(cluster, topic, journal)
        result.acknowledged += acknowledged
        result.lost += len(lost)
        result.problems += [f"{topic}: {len(lost)} acknowledged records are lost, first {lost[0]}"] if lost else []
    result.passed = not result.problems
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 if every rebalance passed and nothing grew, else 1."""
    parser = argparse.ArgumentParser(prog="python -m faults.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--version", default=DEFAULT_VERSION, choices=VERSIONS)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--rebalances", type=int, default=REBALANCES)
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    cases = drawn(asked.version, asked.seed, asked.rebalances)
    found = Soak()
    with tempfile.TemporaryDirectory(prefix="faults-soak-") as scratch:
        os.environ["AIRFLOW_HOME"] = str(Path(scratch) / "home")
        for result in soak(cases, Path(scratch), found):
            print(result.line(), flush=True)
    print("\n".join(growth_table(found.measured, found.again)))
    if not asked.print_only:
        print(f"written: {write_soak(cases, found.results, found.measured, found.again).relative_to(ROOT)}")
    return 0 if found.passed and len(found.results) == len(cases) + 2 else 1


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
