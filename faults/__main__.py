"""`python -m faults`: runs the fault matrix, a line for each case, and writes the tables of docs/evidence/faults.md."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from faults.cases import EVERY_VERSION, Case, matrix
from faults.clusters.fault_cluster import LOG_DIRS
from faults.clusters.running_cluster import running
from faults.one_case import Result, run_case
from faults.ours.environment import airflow
from faults.ours.processes import ROOT
from faults.report import write_tables

RESULTS = ROOT / ".faults" / "results.jsonl"


def run_version(version: str, cases: Iterable[Case], folder: Path, give_up: float) -> Iterable[Result]:
    """Runs the cases of one version on one cluster. After a case that failed it starts a new cluster.

    Begins no case after `give_up` (time.monotonic()).
    """
    left = sorted(cases, key=lambda case: case.cluster)
    number = 0
    while left and time.monotonic() < give_up:
        number += 1
        place = folder / f"{version}-{number}"
        first = left[0]
        log_dirs = LOG_DIRS if first.is_between_log_dirs else LOG_DIRS[:2]
        with (
            running(version, place / "cluster", own_quorum=first.has_own_quorum, log_dirs=log_dirs) as cluster,
            airflow(place / "airflow", cluster) as environment,
        ):
            while left and left[0].cluster == first.cluster and time.monotonic() < give_up:
                case = left.pop(0)
                result = run_case(cluster, environment, case, place / case.topic)
                yield result
                if not result.passed:
                    break


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 if every case that ran has passed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__.splitlines()[0])
    parser.add_argument("--versions", nargs="+", default=EVERY_VERSION, choices=EVERY_VERSION)
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="PART",
        help="run the cases with one of these parts in their name, such as 3.9.2/target/mid-copy",
    )
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument(
        "--resume", action="store_true", help="leave out cases that have passed since the last start without --resume"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no case after so many minutes")
    parser.add_argument("--keep", type=Path, help="keep clusters and logs in this folder")
    asked = parser.parse_args(arguments)
    give_up = time.monotonic() + asked.minutes * 60
    if not asked.resume:
        RESULTS.unlink(missing_ok=True)
    cases = list(matrix(asked.versions, asked.only, asked.seed))
    passed = {result.case for result in read_results() if result.passed and result.seed == asked.seed}
    todo = [case for case in cases if case.name not in passed]
    print(f"{len(todo)} cases to run, {len(cases) - len(todo)} passed before", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    began, failed = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        folder = Path(scratch)
        if asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix="faults-", dir=asked.keep))
        os.environ["AIRFLOW_HOME"] = str(folder / "home")
        for version in asked.versions:
            mine = [case for case in todo if case.version == version]
            for result in run_version(version, mine, folder, give_up):
                failed += not result.passed
                with RESULTS.open("a", encoding="utf-8") as results:
                    results.write(result.to_json() + "\n")
                print(f"{time.monotonic() - began:4.0f} s  {result.line()}", flush=True)
    done = {result.case: result for result in read_results()}
    print(f"{sum(result.passed for result in done.values())} of {len(list(matrix()))} cases of the matrix have passed")
    print(f"written: {write_tables(done.values()).relative_to(ROOT)}")
    return 1 if failed else 0


def read_results() -> list[Result]:
    """The results that earlier starts have noted. If a case has several, the last one counts."""
    if not RESULTS.exists():
        return []
    return [Result(**json.loads(line)) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
