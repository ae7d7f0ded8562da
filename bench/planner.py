"""Quality and speed of the candidate `balanced`, over sizes, scenarios, seeds and tolerances.

The commands are `python -m bench.planner S 12x1200 M L` (`make bench`), and with XL alone `make bench-xl`. They draw
seeds anew and print them, print a line for each plan, and write tables and a picture into `docs/`. Plans run one after
the other, each in its own process, so that time and memory are those of the plan. `bench.scoring` scores a plan from
its tables, without any code of the planner.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.best_known import NODES, best_known
from bench.clusters import SCENARIOS, SIZES, write_cluster
from bench.pages import Row, write_page
from bench.scoring import Cluster, makespan_ratio, moved, reachable, read_cluster, read_moves, score, simple_bound
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.bounds.lp_bound import relaxed_bound
from kafka_rebalance.planning.bounds.targets import Bands
from kafka_rebalance.planning.planner import prepare
from kafka_rebalance.planning.problem.arrays import REPLICA_METRICS

ROOT = Path(__file__).parents[1]
CANDIDATE = "balanced"
TOLERANCES = (0.10, 0.02)
SEEDS = 3  # of each size
FIRST_ALONE = ("L", "XL")  # sizes that take minutes
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Case:
    """One plan to make."""

    size: str
    scenario: str
    seed: int
    tolerance: float
    snapshot: Path


def seeds_of(size: str, seeds: Sequence[int]) -> Sequence[int]:
    """The seeds of one size: of the large ones the first alone."""
    return seeds[:1] if size in FIRST_ALONE else seeds


def cases(sizes: Sequence[str], seeds: Sequence[int], folder: Path) -> Iterator[Case]:
    """The cases, smallest first. Writes each cluster that is not there before its first case."""
    for size in sizes:
        for scenario in SCENARIOS:
            for seed in seeds_of(size, seeds):
                snapshot = folder / f"{size}-{scenario}-{seed}"
                if not snapshot.exists():
                    write_cluster(snapshot, size, scenario, seed)
                yield from (Case(size, scenario, seed, tolerance, snapshot) for tolerance in TOLERANCES)


def planned(case: Case, out: Path, **asked: Any) -> dict[str, Any]:
    """Plans in a process of its own; returns its time and memory, `search_seconds` of the search, and `status`.
    `asked` are further settings.

    Raises SystemExit with the planner's error if it makes no plan.
    """
    out.mkdir(parents=True)
    settings = {"job": "balance", "tolerance": case.tolerance, "candidates": [CANDIDATE]} | asked
    (out / "asked.json").write_text(json.dumps(settings))
    planning = [sys.executable, "-m", "kafka_rebalance.planning", "--snapshot", str(case.snapshot), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/measured.py"), *planning, "--settings", str(out / "asked.json")],
        capture_output=True,
        text=True,
        env=os.environ | ONE_THREAD,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{case.snapshot.name} was not planned, and nothing was written to docs/:\n{done.stderr}")
    taken: dict[str, Any] = json.loads(done.stdout)
    steps = json.loads((out / "timings.json").read_bytes())["seconds"][CANDIDATE]
    (proposal,) = json.loads((out / "proposals.json").read_bytes())["candidates"]
    search = steps["search"] if isinstance(steps, dict) else steps
    return taken | {"search_seconds": search, "status": proposal["status"]}


def relaxed_bytes(case: Case, cluster: Cluster) -> int | None:
    """The linear program's lower bound on a plan's bytes; None if its solver is not installed."""
    problem = prepare(case.snapshot, Settings(tolerance=case.tolerance))
    order = [cluster.brokers[broker] for broker in problem.brokers.tolist()]
    shares = np.stack([reachable(cluster, metric)[order] for metric in REPLICA_METRICS], axis=1)
    bands = Bands(shares * (1 - case.tolerance), shares * (1 + case.tolerance))
    found = relaxed_bound(problem, bands, np.ones(len(problem.partition), dtype=bool))
    return None if found is None else found.bytes


def measured(case: Case, cluster: Cluster, out: Path) -> Row:
    """Plans one case and scores it."""
    taken = planned(case, out)
    moves = read_moves(out, CANDIDATE)
    after = moved(cluster, moves)
    before, result = score(cluster, cluster.replicas), score(cluster, after)
    nodes = NODES.get(case.size)
    return Row(
        size=case.size,
        scenario=case.scenario,
        seed=case.seed,
        tolerance=case.tolerance,
        status=taken["status"],
        score=result,
        crowding_before=before.crowding,
        excess_leaders_before=before.excess_leaders,
        simple_bound=simple_bound(cluster, case.tolerance),
        relaxed_bound=relaxed_bytes(case, cluster),
        known=best_known(cluster, after, case.tolerance, nodes) if nodes else None,
        makespan_ratio=makespan_ratio(cluster, moves),
        search_seconds=taken["search_seconds"],
        peak_bytes=taken["peak_bytes"],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planner", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="+", choices=SIZES)
    parser.add_argument("--seeds", nargs="+", type=int, help=f"the seeds (default: {SEEDS} drawn anew)")
    parser.add_argument("--print-only", action="store_true", help="leave docs/ as it is")
    asked = parser.parse_args(arguments)
    seeds = asked.seeds or [secrets.randbelow(1_000_000) for _ in range(SEEDS)]
    print(f"the same again: python -m bench.planner {' '.join(asked.sizes)} --seeds {' '.join(map(str, seeds))}")
    began, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory() as scratch:
        total = len(SCENARIOS) * len(TOLERANCES) * sum(len(seeds_of(size, seeds)) for size in asked.sizes)
        for number, case in enumerate(cases(asked.sizes, seeds, Path(scratch)), 1):
            out = Path(scratch) / f"{case.snapshot.name}-{case.tolerance}"
            rows.append(measured(case, read_cluster(case.snapshot), out))
            print(f"{time.monotonic() - began:4.0f} s  {number:>2} of {total}  {rows[-1]}", flush=True)
    if not asked.print_only:
        for path in write_page("bench-xl" if asked.sizes == ["XL"] else "bench", rows):
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    # Like Ctrl-C: ends all that was started, and removes its folder.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
