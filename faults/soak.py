"""`python -m faults.soak`: runs rebalances one after the other on one cluster, each with a drawn fault.

All topics stay. At the end it reads again every record that was acknowledged in any of the rebalances.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from faults.cases import KINDS, Case, Needs
from faults.cluster import FaultCluster
from faults.judge import missing_records
from faults.processes import ROOT
from faults.report import write_soak
from faults.run import Result, airflow, loses_its_topic, run_case
from faults.running_cluster import running
from kafka_rebalance.local_cluster.jars.locked_jars import DEFAULT_VERSION, VERSIONS

REBALANCES = 12


def drawn(version: str, seed: int, count: int) -> tuple[Case, ...]:
    """Random faults with their moments, none of them twice."""
    every = [
        (fault, moment) for fault, kind in KINDS.items() if kind.needs is not Needs.QUORUM for moment in kind.moments
    ]
    chosen = random.Random(f"soak/{seed}").sample(every, count)
    return tuple(Case(version, fault, moment, seed) for fault, moment in chosen)


def soak(cases: Sequence[Case], folder: Path) -> Iterator[Result]:
    """Each case's result when it ends, then the result for all records. No case runs after one that failed."""
    with running(cases[0].version, folder / "cluster") as cluster, airflow(folder / "airflow", cluster) as environment:
        journals: dict[str, Path] = {}
        for case in cases:
            place = folder / case.topic
            result = run_case(cluster, environment, case, place, keep_topic=True)
            yield result
            if not result.passed:
                break
            if not loses_its_topic(case):
                journals[case.topic] = place / "acknowledged.txt"
        yield _all_records(cluster, journals, cases[0])


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
    """Returns the exit code: 0 if every rebalance passed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m faults.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--version", default=DEFAULT_VERSION, choices=VERSIONS)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--rebalances", type=int, default=REBALANCES)
    asked = parser.parse_args(arguments)
    cases = drawn(asked.version, asked.seed, asked.rebalances)
    results = []
    with tempfile.TemporaryDirectory(prefix="faults-soak-") as scratch:
        os.environ["AIRFLOW_HOME"] = str(Path(scratch) / "home")
        for result in soak(cases, Path(scratch)):
            results.append(result)
            print(result.line(), flush=True)
    print(f"written: {write_soak(cases, results).relative_to(ROOT)}")
    return 0 if all(result.passed for result in results) and len(results) == len(cases) + 1 else 1


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
